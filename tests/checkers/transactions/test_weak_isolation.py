"""Models weaker than serializability: cases, brute-force oracles, and circles that the proof must refuse."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Final

import numpy as np
import pytest

from fencepost.checkers import _core
from fencepost.checkers.transactions.anomalies import TransactionVerdict, check_list_append, check_register
from fencepost.checkers.transactions.columns import FAIL, NIL, OK, READ, WRITE, TransactionColumns
from fencepost.checkers.transactions.exhaustion import (
    ALL,
    OWN_WRITES,
    TRANSACTIONS_MAX,
    VERSIONS,
    Exhaustion,
    is_exhausted,
)
from fencepost.checkers.transactions.proof import CycleStep, RegisterProof
from fencepost.checkers.transactions.weak_isolation import (
    COMMITS,
    SNAPSHOTS,
    CommitCircle,
    CommitStep,
    commits,
    is_circle,
)
from fencepost.harness.base.errors import Contradiction, ExitCode
from fencepost.harness.verdict import Cause, Stop, Validity
from fencepost.harness.verdict.consistency_models import NAMES, implied
from tests.checkers.transactions.transaction_histories import (
    Op,
    Shape,
    Txn,
    columns,
    explainable,
    exposed,
    replicated,
    simulated,
    small,
    spliced,
    told,
)
from tests.checkers.transactions.transaction_oracle import kept_by_commits, kept_by_schedule, kept_by_visibility
from tests.seeds import shares

SMALL: Final = 250
SMALL_LONG: Final = 20_000


def judged(txns: list[Txn], model: str, *, lists: bool) -> TransactionVerdict:
    return (check_list_append if lists else check_register)(columns(txns), model=model)


def judged_columns(history: TransactionColumns, model: str, *, lists: bool) -> TransactionVerdict:
    return (check_list_append if lists else check_register)(history, model=model)


def _compare(seeds: range, *, lists: bool) -> dict[str, list[int]]:
    seen = {model: [0, 0, 0] for model in (*COMMITS, *SNAPSHOTS)}
    for seed in seeds:
        txns = small(random.Random(f"weak {lists} {seed}"), lists=lists, most=5)
        if not exposed(txns):
            continue
        for model in COMMITS:
            verdict = judged(txns, model, lists=lists)
            kept = kept_by_commits(txns, model, lists=lists)
            _hold(verdict, kept, (seed, model, txns))
            seen[model][list(Validity).index(verdict.validity)] += 1
            # Whoever decides, decides: but for what a transaction reads against its own writes.
            assert verdict.validity is not Validity.UNKNOWN or "internal" in verdict.anomalies, (seed, model, txns)
        for model, (sessions, realtime) in SNAPSHOTS.items():
            verdict = judged(txns, model, lists=lists)
            kept = kept_by_schedule(txns, sessions=sessions, realtime=realtime, lists=lists)
            _hold(verdict, kept, (seed, model, txns))
            # Of so few transactions, every schedule is tried where nothing shorter decides.
            assert verdict.validity is (Validity.VALID if kept else Validity.INVALID), (seed, model, txns)
            seen[model][list(Validity).index(verdict.validity)] += 1
    return seen


def _hold(verdict: TransactionVerdict, kept: bool, given: object) -> None:
    assert verdict.validity is not Validity.VALID or kept, (given, verdict)
    assert verdict.validity is not Validity.INVALID or not kept, (given, verdict)


def test_an_own_append_that_only_a_second_read_shows_early_is_a_future_read() -> None:
    """Against the first read it is `internal`, which alone does not rule out read committed."""
    reads = (Op(READ, "x", seen=()), Op(READ, "x", seen=(1,)))
    txn = Txn(ops=(*reads, Op(WRITE, "x", 1)), invoked=0, completed=1, process=0, outcome=OK)
    verdict = judged([txn], "read-committed", lists=True)
    assert (verdict.validity, verdict.anomalies) == (Validity.INVALID, {"internal": 1, "future-read": 1})


@pytest.mark.parametrize("seeds", shares(SMALL, quick=80, rest=pytest.mark.slow))
@pytest.mark.parametrize("lists", [True, False])
def test_weak_models_agree_with_all_orders_tried(lists: bool, seeds: range) -> None:
    seen = _compare(seeds, lists=lists)
    for model, counts in seen.items():
        least = min(counts[list(Validity).index(v)] for v in (Validity.VALID, Validity.INVALID))
        assert least >= len(seeds) // 50, (model, counts)


#: Registers: (history, what it shows, the weakest model that this rules out, a model that holds nevertheless).
CASES: Final = {
    "observed-transaction-vanishes": (("wx1 wy1", "rx1 ry_"), "monotonic-atomic-view", "read-committed"),
    "observed-transaction-vanishes-process": (
        ("wx1 #1 @0-1", "wx2 wy2 #1 @2-3", "ry2 rx1 #2 @4-9"),
        "session-read-committed",
        "monotonic-atomic-view",
    ),
    "fractured-reads": (("wx1 wy1", "ry_ rx1"), "read-atomic", "monotonic-atomic-view"),
    "fractured-reads-process": (("wx1 #1 @0-1", "rx_ #1 @2-3"), "session-read-atomic", "causal-cerone"),
    "causality-violation": (("wx1", "rx1 wy1", "ry1 rx_"), "causal-cerone", "read-atomic"),
    "causality-violation-process": (("wx1 #1 @0-1", "wy1 #1 @2-3", "ry1 rx_ #2 @0-9"), "causal", "session-read-atomic"),
    "monotonic reads": (("wx1 #1 @0-9", "rx1 #2 @0-1", "rx_ #2 @2-3"), "causal", "read-atomic"),
    "long fork": (("wx1", "wy1", "rx1 ry_", "ry1 rx_"), "", "causal"),
    "write skew": (("rx_ wy1", "ry_ wx1"), "", "snapshot-isolation"),
    "lost update": (("rx_ wx1", "rx_ wx2"), "parallel-snapshot-isolation", "causal"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_model_is_told_from_the_next_weaker_one(name: str) -> None:
    rows, broken, kept = CASES[name]
    if broken:
        verdict = judged(told(*rows), broken, lists=False)
        assert verdict.validity is Validity.INVALID and broken in verdict.ruled_out, verdict
        assert verdict.findings[0].steps
        assert broken not in COMMITS or name in verdict.anomalies or name == "monotonic reads"
    verdict = judged(told(*rows), kept, lists=False)
    assert verdict.validity is Validity.VALID and verdict.certificate and verdict.order is not None, verdict


def test_a_circle_of_commits_is_told_step_by_step() -> None:
    verdict = judged(told("wx1 wy1", "wx2 wy2", "rx1 ry2", "ry1 rx2"), "read-atomic", lists=False)
    assert verdict.anomalies == {"fractured-reads": 1}
    assert verdict.findings[0].steps == (
        "T0 < T1: T2 had to see 1 of T0 in key y (T2 read 1 from key x, which T0 had written), but read 2 of T1: that "
        "was committed later",
        "T1 < T0: T2 had to see 2 of T1 in key x (T2 read 2 from key y, which T1 had written), but read 1 of T0: that "
        "was committed later",
        "each would have to commit before the next, and the last before the first",
    )


def test_the_proof_refuses_circles_that_the_rows_do_not_show() -> None:
    proof = RegisterProof(columns(told("wx1 wy1", "ry_ rx1", "wy2")))
    seen = CycleStep(0, 1, "wr", 0, 3, -1, -1)
    step = CycleStep(0, -1, "ww", 1, -1, -1, -1)
    assert is_circle(proof, CommitCircle("fractured-reads", (CommitStep(step, 2, (seen,)),)))
    # It read y before x, so that T0 was not seen yet; nothing of it rests on processes; T1 read x, not y, from T0.
    assert not is_circle(proof, CommitCircle("observed-transaction-vanishes", (CommitStep(step, 2, (seen,)),)))
    assert not is_circle(proof, CommitCircle("fractured-reads-process", (CommitStep(step, 2, (seen,)),)))
    for wrong in (step._replace(before_op=0), step._replace(before=2, before_op=4), step._replace(after=2, after_op=4)):
        assert not is_circle(proof, CommitCircle("fractured-reads", (CommitStep(wrong, 2, (seen,)),)))
    assert not is_circle(proof, CommitCircle("fractured-reads", (CommitStep(step, 2, (seen._replace(after=2),)),)))
    assert not is_circle(proof, CommitCircle("fractured-reads", ()))


def test_a_circle_that_the_rows_do_not_show_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    history = columns(told("wx1", "wx2", "rx1"))
    assert isinstance(commits(history, "causal", lists=False), np.ndarray)
    circle: list[object] = [((0, 1, "ww", 0, 1, -1, -1), -1, []), ((1, 0, "ww", 1, 0, -1, -1), -1, [])]
    forged = SimpleNamespace(order=None, circle=circle, anomalies=[], counts=[], misses_own=False)
    monkeypatch.setattr(_core, "check_weak_isolation", lambda *_, **__: forged)
    with pytest.raises(Contradiction, match=r"found a G0, and the rows of its circle do not confirm it"):
        commits(history, "causal", lists=False)
    # Times beside each other, and a stale read: no serial order that keeps real time is there to answer before.
    late = columns(told("wx1 @0-1", "wx2 @2-3", "rx1 @4-5"))
    verdict = judged_columns(late, "causal", lists=False)
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.FAILED)
    assert "do not confirm it" in verdict.reason and not verdict.anomalies


@pytest.mark.parametrize("asked", ["check_weak_isolation", "check_rw_register"])
def test_an_answer_that_the_native_core_itself_does_not_confirm_is_unknown(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(*_: object, **__: object) -> None:
        raise RuntimeError("a planted defect")

    monkeypatch.setattr(_core, asked, planted)
    late = columns(told("wx1 @0-1", "wx2 @2-3", "rx1 @4-5"))
    if asked == "check_rw_register":
        # Nothing at all is known: whoever asked gives the verdict.
        with pytest.raises(Contradiction, match="does not confirm its answer: a planted defect") as raised:
            judged_columns(late, "strict-serializable", lists=False)
        assert raised.value.exit_code is ExitCode.UNKNOWN
        return
    verdict = judged_columns(late, "causal", lists=False)
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.FAILED)
    assert "a planted defect" in verdict.reason


def _side_by_side(transactions: int, sessions: int, names: Sequence[str] = "abcdefgh") -> TransactionColumns:
    """A serial store's history of registers whose sessions share no clock: each counts its own transactions."""
    rng, last, count = random.Random("side by side"), dict[str, int](), [0] * sessions
    txns = []
    for number in range(1, transactions + 1):
        process, key, other = rng.randrange(sessions), *rng.sample(names, 2)
        ops = [Op(READ, other, last.get(other, NIL)), Op(WRITE, key, number)]
        last[key] = number
        txns.append(Txn(tuple(ops), 2 * count[process], 2 * count[process] + 1, process))
        count[process] += 1
    return columns(txns)


@pytest.mark.parametrize("model", ["causal", "causal-cerone", "read-atomic", "session-read-committed"])
def test_cycles_of_real_time_are_not_looked_for_unless_they_are_asked_for(model: str) -> None:
    """No clock is shared, so nearly everything is one component of real time."""
    history = _side_by_side(300, 10)
    strict = check_register(history)
    assert strict.validity is Validity.INVALID and strict.figures["components"] == 1
    verdict = check_register(history, model=model)
    assert (verdict.validity, verdict.anomalies) == (Validity.VALID, {})
    assert (verdict.figures["components"], verdict.figures["steps"]) == (0, 0)


def test_cycles_without_real_time_are_found_all_the_same() -> None:
    """A step of a process and a stale read; and one of real time, which only a model with real time asks for."""
    rows = ("wx1 #1 @0-1", "rx_ #1 @2-3", "wy1 #2 @4-5", "ry_ #3 @6-7")
    for model, expected in (("causal", {"G-single-process"}), ("strict-serializable", {"G-single-process"})):
        verdict = check_register(columns(told(*rows)), model=model)
        assert verdict.validity is Validity.INVALID
        assert expected <= {name for name in verdict.anomalies if name.startswith("G")}, verdict.anomalies
    assert "G-single-realtime" in check_register(columns(told(*rows[2:]))).anomalies
    assert check_register(columns(told(*rows[2:])), model="causal").anomalies == {}


def test_a_search_for_an_order_of_commits_says_what_ended_it() -> None:
    rng = random.Random("spent")
    history = columns(simulated(rng, Shape(transactions=200, isolation="serializable", keys=4, lists=True)))
    assert commits(history, "causal", lists=True, steps=1) is Stop.STEPS
    assert isinstance(commits(history, "causal", lists=True), np.ndarray)


@pytest.mark.parametrize(("sessions", "keys"), [(5, 40), (5, 400), (40, 400)])
def test_causality_costs_no_step_for_each_key_and_transaction(sessions: int, keys: int) -> None:
    """Keys live from the first transaction to the last, so a search of each key's life would take their product."""
    transactions = 4_000
    history = _side_by_side(transactions, sessions, [f"k{number}" for number in range(keys)])
    # An order is looked through twice, and what every order must keep is collected once.
    steps = 3 * 5 * transactions * -(-sessions // 16)
    assert steps < keys * transactions
    assert isinstance(commits(history, "causal", lists=False, steps=steps), np.ndarray)


#: Registers that no cycle of certain edges refutes, and that no order explains.
UNDECIDED_BY_EDGES: Final = dict.fromkeys(
    ("serializable", "snapshot-isolation", "repeatable-read", *VERSIONS),
    ("ry3 rx1 @8-21 #1", "wx1 wy2 ry2 @28-45 #1", "wy3 rx_ @18-35 #0"),
)


@pytest.mark.parametrize("model", UNDECIDED_BY_EDGES)
def test_what_no_edge_decides_is_refuted_by_all_orders(model: str) -> None:
    rows = UNDECIDED_BY_EDGES[model]
    verdict = judged(told(*rows), model, lists=False)
    name = ALL[model]
    assert verdict.validity is Validity.INVALID and verdict.anomalies[name] == 1
    found = next(finding for finding in verdict.findings if finding.anomaly == name)
    assert isinstance(found.proof, Exhaustion) and found.transactions == (0, 1, 2)
    assert is_exhausted(columns(told(*rows)), found.proof, lists=False)
    # Of fewer transactions, and of another kind of order, the claim does not hold; nor of a history that has an order.
    assert not is_exhausted(columns(told(*rows)), found.proof._replace(transactions=(0, 1)), lists=False)
    assert not is_exhausted(columns(told(*rows)), found.proof._replace(name="G0"), lists=False)
    assert not is_exhausted(columns(told(rows[0].replace("ry3 rx1", "ry3"), *rows[1:])), found.proof, lists=False)


def _decide(seeds: range, *, lists: bool) -> Counter[tuple[str, Validity]]:
    """Compare models that orders of versions decide with their axioms, and repeatable read with all serial orders."""
    counted: Counter[tuple[str, Validity]] = Counter()
    for seed in seeds:
        txns = small(random.Random(f"six {lists} {seed}"), lists=lists, most=5)
        if not exposed(txns):
            continue
        seen = kept_by_visibility(txns, lists=lists)
        serial = explainable(txns, realtime=False, lists=lists)
        for model, kept in (*((model, seen) for model in VERSIONS), ("repeatable-read", serial)):
            verdict = judged(txns, model, lists=lists)
            if verdict.validity is Validity.UNKNOWN:
                # Neither says what a transaction that misses its own writes may have read.
                assert model in OWN_WRITES and "internal" in verdict.anomalies, (seed, model, txns, verdict)
                continue
            _hold(verdict, kept, (seed, model, txns))
            counted[model, verdict.validity] += 1
    return counted


@pytest.mark.parametrize("lists", [True, False])
def test_models_of_few_transactions_are_always_decided(lists: bool) -> None:
    counted = _decide(range(60), lists=lists)
    assert len(counted) == 6 and min(counted.values()) >= 5, counted


@pytest.mark.long
@pytest.mark.parametrize("lists", [True, False])
def test_models_of_few_transactions_are_always_decided_at_length(lists: bool) -> None:
    assert min(_decide(range(60, 6_000), lists=lists).values()) >= 500


def test_of_more_transactions_not_all_orders_are_tried() -> None:
    rows = UNDECIDED_BY_EDGES["serializable"]
    more = [f"wz{i} @{100 + 2 * i}-{101 + 2 * i}" for i in range(TRANSACTIONS_MAX - 2)]
    assert judged(told(*rows, *more), "serializable", lists=False).validity is Validity.UNKNOWN


#: Seeds whose disagreement the long comparison found: repeated reads, and a second read of one transaction's writes.
FOUND: Final = {True: (1477, 3901), False: (16112,)}


@pytest.mark.parametrize("lists", [True, False])
def test_histories_that_once_were_misjudged(lists: bool) -> None:
    for seed in FOUND[lists]:
        _compare(range(seed, seed + 1), lists=lists)


#: Lists that their own transaction's appends end, elements that stand twice, and a read of a later append: each once
#: made the search and its proof disagree, or was taken for kept.
OF_THEIR_OWN: Final = {
    "each appender reads only its own": ("ax1 rx1", "ax2 rx2"),
    "both appended first": ("rx ax1 rx1", "rx ax2 rx2"),
    "an element twice": ("ax1 rx1,1 ax2", "ax3 rx1 ax4"),
    "out of order": ("ax1 ax2 rx2,1 ax3", "rx2,1 ax4"),
    "only the second of three reads shows it": ("rx rx2,1 rx ax1", "rx ax2"),
}


@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_own_elements_in_lists_are_judged_as_all_orders_tried_say(name: str) -> None:
    txns = told(*OF_THEIR_OWN[name])
    for model in NAMES:
        verdict = judged(txns, model, lists=True)
        kept = model not in COMMITS or kept_by_commits(txns, model, lists=True)
        assert verdict.validity is not Validity.VALID or kept, (model, verdict)
    assert judged(txns, "read-committed", lists=True).validity is Validity.INVALID


def _jumbled(rng: random.Random) -> list[Txn]:
    """Up to four transactions on one list, whose reads show any elements in any order, some of them twice."""
    written, shapes = 0, list[list[int]]()
    for _ in range(rng.randint(1, 4)):
        shape = []
        for _ in range(rng.randint(1, 4)):
            written += 1
            shape.append(written if rng.random() < 0.5 else 0)
        shapes.append(shape)
    values = [value for shape in shapes for value in shape if value]
    txns = []
    for place, shape in enumerate(shapes):
        ops, held, own = list[Op](), list[int](), list[int]()
        for value in shape:
            if value:
                ops.append(Op(WRITE, "x", value))
                own.append(value)
                continue
            any_of = rng.sample(values, rng.randint(0, len(values)))
            seen = rng.choice((held + own, own, any_of))
            if seen and rng.random() < 0.25:
                seen = [*seen, rng.choice(seen)]
            held, own = list(seen), []
            ops.append(Op(READ, "x", 0, tuple(seen)))
        txns.append(Txn(tuple(ops), place, 1000 + place, 200 + place))
    return txns


@pytest.mark.parametrize("seeds", shares(600, quick=200, rest=pytest.mark.slow))
def test_findings_about_jumbled_lists_are_confirmed_under_every_model(seeds: range) -> None:
    """Whatever is found is derived again by the proof: a disagreement would raise."""
    invalid = 0
    for seed in seeds:
        txns = _jumbled(random.Random(f"jumbled {seed}"))
        is_tested = exposed(txns)
        for model in ("read-committed", "causal", "strict-serializable"):
            verdict = judged(txns, model, lists=True)
            if is_tested and model in COMMITS:
                _hold(verdict, kept_by_commits(txns, model, lists=True), (seed, model, txns))
            invalid += verdict.validity is Validity.INVALID
    assert invalid > len(seeds)


#: The strongest model that each simulated store keeps; the snapshots that its transactions see are current.
KEPT: Final = {
    "serializable": "strict-serializable",
    "snapshot": "strong-snapshot-isolation",
    "read-committed": "monotonic-atomic-view",
}
#: What many histories of such a store must show at least once.
BROKEN: Final = {"snapshot": "serializable", "read-committed": "read-atomic"}


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("isolation", ["serializable", "snapshot", "read-committed"])
def test_simulated_stores_are_never_accused_of_what_they_keep(isolation: str, lists: bool) -> None:
    kept, broken = KEPT[isolation], BROKEN.get(isolation)
    refuted = shown = 0
    for seed in range(12):
        rng = random.Random(f"weak {isolation} {seed}")
        shape = Shape(transactions=60, isolation=isolation, info=0.05, fails=0.05, keys=rng.randint(2, 6), lists=lists)
        history = columns(simulated(rng, shape))
        for model in sorted(implied(kept) - {"read-uncommitted"}):
            verdict = (check_list_append if lists else check_register)(history, model=model)
            assert verdict.validity is not Validity.INVALID, (seed, model, verdict)
            shown += model == kept and verdict.validity is Validity.VALID
            assert model not in COMMITS or verdict.validity is Validity.VALID, (seed, model, verdict)
        if broken:
            refuted += judged_columns(history, broken, lists=lists).validity is Validity.INVALID
    assert shown >= 9
    assert not broken or refuted >= 1


@pytest.mark.parametrize("keys", [3, 10, 100])
def test_contended_registers_of_a_store_of_snapshots_have_a_schedule(keys: int) -> None:
    skewed = 0
    for clients, info in ((5, 0.0), (20, 0.05)):
        rng = random.Random(f"snapshots {keys} {clients}")
        shape = Shape(
            transactions=300, clients=clients, keys=keys, per_key=10**6, isolation="snapshot", info=info, lists=False
        )
        history = columns(simulated(rng, shape))
        for model in SNAPSHOTS:
            verdict = check_register(history, model=model)
            assert verdict.validity is Validity.VALID and verdict.certificate, (model, clients, verdict)
        skewed += check_register(history).validity is not Validity.VALID
    # On many keys few transactions meet.
    assert skewed or keys == 100


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_lists_with_a_write_skew_have_a_schedule(isolation: str) -> None:
    for keys, clients, reads in ((3, 20, 0.5), (10, 20, 0.5), (30, 10, 0.1)):
        rng = random.Random(f"skewed {isolation} {keys} {reads}")
        shape = Shape(
            transactions=300, clients=clients, keys=keys, per_key=5, reads=reads, isolation=isolation, info=0.05
        )
        history = columns(spliced(simulated(rng, shape), told("rx ay1", "ry ax1"), 0.5))
        assert check_list_append(history).anomalies["G2-item"]
        for model in SNAPSHOTS:
            verdict = check_list_append(history, model=model)
            assert verdict.validity is Validity.VALID and verdict.certificate, (model, keys, verdict)


@pytest.mark.parametrize("sticky", [True, False])
def test_replicas_that_merge_are_causal_only_if_clients_stay_with_one(sticky: bool) -> None:
    refuted = 0
    for seed in range(15):
        history = columns(replicated(random.Random(f"replicas {seed}"), transactions=60, sticky=sticky))
        assert judged_columns(history, "read-atomic", lists=False).validity is Validity.VALID
        causal = judged_columns(history, "causal", lists=False)
        assert causal.validity is not Validity.UNKNOWN
        assert not sticky or causal.validity is Validity.VALID, causal
        refuted += causal.validity is Validity.INVALID
        assert judged_columns(history, "strict-serializable", lists=False).validity is not Validity.VALID
    assert sticky or refuted >= 10


@pytest.mark.parametrize("seeds", shares(60, quick=20, rest=pytest.mark.slow))
def test_names_times_and_failures_without_effect_change_no_verdict(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(f"metamorphic {seed}")
        lists = bool(seed % 2)
        txns = small(rng, lists=lists)
        unread = [txn for txn in txns if txn.outcome != FAIL or any(op.kind == WRITE for op in txn.ops)]
        changed = [
            replace(
                txn,
                process=1000 - txn.process,
                invoked=7 * txn.invoked + 5,
                completed=7 * txn.completed + 5,
                ops=tuple(replace(op, key=f"renamed {op.key}") for op in txn.ops),
            )
            for txn in unread
        ]
        for model in NAMES:
            before, after = judged(txns, model, lists=lists), judged(changed, model, lists=lists)
            assert (before.validity, before.anomalies) == (after.validity, after.anomalies), (seed, model)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("lists", [True, False])
def test_weak_models_agree_with_all_orders_tried_at_length(lists: bool) -> None:
    print(_compare(range(SMALL, SMALL + SMALL_LONG), lists=lists))
