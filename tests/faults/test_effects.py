"""What each kind of fault says that it does, what a history makes of it, and that nothing else knows kinds by name."""

import ast
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.harness.faults.kind import FaultSpec
from fencepost.harness.history import DiskEffect, Effects, History, NodeChange, Stops
from fencepost.harness.history.effects import effects_of_version_1
from fencepost.harness.plugins import registry
from fencepost.harness.results.columns import VERSION_KEY, read_parquet, write_parquet
from tests.checkers.build import Tale, ns

ROOT: Final = Path(__file__).resolve().parents[2]
FAULTS: Final = registry.faults()
#: The one table of what the names meant in histories of version 1.
TABLE: Final = "harness/history/effects.py"
#: What else these words name: an anomaly of stores, the key of a Kafka record's partition in a witness, and an effect.
OTHER_MEANINGS: Final = {
    "systems/kafka/checkers/brokers/registrations.py": "partition",
    "systems/kafka/facts/replicas.py": "partition",
    "checkers/derived/servers.py": "disk",
    "checkers/log/kafka_history.py": "lost-write",
    "checkers/log/zombie_leaders.py": "partition",
    "systems/kafka/checkers/metadata/image.py": "partition",
    "systems/kafka/checkers/metadata/stored_metadata.py": "partition",
    "systems/kafka/checkers/metadata/zombie_controllers.py": "partition",
    "checkers/storage/register_anomalies.py": "lost-write",
    "checkers/storage/registers.py": "lost-write",
    "checkers/storage/sets.py": "lost-write",
}


def _names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)} & set(FAULTS)


def specs(kind: str) -> list[FaultSpec]:
    """The kind's default, and all that it takes part as in a mixture; not checked against any cluster."""
    found = [FAULTS[kind].spec()]
    for text in FAULTS[kind].for_all:
        words = text.split(":")[1:]
        target = next((word for word in words if "=" not in word), "")
        found.append(FAULTS[kind].spec(target, dict(w.split("=") for w in words if "=" in w)))
    return found


@pytest.mark.parametrize("kind", sorted({*FAULTS} - {"administer"}))
def test_every_kind_has_an_effect_but_an_operators_requests(kind: str) -> None:
    """If a server ends at such a request, no fault explains that."""
    clients_only = [spec for spec in specs(kind) if spec.target == "client"]
    assert not [s.text for s in specs(kind) if FAULTS[kind].effects(s) == Effects() and s not in clients_only]


@pytest.mark.parametrize("kind", sorted(_names_in(ROOT / TABLE)))
def test_the_name_of_a_fault_of_version_1_says_at_least_what_the_fault_says_today(kind: str) -> None:
    """More may be said of a name than of a spec, since its options are not known: then more is unknown, never less."""
    old = effects_of_version_1(kind)
    for spec in specs(kind):
        new = FAULTS[kind].effects(spec)
        assert new.may_stop <= old.may_stop, spec.text
        assert new.stops in (old.stops, Stops.NO), spec.text
        for effect in ("cuts", "holds", "delays", "skews", "changes_members"):
            assert getattr(new, effect) <= getattr(old, effect), (spec.text, effect)
        assert new.disk is old.disk, spec.text


def test_a_name_that_no_release_had_says_nothing() -> None:
    assert effects_of_version_1("earthquake") == Effects()


def test_what_the_events_say_counts_and_not_the_name() -> None:
    tale = Tale()
    tale.fault("kill", ("n1",), (1, 2, 3, 4), effects=Effects(delays=True))
    tale.fault("earthquake", ("n1",), (5, 6, 7, 8), effects=Effects(stops=Stops.CERTAIN))
    tale.fault("kill", ("n1",), (9, 10, 11, 12))
    assert tale.history().stopped("n1") == [(ns(6), ns(7)), (ns(10), ns(11))]


def test_a_server_that_ended_was_not_paused() -> None:
    tale = Tale()
    for at in (1, 11):
        tale.fault("earthquake", ("n1", "n2"), (at, at + 1, at + 5, at + 7), effects=Effects(stops=Stops.CERTAIN))
    tale.node("n1", NodeChange.EXITED, 12)
    tale.node("n1", NodeChange.STARTED, 17, incarnation=1)
    history = tale.history()
    assert [[history.paused(fault, node) for node in ("n1", "n2", "n3")] for fault in history.faults] == [
        [True, True, False],
        [False, True, False],
    ]


def test_checkers_and_histories_know_no_fault_by_its_name() -> None:
    found = {}
    for folder in ("checkers", "harness/history", "systems/kafka/checkers", "systems/kafka/facts"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            names = _names_in(path)
            if names:
                found[str(path.relative_to(ROOT))] = names
    assert found.pop(TABLE), "kinds that came later stand in no table"
    assert found == {path: {name} for path, name in OTHER_MEANINGS.items()}


def test_no_checker_compares_the_name_of_a_fault_with_a_text() -> None:
    """Whatever other meaning a file has for such a word."""
    wrong = []
    for path in sorted([*(ROOT / "checkers").rglob("*.py"), *(ROOT / "systems").glob("*/checkers/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                texts = any(
                    isinstance(n, ast.Constant) and isinstance(n.value, str) for s in sides for n in ast.walk(s)
                )
                if texts and any(isinstance(side, ast.Attribute) and side.attr == "fault" for side in sides):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert wrong == []


def test_no_kind_asks_which_runtime_it_is_on() -> None:
    """What can be done to nodes and links there, the runtime declares."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "nemesis").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "runtime" and "cluster" not in ast.unparse(node.value)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("fault", "recorded", "disk"),
    [
        ("damage", Effects(stops=Stops.POSSIBLE), DiskEffect.DAMAGED),
        ("power-loss", Effects(stops=Stops.CERTAIN), DiskEffect.UNSYNCED),
        ("damage", None, DiskEffect.DAMAGED),
        ("power-loss", None, DiskEffect.UNSYNCED),
        ("kill", Effects(stops=Stops.CERTAIN), DiskEffect.KEPT),
        ("earthquake", Effects(disk=DiskEffect.DAMAGED), DiskEffect.DAMAGED),
        ("earthquake", None, DiskEffect.KEPT),
    ],
)
def test_an_earlier_history_says_nothing_of_disks_and_the_name_stands_for_it(
    fault: str, recorded: Effects | None, disk: DiskEffect
) -> None:
    tale = Tale()
    tale.fault(fault, ("n1",), (1, 2, 3, 4), effects=recorded)
    (span,) = tale.history().faults
    assert span.effects.disk is disk
    assert recorded is None or span.effects == msgspec.structs.replace(recorded, disk=disk)


@pytest.mark.parametrize("version", [1, 2])
def test_a_table_of_an_earlier_version_is_read_with_the_effects_that_it_has(version: int, tmp_path: Path) -> None:
    tale = Tale()
    tale.fault("damage", ("n1",), (1, 2, 3, 4), effects=Effects(stops=Stops.POSSIBLE, disk=DiskEffect.DAMAGED))
    tale.fault("kill", ("n2",), (5, 6, 7, 8), effects=Effects(stops=Stops.CERTAIN))
    history, path = tale.history(), tmp_path / "history.parquet"
    write_parquet(history.events, path)
    table = pq.read_table(path)
    later = ("disk", "ends")
    rows = [
        row and {name: value for name, value in row.items() if name not in later}
        for row in table["effects"].to_pylist()
    ]
    at = table.schema.get_field_index("effects")
    kind = pa.struct([field for field in table.schema.field(at).type if field.name not in later])
    table = table.set_column(at, "effects", pa.array(rows, kind))
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, VERSION_KEY: str(version).encode()}), path)
    read = History([event for events in read_parquet(path) for event in events])
    assert read.faults == history.faults
