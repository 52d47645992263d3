"""A kept verdict is borne out by its history alone, and one that was tampered with is not."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fencepost.checkers.confirm import ProofFails
from fencepost.checkers.storage import registers as linearizable
from fencepost.checkers.transactions.history import check_lists, check_registers
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import Event, History, OpEvent, Outcome
from fencepost.harness.plugins.registry import confirm
from fencepost.harness.verdict import Facts, Thresholds, Verdict
from fencepost.harness.verdict.by_guarantee import plain_verdict
from tests.checkers.transactions.test_transaction_history import told
from tests.histories.language import cases, parse

FACTS = Facts(
    system="imaginary",
    workload="register",
    nodes=("n1", "n2", "n3"),
    guarantees=(),
    thresholds=Thresholds(exposure_min=0),
)


def kept(verdict: Verdict) -> dict[str, Any]:
    """The verdict as it comes back from a file."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain_verdict(verdict)))
    return document


def judged(history: History) -> dict[str, Any]:
    (verdict,) = linearizable.check(history, FACTS)
    return kept(verdict)


@pytest.mark.parametrize("case", cases("register"), ids=lambda case: case.name)
def test_every_verdict_on_the_kept_histories_is_confirmed(case: Any) -> None:
    verdict = judged(case.history)
    proofs = confirm(case.history, {"verdicts": [verdict]})
    assert proofs == verdict["figures"]["keys"]["value"]


def test_a_witness_shows_the_few_operations_that_prove_it() -> None:
    verdict = judged(parse("a:w1 b:r1 a:w2 b:r2 a:w3 b:r3 c:r1 a:w4 b:r4"))
    (witness,) = verdict["witnesses"]
    proof = witness["proof"]
    assert (proof["kind"], proof["key"], proof["since"], proof["rows"], proof["may"]) == (
        "window",
        "x",
        None,
        [0, 8, 12],
        [],
    )
    assert witness["steps"][-1] == (
        "No order explains even these 3 operations: write of 1 to x (event 0); write of 3 to x (event 8); "
        "read of x that returned 1 (event 12)."
    )


STALE = "a:w1 b:r1 a:w2 b:r2 c:r1 a:w1@y b:r1@y"


def unprove(verdict: dict[str, Any]) -> None:
    del verdict["witnesses"][0]["proof"]


def change(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def changed(verdict: dict[str, Any]) -> None:
        verdict["witnesses"][0]["proof"].update(changes)

    return changed


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (unprove, "linearizable: invalid without a proof"),
        (change(rows=[4, 8]), "the window of x does not hold: operation 0 is left out"),
        (change(rows=[4, 8], may=[0]), "the window of x does not hold: there is an order from 0"),
        (change(rows=[4, 8], since=8), "operation 2 need not take effect"),
        (change(rows=[0, 4, 99]), "event 99 invokes no operation on it"),
        (change(rows=[0, 4, 10]), "event 10 invokes no operation on it"),
        (change(key="z"), "the history has no such key"),
        (change(kind="cycle"), "no proof about registers is of the kind 'cycle'"),
        (change(until=None), "no proof about registers is of the kind 'window'"),
    ],
)
def test_what_does_not_prove_a_violation_is_refused(tamper: Callable[[dict[str, Any]], None], why: str) -> None:
    history = parse(STALE)
    verdict = judged(history)
    assert confirm(history, verdict) == 2
    tamper(verdict)
    with pytest.raises(ProofFails) as raised:
        confirm(history, verdict)
    assert why in raised.value.message


def test_an_order_that_is_none_is_refused() -> None:
    history = parse("a:w1 b:r1 a:w2 b:r2 a:w1@y")
    verdict = judged(history)
    assert [proof["rows"] for proof in verdict["proofs"]] == [[0, 2, 4, 6], [8]]
    for rows in ([0, 4, 2, 6], [0, 2, 4], [0, 2, 4, 6, 6]):
        with pytest.raises(ProofFails, match="the order of x does not hold"):
            confirm(history, {**verdict, "proofs": [{**verdict["proofs"][0], "rows": rows}]} | {"validity": "unknown"})
    with pytest.raises(ProofFails, match="orders of some keys only"):
        confirm(history, {**verdict, "proofs": verdict["proofs"][:1]})


def test_findings_about_transactions_are_confirmed() -> None:
    txns: list[tuple[str, list[Any], list[Any]]] = [
        ("ok", [["append", "x", 1], ["append", "y", "one"]], [["append", "x", 1], ["append", "y", "one"]]),
        ("ok", [["r", "x", None], ["r", "y", None]], [["r", "x", None], ["r", "y", ["one"]]]),
        ("ok", [["r", "x", None]], [["r", "x", [7]]]),
    ]
    history = told(*txns)
    (verdict,) = check_lists(history, FACTS)
    document = kept(verdict)
    assert {w["proof"]["kind"] for w in document["witnesses"]} == {"cycle", "finding"}
    assert confirm(history, document) == len(document["witnesses"])
    mended = told(txns[0], ("ok", txns[1][1], [["r", "x", [1]], ["r", "y", ["one"]]]), txns[2])
    with pytest.raises(ProofFails, match="the cycle does not hold: the rows do not show G-single"):
        confirm(mended, document)
    document["witnesses"][0]["proof"]["links"] = [["no", "numbers"]]
    with pytest.raises(ProofFails, match="its links cannot be read"):
        confirm(history, document)


def test_findings_about_registers_of_transactions_are_confirmed() -> None:
    history = told(("ok", [["r", "x", None]], [["r", "x", 3]]), ("ok", [["w", "x", 1]], [["w", "x", 1]]))
    (verdict,) = check_registers(history, FACTS)
    assert verdict.counts == {"garbage-read": 1}
    assert confirm(history, kept(verdict)) == 1
    with pytest.raises(ProofFails, match="the finding does not hold"):
        confirm(
            told(("ok", [["r", "x", None]], [["r", "x", 1]]), ("ok", [["w", "x", 1]], [["w", "x", 1]])), kept(verdict)
        )


def test_a_circle_of_commits_is_confirmed() -> None:
    def txns(last: object) -> History:
        return told(
            ("ok", [["w", "x", 1]], [["w", "x", 1]]),
            ("ok", [["r", "x", None], ["w", "y", 1]], [["r", "x", 1], ["w", "y", 1]]),
            ("ok", [["r", "y", None], ["r", "x", None]], [["r", "y", 1], ["r", "x", last]]),
        )

    (verdict,) = check_registers(txns(None), msgspec.structs.replace(FACTS, required=("causal-cerone",)))
    document = kept(verdict)
    assert "circle" in {w["proof"]["kind"] for w in document["witnesses"]}
    assert confirm(txns(None), document) == len(document["witnesses"])
    with pytest.raises(ProofFails, match="the rows do not show"):
        confirm(txns(1), document)


def test_what_is_no_verdict_is_refused() -> None:
    with pytest.raises(UsageError, match="the verdict cannot be read"):
        confirm(parse("a:w1"), {"verdicts": [{"checker": 3}]})


def test_verdicts_without_proofs_of_this_kind_are_passed_over() -> None:
    assert confirm(parse("a:w1"), {"checker": "coverage", "validity": "invalid"}) == 0


def _registers_without_an_order() -> History:
    """Three transactions on two registers that no cycle of certain edges refutes, and that have no serial order."""
    rows: list[tuple[int, int, int, list[Any]]] = [
        (0, 8, 21, [["r", "y", 3], ["r", "x", 1]]),
        (0, 28, 45, [["w", "x", 1], ["w", "y", 2], ["r", "y", 2]]),
        (1, 18, 35, [["w", "y", 3], ["r", "x", None]]),
    ]
    begun = [(begin, Outcome.INVOKE, process, micros) for process, begin, _, micros in rows]
    ended = [(end, Outcome.OK, process, micros) for process, _, end, micros in rows]
    events: list[Event] = [
        OpEvent(index=i, time_ns=i, type=kind, process=process, f="txn", node="n", value=micros)
        for i, (_, kind, process, micros) in enumerate(sorted(begun + ended, key=lambda moment: moment[0]))
    ]
    return History(events)


def test_that_all_orders_were_tried_is_confirmed_by_trying_them() -> None:
    history = _registers_without_an_order()
    (verdict,) = check_registers(history, msgspec.structs.replace(FACTS, required=("serializable",)))
    assert verdict.counts["no-serial-order"] == 1
    document = kept(verdict)
    assert confirm(history, document) >= 1
    proof = next(w["proof"] for w in document["witnesses"] if w["anomaly"] == "no-serial-order")
    proof["rows"] = proof["rows"][:2]
    with pytest.raises(ProofFails, match="the exhaustion does not hold"):
        confirm(history, document)
