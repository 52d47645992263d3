"""Transactions: every anomaly and its near miss, a brute-force oracle, and simulated stores of known isolation."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from fencepost.checkers import _core
from fencepost.checkers.transactions.anomalies import STRICT, TransactionVerdict, check_list_append, check_register
from fencepost.checkers.transactions.columns import OK, READ, WRITE
from fencepost.checkers.transactions.proof import CycleProof, CycleStep, ListProof, NativeAnomaly, RegisterProof
from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.verdict import Cause, Stop, Validity
from fencepost.harness.verdict.consistency_models import NAMES
from tests.checkers.transactions.transaction_histories import (
    Op,
    Shape,
    Txn,
    columns,
    explainable,
    exposed,
    ring,
    simulated,
    small,
    spliced,
    told,
)
from tests.seeds import shares

SMALL: Final = 1_200
SMALL_LONG: Final = 40_000

#: Histories of lists by the anomaly that they show, with all others that come with it.
LIST_ANOMALIES: Final = {
    "G0": (("ax1 ay1", "ax2 ay2", "rx1,2", "ry2,1"), {"G0"}),
    "G1a": (("ax1 !fail", "rx1"), {"G1a"}),
    "G1b": (("ax1 ax2", "rx1"), {"G1b", "G-single"}),
    "G1c": (("ax1 ry1", "ay1 rx1"), {"G1c"}),
    "G-single": (("ax1 ay1", "rx ry1"), {"G-single"}),
    "G-nonadjacent": (("rx ry1", "ax1", "rx1 ry", "ay1"), {"G-nonadjacent"}),
    "G2-item": (("rx ay1", "ry ax1"), {"G2-item"}),
    "internal": (("ax1 rx",), {"internal"}),
    "future-read": (("rx1 ax1",), {"future-read"}),
    "garbage-read": (("ax1", "rx1,7"), {"garbage-read"}),
    "duplicate-elements": (("ax1", "rx1,1"), {"duplicate-elements"}),
    "incompatible-order": (("ax1", "ax2", "rx1", "rx2"), {"incompatible-order"}),
    "dirty-update": (("ax1 !fail", "ax2", "rx1,2"), {"dirty-update", "G1a"}),
    "lost-update": (("rx ax1", "rx ax2", "rx1,2"), {"lost-update", "G-single"}),
    "G0-process": (("ax1 @0-5 #1", "ax2 @6-9 #1", "rx2,1 @1-20 #2"), {"G0-process", "G0-realtime"}),
    "G0-realtime": (("ax1 @0-5 #1", "ax2 @6-9 #2", "rx2,1 @1-20 #3"), {"G0-realtime"}),
    "G1c-process": (("rx1 @0-5 #1", "ax1 @6-9 #1"), {"G1c-process", "G1c-realtime"}),
    "G1c-realtime": (("rx1 @0-5 #1", "ax1 @6-9 #2"), {"G1c-realtime"}),
    "G-single-process": (("ax1 @0-5 #1", "rx @6-9 #1"), {"G-single-process", "G-single-realtime"}),
    "G-single-realtime": (("ax1 @0-5 #1", "rx @6-9 #2", "rx1 @10-12 #2"), {"G-single-realtime"}),
    "G-nonadjacent-realtime": (
        ("rx ry1 @0-30 #1", "ax1 @1-5 #2", "ry @6-20 #3", "ay1 @0-31 #4"),
        {"G-nonadjacent-realtime"},
    ),
    "G2-item-realtime": (("rx @10-20 #1", "ax1 ry @0-30 #2", "ay1 @1-5 #3"), {"G2-item-realtime"}),
}

#: Histories that look alike and are fine; all are strict serializable.
LIST_NEAR_MISSES: Final = {
    "G0": ("ax1 ay1", "ax2 ay2", "rx1,2", "ry1,2"),
    "G1a": ("ax1 !info", "rx1"),
    "G1b": ("ax1 ax2", "rx1,2"),
    "G1b-own": ("ax1 rx1 ax2", "rx1,2"),
    "G1c": ("ax1 ry", "ay1 rx1"),
    "G-single": ("ax1 ay1", "rx ry", "rx1 ry1"),
    "G2-item": ("rx ay1", "ry1 ax1"),
    "internal": ("ax1 rx1 rx1 ax2 rx1,2",),
    "future-read": ("ax1 rx1",),
    "lost-update": ("rx ax1", "rx1 ax2", "rx1,2"),
    "lost-update-info": ("rx ax1", "rx? ax2 !info", "rx1"),
    "realtime-concurrent": ("ax1 @0-7 #1", "rx @6-9 #2"),
    "info-later": ("ax1 @0-1 #1 !info", "rx @2-3 #2", "rx1 @4-5 #2"),
    "info-unseen": ("ax1 ay1 @0-1 #1 !info", "rx ry @2-3 #2"),
    "fail-unseen": ("ax1 @0-1 #1 !fail", "rx @2-3 #2"),
    "unseen-appends": ("ax1", "ax2", "rx", "rx"),
}

REGISTER_ANOMALIES: Final = {
    "G1a": (("wx1 !fail", "rx1"), {"G1a"}),
    "G1b": (("wx1 wx2", "rx1"), {"G1b"}),
    "G1c": (("wx1 ry1", "wy1 rx1"), {"G1c"}),
    "G-single": (("wx1 wy1", "rx_ ry1"), {"G-single"}),
    "G2-item": (("rx_ wy1", "ry_ wx1"), {"G2-item"}),
    "internal": (("wx1 rx_",), {"internal"}),
    "future-read": (("rx1 wx1",), {"future-read"}),
    "garbage-read": (("wx1", "rx7"), {"garbage-read"}),
    "dirty-update": (("wx1 !fail", "rx1 wx2"), {"dirty-update", "G1a"}),
    "lost-update": (("rx_ wx1", "rx_ wx2"), {"lost-update", "G2-item"}),
    "cyclic-versions": (("rx1 wx2", "rx2 wx1"), {"cyclic-versions", "G1c"}),
    "G1c-realtime": (("rx1 @0-5 #1", "wx1 @6-9 #2"), {"G1c-realtime"}),
    "G-single-realtime": (("wx1 @0-5 #1", "rx_ @6-9 #2"), {"G-single-realtime"}),
    "G-single-realtime-versions": (("wx1 @0-5 #1", "wx2 @6-9 #2", "rx1 @10-12 #3"), {"cyclic-versions-realtime"}),
}

REGISTER_NEAR_MISSES: Final = {
    "G1a": ("wx1 !info", "rx1"),
    "G1b": ("wx1 wx2", "rx2"),
    "G1c": ("wx1 ry_", "wy1 rx1"),
    "G-single": ("wx1 wy1", "rx_ ry_", "rx1 ry1"),
    "internal": ("rx_ wx1 rx1 rx1",),
    "lost-update": ("rx_ wx1", "rx1 wx2", "rx2"),
    "blind": ("wx1 @0-9 #1", "wx2 @0-9 #2", "rx1 @10-11 #3"),
    "info-unseen": ("wx1 wy1 @0-1 #1 !info", "rx_ ry_ @2-3 #2"),
}

Check = Callable[..., TransactionVerdict]


@pytest.mark.parametrize("name", LIST_ANOMALIES)
def test_anomalies_of_lists_are_named(name: str) -> None:
    rows, wanted = LIST_ANOMALIES[name]
    verdict = check_list_append(columns(told(*rows)))
    assert verdict.validity is Validity.INVALID
    assert name in verdict.anomalies
    assert set(verdict.anomalies) == wanted
    assert verdict.findings and all(finding.steps and finding.shortest for finding in verdict.findings)


@pytest.mark.parametrize("name", LIST_NEAR_MISSES)
def test_near_misses_of_lists_are_valid(name: str) -> None:
    txns = told(*LIST_NEAR_MISSES[name], "az9", "rz9")
    verdict = check_list_append(columns(txns))
    assert (verdict.validity, verdict.anomalies) == (Validity.VALID, {})
    assert explainable(txns, realtime=True, lists=True)


@pytest.mark.parametrize("name", REGISTER_ANOMALIES)
def test_anomalies_of_registers_are_named(name: str) -> None:
    rows, wanted = REGISTER_ANOMALIES[name]
    verdict = check_register(columns(told(*rows)))
    assert verdict.validity is Validity.INVALID
    assert set(verdict.anomalies) == wanted


@pytest.mark.parametrize("name", REGISTER_NEAR_MISSES)
def test_near_misses_of_registers_are_valid(name: str) -> None:
    verdict = check_register(columns(told(*REGISTER_NEAR_MISSES[name], "wz9", "rz9")))
    assert (verdict.validity, verdict.anomalies) == (Validity.VALID, {})


def test_real_time_is_inferred_of_keys_only_where_the_model_demands_it() -> None:
    rows = columns(told("wx1 @0-5 #1", "rx_ @6-9 #2"))
    assert set(check_register(rows).anomalies) == {"G-single-realtime"}
    assert check_register(rows, model="serializable").validity is Validity.VALID


def test_a_cycle_is_told_step_by_step() -> None:
    verdict = check_list_append(columns(told("ax1 ay1", "rx ry1")))
    (finding,) = verdict.findings
    assert finding.steps == (
        "T1 < T0 (rw): T1 read [] from key x, without 1, which T0 appended: it did so later",
        "T0 < T1 (wr): T1 read 1 from key y, which T0 had appended",
        "each would have to come before the next, and the last before the first",
    )


def test_the_models_that_are_ruled_out_stand_weakest_first() -> None:
    skew = check_list_append(columns(told("rx ay1", "ry ax1")))
    assert skew.weakest == ("repeatable-read",)
    assert skew.ruled_out == ("repeatable-read", "serializable", "strong-session-serializable", "strict-serializable")
    late = columns(told("ax1 @0-5 #1", "rx @6-9 #2"))
    assert check_list_append(late).weakest == ("strong-snapshot-isolation",)
    assert check_list_append(late, model="serializable").validity is Validity.VALID
    assert check_list_append(late, model="read-committed").validity is Validity.VALID
    assert check_list_append(late, model="strong-session-serializable").validity is Validity.VALID
    assert check_list_append(late, model="strong-snapshot-isolation").validity is Validity.INVALID


def test_a_write_skew_is_valid_for_snapshot_isolation_by_a_schedule() -> None:
    verdict = check_list_append(columns(told("rx ay1", "ry ax1")), model="snapshot-isolation")
    assert verdict.validity is Validity.VALID and verdict.certificate == "a schedule of starts and commits"
    # Both start before either commits.
    assert verdict.order is not None and sorted(verdict.order[:2].tolist()) == [0, 2]
    assert "G2-item do not rule out snapshot-isolation" in verdict.reason


def test_what_is_not_refuted_and_not_proven_is_unknown() -> None:
    # A transaction that does not see its own write: no model up to read committed forbids it, and no order shows it.
    verdict = check_list_append(columns(told("ax1 rx")), model="read-committed")
    assert (verdict.validity, verdict.order) == (Validity.UNKNOWN, None)
    assert "internal do not rule out read-committed" in verdict.reason


#: No transaction reads what another one writes: nothing at all, what nobody wrote, its own, what a failed one wrote.
UNTESTED: Final = (
    (),
    ("ax1",),
    ("rx? !info",),
    ("rx1 !fail", "ax1"),
    ("rx",),
    ("rx", "ay1"),
    ("ax1 rx1",),
    ("rx", "ax1 !fail"),
)


@pytest.mark.parametrize("rows", UNTESTED, ids=", ".join)
def test_reads_of_what_no_other_transaction_writes_are_nothing_to_judge(rows: tuple[str, ...]) -> None:
    for lists, check in ((True, check_list_append), (False, check_register)):
        words = [row.split() for row in rows]
        given = rows if lists else [" ".join("rx_" if word == "rx" else word for word in row) for row in words]
        history = columns(told(*given))
        verdict = check(history)
        assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.NO_EXPOSURE), verdict


def test_one_edge_between_transactions_is_something_to_judge() -> None:
    assert check_list_append(columns(told("ax1", "rx"))).validity is Validity.VALID
    assert check_register(columns(told("wx1", "rx_"))).validity is Validity.VALID


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (("ax1", "ax1"), 'transactions 0 and 1 both write 1 to key "x"'),
        (("ax1 @0-5 #1", "ax2 @4-9 #1"), "process 1 has two open transactions"),
        (("ax1 @5-5",), "completed at 5, not after it was invoked at 5"),
    ],
)
@pytest.mark.parametrize("check", [check_list_append, check_register])
def test_malformed_histories_are_refused(check: Check, rows: tuple[str, ...], said: str) -> None:
    for model in (STRICT, "causal"):
        with pytest.raises(MalformedHistory, match=said):
            check(columns(told(*rows)), model=model)


@pytest.mark.parametrize("column", ["outcome", "first", "kind", "key", "start"])
def test_malformed_columns_are_refused(column: str) -> None:
    given = columns(told("ax1", "rx1"))
    for wrong in (np.array([9, 9, 9], dtype=np.int64), np.array([], dtype=np.int64), np.array([-1, 0], dtype=np.int64)):
        changed: dict[str, Any] = {column: wrong}
        for model in (STRICT, "causal"):
            with pytest.raises(MalformedHistory):
                check_list_append(replace(given, **changed), model=model)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown consistency model"):
        check_list_append(columns(told("ax1")), model="eventual")


def _compare_lists(seeds: range) -> None:
    seen = {Validity.VALID: 0, Validity.INVALID: 0, Validity.UNKNOWN: 0}
    for seed in seeds:
        txns = small(random.Random(f"lists {seed}"), lists=True)
        is_tested = exposed(txns)
        for model, realtime in (("strict-serializable", True), ("serializable", False)):
            verdict = check_list_append(columns(txns), model=model)
            fine = explainable(txns, realtime=realtime, lists=True)
            wanted = (Validity.VALID if is_tested else Validity.UNKNOWN) if fine else Validity.INVALID
            assert verdict.validity is wanted, (seed, model, txns, verdict)
            seen[verdict.validity] += 1
    assert min(seen[Validity.VALID], seen[Validity.INVALID]) > len(seeds) / 10


def _compare_registers(seeds: range) -> None:
    seen = {Validity.VALID: 0, Validity.INVALID: 0, Validity.UNKNOWN: 0}
    for seed in seeds:
        txns = small(random.Random(f"registers {seed}"), lists=False)
        for model, realtime in (("strict-serializable", True), ("serializable", False)):
            verdict = check_register(columns(txns), model=model)
            fine = explainable(txns, realtime=realtime, lists=False)
            is_tested = exposed(txns)
            # So few transactions are decided, by all orders where nothing shorter does.
            wanted = (Validity.VALID if is_tested else Validity.UNKNOWN) if fine else Validity.INVALID
            assert verdict.validity is wanted or (not is_tested and verdict.validity is Validity.UNKNOWN), (
                seed,
                verdict,
            )
            seen[verdict.validity] += 1
    assert min(seen[Validity.VALID], seen[Validity.INVALID]) > len(seeds) / 10


@pytest.mark.parametrize("seeds", shares(SMALL, quick=400, rest=pytest.mark.slow))
def test_lists_agree_with_all_orders_tried(seeds: range) -> None:
    _compare_lists(seeds)


@pytest.mark.parametrize("seeds", shares(SMALL, quick=400, rest=pytest.mark.slow))
def test_registers_never_contradict_all_orders_tried(seeds: range) -> None:
    _compare_registers(seeds)


@pytest.mark.long
def test_lists_agree_with_all_orders_tried_at_length() -> None:
    _compare_lists(range(SMALL, SMALL + SMALL_LONG))


@pytest.mark.long
def test_registers_never_contradict_all_orders_tried_at_length() -> None:
    _compare_registers(range(SMALL, SMALL + SMALL_LONG))


#: What a store of each isolation may show at most. Read committed shows whatever two reads at different moments can.
ALLOWED: Final[dict[str, frozenset[str]]] = {
    "serializable": frozenset(),
    "snapshot": frozenset({"G2-item", "G2-item-process", "G2-item-realtime"}),
    "read-committed": frozenset(
        {"internal", "lost-update"}
        | {
            f"{base}{order}"
            for base in ("G-single", "G-nonadjacent", "G2-item")
            for order in ("", "-process", "-realtime")
        }
    ),
}
#: What many histories of a store of each isolation must show at least once.
SHOWN: Final = {
    "serializable": set[str](),
    "snapshot": {"G2-item"},
    "read-committed": {"internal", "lost-update", "G-single"},
    "read-uncommitted": {"G0", "G1a", "G1b", "G1c", "dirty-update"},
}


@pytest.mark.parametrize("isolation", SHOWN)
def test_simulated_stores_show_what_their_isolation_allows(isolation: str) -> None:
    shown: set[str] = set()
    for seed in range(40):
        rng = random.Random(f"{isolation} {seed}")
        shape = Shape(transactions=80, isolation=isolation, info=0.05, fails=0.05, keys=rng.randint(2, 6))
        verdict = check_list_append(columns(simulated(rng, shape)))
        shown |= set(verdict.anomalies)
        if isolation == "serializable":
            assert verdict.validity is Validity.VALID, (seed, verdict)
    assert shown <= ALLOWED.get(isolation, shown)
    assert shown >= SHOWN[isolation]


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_simulated_registers_show_what_their_isolation_allows(isolation: str) -> None:
    shown: set[str] = set()
    proven = 0
    for seed in range(40):
        rng = random.Random(f"registers {isolation} {seed}")
        shape = Shape(transactions=80, isolation=isolation, info=0.05, fails=0.05, keys=rng.randint(2, 6), lists=False)
        # Snapshots of a store are current when they are taken, so each key is linearizable only if it is serializable.
        model = STRICT if isolation == "serializable" else "serializable"
        verdict = check_register(columns(simulated(rng, shape)), model=model)
        shown |= set(verdict.anomalies)
        proven += verdict.validity is Validity.VALID
    assert shown <= ALLOWED[isolation]
    assert shown >= SHOWN[isolation]
    if isolation == "serializable":
        # An order is not always found; without one the verdict is unknown, never valid.
        assert proven >= 30


@pytest.mark.parametrize("keys", [1, 3, 10])
@pytest.mark.parametrize("clients", [5, 20])
def test_contended_registers_of_a_correct_store_are_valid(clients: int, keys: int) -> None:
    for info, reads in ((0.0, 0.5), (0.05, 0.2)):
        rng = random.Random(f"contended {clients} {keys} {info}")
        shape = Shape(transactions=400, clients=clients, keys=keys, per_key=10**6, info=info, reads=reads, lists=False)
        history = columns(simulated(rng, shape))
        assert check_register(history, model="causal").validity is Validity.VALID
        for model in (STRICT, "serializable"):
            verdict = check_register(history, model=model)
            assert (verdict.validity, verdict.certificate) == (Validity.VALID, "a serial order that keeps real time"), (
                model,
                info,
                verdict,
            )


def _moved(history: list[Txn], rng: random.Random, by: int) -> list[Txn]:
    """The same, each transaction told by a clock of its own: earlier or later by up to `by`."""
    moved = []
    for place, txn in enumerate(history):
        shift = rng.randint(0, 2 * by)
        moved.append(replace(txn, invoked=txn.invoked + shift, completed=txn.completed + shift, process=place))
    return sorted(moved, key=lambda txn: txn.invoked)


@pytest.mark.parametrize("by", [5, 20])
def test_contended_registers_that_keep_real_time_only_roughly_are_serializable(by: int) -> None:
    broken = 0
    for seed in range(6):
        rng = random.Random(f"moved {seed}")
        shape = Shape(transactions=300, clients=5, keys=rng.choice((3, 10)), per_key=10**6, lists=False)
        history = columns(_moved(simulated(rng, shape), rng, by))
        broken += check_register(history).validity is Validity.INVALID
        for model in ("serializable", "snapshot-isolation"):
            verdict = check_register(history, model=model)
            assert verdict.validity is Validity.VALID, (seed, model, verdict)
    assert broken >= 2


def test_a_search_for_an_order_ends_with_its_time() -> None:
    shape = Shape(transactions=6000, clients=20, keys=3, per_key=10**6, info=0.05, lists=False)
    c = columns(simulated(random.Random(0), shape))
    given = c.native()

    def found(wall_s: float) -> bool:
        report = _core.check_rw_register(
            given, realtime=True, wfr=True, sequential=False, linearizable=False, steps=10**8, wall_s=wall_s
        )
        return report.order is not None

    assert found(60.0) and not found(0.0)


def _late_read(history: list[Txn], rng: random.Random) -> list[Txn]:
    """The same, but one read returns a version that was overwritten before its transaction began."""
    ends: dict[tuple[str, int], int] = {}
    found = []
    for place, txn in enumerate(history):
        for at, op in enumerate(txn.ops):
            if op.kind == WRITE and txn.outcome == OK:
                ends[op.key, op.value] = txn.completed
            elif op.kind == READ and op.value in (value for key, value in ends if key == op.key):
                found.append((place, at))
    rng.shuffle(found)
    for place, at in found:
        txn = history[place]
        op = txn.ops[at]
        if any(other.key == op.key for other in (*txn.ops[:at], *txn.ops[at + 1 :])):
            continue
        past = [value for (key, value), end in ends.items() if key == op.key and end < txn.invoked]
        if len(past) > 40:
            stale = (*txn.ops[:at], replace(op, value=past[-40]), *txn.ops[at + 1 :])
            return [*history[:place], replace(txn, ops=stale), *history[place + 1 :]]
    raise AssertionError("no read has a past")


def test_no_order_keeps_real_time_where_a_contended_read_is_stale() -> None:
    for seed in range(6):
        rng = random.Random(f"stale {seed}")
        shape = Shape(transactions=300, clients=10, keys=3, per_key=10**6, lists=False)
        history = columns(_late_read(simulated(rng, shape), rng))
        verdict = check_register(history)
        assert verdict.validity is Validity.INVALID and verdict.order is None, (seed, verdict)


@pytest.mark.parametrize("name", LIST_ANOMALIES)
def test_planted_anomalies_are_named_in_a_long_history(name: str) -> None:
    rows, wanted = LIST_ANOMALIES[name]
    for seed in range(3):
        rng = random.Random(f"planted {name} {seed}")
        history = simulated(rng, Shape(transactions=300, info=0.02, fails=0.02))
        verdict = check_list_append(columns(spliced(history, told(*rows), rng.random() * 0.9)))
        assert verdict.validity is Validity.INVALID
        assert wanted <= set(verdict.anomalies)
        without = check_list_append(columns(history))
        assert (without.validity, without.anomalies) == (Validity.VALID, {})


def _renamed(rng: random.Random, txns: list[Txn]) -> list[Txn]:
    keys = {op.key for txn in txns for op in txn.ops}
    names = dict(zip(sorted(keys), rng.sample(range(1000), len(keys)), strict=True))
    processes = dict(
        zip(
            sorted({txn.process for txn in txns}), rng.sample(range(10**6), len({t.process for t in txns})), strict=True
        )
    )
    return [
        replace(
            txn,
            process=processes[txn.process],
            invoked=3 * txn.invoked + 1000,
            completed=3 * txn.completed + 1000,
            ops=tuple(replace(op, key=f"n{names[op.key]}") for op in txn.ops),
        )
        for txn in txns
    ]


@pytest.mark.parametrize("check", [check_list_append, check_register])
def test_names_and_shifted_time_change_nothing(check: Check) -> None:
    for seed in range(150):
        rng = random.Random(f"renamed {seed}")
        txns = small(rng, lists=check is check_list_append)
        before, after = check(columns(txns)), check(columns(_renamed(rng, txns)))
        assert (before.validity, before.anomalies) == (after.validity, after.anomalies)


def test_the_same_history_gives_the_same_verdict() -> None:
    txns = simulated(random.Random(5), Shape(transactions=400, isolation="read-committed"))
    first, second = check_list_append(columns(txns)), check_list_append(columns(txns))
    assert (first.findings, first.figures) == (second.findings, second.figures)


@pytest.mark.parametrize("kind", ["ww", "wr", "rw"])
def test_a_ring_of_transactions_is_one_component_and_its_cycle_is_found(kind: str) -> None:
    count = 1000
    verdict = check_list_append(columns(ring(kind, count)))
    name = {"ww": "G0", "wr": "G1c", "rw": "G2-item"}[kind]
    finding = next(finding for finding in verdict.findings if finding.anomaly == name)
    assert verdict.figures["largest_component"] >= count
    assert len(finding.transactions) == count and finding.shortest


def test_the_proof_refuses_what_the_rows_do_not_show() -> None:
    proof = ListProof(columns(told("ax1 ay1", "rx ry1", "rx1 ry1")))
    steps = (CycleStep(1, 0, "rw", 2, 0, -1, -1), CycleStep(0, 1, "wr", 1, 3, -1, -1))
    assert proof.cycle(CycleProof("G-single", True, steps))
    assert not proof.cycle(CycleProof("G2-item", True, steps))
    assert not proof.cycle(CycleProof("G-single", True, steps[:1]))
    # T2 read what T0 appended to x: it does not precede T0.
    wrong = (CycleStep(2, 0, "rw", 4, 0, -1, -1), CycleStep(0, 2, "wr", 1, 5, -1, -1))
    assert not proof.cycle(CycleProof("G-single", True, wrong))
    late = (CycleStep(1, 0, "realtime", -1, -1, -1, -1), steps[1])
    assert not proof.cycle(CycleProof("G1c-realtime", True, late))
    assert not proof.anomaly(NativeAnomaly("G1a", 1, 0, 3, 1, 1, 1))
    assert not proof.anomaly(NativeAnomaly("garbage-read", 1, -1, 3, -1, 1, 1))


def test_the_proof_of_registers_refuses_an_order_that_nobody_showed() -> None:
    proof = RegisterProof(columns(told("wx1", "wx2", "rx1 wy1", "ry1 rx2")))
    # T2 read 1 of x; nothing says that 2 came later.
    assert not proof.cycle(
        CycleProof("G1c", True, (CycleStep(2, 1, "rw", 2, 1, -1, -1), CycleStep(1, 2, "wr", 1, 2, -1, -1)))
    )
    assert not proof.cycle(
        CycleProof("G-single", True, (CycleStep(2, 1, "rw", 2, 1, 0, 1), CycleStep(1, 2, "ww", 1, 3, -1, -1)))
    )


@pytest.mark.parametrize(("words", "kind"), [(("ax1", "rx1,7"), "anomaly"), (("rx ay1", "ry ax1"), "cycle")])
def test_what_the_rows_do_not_confirm_is_unknown(
    words: tuple[str, ...], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ListProof, kind, lambda *_: False)
    verdict = check_list_append(columns(told(*words)))
    assert (verdict.validity, verdict.cause, verdict.anomalies) == (Validity.UNKNOWN, Cause.FAILED, {})
    assert "the native checker of transactions found" in verdict.reason and "do not confirm it" in verdict.reason
    assert verdict.order is None and not verdict.findings


def test_what_is_confirmed_stands_beside_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ListProof.anomaly
    monkeypatch.setattr(ListProof, "anomaly", lambda self, claim: claim.name != "garbage-read" and honest(self, claim))
    verdict = check_list_append(columns(told("ax1 !fail", "rx1,7", "ay1")))
    assert (verdict.validity, verdict.anomalies) == (Validity.INVALID, {"G1a": 1})


def _first_append_lost(rng: random.Random, transactions: int) -> list[Txn]:
    """A serial store that loses the first of two appends of a transaction to one key; each key numbers its elements."""
    held: dict[str, tuple[int, ...]] = dict.fromkeys("xyz", ())
    last = dict.fromkeys("xyz", 0)
    txns = []
    for place in range(transactions):
        ops, appended = list[Op](), list[tuple[str, int]]()
        for key in rng.choices("xyz", k=rng.randint(1, 4)):
            if rng.random() < 0.5:
                last[key] += 1
                appended.append((key, last[key]))
                ops.append(Op(WRITE, key, last[key]))
            elif key not in {name for name, _ in appended}:
                ops.append(Op(READ, key, 0, held[key]))
        lost = {key for key, _ in appended if rng.random() < 0.05}
        for key in "xyz":
            own = tuple(value for name, value in appended if name == key)
            held[key] += own[1:] if len(own) == 2 and key in lost else own
        txns.append(Txn(tuple(ops), 10 * place, 10 * place + rng.randint(1, 25), place))
    return txns


@pytest.mark.parametrize("seed", range(4))
def test_elements_that_are_numbered_per_key_are_judged_at_every_level(seed: int) -> None:
    """As Jepsen numbers them: the number of an element stands in other keys, too."""
    history = columns(_first_append_lost(random.Random(f"numbered per key {seed}"), 200))
    assert "incompatible-order" in check_list_append(history).anomalies
    for model in NAMES:
        verdict = check_list_append(history, model=model)
        assert verdict.cause is not Cause.FAILED, (model, verdict.reason)
        # Read uncommitted forbids it only where it makes a cycle of writes.
        forbids = model != "read-uncommitted" or "G0" in verdict.anomalies
        assert verdict.validity is (Validity.INVALID if forbids else Validity.UNKNOWN), model


@pytest.mark.parametrize("key", "xyz")
def test_a_number_that_stands_in_two_keys_is_told_apart(key: str) -> None:
    other = "y" if key == "x" else "x"
    plain, same = (f"a{key}1 a{other}{number} a{key}2" for number in (9, 2))
    for model in NAMES:
        first, second = (check_list_append(columns(told(row, f"r{key}2")), model=model) for row in (plain, same))
        assert (first.validity, first.anomalies) == (second.validity, second.anomalies), model
        assert first.anomalies["incompatible-order"] == 1


def test_a_spent_budget_leaves_the_verdict() -> None:
    whole = check_list_append(columns(ring("rw", 400)))
    spent = check_list_append(columns(ring("rw", 400)), steps=1000)
    assert (whole.validity, whole.unfinished, whole.stop) == (Validity.INVALID, (), None)
    assert (spent.validity, spent.stop) == (Validity.UNKNOWN, Stop.STEPS) and "G2-item" in spent.unfinished
    assert "the budget ended" in spent.reason and spent.figures["largest_component"] == 400


@pytest.mark.parametrize("realtime", [False, True])
def test_the_search_of_cycles_says_what_ended_it(realtime: bool) -> None:
    c = columns(ring("rw", 2_000))
    given = c.native()
    spent = _core.check_list_append(given, realtime=realtime, steps=1_000)
    late = _core.check_list_append(given, realtime=realtime, steps=10**9, wall_s=0.0)
    whole = _core.check_list_append(given, realtime=realtime, steps=10**9)
    assert (spent.stop, late.stop, whole.stop) == (Stop.STEPS, Stop.DEADLINE, None)
    assert "G2-item" in spent.unfinished and "G2-item" in late.unfinished and not whole.unfinished
