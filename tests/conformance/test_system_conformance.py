"""The suite of systems: ours pass it, and each way of breaking the contract fails the rows that are about it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from fencepost.harness.cli import main
from fencepost.harness.conformance.documents import JUNIT
from fencepost.harness.conformance.pytest_suite import SystemConformance
from fencepost.harness.conformance.rows import REMEDIES, ROWS, RowOutcome
from fencepost.harness.conformance.suite import Report, play_suite, suite_plan
from fencepost.harness.plugins import registry
from tests.plugins.without import plugins_of_this_test_alone

ROOT: Final = Path(__file__).resolve().parents[2]
DEFECTIVE: Final = Path(__file__).with_name("defective.py")
#: What may not apply, by system: every one of ours.
ABSENT: Final[Mapping[str, frozenset[str]]] = {
    "cassandra": frozenset({"leader", "membership"}),
    "consul": frozenset({"settings", "membership"}),
    "etcd": frozenset(),
    "example": frozenset({"version", "settings", "membership"}),
    "kafka-bridge": frozenset({"membership"}),
    "kafka-zk": frozenset({"membership"}),
    "kraft": frozenset(),
    "nats": frozenset(),
    "redis": frozenset({"version", "settings", "minority", "membership"}),
    "zookeeper": frozenset(),
}
#: Which of them CI plays, and which `make test-long` does: their servers take longest.
SLOW: Final = frozenset({"consul", "etcd", "nats", "redis", "zookeeper"})
LONG: Final = frozenset({"cassandra", "kafka-bridge", "kafka-zk", "kraft"})
#: The defects that `make test` plays; CI plays all.
AT_ONCE: Final = frozenset({"dials and sends again", "says that nothing happened", "leaves a process"})
#: By defect: what the plan says, and the rows that must fail.
DEFECTS: Final[Mapping[str, tuple[Mapping[str, object], frozenset[str]]]] = {
    "dials and sends again": ({"system": "retrying"}, frozenset({"reset", "after-the-end", "closed"})),
    "sends again when it waits": ({"system": "hasty"}, frozenset({"dropped-request", "dropped-answer", "paused"})),
    "says that nothing happened": ({"system": "denying"}, frozenset({"reset", "closed", "killed"})),
    "leaves a process": ({"system": "leaving"}, frozenset({"left-process"})),
    "claims too much": ({"system": "boastful"}, frozenset({"leader"})),
    "forgets at a restart": ({"system": "example", "system_options": {"defect": "forgets"}}, frozenset({"restart"})),
    "acknowledges early": ({"system": "example", "system_options": {"defect": "early-ack"}}, frozenset({"minority"})),
}


@pytest.fixture(autouse=True, scope="module")
def alone() -> Iterator[None]:
    """For the module, since the suite of a class is played, with its plug-ins, before any fixture of a function."""
    with plugins_of_this_test_alone():
        yield


def _played(plan: Mapping[str, object], folder: Path, *rows: str) -> Report:
    registry.use_plugins([DEFECTIVE, ROOT / "examples" / "pocket-store"])
    return play_suite(suite_plan(plan), folder, wanted=rows)


def _rows(report: Report, outcome: RowOutcome) -> dict[str, str]:
    return {row.name: row.text for row in report.rows if row.outcome is outcome}


def _marks(system: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long] * (system in LONG) + [pytest.mark.slow] * (system in SLOW)


def test_every_system_is_held_to_it() -> None:
    assert set(ABSENT) == {name for name in registry.SYSTEMS if registry.SYSTEMS.offer(name) is None}


def test_every_row_has_a_remedy() -> None:
    assert list(ROWS) == list(REMEDIES)


@pytest.mark.cluster
@pytest.mark.parametrize("system", [pytest.param(name, marks=_marks(name)) for name in ABSENT])
def test_our_systems_pass_it(system: str, tmp_path: Path) -> None:
    report = _played({"system": system}, tmp_path)
    assert not _rows(report, RowOutcome.FAILED)
    assert set(_rows(report, RowOutcome.NOT_APPLICABLE)) <= ABSENT[system]
    assert [row.name for row in report.rows] == list(ROWS)


@pytest.mark.cluster
@pytest.mark.parametrize(
    "defect", [pytest.param(name, marks=[] if name in AT_ONCE else [pytest.mark.slow]) for name in DEFECTS]
)
def test_a_defect_fails_the_rows_about_it(defect: str, tmp_path: Path) -> None:
    plan, rows = DEFECTS[defect]
    report = _played(plan, tmp_path, *rows)
    failed = _rows(report, RowOutcome.FAILED)
    assert rows <= set(failed), failed
    suite = ET.parse(report.folder / JUNIT).getroot()
    cases = {case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None}
    assert cases == set(failed)


@pytest.mark.cluster
def test_the_command_says_what_failed_and_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["conformance", "system", "denying", "--plugin", str(DEFECTIVE), "--results", str(tmp_path)]
    assert main([*arguments, "--row", "reset", "--row", "version"]) == 1
    captured = capsys.readouterr()
    assert "n/a killed           not asked for" in captured.out
    assert "NO  reset" in captured.out
    assert "remedy: an error after the request was sent is Indefinite" in " ".join(captured.out.split())
    assert "n/a version          the system has not the part versions" in captured.out
    assert "junit.xml" in captured.err


def test_bad_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["ectd"], "did you mean 'etcd'"),
        (["example", "--nodes", "2"], "nodes: 2 is not a choice"),
        (["example", "--runtime", "cloud"], "choose from: containers, lab"),
        (["example", "-O", "defekt=none"], "defect"),
        (["example", "--row", "kiled"], "did you mean 'killed'"),
    ):
        assert main(["conformance", "system", *arguments, "--results", str(tmp_path)]) == 254
        assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.cluster
@pytest.mark.may_skip
class TestPocketStore(SystemConformance):
    """A stranger's package, by the module that its author would import."""

    system = "pocket"
    plugins = (ROOT / "examples" / "pocket-store",)
