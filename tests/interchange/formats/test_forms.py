"""Operations of other tools' workloads: unique ids, broadcasts, last reads, snapshots of a bank, completions only."""

from pathlib import Path

import pytest

from fencepost.harness.cli.check.foreign import Reading, judge
from fencepost.harness.interchange.formats.recognise import read_foreign
from fencepost.harness.judging.stand_alone import judge_foreign


def _lines(*operations: str, invoked: bool = True) -> str:
    """Operations one after the other: process, function, what was asked, what was answered."""
    lines = []
    for operation in operations:
        process, f, asked, answer = operation.split("|")
        head = f"{{:process {process} :f :{f}"
        lines += [f"{head} :type :invoke :value {asked}}}"] * invoked + [f"{head} :type :ok :value {answer}}}"]
    return "\n".join(lines)


_READS = ("0|read|nil|{0 50 1 50}", "0|transfer|{:from 0 :to 1 :amount 5}|{:from 0 :to 1 :amount 5}")
_COUNTS = ("0|add|2|2", "1|read|nil|0", "1|read|nil|2")


@pytest.mark.parametrize(
    ("operations", "model", "family", "anomalies"),
    [
        (("0|generate|nil|7", "1|generate|nil|8"), None, "unique-ids", {}),
        (("0|generate|nil|[7 1]", "1|generate|nil|[7 1]"), None, "unique-ids", {"duplicate-id": 1}),
        (("0|broadcast|7|7", "1|read|nil|[7]"), None, "set", {}),
        (("0|broadcast|7|7", "1|read|nil|[]"), None, "set", {"lost-write": 1}),
        (_COUNTS, "eventual-counter", "eventual-counter", {}),
        (_COUNTS, "counter", "counter", {"impossible-value": 1}),
        ((*_COUNTS, "2|read|nil|1"), "eventual-counter", "eventual-counter", {"impossible-value": 1}),
        ((*_READS, "1|read|nil|{0 50 1 50}"), None, "bank", {"impossible-balances": 1}),
        ((*_READS, "1|read|nil|{0 50 1 50}"), "bank-totals", "bank-totals", {}),
        ((*_READS, "1|read|nil|{0 50 1 45}"), "bank-totals", "bank-totals", {"wrong-total": 1}),
        ((*_READS, "1|read|nil|{0 100}"), "bank-totals", "bank-totals", {"wrong-total": 1}),
        ((*_READS, "1|read|nil|{0 50 1 nil}"), "bank-totals", "bank-totals", {"impossible-answer": 1}),
    ],
)
def test_workloads_of_other_tools(
    tmp_path: Path, operations: tuple[str, ...], model: str | None, family: str, anomalies: dict[str, int]
) -> None:
    (tmp_path / "a.edn").write_text(_lines(*operations))
    imported = read_foreign(tmp_path / "a.edn", model=model)
    (verdict,) = judge_foreign(imported, "a.edn").verdicts
    assert (imported.family.name, dict(verdict.counts)) == (family, anomalies)
    assert (verdict.validity == "invalid") == bool(anomalies)


@pytest.mark.parametrize(
    ("operations", "note"),
    [
        ((*_READS, "1|read|nil|{0 50 1 50}"), "the model bank was guessed; bank-totals, which promises less, is kept"),
        ((*_READS, "1|read|nil|{0 50 1 45}"), None),
        (("0|enqueue|1|1", "0|enqueue|2|2", "1|dequeue|nil|2", "1|dequeue|nil|1"), "guessed; bag, which promises less"),
        (("0|enqueue|1|1", "1|dequeue|nil|2"), None),
    ],
)
def test_a_weaker_model_that_is_kept_is_named(tmp_path: Path, operations: tuple[str, ...], note: str | None) -> None:
    (tmp_path / "a.edn").write_text(_lines(*operations))
    judged = judge(tmp_path / "a.edn", Reading())
    assert judged.judgement.validity == "invalid"
    assert ("promises less" in str(judged.introduction())) == (note is not None)
    assert note is None or note in str(judged.introduction())


@pytest.mark.parametrize(
    ("operations", "requests", "validity"),
    [
        (("0|write||1", "1|read||1", "1|read||1"), [1, None, None], "valid"),
        (("0|write||1", "1|read||1", "1|read||2"), [1, None, None], "invalid"),
        (("0|write||[3 1]", "1|read||[3 1]", "1|read||[3 1]"), [1, None, None], "valid"),
        (
            ("0|txn||[[:append 1 1] [:r 1 [1]]]", "1|txn||[[:r 1 [1 2]]]", "0|txn||[[:append 1 2] [:r 2 nil]]"),
            [[[":append", 1, 1], [":r", 1, None]], [[":r", 1, None]], [[":append", 1, 2], [":r", 2, None]]],
            "valid",
        ),
    ],
)
def test_completions_only(tmp_path: Path, operations: tuple[str, ...], requests: list[object], validity: str) -> None:
    (tmp_path / "a.edn").write_text(_lines(*operations, invoked=False))
    imported = read_foreign(tmp_path / "a.edn", keyed=None if "[3 1]" not in operations[0] else True)
    values = sorted((op.complete_index or 0, op.value) for op in imported.history.operations)
    assert [value for _, value in values] == requests
    assert judge_foreign(imported, "a.edn").validity == validity
    assert imported.notes[-1].startswith("completions only")
