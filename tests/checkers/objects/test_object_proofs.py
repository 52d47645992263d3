"""Every `invalid` of an object carries a few operations that have no order, and every `valid` orders.

Both are borne out by the history alone, and what was tampered with is not.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from fencepost.checkers.confirm import ProofFails, confirm
from fencepost.checkers.objects import judging, sub_history
from fencepost.checkers.objects.minimal import minimal_proof
from fencepost.checkers.objects.python_search import SearchedCall, search
from fencepost.checkers.objects.sub_history import KeyRows, Objection
from fencepost.harness.history import History, Operation
from fencepost.harness.interchange.formats.family import choose
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Cause, Validity, Verdict, VerdictProof
from tests.checkers.build import assert_each_had_a_chance
from tests.checkers.objects.object_twins import TWINS, Drawn, Twin, bend, draw, operations_of
from tests.checkers.objects.test_objects import facts

#: The names of specifications where the models are called otherwise.
NAMES = {"add-remove-set": "linearizable-set", "grow-only-set": "linearizable-set"}
STEPS = 1_000_000


def history_of(operations: Sequence[Operation]) -> History:
    return cast(History, SimpleNamespace(operations=operations))


def judged(model: str, operations: Sequence[Operation]) -> Verdict:
    family = choose(model, (), lambda f: (), "a test")
    return registry.checker(family.checker)(history_of(operations), facts(family.parameter))[0]


def kept(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(verdict))
    return found


def drawn(twin: Twin, seed: str, operations_max: int, *, bent: bool) -> list[Operation]:
    rng = random.Random(f"{type(twin).__name__} {seed}")
    calls = draw(rng, twin, rng.randrange(3, operations_max + 1), rng.randrange(1, 5), rng.choice((0, 0.1, 0.3)))
    if bent:
        bend(rng, twin, calls)
    return operations_of(calls)


def assert_minimal(proof: VerdictProof, operations: Sequence[Operation]) -> None:
    """Whichever operation is let go, there is an order."""
    rows = KeyRows(operations, proof.name, proof.about)
    for row in proof.rows:
        must = [other for other in proof.rows if other != row]
        if must:
            why = rows.refuted(must, rows.may(must, proof.since), proof.since, STEPS)
            assert why is not None and why.reason.startswith("there is an order"), (proof, row, operations, why)


def assert_proven(twin: Twin, seeds: range, operations_max: int) -> Counter[str]:
    counted: Counter[str] = Counter()
    for seed in seeds:
        operations = drawn(twin, str(seed), operations_max, bent=seed % 6 > 0)
        for model in twin.models:
            verdict = judged(model, operations)
            assert_each_had_a_chance(verdict)
            proofs = confirm(history_of(operations), kept(verdict))
            assert proofs == len(verdict.proofs) + len(verdict.witnesses), (model, seed, operations)
            for witness in verdict.witnesses:
                assert witness.proof is not None
                assert_minimal(witness.proof, operations)
                assert set(witness.proof.rows) <= set(witness.events)
            counted["invalid" if verdict.anomalies else "valid"] += 1
    return counted


@pytest.mark.parametrize("twin", TWINS, ids=[type(twin).__name__ for twin in TWINS])
def test_verdicts_carry_proofs_that_hold_and_have_nothing_to_spare(twin: Twin) -> None:
    counted = assert_proven(twin, range(80), 12)
    assert min(counted["valid"], counted["invalid"]) >= 5, counted


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("twin", TWINS, ids=[type(twin).__name__ for twin in TWINS])
def test_thousands_of_verdicts_carry_proofs_that_hold(twin: Twin) -> None:
    counted = assert_proven(twin, range(1_000, 3_000), 14) + assert_proven(twin, range(5_000, 5_100), 60)
    assert min(counted["valid"], counted["invalid"]) >= 100, counted


def assert_nothing_refutes(twin: Twin, seeds: range) -> int:
    """Parts of histories that have an order, cut in every allowed way; how many."""
    count = 0
    for seed in seeds:
        rng = random.Random(seed)
        operations = drawn(twin, f"sound {seed}", 15, bent=False)
        name = NAMES.get(twin.models[0], twin.models[0])
        whole = KeyRows(operations, name, None)
        parts = sorted({part for op in whole.operations for part in whole.parts(op)})
        for _ in range(4):
            about = tuple(rng.sample(parts, rng.randrange(1, len(parts) + 1))) if parts and rng.random() < 0.7 else None
            rows = KeyRows(operations, name, about)
            known = [op for op in rows.operations if op.complete_index is not None and rows.calls[op.invoke_index]]
            tells = [op for op in known if rows.after(op) is not None]
            behind = rng.choice(tells) if tells and rng.random() < 0.6 else None
            begin = -1 if behind is None else behind.complete_index or 0
            must = [op.invoke_index for op in known if op.invoke_index > begin and rng.random() < 0.8]
            if must:
                since = None if behind is None else behind.invoke_index
                why = rows.refuted(must, rows.may(must, since), since, STEPS)
                assert why is not None and why.reason.startswith("there is an order"), (operations, must, about, why)
                count += 1
    return count


@pytest.mark.parametrize("twin", TWINS, ids=[type(twin).__name__ for twin in TWINS])
def test_no_sound_cut_makes_a_violation_out_of_nothing(twin: Twin) -> None:
    assert assert_nothing_refutes(twin, range(40)) > 80


@pytest.mark.long
@pytest.mark.parametrize("twin", TWINS, ids=[type(twin).__name__ for twin in TWINS])
def test_no_sound_cut_of_thousands_makes_a_violation_out_of_nothing(twin: Twin) -> None:
    assert assert_nothing_refutes(twin, range(1_000, 4_000)) > 6_000


def queue_out_of_order() -> list[Operation]:
    """One element behind the other, taken the other way round, with others before and beside them."""
    return operations_of(
        [
            Drawn(0, "enqueue", 7, None, 0, 1, True),
            Drawn(1, "dequeue", None, 7, 2, 3, True),
            Drawn(0, "enqueue", 1, None, 4, 5, True),
            Drawn(0, "enqueue", 2, None, 6, 7, True),
            Drawn(3, "enqueue", 9, None, 8, 9, False),
            Drawn(1, "dequeue", None, 2, 10, 11, True),
            Drawn(1, "dequeue", None, 1, 12, 13, True),
        ]
    )


def test_a_witness_shows_the_few_operations_that_prove_it() -> None:
    operations = queue_out_of_order()
    verdict = judged("queue", operations)
    (witness,) = verdict.witnesses
    assert witness.proof is not None
    assert (witness.proof.name, witness.proof.about, witness.proof.since) == ("queue", ("1", "2"), None)
    assert witness.steps[-1] == (
        "No order explains even these 2 operations: enqueue of 1 by process 0 (event 4); dequeue that returned 2 by "
        "process 1 (event 9); whether or not this took effect: enqueue of 2 by process 0 (event 6)."
    )
    assert witness.events == (4, 5, 9, 10, 11, 12)


def change(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def changed(verdict: dict[str, Any]) -> None:
        verdict["witnesses"][0]["proof"].update(changes)

    return changed


def unprove(verdict: dict[str, Any]) -> None:
    verdict["witnesses"][0]["proof"] = None


def let_go(verdict: dict[str, Any]) -> None:
    proof = verdict["witnesses"][0]["proof"]
    proof.update(rows=proof["rows"][1:], may=sorted([*proof["may"], proof["rows"][0]]))


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (unprove, "queue: invalid without a proof"),
        (let_go, "the sub-history does not hold: there is an order"),
        (change(may=[]), "is left out, and may matter"),
        (change(rows=[]), "no operation has to be explained"),
        (change(since=0), "does not tell all that the object then holds"),
        (change(since=6, may=[]), "does not tell all that the object then holds"),
        (change(since=4), "an operation is named twice"),
        (change(rows=[9, 99], may=[]), "event 99 invokes no operation on it"),
        (change(rows=[8], may=[]), "the operation of event 8 need not have taken effect"),
        (change(rows=[4, 4]), "an operation is named twice"),
        (change(about=["1"]), "there is an order"),
        (change(about=["7"]), "the operation of event 2 is left out, and may matter"),
        (change(about=None), "the operation of event 2 is left out, and may matter"),
        (change(key="z"), "the history has no such key"),
        (change(kind="window"), "no proof about objects is a 'window'"),
        (change(name="mutex"), "it is about another object, 'mutex'"),
    ],
)
def test_what_does_not_prove_a_violation_is_refused(tamper: Callable[[dict[str, Any]], None], why: str) -> None:
    operations = queue_out_of_order()
    verdict = kept(judged("queue", operations))
    assert confirm(history_of(operations), verdict) == 1
    tamper(verdict)
    with pytest.raises(ProofFails) as raised:
        confirm(history_of(operations), verdict)
    assert why in raised.value.message


def test_a_dequeue_of_unknown_result_took_nothing_that_others_used_up() -> None:
    """Something was enqueued without an answer and may have been taken, but it is not what the proof is about."""
    calls = [
        Drawn(2, "dequeue", None, None, 0, 90, False),
        Drawn(0, "enqueue", 2, None, 1, 2, True),
        Drawn(0, "enqueue", 655, None, 3, 4, True),
        Drawn(0, "enqueue", 2, None, 5, 7, True),
        Drawn(1, "dequeue", None, 2, 6, 8, True),
        Drawn(1, "dequeue", None, 2, 9, 10, True),
        Drawn(3, "enqueue", 392, None, 13, 91, False),
        Drawn(1, "dequeue", None, 655, 14, 15, True),
    ]
    operations = operations_of(calls)
    (witness,) = judged("queue", operations).witnesses
    assert witness.proof is not None and witness.proof.about == ("2", "655")
    assert 0 not in (*witness.proof.rows, *witness.proof.may)


def test_orders_that_are_none_are_refused() -> None:
    calls = [
        Drawn(0, "add", "a", None, 0, 1, True),
        Drawn(0, "remove", "a", None, 2, 3, True),
        Drawn(1, "contains", "a", False, 4, 5, True),
        Drawn(1, "contains", "b", False, 6, 7, True),
    ]
    operations = operations_of(calls)
    verdict = kept(judged("add-remove-set", operations))
    assert confirm(history_of(operations), verdict) == 2
    first = verdict["proofs"][0]
    for rows in ([2, 0, 4], [0, 2], [0, 2, 4, 4], [0, 4, 2], [0, 2, 99]):
        with pytest.raises(ProofFails, match="the order does not hold"):
            confirm(history_of(operations), {**verdict, "proofs": [{**first, "rows": rows}, verdict["proofs"][1]]})
    with pytest.raises(ProofFails, match="orders of some objects only"):
        confirm(history_of(operations), {**verdict, "proofs": [first]})


def test_an_order_keeps_real_time() -> None:
    calls = [Drawn(0, "increment", None, None, 2 * i, 2 * i + 1, True) for i in range(2)]
    rows = KeyRows(operations_of([*calls, Drawn(1, "read", None, 2, 4, 5, True)]), "counter", None)
    assert rows.explained([0, 2, 4]) is None
    assert rows.explained([2, 0, 4]) == (
        "the operation of event 0 had returned before others were invoked that it follows"
    )


def test_orders_of_elements_do_not_prove_a_set_that_was_read_as_a_whole() -> None:
    calls = [Drawn(0, "add", "a", None, 0, 1, True), Drawn(1, "members", None, ["a"], 2, 3, True)]
    operations = operations_of(calls)
    verdict = kept(judged("add-remove-set", operations))
    (proof,) = verdict["proofs"]
    assert proof["about"] is None and confirm(history_of(operations), verdict) == 1
    with pytest.raises(ProofFails, match="orders of some objects only"):
        confirm(history_of(operations), {**verdict, "proofs": [{**proof, "about": ['"a"']}]})


def test_what_was_invoked_before_the_first_answer_need_not_come_behind_it() -> None:
    """The second addition may be in the sum that the first read tells."""
    calls = [
        Drawn(0, "increment", None, None, 0, 1, True),
        Drawn(0, "increment", None, None, 2, 5, True),
        Drawn(1, "read", None, 2, 3, 4, True),
        Drawn(1, "read", None, 2, 6, 7, True),
    ]
    rows = KeyRows(operations_of(calls), "counter", None)
    assert rows.refuted([2, 6], [], 3, STEPS) == Objection(
        reason="the operation of event 2 need not come behind that of event 3"
    )
    assert rows.refuted([6], [], 3, STEPS) == Objection(reason="the operation of event 2 is left out, and may matter")
    assert rows.refuted([6], [2], 3, STEPS) == Objection(reason="there is an order: [6]")


def test_an_account_covers_what_was_taken_before_its_balance_was_told() -> None:
    def moved(source: str, target: str, amount: int, at: int) -> Drawn:
        return Drawn(0, "transfer", {"from": source, "to": target, "amount": amount}, None, at, at + 1, True)

    calls = [moved("a", "b", 3, 0), moved("b", "a", 3, 2), moved("a", "b", 1, 4)]
    for told, refuted in ((1, True), (2, False)):
        operations = operations_of([*calls, Drawn(1, "read", None, {"a": told, "b": 9}, 6, 7, True)])
        verdict = kept(judged("bank", operations))
        assert bool(verdict["anomalies"]) == refuted and confirm(history_of(operations), verdict) == 1


def test_an_append_of_unknown_outcome_goes_behind_what_is_there() -> None:
    for offset, refuted in ((3, True), (7, False)):
        calls = [
            Drawn(0, "append", "a", [5, "a"], 0, 1, True),
            Drawn(0, "append", "b", None, 2, 90, False),
            Drawn(1, "read", offset, [offset, "b"], 4, 5, True),
        ]
        verdict = kept(judged("append-log", operations_of(calls)))
        assert bool(verdict["anomalies"]) == refuted
        assert confirm(history_of(operations_of(calls)), verdict) == 1


def test_a_part_holds_its_own_of_what_is_there_at_first() -> None:
    calls = operations_of([Drawn(0, "members", None, [1, 2], 0, 1, True)])
    why = KeyRows(calls, "linearizable-set:[1,2]", ("1",)).refuted([0], [], None, STEPS)
    assert why is not None and why.reason.startswith("there is an order")


def test_two_appends_get_two_offsets() -> None:
    calls = [
        Drawn(0, "append", value, [offset, value], at, at + 1, True)
        for value, offset, at in (("a", 5, 0), ("b", 5, 2), ("c", 6, 4))
    ]
    rows = KeyRows(operations_of(calls[::2]), "append-log", None)
    assert rows.explained([0, 2]) is None
    assert rows.explained([2, 0]) is not None
    rows = KeyRows(operations_of(calls[:2]), "append-log", None)
    assert rows.explained([0, 2]) == "the operation of event 2 cannot follow those before it"


def test_a_proof_that_does_not_hold_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [Drawn(i, "acquire", None, None, 2 * i, 2 * i + 1, True) for i in range(2)]
    bogus = VerdictProof(kind="sub-history", name="mutex", rows=(0,))
    monkeypatch.setattr(judging, "minimal_proof", lambda *_: bogus)
    verdict = judged("mutex", operations_of(calls))
    assert (verdict.validity, verdict.cause, verdict.counts) == (Validity.UNKNOWN, Cause.FAILED, {})
    assert "does not confirm that: there is an order: [0]" in verdict.reason


def test_a_proof_that_is_confirmed_too_late_is_not_told_and_no_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the machine sleeps between the two: the verdict stands, by the search that refused it."""
    calls = [Drawn(i, "acquire", None, None, 2 * i, 2 * i + 1, True) for i in range(2)]

    def found_before(*given: Any) -> VerdictProof | None:
        found = minimal_proof(*given)
        monkeypatch.setattr(sub_history, "_WALL_S", -1.0)
        return found

    monkeypatch.setattr(judging, "minimal_proof", found_before)
    verdict = judged("mutex", operations_of(calls))
    assert (verdict.validity, verdict.counts) == (Validity.INVALID, {"two-holders": 1})
    assert [witness.proof for witness in verdict.witnesses] == [None]


def test_a_semaphore_s_proof_names_its_permits() -> None:
    calls = [Drawn(i, "acquire", None, None, 2 * i, 2 * i + 1, True) for i in range(3)]
    operations = operations_of(calls)
    verdict = kept(judged("semaphore:2", operations))
    assert verdict["witnesses"][0]["proof"]["name"] == "semaphore:2"
    assert confirm(history_of(operations), verdict) == 1
    change(name="semaphore:3")(verdict)
    with pytest.raises(ProofFails, match="there is an order"):
        confirm(history_of(operations), verdict)


def test_of_equal_calls_that_never_return_any_will_do() -> None:
    """Thirty equal additions of unknown outcome are thirty ways, not all their subsets."""
    calls = [SearchedCall(1, i, None) for i in range(30)] + [SearchedCall(0, 100, 101)]

    def step(wanted: int) -> Callable[[int, int], int | None]:
        return lambda state, kind: state + 1 if kind else state if state == wanted else None

    assert search(calls, step(31), steps=5_000, wall_s=60.0).failed == 30
    assert search(calls, step(30), steps=5_000, wall_s=60.0).order == (*range(30), 30)
