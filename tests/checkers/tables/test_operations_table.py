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
from fencepost.checkers.storage.register_anomalies import READ, encode
from fencepost.checkers.tables import operations_file
from fencepost.checkers.tables.operations import (
    COLUMNS,
    ORDER,
    Deal,
    Rows,
    Tally,
    explain_rows,
    in_order,
    judge,
    whole_keys,
)
from fencepost.checkers.tables.operations_file import TableFile, check
from fencepost.harness.base.errors import Contradiction, MalformedHistory
from fencepost.harness.cli import main
from fencepost.harness.verdict import Budget, Cause, Facts, Thresholds, Witness
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


def direct(rows: Rows) -> dict[int, tuple[str, int | None, int | None]]:
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


def test_every_key_has_the_verdict_that_it_has_by_itself(tmp_path: Path) -> None:
    rows = joined(known_tables())
    expected = direct(rows)
    assert {verdict for verdict, *_ in expected.values()} == {"valid", "invalid"}
    for at, table in enumerate((rows, shuffled(rows, 1), shuffled(rows, 2))):
        file = TableFile(Path(store(table, tmp_path / f"{at}.parquet")))
        found = file.search(Budget())
        assert {one.key: (one.verdict, one.failed_process, one.failed_invoked) for one in found.others} == {
            key: said for key, said in expected.items() if said[0] != "valid"
        }
        assert (found.keys, found.operations) == (len(expected), int(((rows.f != READ) | (rows.returned >= 0)).sum()))


def test_a_table_in_shares_is_judged_as_the_whole(tmp_path: Path) -> None:
    rows = shuffled(joined([*known_tables(), hard()]), 4)
    rows = rows._replace(key=rows.key - rows.key.max() // 2)  # negative keys too
    path = tmp_path / "table.parquet"
    pq.write_table(arrow(rows), path, row_group_size=500)
    whole = TableFile(path).search(Budget())
    assert whole.others and min(one.key for one in whole.others if one.key is not None) < 0
    n = len(rows.key)
    for share_rows in (n // 2, n // 7, n // 50, n - 1, n):
        found = TableFile(path).search(Budget(), share_rows=share_rows)
        assert without_steps(found) == without_steps(whole)


def without_steps(tally: Tally) -> Tally:
    """The same without the effort of the searches, which depends on the order of rows that are at one time."""
    others = tuple(msgspec.structs.replace(one, steps=0) for one in tally.others)
    return msgspec.structs.replace(tally, steps=0, others=others)


@pytest.mark.parametrize("column", ["key", "returned"])
def test_what_is_null_is_told_of_all_shares(tmp_path: Path, column: str) -> None:
    table = arrow(joined([from_operations(parse(VALID).operations) for _ in range(3)]))
    at = table.column_names.index(column)
    values = table[column].to_pylist()
    values[1] = values[-1] = None
    pq.write_table(table.set_column(at, column, pa.array(values, table[column].type)), tmp_path / "table.parquet")
    for share_rows in (3, 100):
        with pytest.raises(MalformedHistory, match=f"column '{column}' is null in 2 rows"):
            TableFile(tmp_path / "table.parquet").search(Budget(), share_rows=share_rows)


@pytest.mark.parametrize("case", cases("register"), ids=lambda case: case.name)
def test_a_kept_history_as_a_table(case: Any, tmp_path: Path) -> None:
    """Verdict, exposure and counts are those of the history; so are the sentences, but for what a table has not."""
    table = from_operations(case.history.operations)
    if not len(table.key):
        return
    (expected,) = linearizable.check(case.history, FACTS)
    found = check(Path(store(shuffled(table, 3), tmp_path / "table.parquet")), FACTS)
    assert (found.validity, found.exposure) == (expected.validity, expected.exposure)
    assert sum(found.anomalies.values()) == sum(expected.anomalies.values())
    assert {
        found.figures.plain()[name] == expected.figures.plain()[name]
        for name in ("keys", "operations", "info_operations")
    } == {True}
    assert len(found.witnesses) == len(expected.witnesses)


def test_exposure_is_counted_as_in_a_history() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        words = []
        for _ in range(30):
            words.append(f"{rng.choice('abc')}:{rng.choice(('w1', 'r1', 'c1,2'))}@{rng.choice('xyz')}")
        operations = parse(" ".join(words)).operations
        columns = encode(operations)
        rows = from_operations(operations)
        order = np.argsort(rows.key, kind="stable")
        deal = Deal(steps=100_000, operations=len(columns.operations), memory_bytes=1 << 26, wall_s=60)
        whole = linearizable.exposed(columns)
        found = judge(rows.at(order), deal)[0]
        assert found.exposed_reads + found.exposed_swaps == len(whole) > 0


def test_batches_may_cut_keys_anywhere() -> None:
    rows = joined(
        [
            from_rows([valid_history(random.Random(seed), Shape(operations=1 + seed, clients=3, values=0))])
            for seed in range(12)
        ]
    )
    for seed in range(60):
        rng = random.Random(seed)
        cuts = sorted(rng.randrange(len(rows.key) + 1) for _ in range(rng.randrange(30)))
        bounds = list(zip([0, *cuts], [*cuts, len(rows.key)], strict=True))
        parts = list(whole_keys(Rows(*(column[a:b] for column in rows)) for a, b in bounds))
        for column, whole in zip(zip(*parts, strict=True), rows, strict=True):
            assert np.array_equal(np.concatenate(column), whole)
        of_parts = [set(part.key.tolist()) for part in parts]
        assert sum(map(len, of_parts)) == len(set.union(*of_parts)) == 12


def test_what_is_not_sorted_is_a_defect() -> None:
    rows = joined([from_operations(parse(VALID).operations)] * 2)
    for batches in ([rows.at([0, 5, 1])], [rows.at([5]), rows.at([1])]):
        with pytest.raises(RuntimeError, match="do not come sorted by key"):
            list(whole_keys(batches))


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
    assert (verdict.validity, verdict.anomalies) == ("invalid", {"stale-read": 2})
    assert [witness.key for witness in verdict.witnesses] == ["key 5", "key 70"]
    assert verdict.witnesses[0].steps[0].startswith("read of key 5 by process ")


def test_a_generated_table_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    generate(path, 10_000, 200)
    verdict = check(path, FACTS)
    assert (verdict.validity, verdict.figures.plain()["keys"], verdict.figures.plain()["operations"]) == (
        "valid",
        200,
        10_000,
    )
    assert verdict.exposure and verdict.exposure > 5_000


def test_a_key_that_is_not_found_invalid_again_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Contradiction, match="key 0 was found invalid in the table, and valid when it was searched"):
        explain_rows(from_operations(parse(VALID).operations), Budget())
    honest, planted = explain_rows, {0}

    def explain(rows: Rows, budget: Budget) -> list[Witness]:
        if planted & set(rows.key.tolist()):
            raise Contradiction("a planted contradiction")
        return honest(rows, budget)

    monkeypatch.setattr(operations_file, "explain_rows", explain)
    stale = from_operations(parse("a:w1 b:r1 a:w2 b:r2 c:r1").operations)
    path = Path(store(joined([stale, stale]), tmp_path / "table.parquet"))
    verdict = check(path, FACTS)
    assert (verdict.validity, [witness.key for witness in verdict.witnesses]) == ("invalid", ["key 1"])
    assert sum(verdict.anomalies.values()) == 1
    planted.add(1)
    verdict = check(path, FACTS)
    assert (verdict.validity, verdict.cause, verdict.anomalies) == ("unknown", Cause.FAILED, {})
    assert "a planted contradiction" in verdict.reason


def hard() -> Rows:
    """A key that takes many steps for its few operations."""
    return from_rows([valid_history(random.Random(3), Shape(operations=400, clients=30, values=8, info=0.1))])


def test_a_spent_budget_is_told_in_part(tmp_path: Path) -> None:
    easy = [from_operations(parse(VALID).operations) for _ in range(9)]
    path = Path(store(joined([*easy, hard()]), tmp_path / "table.parquet"))
    facts = msgspec.structs.replace(FACTS, budget=Budget(steps=3_000))
    verdict = check(path, facts)
    assert (verdict.validity, verdict.reason) == (
        "unknown",
        "9 of 10 keys checked, none invalid; the budget of steps is spent",
    )
    assert check(path, facts) == verdict
    stale = from_operations(parse(STALE).operations)
    verdict = check(Path(store(joined([*easy, hard(), stale]), tmp_path / "stale.parquet")), facts)
    assert verdict.reason == "no order explains 1 of 11 keys; 1 more were not finished"


def test_what_other_calls_leave_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of a few keys each: the hard key's own part is too small, and with what the others left it is not."""
    monkeypatch.setattr("fencepost.checkers.tables.operations_file._PART_ROWS", 50)
    easy = [
        from_rows([valid_history(random.Random(seed), Shape(operations=400, clients=2, values=0))])
        for seed in range(12)
    ]
    path = Path(store(joined([*easy, hard()]), tmp_path / "table.parquet"))
    alone = judge(hard(), Deal(steps=10**9, operations=400, memory_bytes=10**9, wall_s=60.0))[0].steps
    assert check(path, msgspec.structs.replace(FACTS, budget=Budget(steps=2 * alone))).validity == "valid"
    assert check(path, msgspec.structs.replace(FACTS, budget=Budget(steps=alone // 2))).validity == "unknown"


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
        rows = Rows(*(rng.integers(0, 4, n) for _ in COLUMNS))
        order = np.lexsort([getattr(rows, name) for name in reversed(ORDER)])
        for column, expected in zip(in_order(rows), rows.at(order), strict=True):
            assert np.array_equal(column, expected)


def test_a_read_of_unknown_outcome_makes_no_key(tmp_path: Path) -> None:
    rows = joined([from_operations(parse(VALID).operations), from_operations(parse(VALID).operations)])
    unknown = rows.returned.copy()
    unknown[[1, 5]] = -1
    found = TableFile(Path(store(rows._replace(returned=unknown), tmp_path / "table.parquet"))).search(Budget())
    assert (found.keys, found.operations, found.info_operations) == (2, 6, 0)
    alone = rows._replace(returned=unknown).at([1])
    assert TableFile(Path(store(alone, tmp_path / "alone.parquet"))).search(Budget()).keys == 0


def test_no_more_is_spent_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of one hard key each: every one of them could be finished, all of them can not."""
    monkeypatch.setattr("fencepost.checkers.tables.operations_file._PART_ROWS", 50)
    alone = judge(hard(), Deal(steps=10**9, operations=400, memory_bytes=10**9, wall_s=60.0))[0].steps
    file = TableFile(Path(store(joined([hard()] * 6), tmp_path / "table.parquet")))
    found = file.search(Budget(steps=2 * alone))
    # A search ends a few steps past its part; with the whole budget to each call it would be six times `alone`.
    assert found.others and found.steps < 3 * alone


def test_keys_beyond_those_explained_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.checkers.tables.operations.EXPLAINED_MAX", 2)
    path = Path(store(joined([from_operations(parse(STALE).operations)] * 5), tmp_path / "table.parquet"))
    verdict = check(path, FACTS)
    assert (verdict.anomalies, len(verdict.witnesses)) == ({"stale-read": 2, "non-linearizable": 3}, 2)
    assert verdict.reason == "no order explains 5 of 5 keys"
