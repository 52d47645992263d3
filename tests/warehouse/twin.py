"""The pipeline once more in plain Python, from the paired operations: slow, obvious, and made without Spark's steps.

Quadratic on purpose: every definition is written as it reads, without windows or segments.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    EpochEvent,
    History,
    NodeChange,
    NodeEvent,
    Operation,
    OpEvent,
    Outcome,
)
from fencepost.harness.warehouse.results import (
    Analysis,
    BucketRow,
    ErrorRow,
    FaultRow,
    FunctionRow,
    OverlapRow,
    PhaseRow,
    RegressionRow,
    ReignRow,
    StaleReadsRow,
    SupersededRow,
)

LOG_DELAY_NS = 300_000_000
OUTCOMES = (Outcome.OK, Outcome.FAIL, Outcome.INFO)


def analyse(history: History) -> Analysis:
    ops = history.operations
    width = history.end_ns // 100 + 1
    stale = stale_reads(ops)
    back = regressions(ops)
    reigns = [reign(history, group) for group in groups(history)]
    reigns.sort(key=lambda r: (r.from_ns, r.node, r.incarnation))
    back_of: Counter[str] = Counter()
    for row in back:
        back_of[row.of] += row.count
    stale_of: Counter[str] = Counter()
    for read in stale:
        stale_of[read.node] += read.count
    return Analysis(
        end_ns=history.end_ns,
        bucket_ns=width,
        functions=tuple(function_row(f, [o for o in ops if o.f == f]) for f in sorted({o.f for o in ops})),
        errors=tuple(errors(history)),
        buckets=tuple(
            bucket_row(b * width, [o for o in ops if o.invoked_ns // width == b])
            for b in sorted({o.invoked_ns // width for o in ops})
        ),
        stale_reads=sum(stale_of.values()),
        stale_reads_by_node=dict(sorted(stale_of.items())),
        stale_reads_worst=tuple(sorted(stale, key=lambda r: (-r.count, r.node, r.key))[:50]),
        regressions=dict(sorted(back_of.items())),
        regressions_worst=tuple(sorted(back, key=lambda r: (-r.count, r.process, r.node, r.of))[:50]),
        reigns=tuple(reigns),
        overlaps=tuple(overlaps(history, reigns)),
        superseded=tuple(superseded(history, reigns)),
        faults=tuple(fault_rows(history)),
        phases=tuple(phase_rows(history)),
    )


def counts(ops: Iterable[Operation]) -> dict[str, int]:
    found = Counter(o.type for o in ops)
    return {outcome.value: found[outcome] for outcome in OUTCOMES}


def latencies(ops: Iterable[Operation]) -> list[int]:
    return sorted(o.completed_ns - o.invoked_ns for o in ops if o.type is Outcome.OK and o.completed_ns is not None)


def quantile(ordered: Sequence[int], share: float) -> int | None:
    """Nearest rank."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def function_row(f: str, ops: list[Operation]) -> FunctionRow:
    took = latencies(ops)
    return FunctionRow(
        f=f,
        latency_ns_p50=quantile(took, 0.5),
        latency_ns_p95=quantile(took, 0.95),
        latency_ns_p99=quantile(took, 0.99),
        latency_ns_max=took[-1] if took else None,
        **counts(ops),
    )


def bucket_row(from_ns: int, ops: list[Operation]) -> BucketRow:
    took = latencies(ops)
    return BucketRow(
        from_ns=from_ns,
        latency_ns_p50=quantile(took, 0.5),
        latency_ns_p99=quantile(took, 0.99),
        latency_ns_max=took[-1] if took else None,
        **counts(ops),
    )


def errors(history: History) -> list[ErrorRow]:
    found = Counter((e.f, e.type.value, e.error) for e in history.events if isinstance(e, OpEvent) and e.error)
    return [ErrorRow(f=f, type=t, error=str(error), count=n) for (f, t, error), n in sorted(found.items())]


def stale_reads(ops: list[Operation]) -> list[StaleReadsRow]:
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for read in ops:
        if read.f != "read" or read.type is not Outcome.OK or read.value_position is None:
            continue
        known = [
            (-o.value_position, o.completed_ns or 0)
            for o in ops
            if o.type is Outcome.OK
            and o.key == read.key
            and o.value_position is not None
            and (o.complete_index or 0) < read.invoke_index
        ]
        if known and -min(known)[0] > read.value_position:
            overdue = read.invoked_ns - min(known)[1]
            found.setdefault((read.node, str(read.key)), []).append((overdue, read.invoke_index))
    return [
        StaleReadsRow(
            node=node,
            key=key,
            count=len(rows),
            overdue_ns_max=max(overdue for overdue, _ in rows),
            first_index=min(index for _, index in rows),
        )
        for (node, key), rows in found.items()
    ]


def regressions(ops: list[Operation]) -> list[RegressionRow]:
    found: dict[tuple[int, str, str], list[int]] = {}
    for op in ops:
        if op.type is not Outcome.OK:
            continue
        earlier = [
            o for o in ops if o.process == op.process and o.invoke_index < op.invoke_index and o.type is Outcome.OK
        ]
        shown = [o.value_position for o in earlier if o.key == op.key and o.value_position is not None]
        if op.f == "read" and op.value_position is not None and shown and op.value_position < max(shown):
            found.setdefault((op.process, op.node, "value"), []).append(op.invoke_index)
        replies = [o.position for o in earlier if o.session == op.session and o.position is not None]
        if op.position is not None and replies and op.position < max(replies):
            found.setdefault((op.process, op.node, "session"), []).append(op.invoke_index)
    return [
        RegressionRow(process=process, node=node, of=of, count=len(rows), first_index=min(rows))
        for (process, node, of), rows in found.items()
    ]


def beliefs(history: History) -> list[BeliefEvent]:
    return [e for e in history.events if isinstance(e, BeliefEvent) and e.claims is Claim.YES]


def epoch_of(history: History, belief: BeliefEvent) -> tuple[int | None, bool]:
    if belief.epoch_exact and belief.epoch is not None:
        return belief.epoch, True
    logged = [
        e.epoch
        for e in history.events
        if isinstance(e, EpochEvent)
        and (e.node, e.incarnation) == (belief.node, belief.incarnation)
        and e.time_ns <= belief.answered_ns + LOG_DELAY_NS
        and (belief.epoch is None or e.epoch >= belief.epoch)
    ]
    return (max(logged), True) if logged else (belief.epoch, False)


def lo_ns(history: History, belief: BeliefEvent) -> int:
    at = belief.asked_ns
    for start, end in history.stopped(belief.node):
        if start <= at < end:
            at = end
    return min(at, belief.answered_ns)


def groups(history: History) -> list[list[BeliefEvent]]:
    found: dict[tuple[str, str, int, int | None, bool], list[BeliefEvent]] = {}
    for belief in beliefs(history):
        key = (belief.subject, belief.node, belief.incarnation, *epoch_of(history, belief))
        found.setdefault(key, []).append(belief)
    return list(found.values())


def begun(history: History) -> dict[int, int]:
    found: dict[int, int] = {}
    moments = [(epoch_of(history, b)[0], b.answered_ns) for b in beliefs(history)]
    moments += [(o.epoch, o.completed_ns or 0) for o in history.operations if o.type is Outcome.OK]
    for epoch, at in moments:
        if epoch is not None:
            found[epoch] = min(at, found.get(epoch, at))
    return found


def superseding(history: History, epoch: int | None) -> tuple[int, int] | None:
    if epoch is None:
        return None
    return min(((at, later) for later, at in begun(history).items() if later > epoch), default=None)


def reign(history: History, samples: list[BeliefEvent]) -> ReignRow:
    first = samples[0]
    epoch, exact = epoch_of(history, first)
    lows = [lo_ns(history, s) for s in samples]
    by = superseding(history, epoch) if exact else None
    return ReignRow(
        subject=first.subject,
        node=first.node,
        incarnation=first.incarnation,
        epoch=epoch,
        exact=exact,
        from_ns=min(lows),
        certain_from_ns=min(s.answered_ns for s in samples),
        certain_to_ns=max(lows),
        to_ns=max(s.answered_ns for s in samples),
        samples=len(samples),
        superseded_ns=by[0] if by else None,
        claimed_after_ns=max(0, max(lows) - by[0]) if by else 0,
    )


def overlaps(history: History, reigns: list[ReignRow]) -> list[OverlapRow]:
    rows = []
    for r in reigns:
        by = superseding(history, r.epoch)
        if r.claimed_after_ns and by and r.epoch is not None:
            rows.append(
                OverlapRow(
                    subject=r.subject,
                    node=r.node,
                    epoch=r.epoch,
                    by_nodes=tuple(sorted({o.node for o in reigns if o.epoch == by[1]})),
                    by_epoch=by[1],
                    from_ns=by[0],
                    to_ns=r.certain_to_ns,
                )
            )
    return rows


def incarnation_from_ns(history: History, node: str, incarnation: int) -> int:
    for e in history.events:
        if isinstance(e, NodeEvent) and (e.node, e.incarnation, e.change) == (node, incarnation, NodeChange.STARTED):
            return e.time_ns
    return 0


def superseded(history: History, reigns: list[ReignRow]) -> list[SupersededRow]:
    found: dict[tuple[str, int], dict[Outcome, list[int]]] = {}
    for op in history.operations:
        late = []
        for r in reigns:
            if r.superseded_ns is None or r.epoch is None or r.node != op.node or op.invoked_ns <= r.superseded_ns:
                continue
            end = op.invoked_ns if op.type is Outcome.INFO else op.completed_ns
            assert end is not None
            alive = incarnation_from_ns(history, r.node, r.incarnation) <= op.invoked_ns
            if op.epoch == r.epoch or (alive and end < r.certain_to_ns):
                late.append(r.epoch)
        if late:
            of_reign = found.setdefault((op.node, max(late)), {outcome: [] for outcome in OUTCOMES})
            of_reign[op.type].append(op.invoke_index)
    return [
        SupersededRow(
            node=node,
            epoch=epoch,
            served=len(types[Outcome.OK]),
            refused=len(types[Outcome.FAIL]),
            unknown=len(types[Outcome.INFO]),
            first_indexes=tuple(sorted(types[Outcome.OK])[:5]),
        )
        for (node, epoch), types in sorted(found.items())
    ]


def longest_gap(ops: list[Operation], from_ns: int, to_ns: int) -> tuple[int, int]:
    oks = sorted(o.completed_ns or 0 for o in ops if o.type is Outcome.OK and from_ns <= (o.completed_ns or 0) < to_ns)
    moments = [from_ns, *oks, to_ns]
    spans = [(b - a, -a) for a, b in pairwise(moments)]
    length, minus_from = max(spans)
    return length, -minus_from if length else from_ns


def fault_rows(history: History) -> list[FaultRow]:
    ops, rows = history.operations, []
    for fault in history.faults:
        end = history.end_ns + 1 if fault.ended_ns is None else fault.ended_ns
        gap = longest_gap(ops, fault.began_ns, end)
        after: dict[str, int] = {}
        for op in ops:
            if op.type is Outcome.OK and (op.completed_ns or 0) >= end:
                after[op.node] = min((op.completed_ns or 0) - end, after.get(op.node, 1 << 62))
        later = [f.began_ns for f in history.faults if f.began_ns > fault.began_ns]
        known = [epoch for epoch, at in begun(history).items() if at < fault.began_ns]
        new = [
            (at, epoch)
            for epoch, at in begun(history).items()
            if fault.began_ns <= at < min(later, default=history.end_ns + 1) and epoch > max(known, default=-1)
        ]
        rows.append(
            FaultRow(
                fault_id=fault.fault_id,
                fault=fault.fault,
                target=fault.target,
                nodes=fault.nodes,
                outcome=fault.outcome.value,
                began_ns=fault.began_ns,
                ended_ns=fault.ended_ns,
                new_epoch=min(new)[1] if new else None,
                new_leader_after_ns=min(new)[0] - fault.began_ns if new else None,
                longest_without_ok_ns=gap[0],
                without_ok_from_ns=gap[1],
                recovered_after_ns=min(after.values(), default=None),
                recovered_after_ns_by_node=dict(sorted(after.items())),
                **counts(o for o in ops if fault.began_ns <= o.invoked_ns < end),
            )
        )
    return rows


def phase_rows(history: History) -> list[PhaseRow]:
    rows = []
    for phase, (from_ns, to_ns) in history.phases.items():
        inside = [o for o in history.operations if from_ns <= o.invoked_ns < to_ns]
        gap = longest_gap(history.operations, from_ns, to_ns)
        rows.append(
            PhaseRow(
                phase=phase.value,
                from_ns=from_ns,
                to_ns=to_ns,
                availability=counts(inside)["ok"] / len(inside) if inside else None,
                longest_without_ok_ns=gap[0],
                without_ok_from_ns=gap[1],
                **counts(inside),
            )
        )
    return rows
