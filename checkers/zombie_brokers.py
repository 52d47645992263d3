"""Zombie brokers: a topic partition's leader that was superseded and went on, and what became of what it took and gave.

The subject is the topic partition ("p0"), the epochs are its leader epochs. A poll is asked of one node alone and only
a leader answers it, with its epoch: so every poll is a sample of who leads, as good as any observer's, and reigns,
claims and supersession are those of `checkers.leadership`. Beliefs about the partition, where nodes were asked, count
as samples too. Told apart, per run (so by the run's `acks`):

  acknowledged   an append that a superseded leader took, and whether it survived in the final content
  fenced         an append that it refused
  read           a poll that it answered, stale when a record acknowledged under a newer leader was missing from it, and
                 whether what it showed vanished

It *acted* when what it acknowledged, or showed as committed, is gone. Reads of a superseded leader may be stale on
every Kafka; that is a figure. For brokers cut off from every majority of voters: how long they went on.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Any, Final

import msgspec

from checkers.leadership.circumstances import duration
from checkers.leadership.claims import claim_figures
from checkers.leadership.landmarks import Landmarks
from checkers.leadership.samples import Begin, Intervals, Reign, Reigns, Sample, ends_of, merged, window
from checkers.leadership.self_fencing import Cut, cuts
from checkers.log.standing import ZOMBIE, judged_as
from checkers.log.view import PartitionView, partitions
from checkers.register_anomalies import seconds
from checkers.sets import Finding, witness
from harness.history import History
from harness.operation import BeliefEvent, Claim, NodeChange, NodeEvent, Operation, Outcome
from harness.verdict import Facts, Validity, Verdict

CHECKER: Final = "zombie-brokers"
EXPOSURE_OF: Final = "operations asked of a superseded partition leader"
#: What a node says when it is asked for a partition that it does not lead.
NOT_LEADER: Final = frozenset({"not-leader-or-follower", "not-leader", "replica-not-available"})
#: A client takes a node's word that it does not lead for so long, without asking again.
_WORD_KEPT_NS: Final = {"not-leader": 200_000_000}
_WITNESSES_MAX: Final = 3
_SHOWN_MAX: Final = 30


class Deeds(msgspec.Struct, kw_only=True):
    """What superseded leaders of one partition did."""

    key: str
    asked: int = 0
    acknowledged: int = 0
    survived: int = 0
    fenced: int = 0
    unknown: int = 0
    reads: int = 0
    stale_reads: int = 0
    stalest_ns: int = 0
    findings: list[Finding] = []


def check(history: History, facts: Facts) -> list[Verdict]:
    """One verdict over all partitions. Cost: O(n log n)."""
    node_facts = _NodeFacts(history)
    views = partitions(history)
    reigns = {view.key: reigns_of_partition(history, view, node_facts) for view in views}
    deeds = [_deeds(history, view, reigns[view.key]) for view in views]
    anomalies = Counter(finding.anomaly for one in deeds for finding in one.findings)
    asked = sum(one.asked for one in deeds)
    if anomalies:
        validity = Validity.INVALID
        reason = "a superseded partition leader acted: " + ", ".join(f"{n} {name}" for name, n in anomalies.items())
    elif asked < facts.thresholds.exposure_min:
        validity, reason = Validity.UNKNOWN, f"{asked} {EXPOSURE_OF}; {facts.thresholds.exposure_min} are asked for"
    else:
        validity, reason = Validity.VALID, f"of {asked} {EXPOSURE_OF} none had an effect that was lost"
    shown = [finding for one in deeds for finding in one.findings]
    return [
        Verdict(
            checker=CHECKER,
            guarantee=judged_as(ZOMBIE, facts),
            validity=validity,
            reason=reason,
            exposure=asked,
            exposure_of=EXPOSURE_OF,
            anomalies=dict(anomalies),
            witnesses=tuple(witness(finding) for finding in shown[:_WITNESSES_MAX]),
            figures=_figures(history, facts, views, reigns, deeds),
        )
    ]


class _NodeFacts:
    """When each node was proven stopped, and which incarnation of it ran when."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._starts: dict[str, list[tuple[int, int]]] = {}
        for event in history.events:
            if type(event) is NodeEvent and event.change is NodeChange.STARTED:
                self._starts.setdefault(event.node, []).append((event.time_ns, event.incarnation))
        self.ends: Final = ends_of(history)
        self._stopped: dict[str, Intervals] = {}

    def stopped(self, node: str) -> Intervals:
        if node not in self._stopped:
            self._stopped[node] = merged(self._history.stopped(node))
        return self._stopped[node]

    def incarnation(self, node: str, at_ns: int) -> int:
        starts = self._starts.get(node, [])
        at = bisect_right(starts, at_ns, key=lambda start: start[0])
        return starts[at - 1][1] if at else 0


def reigns_of_partition(history: History, view: PartitionView, nodes: _NodeFacts) -> Reigns:
    """Who led the partition when, by its polls and by beliefs about it."""
    samples: list[Sample] = []
    impossible: list[int] = []
    for claim in (*_claims_of_polls(view, nodes), *_claims_of_beliefs(history, view.key)):
        lo_ns, hi_ns = window(claim.asked_ns, claim.answered_ns, nodes.stopped(claim.node))
        if hi_ns < lo_ns:
            impossible.append(claim.index)
        else:
            samples.append(msgspec.structs.replace(claim, lo_ns=lo_ns, hi_ns=hi_ns))
    samples.sort(key=lambda s: (s.asked_ns, s.index))
    begins = [
        Begin(
            epoch=begun.epoch,
            at_ns=begun.at_ns,
            event=_last_event(begun.proof),
            how=f"{begun.proof.node} answered a {begun.proof.f} that shows it",
        )
        for begun in view.begun
    ]
    return Reigns(
        samples,
        begins,
        ends=nodes.ends,
        stopped={node: nodes.stopped(node) for node in {s.node for s in samples}},
        stamps_exact=True,
        impossible=tuple(impossible),
    )


def _claims_of_polls(view: PartitionView, nodes: _NodeFacts) -> list[Sample]:
    found: list[Sample] = []
    for poll in view.attempts:
        leads = poll.type is Outcome.OK
        if poll.ended_ns is None or not (leads or poll.error in NOT_LEADER):
            continue
        asked_ns = max(0, poll.invoked_ns - (0 if leads else _WORD_KEPT_NS.get(poll.error or "", 0)))
        found.append(
            Sample(
                index=_last_event(poll),
                node=poll.node,
                incarnation=nodes.incarnation(poll.node, poll.invoked_ns),
                claims=Claim.YES if leads else Claim.NO,
                asked_ns=asked_ns,
                answered_ns=poll.ended_ns,
                lo_ns=asked_ns,
                hi_ns=poll.ended_ns,
                epoch=poll.epoch,
                epoch_low=poll.epoch,
            )
        )
    return found


def _claims_of_beliefs(history: History, key: str) -> list[Sample]:
    return [
        Sample(
            index=belief.index,
            node=belief.node,
            incarnation=belief.incarnation,
            claims=belief.claims,
            asked_ns=belief.asked_ns,
            answered_ns=belief.answered_ns,
            lo_ns=belief.asked_ns,
            hi_ns=belief.answered_ns,
            epoch=belief.epoch if belief.epoch_exact else None,
            epoch_low=belief.epoch,
        )
        for belief in history.events
        if type(belief) is BeliefEvent and belief.subject == key and belief.claims is not Claim.SILENT
    ]


def _last_event(operation: Operation) -> int:
    return operation.invoke_index if operation.complete_index is None else operation.complete_index


# --- what they did -----------------------------------------------------------------------------------------------


def _deeds(history: History, view: PartitionView, reigns: Reigns) -> Deeds:
    deeds = Deeds(key=view.key, findings=[])
    of_node: dict[str, list[Operation]] = {}
    for operation in sorted((*view.appends, *view.attempts), key=lambda o: o.invoked_ns):
        of_node.setdefault(operation.node, []).append(operation)
    newer = _NewerAppends(view)
    for reign in reigns.reigns:
        begin, own = reign.superseded, of_node.get(reign.node, [])
        if begin is None:
            continue
        end_ns = reign.over_ns if reign.over_ns is not None else history.end_ns
        first = bisect_right(own, begin.at_ns, key=lambda o: o.invoked_ns)
        last = bisect_right(own, max(end_ns, reign.last_ns), key=lambda o: o.invoked_ns)
        for operation in own[first:last]:
            _judge(deeds, view, reign, operation, newer)
    return deeds


def _judge(deeds: Deeds, view: PartitionView, reign: Reign, op: Operation, newer: "_NewerAppends") -> None:
    asked = op.invoked_ns <= reign.last_ns
    epoch = view.epoch_of(op) if op.f == "append" else op.epoch
    done_ns = op.completed_ns
    served = op.type is Outcome.OK and done_ns is not None
    # A stamp says it exactly; without one, a later claim of the same epoch does.
    served = served and (epoch == reign.epoch or (epoch is None and done_ns is not None and done_ns < reign.last_ns))
    if not (asked or served) or (op.type is Outcome.OK and not served):
        return
    deeds.asked += 1
    if op.f == "append":
        _judge_append(deeds, view, reign, op, served=served)
    elif served:
        _judge_read(deeds, view, reign, op, newer)


def _judge_append(deeds: Deeds, view: PartitionView, reign: Reign, append: Operation, *, served: bool) -> None:
    if append.type is Outcome.INFO:
        deeds.unknown += 1
    elif not served:
        deeds.fenced += 1
    else:
        deeds.acknowledged += 1
        if append.value in view.final_values:
            deeds.survived += 1
        elif view.scans and (view.complete or (append.position or 0) < view.covered_to):
            deeds.findings.append(_acted(view, reign, append, "lost-acknowledgement"))


def _judge_read(deeds: Deeds, view: PartitionView, reign: Reign, read: Operation, newer: "_NewerAppends") -> None:
    deeds.reads += 1
    age_ns = newer.age_ns(reign.epoch, read)
    if age_ns is not None:
        deeds.stale_reads += 1
        deeds.stalest_ns = max(deeds.stalest_ns, age_ns)
    gone = [
        row
        for row in view.rows[read.invoke_index]
        if row.offset < view.covered_to and row.value not in view.final_values
    ]
    if gone:
        deeds.findings.append(_acted(view, reign, read, "vanished-read", gone=gone[0].value))


def _acted(view: PartitionView, reign: Reign, op: Operation, anomaly: str, *, gone: int | None = None) -> Finding:
    begin = reign.superseded
    assert begin is not None
    scan = view.scan_over(op.position or 0)
    value = op.value if gone is None else gone
    what = f"acknowledged {value} at offset {op.position}" if gone is None else f"showed {value} to a reader"
    done_ns = op.completed_ns if op.completed_ns is not None else op.invoked_ns
    steps = (
        f"Epoch {begin.epoch} of {view.key} had begun at {seconds(begin.at_ns)}: {begin.how}.",
        f"{op.node}, leader of epoch {reign.epoch}, {what} in answer to the {op.f} of event {op.invoke_index}, sent "
        f"{duration(op.invoked_ns - begin.at_ns)} and answered {duration(done_ns - begin.at_ns)} after that.",
        f"The final content of {view.key} lacks {value}.",
    )
    return Finding(anomaly=anomaly, operations=(op,) if scan is None else (op, scan), steps=steps)


class _NewerAppends:
    """Acknowledged appends of epochs above a given one, by offset, with the earliest completion from there on."""

    def __init__(self, view: PartitionView) -> None:
        self._view = view
        self._tables: dict[int, tuple[list[int], list[int]]] = {}

    def age_ns(self, epoch: int, read: Operation) -> int | None:
        """For how long, when `read` was sent, a record behind its high watermark had been acknowledged; None: none."""
        if read.position is None:
            return None
        if epoch not in self._tables:
            self._tables[epoch] = self._table(epoch)
        offsets, earliest = self._tables[epoch]
        at = bisect_left(offsets, read.position)
        if at == len(offsets) or earliest[at] >= read.invoked_ns:
            return None
        return read.invoked_ns - earliest[at]

    def _table(self, epoch: int) -> tuple[list[int], list[int]]:
        newer = [(a.position or 0, a.completed_ns or 0) for a in self._view.acknowledged if self._above(a, epoch)]
        newer.sort()
        earliest: list[int] = []
        for _, at_ns in reversed(newer):
            earliest.append(min(at_ns, earliest[-1]) if earliest else at_ns)
        return [offset for offset, _ in newer], earliest[::-1]

    def _above(self, append: Operation, epoch: int) -> bool:
        own = self._view.epoch_of(append)
        return own is not None and own > epoch


# --- figures -----------------------------------------------------------------------------------------------------


def _figures(
    history: History, facts: Facts, views: list[PartitionView], reigns: dict[str, Reigns], deeds: list[Deeds]
) -> dict[str, Any]:
    marks = Landmarks(history)
    claims = {key: claim_figures(own, marks) for key, own in reigns.items()}
    spans = [{"partition": key, **span} for key, own in claims.items() for span in own["claimed"]]
    lost = Counter(finding.anomaly for one in deeds for finding in one.findings)
    return {
        "acks": str(facts.options.get("acks", "all")),
        "superseded_leaders": sum(own["claimed_count"] for own in claims.values()),
        "superseded_for_ns_max": max((own["claimed_ns_max"] for own in claims.values()), default=0),
        "two_leaders_ns": sum(own["two_leaders_ns"] for own in claims.values()),
        "appends_acknowledged": sum(one.acknowledged for one in deeds),
        "appends_survived": sum(one.survived for one in deeds),
        "appends_lost": lost["lost-acknowledgement"],
        "appends_fenced": sum(one.fenced for one in deeds),
        "appends_unknown": sum(one.unknown for one in deeds),
        "reads_answered": sum(one.reads for one in deeds),
        "reads_stale": sum(one.stale_reads for one in deeds),
        "reads_stale_ns_max": max((one.stalest_ns for one in deeds), default=0),
        "reads_vanished": lost["vanished-read"],
        "claimed": sorted(spans, key=lambda span: -span["length_ns"])[:_SHOWN_MAX],
        "cut_brokers": _cut_brokers(history, facts, views, reigns)[:_SHOWN_MAX],
    }


def _cut_brokers(
    history: History, facts: Facts, views: list[PartitionView], reigns: dict[str, Reigns]
) -> list[dict[str, Any]]:
    """For each broker that led something when it was cut off from every majority of voters: how it went on."""
    found = []
    for cut in cuts(history, facts.nodes, facts.voters):
        led = [view for view in views if _led(reigns[view.key], cut)]
        if led:
            found.append(_cut_broker(history, cut, led, reigns))
    return found


def _led(reigns: Reigns, cut: Cut) -> bool:
    return any(
        r.node == cut.node and r.first_ns <= cut.from_ns and (r.over_ns is None or r.over_ns > cut.from_ns)
        for r in reigns.reigns
    )


def _cut_broker(history: History, cut: Cut, led: list[PartitionView], reigns: dict[str, Reigns]) -> dict[str, Any]:
    def inside(operation: Operation) -> bool:
        done_ns = operation.completed_ns
        return operation.node == cut.node and operation.invoked_ns >= cut.from_ns and (done_ns or 0) <= cut.to_ns

    appends = [(view, a) for view in led for a in view.acknowledged if inside(a)]
    reads = [r for view in led for r in view.reads if inside(r)]
    over = [
        r.over_ns - cut.from_ns
        for view in led
        for r in reigns[view.key].reigns
        if r.node == cut.node and r.over_ns is not None and r.over_ns > cut.from_ns
    ]
    superseded = [
        r.superseded.at_ns - cut.from_ns
        for view in led
        for r in reigns[view.key].reigns
        if r.node == cut.node and r.superseded is not None and cut.from_ns <= r.superseded.at_ns <= cut.to_ns
    ]
    return {
        "node": cut.node,
        "cut_from_ns": cut.from_ns,
        "cut_ns": cut.to_ns - cut.from_ns,
        "partitions_led": len(led),
        "superseded_after_ns": min(superseded, default=None),
        "appends_acknowledged": len(appends),
        "appends_lost": sum(a.value not in view.final_values for view, a in appends if view.scans and view.complete),
        "last_append_after_ns": max(((a.completed_ns or 0) - cut.from_ns for _, a in appends), default=None),
        "last_read_after_ns": max(((r.completed_ns or 0) - cut.from_ns for r in reads), default=None),
        "stopped_leading_after_ns": min(over, default=None),
    }
