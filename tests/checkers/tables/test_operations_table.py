"""A table of operations is judged as the history that it tells, key by key, however its rows lie and are cut."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.checkers import _core
from fencepost.checkers.storage import registers as linearizable
from fencepost.checkers.storage.register_anomalies import READ
from fencepost.checkers.tables.events import events_of
from fencepost.checkers.tables.operations import COLUMNS, ORDER, OperationRows, Operations, TableOperations, in_order
from fencepost.harness.cli import main
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, SearchBudget, Thresholds, Verdict
from fencepost.harness.verdict.figures import values
from tests.checkers.tables.operations_tables import (
    arrow,
    from_operations,
    from_rows,
    generate,
    joined,
    known_tables,
    shuffled,
    store,
)
from tests.histories.language import cases, parse
from tests.histories.simulate import Shape, valid_history

FACTS = Facts(system="", workload="cas-register", nodes=(), guarantees=(), thresholds=Thresholds(exposure_min=0))
VALID = "a:w1 b:r1 a:w2 b:r2"
STALE = "a:w1 a:w2 b:r1"


def direct(rows: OperationRows) -> dict[int, tuple[str, int | None, int | None]]:
    """Every key by itself by the native search: verdict, and who failed when."""
    rows = rows.at((rows.f != READ) | (rows.returned >= 0))
    rows = rows.at(np.lexsort([getattr(rows, name) for name in reversed(ORDER)]))
    results = _core.check_registers(
        rows.key, rows.f, rows.a, rows.b, rows.invoked, rows.returned, steps=10**10, memory_bytes=10**9, wall_s=60.0
    )
    return {
        r.key: (r.verdict, *((None, None) if r.failed is None else (int(c[r.failed]) for c in rows[4:6])))
        for r in results
    }


def check(path: Path, facts: Facts = FACTS) -> Verdict:
    return Operations(path).check(facts)


def test_every_key_has_the_verdict_that_it_has_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.checkers.rules.WITNESSES_MAX", 1000)
    rows = joined(known_tables())
    rows = rows._replace(key=rows.key - rows.key.max() // 2)  # negative keys too
    expected = direct(rows)
    assert {verdict for verdict, *_ in expected.values()} == {"valid", "invalid"}
    for at, table in enumerate((rows, shuffled(rows, 1), shuffled(rows, 2))):
        found = check(Path(store(table, tmp_path / f"{at}.parquet")))
        wrong = {f"key {key}": said[1:] for key, said in expected.items() if said[0] != "valid"}
        # Each anomaly once comes first.
        assert sorted(witness.key or "" for witness in found.witnesses) == sorted(wrong)
        for witness in found.witnesses:
            process, invoked = wrong[witness.key or ""]
            assert any(f"by process {process} (event {invoked})" in step for step in witness.steps)
        figures = values(found.figures)
        assert (figures["keys"], figures["operations"]) == (
            len(expected),
            int(((rows.f != READ) | (rows.returned >= 0)).sum()),
        )


def test_a_table_is_judged_as_the_history_that_it_tells(tmp_path: Path) -> None:
    for seed, rows in enumerate(known_tables()):
        (expected,) = linearizable.check(History(events_of(TableOperations(rows))), FACTS)
        found = check(Path(store(shuffled(rows, seed), tmp_path / f"{seed}.parquet")))
        # Names of anomalies may differ: rows of one time have an order among the events.
        assert (found.validity, found.reason, found.tested, sum(found.counts.values()), found.rules) == (
            expected.validity,
            expected.reason,
            expected.tested,
            sum(expected.counts.values()),
            expected.rules,
        )


@pytest.mark.parametrize("case", cases("register"), ids=lambda case: case.name)
def test_a_kept_history_as_a_table(case: Any, tmp_path: Path) -> None:
    """Verdict, exposure and counts are those of the history; so are the sentences, but for what a table has not."""
    table = from_operations(case.history.operations)
    if not len(table.key):
        return
    (expected,) = linearizable.check(case.history, FACTS)
    found = check(Path(store(shuffled(table, 3), tmp_path / "table.parquet")), FACTS)
    assert (found.validity, found.tested) == (expected.validity, expected.tested)
    assert sum(found.counts.values()) == sum(expected.counts.values())
    assert {
        values(found.figures)[name] == values(expected.figures)[name]
        for name in ("keys", "operations", "info_operations")
    } == {True}
    assert len(found.witnesses) == len(expected.witnesses)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("f", 3, "f is 3; expected 0 read, 1 write or 2 cas"),
        ("f", -1, "f is -1; expected 0 read"),
        ("a", -1, "a is -1; expected a number from 0 to 2^32 - 1"),
        ("a", 2**32, "a is 4294967296; expected a number"),
        ("b", 5, "b is 5; expected 0, since only a cas has a second value"),
        ("invoked", -7, "invoked is -7; expected 0 or more"),
        ("returned", -2, "returned is -2; expected -1 where it is unknown"),
        ("returned", 0, "returned at 0, before it was invoked at"),
        ("returned", 2**63 - 1, "returned at 9223372036854775807; expected less, or -1"),
    ],
)
def test_a_row_that_means_nothing_is_named(tmp_path: Path, capsys: Any, column: str, value: int, said: str) -> None:
    rows = joined([from_operations(parse(VALID).operations) for _ in range(3)])
    bent = getattr(rows, column).copy()
    bent[[11, 7]] = value  # of keys 2 and 1: the first by key is told
    path = store(rows._replace(**{column: bent}), tmp_path / "table.parquet")
    assert main(["check", path]) == 254
    told = capsys.readouterr().err
    assert f"{path}: key 1, process" in told and said in told and "hint: docs/reference/operations-table.md" in told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop_columns(["returned"]), "column 'returned' is missing; a table of operations has key int64"),
        (lambda t: t.set_column(1, "f", t["f"].cast(pa.string())), "column 'f' has type string, expected int8"),
        (
            lambda t: t.set_column(4, "process", t["process"].cast(pa.int64())),
            "'process' has type int64, expected int32",
        ),
        (
            lambda t: t.set_column(6, "returned", pa.array([None] * len(t), pa.int64())),
            "column 'returned' is null in 4 rows",
        ),
    ],
)
def test_columns_that_are_not_so_are_refused(tmp_path: Path, capsys: Any, change: Any, said: str) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(change(arrow(from_operations(parse(VALID).operations))), path)
    assert main(["check", str(path)]) == 254
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("words", "code"), [(VALID, 0), (STALE, 1), ("a:w1", 2), ("a(r", 2)])
def test_check(tmp_path: Path, capsys: Any, words: str, code: int) -> None:
    rows = from_operations(parse(words).operations)
    path = store(rows, tmp_path / "table.parquet")
    assert main(["check", path]) == code
    assert f"table of operations, {len(rows.key)} operations" in capsys.readouterr().err
    folder = tmp_path / "parts"
    folder.mkdir()
    for at in range(len(rows.key)):
        store(rows.at([at]), folder / f"part-{at}.parquet")
    if len(rows.key):
        assert main(["check", str(folder), "--json"]) == code
        assert json.loads(capsys.readouterr().out)["exit_code"] == code


def test_other_models_and_forms_are_refused(tmp_path: Path, capsys: Any) -> None:
    path = store(from_operations(parse(VALID).operations), tmp_path / "table.parquet")
    assert main(["check", path, "--also", "porcupine"]) == 254
    assert "--also is for histories that are judged from their events" in capsys.readouterr().err
    assert main(["check", path, "--model", "set"]) == 254
    assert "is of the model cas-register, not set" in capsys.readouterr().err
    (tmp_path / "history.edn").write_text("[]")
    assert main(["check", str(tmp_path / "history.edn"), "--spark"]) == 254
    assert (
        "only a table of operations and a history of ours in Parquet are judged through Spark"
        in capsys.readouterr().err
    )


def test_a_witness_tells_why(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    generate(path, 4_000, 80, bad=(5, 70))
    verdict = check(path, FACTS)
    assert (verdict.validity, verdict.counts) == ("invalid", {"stale-read": 2})
    assert [witness.key for witness in verdict.witnesses] == ["key 5", "key 70"]
    assert verdict.witnesses[0].steps[0].startswith("read of key 5 by process ")


def test_a_generated_table_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    generate(path, 10_000, 200)
    verdict = check(path, FACTS)
    assert (verdict.validity, values(verdict.figures)["keys"], values(verdict.figures)["operations"]) == (
        "valid",
        200,
        10_000,
    )
    assert verdict.tested and verdict.tested > 5_000


def hard() -> OperationRows:
    """A key that takes many steps for its few operations."""
    return from_rows([valid_history(random.Random(3), Shape(operations=400, clients=30, values=8, info=0.1))])


def test_a_spent_budget_is_told_in_part(tmp_path: Path) -> None:
    easy = [from_operations(parse(VALID).operations) for _ in range(9)]
    path = Path(store(joined([*easy, hard()]), tmp_path / "table.parquet"))
    facts = msgspec.structs.replace(FACTS, budget=SearchBudget(steps=3_000))
    verdict = check(path, facts)
    assert (verdict.validity, verdict.reason) == (
        "unknown",
        "9 of 10 keys checked, none invalid; the budget of steps is spent",
    )
    assert check(path, facts) == verdict
    stale = from_operations(parse(STALE).operations)
    verdict = check(Path(store(joined([*easy, hard(), stale]), tmp_path / "stale.parquet")), facts)
    assert verdict.reason == "no order explains 1 of 11 keys; 1 more were not finished"


def test_further_columns_are_not_read(tmp_path: Path) -> None:
    table = arrow(from_operations(parse(VALID).operations))
    path = tmp_path / "table.parquet"
    pq.write_table(
        table.append_column("node", pa.array(["n1"] * len(table))).select(["node", *reversed(COLUMNS)]), path
    )
    assert check(path, FACTS).validity == "valid"


def test_rows_are_put_in_one_order_whatever_ties_they_have() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        n = int(rng.integers(1, 60))
        rows = OperationRows(*(rng.integers(0, 4, n) for _ in COLUMNS))
        order = np.lexsort([getattr(rows, name) for name in reversed(ORDER)])
        for column, expected in zip(in_order(rows), rows.at(order), strict=True):
            assert np.array_equal(column, expected)


def test_a_read_of_unknown_outcome_makes_no_key(tmp_path: Path) -> None:
    rows = joined([from_operations(parse(VALID).operations), from_operations(parse(VALID).operations)])
    unknown = rows.returned.copy()
    unknown[[1, 5]] = -1
    figures = check(Path(store(rows._replace(returned=unknown), tmp_path / "table.parquet"))).figures
    assert (figures["keys"], figures["operations"], figures["info_operations"]) == (2, 6, 0)
    alone = rows._replace(returned=unknown).at([1])
    found = check(Path(store(alone, tmp_path / "alone.parquet")))
    assert (found.validity, found.reason) == ("unknown", "no read, write or cas in this history")
