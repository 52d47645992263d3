"""Listeners of the metadata log, beside a `metadata` run: each fetches the log from whoever leads it, from offset 0 on.

An operation `listen` of the listener with this key:
  value   [offset, epoch]: the first entry that it lacks, and the epoch of the one before (0 at the beginning)
  result  [epoch of the leader, high watermark, answers], each answer being
            ["entry", offset, epoch, type, fields]         an entry of the log, committed or not yet
            ["parts", epoch, end offset]                   the leader's log has nothing behind the end of that epoch
            ["snapshot", end offset, epoch, [[type, fields], ...]]   the state that stands for all entries below

A listener takes the entries as they are, also those that are not committed yet, as brokers do. After "parts" it drops
what it has behind that place and asks again. It has one operation under way at a time, on one node. It stays with a
node that answers, and after an error asks the next one, where another of its workers is connected. After the refusal of
an epoch it asks the same node once more, since the session then knows which one to name.
"""

from typing import Final

import msgspec

from fencepost.harness.generators.contract import PENDING, Context, Generator, Invocation, Offer, Step
from fencepost.harness.history import OpEvent, Outcome, Value
from fencepost.systems.kafka.protocols import LogPiece

#: The node serves no log at all, whoever leads it.
_NEVER: Final = frozenset({"no-metadata-log", "unsupported-api"})
_OTHER_EPOCH: Final = frozenset({"fenced-leader-epoch", "unknown-leader-epoch"})
#: A listener waits this long after the last node refused it, before it begins again with the first one.
_REST_NS: Final = 20_000_000
#: The leader waits this long for the next entry.
WAIT_S: Final = 0.1


class _Listener(msgspec.Struct):
    """What one listener has: `epochs` are the epochs of its entries, each with the offset at which it begins."""

    next: int = 0
    epochs: list[tuple[int, int]] = []
    #: The number of the node that is asked next, among those of the run.
    node: int = 0
    #: The last refusal was of an epoch.
    again: bool = False
    rests_until_ns: int = 0
    #: The last answer had nothing new, and everything that was there is committed.
    has_all: bool = False

    @property
    def epoch(self) -> int:
        return self.epochs[-1][1] if self.epochs else 0

    def take(self, offset: int, epoch: int) -> None:
        if epoch != self.epoch or not self.epochs:
            self.epochs.append((offset, epoch))
        self.next = offset + 1

    def drop(self, epoch: int, end: int) -> None:
        """Drop what is behind the end of `epoch`, here or in the leader's log."""
        later = next((begin for begin, own in self.epochs if own > epoch), self.next)
        self.next = min(end, later, self.next)
        self.epochs = [(begin, own) for begin, own in self.epochs if begin < self.next]

    def begin_behind(self, end: int, epoch: int) -> None:
        self.next, self.epochs = end, [(end - 1, epoch)] if end else []


class ListenMemory:
    """What the listeners of a run know; they live through all its phases."""

    def __init__(self) -> None:
        self.listeners: dict[int, _Listener] = {}
        self.silent_nodes: set[int] = set()

    def listener(self, number: int) -> _Listener:
        return self.listeners.setdefault(number, _Listener())

    def learn(self, number: int, node: int, nodes: int, event: OpEvent) -> None:
        listener = self.listener(number)
        if event.type is Outcome.OK:
            listener.again = False
            self._learn_answers(listener, event.value)
            return
        listener.has_all = False
        if event.error in _NEVER:
            self.silent_nodes.add(node)
        if event.error in _OTHER_EPOCH and not listener.again:
            listener.again = True
            return
        listener.again = False
        listener.node = (node + 1) % nodes
        listener.rests_until_ns = event.time_ns + _REST_NS

    def _learn_answers(self, listener: _Listener, value: Value) -> None:
        _, high_watermark, answers = value
        for kind, *rest in answers:
            match kind:
                case "entry":
                    listener.take(rest[0], rest[1])
                case "parts":
                    listener.drop(rest[0], rest[1])
                case _:
                    listener.begin_behind(rest[0], rest[1])
        listener.has_all = not answers and listener.next == high_watermark


class ListenToMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Each listener goes on fetching; its workers follow each other, one for each node.

    With `to_the_end` a listener ends as soon as it has everything.
    """

    memory: ListenMemory
    nodes: int
    to_the_end: bool = False
    #: The listeners that have an operation under way, and those that have ended.
    asking: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()

    def op(self, ctx: Context) -> Step:
        if len(self.ended) * self.nodes >= len(ctx.workers):
            return None, self
        for worker in ctx.free:
            number, node = self._which(ctx, worker)
            listener = self.memory.listener(number)
            if number in self.ended | self.asking or ctx.time_ns < listener.rests_until_ns:
                continue
            if node == self._asked_of(listener):
                offer = Offer("listen", f"listener{number}", [listener.next, listener.epoch])
                after = msgspec.structs.replace(self, asking=self.asking | {number})
                return Invocation(worker, offer, ctx.time_ns), after
        return PENDING, self

    def _asked_of(self, listener: _Listener) -> int:
        for step in range(self.nodes):
            node = (listener.node + step) % self.nodes
            if node not in self.memory.silent_nodes:
                return node
        return listener.node

    def _which(self, ctx: Context, worker: int) -> tuple[int, int]:
        """The listener that this worker belongs to, and the number of its node."""
        return ctx.workers.index(worker) // self.nodes, worker % self.nodes

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if event.f != "listen":
            return self
        number, node = self._which(ctx, ctx.worker_of(event))
        self.memory.learn(number, node, self.nodes, event)
        ends = self.to_the_end and self.memory.listener(number).has_all
        ended = self.ended | {number} if ends else self.ended
        return msgspec.structs.replace(self, asking=self.asking - {number}, ended=ended)


def answers(piece: LogPiece) -> Value:
    """The result of a `listen`, as the history keeps it."""
    items: list[Value] = [["entry", entry.offset, entry.epoch, entry.type, entry.fields] for entry in piece.entries]
    if piece.parts_at is not None:
        items.append(["parts", *piece.parts_at])
    if piece.snapshot is not None:
        state = [[entry.type, entry.fields] for entry in piece.snapshot.entries]
        items.append(["snapshot", piece.snapshot.end_offset, piece.snapshot.epoch, state])
    return [piece.epoch, piece.high_watermark, items]
