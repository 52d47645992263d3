"""Histories of every object beyond registers, in EDN, with verdicts that are known: valid, and each anomaly by name."""

import io
import re
from typing import Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.interchange.formats.jepsen import read_edn
from fencepost.harness.judging import stand_alone as foreign
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.verdict import SearchBudget, Validity
from fencepost.harness.verdict.figures import values


def edn(*lines: str) -> str:
    """`0 acquire` invokes, `0 :ok 7` completes with 7, `0 :info` is unknown; values are EDN; `T0 1 5` a transfer."""
    open_f: dict[str, tuple[str, str]] = {}
    written = []
    for line in lines:
        line = re.sub(r"T(\d) (\d) (\d)", r"{:from \1 :to \2 :amount \3}", line)
        process, word, *rest = line.split(maxsplit=2)
        if word.startswith(":"):
            f, value = open_f.pop(process)
            kind, value = word, rest[0] if rest else value
        else:
            f, value, kind = word, rest[0] if rest else "nil", ":invoke"
            open_f[process] = f, value
        written.append(f"{{:type {kind}, :process {process}, :f :{f}, :value {value}}}")
    return "\n".join(written)


def both(*lines: str) -> list[str]:
    """Operations one after the other, each answered at once: `0 enqueue 1`, or `0 read nil -> 5`."""
    out = []
    for line in lines:
        said, _, answer = line.partition(" -> ")
        out += [said, f"{said.split()[0]} :ok {answer}".rstrip()]
    return out


def judged(lines: list[str], model: str | None = None, **options: Any) -> Judgement:
    found = read_edn(io.BytesIO(edn(*lines).encode()), "a.edn", model=model, **options)
    return judge_foreign(found, "a.edn")


_ = both
CASES: list[tuple[str | None, list[str], str]] = [
    # A mutex that anyone may release, by the shapes that Knossos reads.
    ("mutex", _("0 acquire", "0 release", "1 acquire"), "valid"),
    ("mutex", _("0 acquire", "1 release", "1 acquire"), "valid"),
    ("mutex", _("0 acquire", "1 acquire"), "two-holders"),
    ("mutex", [*_("0 acquire"), "0 release", "0 :info", *_("1 acquire")], "valid"),
    ("mutex", [*_("0 acquire"), "0 release", "0 :fail", *_("1 acquire")], "two-holders"),
    ("mutex", [*_("0 acquire", "0 release"), *_("1 release")], "released-while-free"),
    ("mutex", ["0 acquire", "0 :info", *_("1 acquire", "1 release", "1 acquire")], "valid"),
    ("owner-mutex", _("0 acquire", "1 release"), "released-by-another"),
    ("owner-mutex", _("0 acquire", "0 release", "1 acquire"), "valid"),
    ("owner-mutex", _("0 acquire", "1 acquire"), "two-holders"),
    # Fencing tokens.
    ("fenced-mutex", _("0 acquire nil -> 1", "0 release", "1 acquire nil -> 5"), "valid"),
    (None, _("0 acquire nil -> {:fence 1}", "0 release", "1 acquire nil -> {:fence 2}"), "valid"),
    ("fenced-mutex", _("0 acquire nil -> 5", "0 release", "1 acquire nil -> 4"), "token-order"),
    ("fenced-mutex", _("0 acquire nil -> 5", "1 acquire nil -> 6"), "two-holders"),
    ("fenced-mutex", ["0 acquire", "1 acquire", "0 :ok 5", "1 :ok 5"], "duplicate-token"),
    # The tokens say that 1 acquired before 0, and 1 never released.
    ("fenced-mutex", ["0 acquire", "1 acquire", "0 :ok 5", "1 :ok 4", *_("0 release")], "two-holders"),
    # Permits.
    ("semaphore:2", _("0 acquire", "1 acquire", "0 release", "2 acquire"), "valid"),
    ("semaphore:2", _("0 acquire", "1 acquire", "2 acquire"), "too-many-holders"),
    ("semaphore:3", _("0 acquire 2", "1 acquire 2"), "too-many-holders"),
    ("semaphore:3", _("0 acquire 2", "0 release 2", "1 acquire 3"), "valid"),
    ("semaphore:1", _("0 release", "0 acquire"), "released-while-free"),
    # A counter.
    (None, _("0 add 5", "1 read nil -> 5", "0 decrement 2", "1 read nil -> 3"), "valid"),
    (None, _("0 add 5", "1 read nil -> 4"), "impossible-value"),
    (None, [*_("0 increment"), "0 add 5", "0 :info", *_("1 read nil -> 6", "1 read nil -> 6")], "valid"),
    (None, [*_("0 increment"), "0 add 5", "0 :info", *_("1 read nil -> 6", "1 read nil -> 1")], "impossible-value"),
    (None, ["0 add 2", "1 add 2", "0 :ok", "2 read", "1 :ok", "2 :ok 3"], "impossible-value"),
    # Other collections.
    ("bag", _("0 enqueue 1", "0 enqueue 2", "1 dequeue nil -> 2", "1 dequeue nil -> 1", "1 dequeue"), "valid"),
    ("bag", _("0 enqueue 1", "0 enqueue 2", "1 drain nil -> [2 1]"), "valid"),
    ("bag", _("0 enqueue 1", "0 enqueue 2", "1 dequeue nil -> 2", "1 dequeue"), "lost-element"),
    ("bag", ["0 drain", *_("1 enqueue 2", "2 dequeue", "1 enqueue 1"), "0 :ok [1 2]"], "lost-element"),
    (None, _("0 push 1", "0 push 2", "1 pop nil -> 2", "1 pop nil -> 1", "1 pop"), "valid"),
    ("stack", _("0 push 1", "0 push 2", "1 pop nil -> 1", "1 pop nil -> 2"), "reordered-element"),
    ("priority-queue", _("0 enqueue 2", "0 enqueue 1", "1 dequeue nil -> 1", "1 dequeue nil -> 2"), "valid"),
    ("priority-queue", _("0 enqueue 2", "0 enqueue 1", "1 dequeue nil -> 2", "1 dequeue"), "lost-element"),
    ("priority-queue", ["0 drain", *_("1 enqueue 2", "1 enqueue 1"), "0 :ok [2 1]"], "valid"),
    ("priority-queue", _("0 enqueue 1", "0 enqueue 2", "1 drain nil -> [2 1]"), "reordered-element"),
    ("counter:5", _("0 add 2", "1 read nil -> 7"), "valid"),
    ("queue:[7]", _("1 dequeue nil -> 7"), "valid"),
    # A queue.
    (
        None,
        _("0 enqueue 1", "0 enqueue 2", "1 dequeue nil -> 1", "1 dequeue nil -> 2", "1 dequeue nil -> nil"),
        "valid",
    ),
    (None, _("0 enqueue 1", "0 enqueue 2", "1 dequeue nil -> 2", "1 dequeue nil -> 1"), "reordered-element"),
    (None, _("0 enqueue 1", "0 enqueue 2", "1 dequeue nil -> 2"), "lost-element"),
    (None, _("0 enqueue 1", "1 dequeue nil -> nil"), "lost-element"),
    (None, _("0 enqueue 1", "1 dequeue nil -> 1", "1 dequeue nil -> 1"), "duplicate-element"),
    (None, _("0 enqueue 1", "1 dequeue nil -> 2"), "invented-element"),
    (None, [*_("1 dequeue nil -> 1"), *_("0 enqueue 1")], "invented-element"),
    (None, ["0 enqueue 1", "0 :fail", *_("1 dequeue nil -> 1")], "invented-element"),
    (None, ["0 enqueue 1", "0 :info", *_("1 dequeue nil -> 1")], "valid"),
    (None, ["0 enqueue 1", "1 enqueue 2", "0 :ok", "1 :ok", *_("1 drain nil -> [2 1]")], "valid"),
    (None, _("0 enqueue 1", "0 enqueue 2", "1 drain nil -> [2 1]"), "reordered-element"),
    (None, [*_("0 enqueue 1", "0 enqueue 2"), "1 dequeue", "1 :info", *_("2 dequeue nil -> 2")], "valid"),
    (None, [*_("0 enqueue 1", "0 enqueue 2", "0 enqueue 3"), "1 drain", "1 :info", *_("2 dequeue nil -> 3")], "valid"),
    (
        None,
        [*_("0 enqueue 1", "0 enqueue 2"), "1 drain", "1 :info", *_("2 dequeue nil -> 2", "0 dequeue nil -> 1")],
        "reordered-element",
    ),
    (None, [*_("0 enqueue 1", "0 enqueue 2"), "2 dequeue", "1 dequeue", "2 :ok 2", "1 :ok 1"], "valid"),
    (None, ["0 enqueue 1", "0 :info", *_("2 enqueue 2"), "1 dequeue", "1 :info", *_("3 dequeue nil -> 1")], "valid"),
    # Sets.
    ("grow-only-set", _("0 add 1", "1 read nil -> #{1}"), "valid"),
    ("grow-only-set", _("0 add 1", "0 add 2", "1 read nil -> #{1}"), "lost-element"),
    ("grow-only-set", _("0 add 1", "0 add 2", "1 read nil -> #{1}", "1 read nil -> #{1 2}"), "stale-read"),
    ("grow-only-set", _("0 add 1", "1 read nil -> #{1 7}"), "invented-element"),
    ("grow-only-set", _("0 add 1", "1 read nil -> [1 1]"), "duplicate-element"),
    (None, _("0 add 1", "1 contains 1 -> true", "0 remove 1", "1 contains 1 -> false"), "valid"),
    (None, _("0 add 1", "0 remove 1", "1 contains 1 -> true"), "resurrected-element"),
    (None, _("0 add 1", "1 contains 1 -> false"), "lost-element"),
    (None, _("0 add 1", "0 remove 1", "1 read nil -> [1]", "1 contains 1 -> true"), "resurrected-element"),
    # An append-only log.
    (None, _("0 append 7 -> [0 7]", "0 append 8 -> [3 8]", "1 read 3 -> [3 8]", "1 read 1 -> [1 nil]"), "valid"),
    (None, _("0 append 7 -> [0 7]", "1 read 0 -> [0 nil]"), "lost-append"),
    (None, _("0 append 7 -> [0 7]", "1 read 0 -> [0 nil]", "1 read 0 -> [0 7]"), "stale-read"),
    (None, _("0 append 7 -> [5 7]", "0 append 8 -> [4 8]"), "offset-order"),
    (None, _("0 append 7 -> [5 7]", "0 append 8 -> [5 8]"), "inconsistent-offsets"),
    (None, _("0 append 7 -> [5 7]", "0 append 7 -> [5 7]"), "duplicate-offset"),
    (None, _("0 append 7 -> [5 7]", "1 read 6 -> [6 7]"), "duplicate-element"),
    (None, _("0 append 7 -> [5 7]", "1 read 6 -> [6 8]"), "invented-element"),
    (None, [*_("1 read 5 -> [5 7]"), *_("0 append 7 -> [5 7]")], "phantom-read"),
    (None, ["0 append 7", "0 :info", *_("2 append 8 -> [1 8]", "1 read 0 -> [0 7]")], "valid"),
    (None, [*_("2 append 8 -> [1 8]"), "0 append 7", "0 :info", *_("1 read 0 -> [0 7]")], "phantom-read"),
    # Several registers.
    (
        "multi-register",
        _(
            "0 txn [[:w :x 1] [:w :y 1]] -> [[:w :x 1] [:w :y 1]]",
            "1 txn [[:r :x nil] [:r :y nil]] -> [[:r :x 1] [:r :y 1]]",
        ),
        "valid",
    ),
    (
        "multi-register",
        _(
            "0 txn [[:w :x 1] [:w :y 1]] -> [[:w :x 1] [:w :y 1]]",
            "1 txn [[:r :x nil] [:r :y nil]] -> [[:r :x 1] [:r :y nil]]",
        ),
        "stale-read",
    ),
    (
        "multi-register",
        [
            "0 txn [[:w :x 1] [:w :y 1]]",
            "1 txn [[:read :x nil] [:read :y nil]]",
            "1 :ok [[:read :x 1] [:read :y nil]]",
            "0 :ok",
        ],
        "fractured-read",
    ),
    ("multi-register", _("0 txn [[:w :x 1]]", "1 txn [[:r :x nil]] -> [[:r :x 2]]"), "phantom-read"),
    ("multi-register", _("0 txn [[:w :x 1]]", "1 txn [[:w :x 2] [:r :x nil]] -> [[:w :x 2] [:r :x 1]]"), "internal"),
    # A bank.
    (None, _("0 read nil -> {0 5, 1 5}", "0 transfer T0 1 5", "1 read nil -> {0 0, 1 10}"), "valid"),
    (None, _("0 transfer T0 1 5", "1 read nil -> {0 0, 1 10}", "1 read nil -> {0 0, 1 10}"), "valid"),
    (None, _("0 read nil -> {0 5, 1 5}", "0 transfer T0 1 5", "1 read nil -> {0 1, 1 10}"), "wrong-total"),
    (None, _("0 read nil -> {0 5, 1 5}", "0 transfer T0 1 7", "1 read nil -> {0 -2, 1 12}"), "negative-balance"),
    (None, _("0 read nil -> {0 5, 1 5}", "0 transfer T0 1 7"), "overdraft"),
    (None, _("0 read nil -> {0 5, 1 5}", "0 transfer T0 1 5", "1 read nil -> {0 5, 1 5}"), "impossible-balances"),
    # Before the transfer nobody read, but it must have been covered by what the account began with.
    (None, _("0 transfer T0 1 5", "0 transfer T1 0 8", "1 read nil -> {0 8, 1 0}"), "valid"),
    (None, _("0 transfer T0 1 5", "0 transfer T1 0 8", "1 read nil -> {0 7, 1 1}"), "impossible-balances"),
]


@pytest.mark.parametrize(("model", "lines", "wanted"), CASES, ids=[f"{i}-{case[2]}" for i, case in enumerate(CASES)])
def test_a_known_verdict(model: str | None, lines: list[str], wanted: str) -> None:
    judgement = judged(lines, model)
    verdict = judgement.verdicts[0]
    if wanted == "valid":
        assert not verdict.counts and verdict.validity != "invalid" and "defect" not in verdict.reason, verdict
    else:
        assert (judgement.validity, dict(verdict.counts)) == ("invalid", {wanted: 1}), verdict
        witness = verdict.witnesses[0]
        assert witness.anomaly == wanted and witness.events and all(step.endswith(".") for step in witness.steps)


@pytest.mark.parametrize(
    ("model", "lines", "said"),
    [
        ("semaphore", both("0 acquire"), "a semaphore of unknown size"),
        ("semaphore:0", both("0 acquire"), "a semaphore of 0"),
        ("semaphore:2", both("0 acquire -1"), "the number of permits is -1"),
        (None, both("0 increment :a"), "the step is :a"),
        (None, both("0 enqueue"), "the element of an enqueue is missing"),
        (None, both("0 append 1"), "line 2, column 1: append returned 1; expected [offset, value]"),
        ("multi-register", both("0 txn [[:w :x nil]]"), "a value is missing"),
        ("multi-register", both("0 txn [[:append :x 1]]"), "a transaction has ':append'; expected r or w"),
        (None, both("0 transfer {:from 0 :to 1}"), "expected a map of from, to and amount"),
        (None, both("0 transfer {:from 0 :to 1 :amount -1}"), "the amount is -1; expected an integer from 0"),
    ],
)
def test_what_is_refused(model: str | None, lines: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        judged(lines, model)
    assert said in caught.value.message and caught.value.hint


def test_keys_are_objects_of_their_own() -> None:
    lines = both(
        "0 enqueue [:a 1]", "0 enqueue [:b 2]", "1 dequeue [:b nil] -> [:b 2]", "1 dequeue [:a nil] -> [:a nil]"
    )
    verdict = judged(lines, keyed=True).verdicts[0]
    assert (values(verdict.figures)["keys"], dict(verdict.counts), verdict.witnesses[0].key) == (
        2,
        {"lost-element": 1},
        ":a",
    )


def test_the_budget_ends_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten concurrent additions, and then a sum that none of the orders makes, though it is within bounds."""
    lines = [f"{i} add 2" for i in range(10)] + ["10 read", *(f"{i} :ok" for i in range(10)), "10 :ok 7"]
    assert dict(judged(lines).verdicts[0].counts) == {"impossible-value": 1}
    monkeypatch.setattr(foreign, "_budget", lambda operations: SearchBudget(steps=300))
    judgement = judged(lines)
    assert (judgement.validity, judgement.verdicts[0].counts) == ("unknown", {})
    assert "1 objects were not finished, none is invalid; the budget of steps is spent" in judgement.headline


@pytest.mark.parametrize("answer", ["nil", "1"])
def test_a_lock_is_not_guessed(answer: str) -> None:
    """Two holders are a violation of a mutex and none of a semaphore; a number may be a token or permits."""
    lines = both(f"0 acquire nil -> {answer}", f"1 acquire nil -> {answer}", "0 release")
    with pytest.raises(UsageError) as caught:
        judged(lines)
    assert "do not show which of mutex, owner-mutex, fenced-mutex, semaphore:N this is" in caught.value.message
    assert "--model mutex" in (caught.value.hint or "")
    assert judged(lines, "semaphore:5").validity is Validity.VALID
