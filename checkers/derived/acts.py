"""What superseded leaders did with requests: refused them, left them unanswered, served them, or acted.

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

An ok answer alone proves little, since a follower passes requests on to the leader. A superseded leader *acted* in four
cases:
  - "stale answer": it answered a read that had to be current, and the answer lacks a write, stamped with a higher
    epoch, that was acknowledged before the read was invoked;
  - "lost acknowledgement": it acknowledged an add that no strong read ever showed, that the last strong read after
    healing lacks, and that nothing removed;
  - "stamped effect": it acknowledged a write that took effect under its own epoch after an effect of a higher epoch.
    Either the write stands behind that effect in the store's order, and a reader in the higher epoch saw it. Or it was
    invoked after a write of the higher epoch had been acknowledged, and still stands at or before that write's
    position. The second case needs no claim: only the old leader orders writes in front of its successor's;
  - "acknowledged while superseded": it acknowledged a change itself, and the maker rules that out.
A change that breaks several of these rules counts for the first one only.

A rule had a *chance* with every request that reached the superseded leader and that would have broken the rule if it
had been answered wrongly.

Source: Ongaro (2014), section 6.4, for reads; Junqueira, Reed, Serafini (2011) for the order of epochs;
docs/explanation/design.md for the definitions.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from fencepost.checkers.derived.evidence import Intervals, merged, once, within
from fencepost.checkers.derived.positions import (
    CURRENT,
    EFFECT_FREE,
    PARTITION_STAMPED,
    READS,
    REMOVES,
    WRITES,
    FinalReads,
    ok_reads,
    weak_reads,
    write_position,
    written,
)
from fencepost.checkers.derived.reigns import EpochBegin, Reign, Reigns
from fencepost.checkers.derived.servers import cuts, ends_of, possibly_stopped, stopped
from fencepost.checkers.derived.versions import (
    UNKNOWN,
    Acknowledged,
    Longs,
    acknowledged_writes,
    first_of_highest,
    last_of_highest,
    longs,
    views_of,
)
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
    of_node: dict[str, list[Operation]] = {reign.node: [] for reign in reigns.reigns if reign.superseded}
    stamped: dict[tuple[str, int], list[Operation]] = {}
    for operation in history.operations:
        # Those about a topic partition go to its leader, which may be any node (`checkers.log.zombie_leaders`).
        if operation.node not in of_node or operation.f in PARTITION_STAMPED:
            continue
        of_node[operation.node].append(operation)
        if reigns.stamps_exact and _is_stamped_write(operation):
            stamped.setdefault((operation.node, operation.epoch or 0), []).append(operation)
    invoked = {node: [o.invoked_ns for o in own] for node, own in of_node.items()}
    nodes = _Nodes(history, facts, reigns)
    for reign in reigns.reigns:
        begin = reign.superseded
        if begin is None or not of_node[reign.node]:
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

    def __init__(self, nodes: _Nodes, reign: Reign, begin: EpochBegin) -> None:
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


#: Changes whose effect nothing overwrites.
_UNIQUE: Final = frozenset({"add"})
#: Changes that a store orders before it acknowledges them. Keeping a lease alive is none: leaders do that alone.
_ORDERED: Final = WRITES | REMOVES | {"put", "put-all", "critical", "campaign", "act", "resign"}

LOST: Final = "lost-acknowledgement"
STAMPED: Final = "stamped-effect"
ACKNOWLEDGED: Final = "acknowledged-while-superseded"


class StaleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of `reign` answered `read` without `write`, which had been acknowledged in a higher epoch."""

    read: Operation
    write: Operation
    reign: Reign


class LostAdd(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of `reign` acknowledged `add`; the final strong read `read` lacks it."""

    add: Operation
    read: Operation
    reign: Reign


class StampedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """`write` took effect after `earlier`, which is of a higher epoch.

    `seen_by` is the read in the higher epoch that showed it, where the store's order proves it. `reign` is that of the
    leader that acknowledged it, where time proves it.
    """

    write: Operation
    earlier: Operation
    seen_by: Operation | None = None
    reign: Reign | None = None


class Acts(msgspec.Struct, kw_only=True):
    """The requests to superseded leaders by outcome, the violations among them, and the chances of each rule.

    The same operation stands in several lists; a list has them in the order of reigns and invocations.
    """

    requests: list[Operation] = []
    write_requests: list[Operation] = []
    reached_writes: list[Operation] = []
    served: list[Operation] = []
    fenced: list[Operation] = []
    unknown: list[Operation] = []
    refused_otherwise: list[Operation] = []
    fresh_reads_exposed: list[Operation] = []
    stale: list[StaleAnswer] = []
    lost: list[LostAdd] = []
    stamped: list[StampedWrite] = []
    acknowledged: list[Request] = []
    chances: dict[str, list[Operation]] = {}
    lacks: dict[str, str] = {}

    @property
    def exposed(self) -> list[Operation]:
        """List each change that gave some rule a chance, once, in the order of the history."""
        by_row = {o.invoke_index: o for own in self.chances.values() for o in own}
        return [by_row[index] for index in sorted(by_row)]


@once
def find_acts(history: History, facts: Facts, reigns: Reigns) -> Acts:
    """Sort and judge every request to a superseded leader.

    Args:
        history: one run.
        facts: the guarantee of its reads, and whether the maker rules out acknowledgements of superseded leaders.
        reigns: the reigns of one subject of this history.

    Returns:
        The requests by outcome, and the violations; `lacks` says for each rule what the run lacked.

    Cost: O(n log n) for n operations.
    """
    return _Judge(history, facts, reigns).acts()


class _Judge:
    """Holds each request against every rule."""

    def __init__(self, history: History, facts: Facts, reigns: Reigns) -> None:
        self._requests: Final = requests(history, facts, reigns)
        self._finals: Final = FinalReads(history, facts)
        self._views: Final = views_of(history)
        acknowledged = acknowledged_writes(history)
        self._newer: Final = NewerWrites(acknowledged, self._views.ranks(acknowledged))
        self._newer_of_any: Final = NewerWrites(acknowledged, acknowledged.position)
        self._current: Final = facts.read_guarantee in CURRENT
        self._weak: Final = weak_reads(facts)
        self._refuses: Final = facts.leadership is not None and facts.leadership.superseded_acknowledges_nothing
        by_position = stamped_effects(history) if reigns.stamps_exact and not self._views.renumbered else []
        self._acts: Final = Acts(stamped=by_position, chances={LOST: [], STAMPED: [], ACKNOWLEDGED: []})

    def acts(self) -> Acts:
        acts = self._acts
        for request in self._requests:
            operation = request.operation
            acts.requests.append(operation)
            acts.served += [operation] * request.served
            if operation.f in READS:
                self._judge_read(request)
            elif operation.f not in EFFECT_FREE:
                acts.write_requests.append(operation)
                acts.reached_writes += [operation] * request.reached
                self._judge_change(request)
            self._sort(request)
        acts.lacks = self._lacks()
        return acts

    def _judge_read(self, request: Request) -> None:
        read, reign = request.operation, request.reign
        write = self._newer.newest(read.key, reign.epoch, read.invoked_ns) if self._current else None
        if write is None or not request.reached:
            return
        if request.provable or request.served:
            self._acts.fresh_reads_exposed.append(read)
        view, missing = self._views.view(read), self._views.rank(write)
        # Whoever returns what it wrote has it, whatever number the server gives that (see `storage.numbering`).
        lacks = view is not None and missing is not None and view < missing and read.result != written(write)
        if request.served and lacks:
            self._acts.stale.append(StaleAnswer(read=read, write=write, reign=reign))

    def _judge_change(self, request: Request) -> None:
        if not request.reached:
            return
        change, acts = request.operation, self._acts
        provable = request.provable or request.served
        # Where servers number one write differently, positions do not tell who came first. That a position contradicts
        # time is no reason to leave it out: it is what this rule looks for.
        newest = None if self._views.renumbered else self._newer_of_any
        earlier = None if newest is None else newest.newest_of_all(request.reign.epoch, change.invoked_ns)
        looked_for = change.f in _UNIQUE and self._finals.tells_of(change)
        acts.chances[LOST] += [change] * (looked_for and provable)
        acts.chances[STAMPED] += [change] * (change.f in WRITES and earlier is not None)
        acts.chances[ACKNOWLEDGED] += [change] * (self._refuses and change.f in _ORDERED and provable)
        if change.type is not Outcome.OK:
            return
        if looked_for and request.served and self._finals.proves_lost(change):
            acts.lost.append(LostAdd(add=change, read=self._finals.last[change.key], reign=request.reign))
        elif earlier is not None and _stands_before(change, earlier, request.reign):
            acts.stamped.append(StampedWrite(write=change, earlier=earlier, reign=request.reign))
        elif self._refuses and request.served and change.f in _ORDERED:
            acts.acknowledged.append(request)

    def _sort(self, request: Request) -> None:
        """Sort an operation that did not end ok.

        It was fenced if the deposed leader refused it for its role or epoch, and the final state lacks its effect.
        """
        operation, acts = request.operation, self._acts
        if operation.type is Outcome.OK:
            return
        ended_ns, code = operation.ended_ns, code_of(operation)
        if operation.type is Outcome.INFO or code in TIME_OUTS:
            acts.unknown.append(operation)
        elif ended_ns is None or ended_ns >= request.until_ns or code not in REFUSALS:
            acts.refused_otherwise.append(operation)
        elif operation.f in EFFECT_FREE or self._finals.lacks(operation):
            acts.fenced.append(operation)
        else:
            # Without a final read of it, or with its effect there, nobody can say that it was fenced.
            acts.unknown.append(operation)

    def _lacks(self) -> dict[str, str]:
        """Say for each anomaly what the run lacked, if there was no chance of it."""
        changes = [r for r in self._requests if r.operation.f not in EFFECT_FREE]
        reached = [r.operation for r in changes if r.reached]
        none = _none_reached(self._requests, changes, reached)
        return {
            LOST: none or self._lacks_unique(reached),
            STAMPED: none or self._lacks_stamps(reached),
            ACKNOWLEDGED: none or self._lacks_promise(),
        }

    def _lacks_unique(self, reached: Sequence[Operation]) -> str:
        adds = [o for o in reached if o.f in _UNIQUE]
        if not adds:
            return "no change that reached it has an effect that nothing overwrites"
        if not any(self._finals.tells_of(o) for o in adds):
            return self._weak or "no final strong read shows whether its adds are there"
        return _UNPROVABLE

    def _lacks_stamps(self, reached: Iterable[Operation]) -> str:
        if self._views.renumbered:
            return "servers number writes differently, so positions do not tell which came first"
        if not any(o.f in WRITES for o in reached):
            return "no write with a position of its own reached it"
        return "before what reached it was sent, no write stamped with a higher epoch had been acknowledged"

    def _lacks_promise(self) -> str:
        return _UNPROVABLE if self._refuses else "the maker does not rule out that it acknowledges a change"


_UNPROVABLE: Final = "no answer could have been told from one that it only passed on"


def _none_reached(all_of: Sequence[Request], changes: Sequence[Request], reached: Sequence[Operation]) -> str:
    """Say why no rule about changes had a chance; empty if a change reached a superseded leader."""
    if reached:
        return ""
    if len(changes) == 1:
        return "the change that was sent to a superseded leader did not reach it"
    if changes:
        return f"none of {len(changes)} changes that were sent to a superseded leader reached it"
    return "only reads were sent to a superseded leader" if all_of else "nothing was sent to a superseded leader"


def _stands_before(change: Operation, earlier: Operation, reign: Reign) -> bool:
    """Whether `change`, which was invoked after `earlier` was acknowledged, stands in front of it in the old epoch."""
    position, before = write_position(change), write_position(earlier)
    stamped_old = change.epoch is not None and change.epoch <= reign.epoch
    return change.f in WRITES and stamped_old and position is not None and before is not None and position <= before


class NewerWrites:
    """Acknowledged writes, ready to be asked for the newest one above an epoch and before a time.

    Only writes count that are stamped with an epoch and name their position.
    """

    def __init__(self, acknowledged: Acknowledged, ranks: Longs) -> None:
        self._acknowledged, self._ranks = acknowledged, ranks
        self._known: Final = (acknowledged.epoch != UNKNOWN) & (acknowledged.position != UNKNOWN)
        self._tables: dict[tuple[int, *tuple[str | None, ...]], tuple[Longs, Longs]] = {}

    def newest(self, key: str | None, epoch: int, before_ns: int) -> Operation | None:
        """Return the write of `key` that ranks last among those stamped above `epoch` and completed before a time.

        `before_ns` is in nanoseconds since the run began. None: there is no such write.
        """
        none: Longs = longs(())
        return self._newest((epoch, key), self._acknowledged.of_key.get(key, none), before_ns)

    def newest_of_all(self, epoch: int, before_ns: int) -> Operation | None:
        """Return the same over all keys."""
        return self._newest((epoch,), self._acknowledged.by_completion, before_ns)

    def _newest(self, which: tuple[int, *tuple[str | None, ...]], rows: Longs, before_ns: int) -> Operation | None:
        if which not in self._tables:
            self._tables[which] = self._table(rows, which[0])
        times, best = self._tables[which]
        done = int(np.searchsorted(times, before_ns))
        return self._acknowledged.writes[best[done - 1]] if done else None

    def _table(self, rows: Longs, epoch: int) -> tuple[Longs, Longs]:
        """Return when each write above `epoch` completed, and the row of the best one up to it."""
        above = rows[self._known[rows] & (self._acknowledged.epoch[rows] > epoch)]
        return self._acknowledged.completed_ns[above], above[last_of_highest(self._ranks[above])]


def stamped_effects(history: History) -> list[StampedWrite]:
    """Find the ok writes of a lower epoch behind a write of a higher one, if a reader in a higher epoch saw them.

    The stamps must be exact: a stamp that is only a lower bound proves nothing about the entry itself.
    """
    acknowledged = acknowledged_writes(history)
    rows = np.flatnonzero((acknowledged.epoch != UNKNOWN) & (acknowledged.position != UNKNOWN))
    rows = rows[np.lexsort((acknowledged.epoch[rows], acknowledged.position[rows]))]
    epochs = acknowledged.epoch[rows]
    highest = first_of_highest(epochs)
    behind = np.flatnonzero(epochs < epochs[highest]).tolist()
    seen: dict[int, Operation] = {}
    for read in ok_reads(history) if behind else ():
        if read.value_position is not None and read.epoch is not None:
            known = seen.get(read.value_position)
            if known is None or (known.epoch or 0) < read.epoch:
                seen[read.value_position] = read
    effects: list[StampedWrite] = []
    for place in behind:
        write = acknowledged.writes[rows[place]]
        reader = seen.get(write_position(write) or 0)
        if reader is not None and (reader.epoch or 0) > (write.epoch or 0):
            effects.append(StampedWrite(write=write, earlier=acknowledged.writes[rows[highest[place]]], seen_by=reader))
    return effects
