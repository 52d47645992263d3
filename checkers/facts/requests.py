"""Which requests went to a superseded leader, which of them reached it, and which it certainly answered itself.

A request counts if it was invoked after a higher epoch had certainly begun, at a node
  - that certainly still led: a later sample of the same incarnation claims the old epoch;
  - or that led when it was cut off from every majority, for as long as that cut is proven. It may have stepped down
    meanwhile, but it is still the deposed leader;
  - or that led when it was stopped, for as long as it is proven to stand still: it wakes with its old knowledge.

A request *reached* the node if the node answered or refused it, or if the node certainly ran, and clients could reach
it, while the caller waited.

An ok answer is the node's *own* if nobody else can have made it:
  - it came before a later claim (a leader passes no request on);
  - or it came inside the proven cut (the request could not be passed on);
  - or it acknowledges a write with an exact stamp of the old epoch (only that epoch's leader orders writes under it).
The stamp of a read says how far the server's store is, never that the server leads.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.facts.cuts import cuts, possibly_stopped
from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.intervals import Intervals, merged, within
from fencepost.checkers.facts.positions import PARTITION_STAMPED, WRITES
from fencepost.checkers.facts.reigns import Begin, Reign, Reigns
from fencepost.checkers.facts.servers import ends_of, stopped
from fencepost.harness.history import Claim, FaultOutcome, History, Operation, Outcome
from fencepost.harness.verdict import Facts

#: A running server refuses every client with this error, before it reads the request.
NOT_SERVING: Final = "not-serving"
#: Errors by which a node refuses a request because of its epoch or role, or because there is no leader. Some of them
#: are indefinite: a write then ends `info`, and only a read ends `fail`. Kafka's "not-controller" is one: a
#: controller of KRaft that resigns gives it also for changes that it has appended.
REFUSALS: Final = frozenset(
    {
        "not-leader",
        "no-leader",
        "leader-changed",
        "stale-epoch",
        NOT_SERVING,
        "unavailable",
        "not-controller",
        "not-leader-or-follower",
        "leader-not-available",
        "fenced-leader-epoch",
    }
)
#: Errors that prove nothing: even a read that ends with one was neither served nor refused.
TIME_OUTS: Final = frozenset({"timeout", "request-timed-out", "deadline-exceeded", "connection-lost"})
#: The client's own time-out: the server may have stood still all the time.
_CALLER_GAVE_UP: Final = frozenset({"timeout"})
#: The caller stopped waiting early, because the run ended.
_CUT_SHORT: Final = frozenset({"shutdown"})


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One operation that was sent to a superseded leader, which counts as superseded until `until_ns`.

    `provable`: if the node had answered ok, that answer could have been proven to be its own. `served`: the node did
    answer ok, and the answer is proven to be its own.
    """

    operation: Operation
    reign: Reign
    until_ns: int
    reached: bool
    provable: bool
    served: bool


def code_of(operation: Operation) -> str:
    """Return the code of the error by which an operation ended, without its detail; empty if it had none."""
    return (operation.error or "").split(":")[0]


@once
def requests(history: History, facts: Facts, reigns: Reigns) -> tuple[Request, ...]:
    """Return every request to a superseded leader, reign by reign.

    Args:
        history: one run; operations about topic partitions are left out.
        facts: nodes and voters.
        reigns: the reigns of one subject of this history.

    Cost: O(n log n) for n operations, and O(1) for each operation in each reign that it falls in.
    """
    return tuple(_requests(history, facts, reigns))


def _requests(history: History, facts: Facts, reigns: Reigns) -> Iterator[Request]:
    of_node: dict[str, list[Operation]] = {}
    stamped: dict[tuple[str, int], list[Operation]] = {}
    for operation in history.operations:
        if operation.f in PARTITION_STAMPED:
            # They go to the leader of a topic partition, which may be any node (`checkers.log.zombie_leaders`).
            continue
        of_node.setdefault(operation.node, []).append(operation)
        if reigns.stamps_exact and _is_stamped_write(operation):
            stamped.setdefault((operation.node, operation.epoch or 0), []).append(operation)
    invoked = {node: [o.invoked_ns for o in own] for node, own in of_node.items()}
    nodes = _Nodes(history, facts, reigns)
    for reign in reigns.reigns:
        begin = reign.superseded
        if begin is None or reign.node not in of_node:
            continue
        deposed = _Deposed(nodes, reign, begin)
        times, own = invoked[reign.node], of_node[reign.node]
        first, last = bisect_right(times, begin.at_ns), bisect_right(times, deposed.until_ns)
        inside = [o for o in own[first:last] if deposed.counts(o)]
        known = {o.invoke_index for o in inside}
        by_stamp = stamped.get((reign.node, reign.epoch), [])
        inside += [o for o in by_stamp if o.invoked_ns > begin.at_ns and o.invoke_index not in known]
        for operation in inside:
            yield deposed.request(operation)


def _is_stamped_write(operation: Operation) -> bool:
    return operation.type is Outcome.OK and operation.f in WRITES and operation.epoch is not None


class _Nodes:
    """What the history shows about each node: its cuts, its stops, and how long each incarnation lived."""

    def __init__(self, history: History, facts: Facts, reigns: Reigns) -> None:
        self.history: Final = history
        self.reigns: Final = reigns
        self.facts: Final = facts
        self.ends: Final = ends_of(history)
        # After a change of the members the node itself may be a majority.
        changed = any(f.effects.changes_members for f in history.faults)
        self.cuts: Final = [] if changed else cuts(history, facts.nodes, facts.voters)
        self._answers: Final = {n: [s for s in reigns.samples if s.node == n] for n in reigns.stopped}

    def away(self, node: str, *, proven: bool) -> Intervals:
        """Return when the node may not have read requests: it stood still, or the clients' link to it was cut."""
        stops = stopped(self.history, node) if proven else possibly_stopped(self.history, node)
        return merged([*stops, *self._unreachable(node)])

    def _unreachable(self, node: str) -> Intervals:
        """Return when the clients' link to `node` may have been cut, in either direction."""
        others = set(self.facts.nodes)
        cuts_of_clients: Intervals = []
        for fault in self.history.faults:
            ends = (link.split(">") for link in fault.severed)
            if fault.outcome is not FaultOutcome.SKIPPED and any(node in e and not others >= set(e) for e in ends):
                cuts_of_clients.append(self.history.possible(fault))
        return cuts_of_clients

    def led_at(self, reign: Reign, at_ns: int) -> bool:
        """Whether the node's last answer before `at_ns` claims this reign."""
        answers = [s for s in self._answers[reign.node] if s.claims is not Claim.SILENT and s.lo_ns < at_ns]
        return bool(answers) and max(answers, key=lambda s: s.lo_ns) in reign.samples


class _Deposed:
    """The time in which the leader of `reign` counts as superseded, and what an answer in that time proves."""

    def __init__(self, nodes: _Nodes, reign: Reign, begin: Begin) -> None:
        self._reign, self._begin = reign, begin
        self._stamps_exact = nodes.reigns.stamps_exact
        self._end_ns = nodes.history.end_ns
        gone_ns = nodes.ends.get((reign.node, reign.incarnation), self._end_ns)
        self._cuts: Intervals = [
            (max(begin.at_ns, c.from_ns), min(c.to_ns, gone_ns))
            for c in nodes.cuts
            if c.node == reign.node and c.from_ns <= reign.last_ns and begin.at_ns < c.to_ns
        ]
        self._sleeps: Intervals = [
            (start_ns, end_ns)
            for start_ns, end_ns in nodes.reigns.stopped[reign.node]
            if start_ns < begin.at_ns < end_ns <= gone_ns and nodes.led_at(reign, start_ns)
        ]
        self._may_be_away = nodes.away(reign.node, proven=False)
        self._away = nodes.away(reign.node, proven=True)

    @property
    def until_ns(self) -> int:
        return max(self._reign.last_ns, *(end for _, end in (*self._cuts, *self._sleeps)), self._begin.at_ns)

    def counts(self, operation: Operation) -> bool:
        """Whether the node was the superseded leader when the operation was invoked."""
        at_ns = operation.invoked_ns
        return at_ns <= self._reign.last_ns or self._within(self._cuts, at_ns) or self._within(self._sleeps, at_ns)

    def request(self, operation: Operation) -> Request:
        at_ns = operation.invoked_ns
        ended_ns = self._end_ns if operation.ended_ns is None else operation.ended_ns
        cut_to_ns = max((end for start, end in self._cuts if start <= at_ns <= end), default=0)
        claimed_to_ns = self._reign.last_ns if at_ns <= self._reign.last_ns else 0
        by_stamp = self._stamps_exact and operation.f in WRITES
        ok = operation.type is Outcome.OK and operation.completed_ns is not None
        return Request(
            operation=operation,
            reign=self._reign,
            until_ns=max(cut_to_ns, claimed_to_ns),
            reached=self._reached(operation, ended_ns),
            provable=by_stamp or self._ran(at_ns, min(ended_ns, max(cut_to_ns, claimed_to_ns))),
            served=ok
            and (
                ended_ns < claimed_to_ns or ended_ns <= cut_to_ns or (by_stamp and operation.epoch == self._reign.epoch)
            ),
        )

    def _reached(self, operation: Operation, ended_ns: int) -> bool:
        code = code_of(operation)
        if operation.type is Outcome.OK or code in REFUSALS:
            return True
        if code in _CUT_SHORT or (operation.type is Outcome.FAIL and code not in TIME_OUTS):
            return False
        away = self._may_be_away if code in _CALLER_GAVE_UP else self._away
        return _awake(away, operation.invoked_ns, ended_ns)

    def _ran(self, from_ns: int, to_ns: int) -> bool:
        return _awake(self._may_be_away, from_ns, to_ns)

    @staticmethod
    def _within(intervals: Intervals, at_ns: int) -> bool:
        place = bisect_left(intervals, at_ns, key=lambda interval: interval[1])
        return place < len(intervals) and intervals[place][0] <= at_ns


def _awake(away: Intervals, from_ns: int, to_ns: int) -> bool:
    """Whether some part of the time from `from_ns` to `to_ns` lies outside of the disjoint intervals."""
    return from_ns < to_ns and within(away, from_ns, to_ns) < to_ns - from_ns
