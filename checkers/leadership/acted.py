"""What superseded leaders did with the operations that were sent to them: refused, timed out, served, or acted.

An operation was *asked* of a superseded leader when it was invoked while its node certainly led an epoch below one
that had begun. It was *served* by one when it was invoked after a higher epoch had begun and its ok reply is stamped
with the node's own epoch, or came before the window of a later sample of the same incarnation that still claims it. A
stamp counts only where stamps are exact, and only until the node is known to lead no more: a former leader that
follows answers from its old state too, and that is no act of a leader.

Being served proves little, since etcd and ZooKeeper nodes forward. A superseded leader *acted* when
  - an answer that had to be current lacks an ok write, stamped with a higher epoch, that completed before (stale);
  - it acknowledged an add that the last final read lacks and nothing removed (lost acknowledgement);
  - an ok write stamped with the lower epoch stands after one of the higher epoch, and a reader in the higher epoch saw
    it (stamped effect).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.facts.positions import (
    CURRENT,
    EFFECT_FREE,
    PARTITION_STAMPED,
    READS,
    by_key,
    final_reads,
    ok_reads,
    ok_writes,
    view_position,
    write_position,
    written,
)
from fencepost.checkers.facts.reigns import Reign, Reigns
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts

#: Rows of the clients' error tables by which a node refuses for its epoch or its role, or for lack of a leader. Where
#: such a row is indefinite, a write ends `info` with it and is of unknown outcome; only a read ends `fail`. So it is
#: with Kafka's "not-controller": a controller of KRaft that resigns says it of what it has appended, too.
REFUSALS: Final = frozenset(
    {
        "not-leader",
        "no-leader",
        "leader-changed",
        "stale-epoch",
        "not-serving",
        "unavailable",
        "not-controller",
        "not-leader-or-follower",
        "leader-not-available",
        "fenced-leader-epoch",
    }
)
#: Rows that say nothing at all: also a read that ends so was neither served nor refused.
TIME_OUTS: Final = frozenset({"timeout", "request-timed-out", "deadline-exceeded", "connection-lost"})
_REMOVES: Final = frozenset({"remove", "delete"})


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    read: Operation
    write: Operation
    reign: Reign


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    add: Operation
    read: Operation
    reign: Reign


class Stamped(msgspec.Struct, frozen=True, kw_only=True):
    write: Operation
    earlier: Operation
    seen_by: Operation


class Acts(msgspec.Struct, kw_only=True):
    """The operations of each kind, and the violations among them."""

    asked: list[Operation] = []
    asked_writes: list[Operation] = []
    served: list[Operation] = []
    fenced: list[Operation] = []
    unknown: list[Operation] = []
    refused_otherwise: list[Operation] = []
    fresh_reads_exposed: list[Operation] = []
    stale: list[Stale] = []
    lost: list[Lost] = []
    stamped: list[Stamped] = []


def find_acts(history: History, facts: Facts, reigns: Reigns) -> Acts:
    """Judge every operation that was sent to a superseded leader. Cost: O(n log n)."""
    acts = Acts(stale=[], lost=[], stamped=stamped_effects(history) if reigns.stamps_exact else [])
    finals = _Finals(history)
    newer = NewerWrites(history)
    current = facts.read_guarantee in CURRENT
    for operation, reign, asked, served in asked_of_superseded(history, reigns):
        acts.asked += [operation] * asked
        acts.asked_writes += [operation] * (asked and operation.f not in EFFECT_FREE)
        acts.served += [operation] * served
        match operation.type:
            case Outcome.OK:
                if operation.f in READS and current:
                    _judge_read(acts, operation, reign, served, newer)
                elif operation.f == "add" and served:
                    _judge_add(acts, operation, reign, finals)
            case Outcome.INFO:
                acts.unknown += [operation] * asked
            case _:
                _judge_refusal(acts, operation, reign, finals)
    return acts


def asked_of_superseded(history: History, reigns: Reigns) -> Iterator[tuple[Operation, Reign, bool, bool]]:
    """Each operation sent to a superseded leader: with the reign, whether it was asked, and whether it was served."""
    of_node: dict[str, list[Operation]] = {}
    for operation in history.operations:
        if operation.f not in PARTITION_STAMPED:
            # Those are asked of the leader of a topic partition, who may be any node (`checkers.log.zombie_brokers`).
            of_node.setdefault(operation.node, []).append(operation)
    invoked = {node: [o.invoked_ns for o in own] for node, own in of_node.items()}
    for reign in reigns.reigns:
        begin = reign.superseded
        if begin is None or reign.node not in of_node:
            continue
        last_ns = reign.last_ns
        by_stamp_ns = reign.over_ns if reign.over_ns is not None else history.end_ns
        end_ns = max(last_ns, by_stamp_ns) if reigns.stamps_exact else last_ns
        times = invoked[reign.node]
        for i in range(bisect_right(times, begin.at_ns), bisect_right(times, end_ns)):
            operation = of_node[reign.node][i]
            done_ns = operation.completed_ns
            asked = operation.invoked_ns <= last_ns
            answered = operation.type is Outcome.OK and done_ns is not None
            stamped = reigns.stamps_exact and operation.epoch == reign.epoch
            served = answered and done_ns is not None and (stamped or done_ns < last_ns)
            if asked or served:
                yield operation, reign, asked, served


class NewerWrites:
    """Acknowledged writes of a key stamped above an epoch, by completion, with the highest position so far."""

    def __init__(self, history: History) -> None:
        self._writes = by_key(
            sorted(
                (o for o in ok_writes(history) if o.epoch is not None and write_position(o) is not None),
                key=lambda o: o.completed_ns or 0,
            )
        )
        self._tables: dict[tuple[str | None, int], tuple[list[int], list[Operation]]] = {}

    def newest(self, key: str | None, epoch: int, before_ns: int) -> Operation | None:
        """The write of `key` in the latest position among those stamped above `epoch` and completed by `before_ns`."""
        if (key, epoch) not in self._tables:
            self._tables[key, epoch] = self._table(key, epoch)
        times, best = self._tables[key, epoch]
        i = bisect_left(times, before_ns)
        return best[i - 1] if i else None

    def _table(self, key: str | None, epoch: int) -> tuple[list[int], list[Operation]]:
        times: list[int] = []
        best: list[Operation] = []
        for write in self._writes.get(key, []):
            if write.epoch is None or write.epoch <= epoch or write.completed_ns is None:
                continue
            times.append(write.completed_ns)
            behind = best and (write_position(best[-1]) or 0) > (write_position(write) or 0)
            best.append(best[-1] if behind else write)
        return times, best


class _Finals:
    """The last final read of each key, and what it says of an effect."""

    def __init__(self, history: History) -> None:
        self.last: Final = {key: reads[-1] for key, reads in by_key(final_reads(history)).items()}
        self._removed = {o.key for o in history.operations if o.f in _REMOVES}

    def lacks(self, operation: Operation) -> bool:
        """Whether a later final read of its key was made, does not show its effect, and nothing removed it."""
        read = self.last.get(operation.key)
        if read is None or operation.key in self._removed or operation.ended_ns is None:
            return False
        if operation.ended_ns >= read.invoked_ns:
            return False
        found = read.result if isinstance(read.result, list) else [read.result]
        return written(operation) not in found


def _judge_read(acts: Acts, read: Operation, reign: Reign, served: bool, newer: NewerWrites) -> None:
    write = newer.newest(read.key, reign.epoch, read.invoked_ns)
    if write is None:
        return
    acts.fresh_reads_exposed.append(read)
    view, missing = view_position(read), write_position(write)
    # Whoever returns what it wrote has it, whatever number the server gives that (see `checkers.leadership.freshness`).
    lacks = view is not None and missing is not None and view < missing and read.result != written(write)
    if served and lacks:
        acts.stale.append(Stale(read=read, write=write, reign=reign))


def _judge_add(acts: Acts, add: Operation, reign: Reign, finals: _Finals) -> None:
    if finals.lacks(add):
        acts.lost.append(Lost(add=add, read=finals.last[add.key], reign=reign))


def _judge_refusal(acts: Acts, operation: Operation, reign: Reign, finals: _Finals) -> None:
    """Fenced: refused for role or epoch while it still led, and without effect in the final state."""
    ended_ns, code = operation.ended_ns, (operation.error or "").split(":")[0]
    if code in TIME_OUTS:
        acts.unknown.append(operation)
    elif ended_ns is None or ended_ns >= reign.last_ns or code not in REFUSALS:
        acts.refused_otherwise.append(operation)
    elif operation.f in EFFECT_FREE or finals.lacks(operation):
        acts.fenced.append(operation)
    else:
        # Without a final read of it, or with its effect there, nobody can say that it was fenced.
        acts.unknown.append(operation)


def stamped_effects(history: History) -> list[Stamped]:
    """Ok writes of a lower epoch that stand after a write of a higher one, and were seen by a reader in a higher one.

    Only for exact stamps: a stamp that is a lower bound proves nothing about the entry itself.
    """
    placed = [(write_position(o), o.epoch, o) for o in ok_writes(history)]
    ordered = sorted(((p, e, o) for p, e, o in placed if p is not None and e is not None), key=lambda t: t[:2])
    seen: dict[int, Operation] = {}
    for read in ok_reads(history):
        if read.value_position is not None and read.epoch is not None:
            known = seen.get(read.value_position)
            if known is None or (known.epoch or 0) < read.epoch:
                seen[read.value_position] = read
    found: list[Stamped] = []
    highest: tuple[int, Operation] | None = None
    for position, epoch, write in ordered:
        if highest is not None and epoch < highest[0]:
            reader = seen.get(position)
            if reader is not None and reader.epoch is not None and reader.epoch > epoch:
                found.append(Stamped(write=write, earlier=highest[1], seen_by=reader))
        elif highest is None or epoch > highest[0]:
            highest = (epoch, write)
    return found
