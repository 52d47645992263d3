"""The generators of a `watch` run: listeners that begin, listen and begin again, and writers that change keys.

What they learn is kept in one memory for all phases of the run, since a listener continues from one phase to the next.
Only completions change the memory, so that asking a generator twice gives the same answer.
"""

from enum import StrEnum
from typing import Final

import msgspec

from fencepost.harness.generators import PENDING, Context, Draw, Generator, Invocation, Offer
from fencepost.harness.generators.contract import Step
from fencepost.harness.history import OpEvent, Outcome

#: A listener waits this long after a failure.
_REST_NS: Final = 100_000_000
#: One `next` in this many asks for a bookmark or a key.
_CONFIRM_ONE_IN: Final = 3
#: Of 20 changes. The others are compare-and-sets where the key's number is known, else puts.
_DELETES: Final = 4
_PAIRS: Final = 4
_PUTS: Final = 7
#: The share of compactions at a deletion; the others are at the newest change.
_AT_DELETION: Final = 0.75
_BEGIN_AT_HISTORY: Final = 0.5
#: A start in the future lies at most so many changes ahead.
_AHEAD: Final = 100


class BeginWatch(StrEnum):
    """Where a listener begins that ends its watch and begins another."""

    CONTINUE = "continue"
    PAST = "past"
    FUTURE = "future"
    ANY = "any"


_BEGINS: Final = (BeginWatch.CONTINUE, BeginWatch.PAST, BeginWatch.FUTURE)


class Listener(msgspec.Struct):
    """One listener: `cursor` is where it continues (None: the present), `reached` the position that it has seen."""

    open: bool = False
    cursor: int | None = None
    reached: int = -1
    begun_ns: int | None = None
    rests_until_ns: int = 0


class WatchMemory:
    """What the clients of a run have learned from their answers."""

    def __init__(self) -> None:
        self.listeners: dict[int, Listener] = {}
        self.numbers: dict[str, int] = {}
        self.latest = 0
        self.deletion = 0
        self.history_from = 0

    def listener(self, worker: int) -> Listener:
        return self.listeners.setdefault(worker, Listener())

    def learn(self, worker: int, event: OpEvent) -> None:
        if event.f in ("watch", "next"):
            self._learn_heard(self.listener(worker), event)
        elif event.type is Outcome.OK:
            self._learn_change(event)

    def _learn_change(self, event: OpEvent) -> None:
        if event.f == "compact":
            self.history_from = max(self.history_from, event.value)
            return
        position = event.value_position or 0
        self.latest = max(self.latest, position)
        assert event.key is not None
        if event.f == "delete":
            self.deletion = max(self.deletion, position)
            self.numbers.pop(event.key, None)
        elif event.f == "put":
            self.numbers[event.key] = event.value
        elif event.f == "cas":
            self.numbers[event.key] = event.value[1]

    def _learn_heard(self, listener: Listener, event: OpEvent) -> None:
        if event.type is not Outcome.OK:
            listener.open = False
            if event.error == "compacted":
                listener.cursor = event.position
                self.history_from = max(self.history_from, event.position or 0)
            elif event.error != "not-watching":
                listener.rests_until_ns = event.time_ns + _REST_NS
            return
        if event.f == "watch":
            listener.open, listener.begun_ns = True, event.time_ns
            listener.cursor, listener.reached = event.value + 1, event.value
            return
        for kind, _, position, *rest in event.value:
            if kind == "changes":
                newest = max((change[0] for change in rest[0] if change[0] is not None), default=-1)
                listener.reached = max(listener.reached, newest)
                listener.cursor = max(listener.cursor or 0, newest + 1)
            elif kind != "bookmark":
                listener.reached = max(listener.reached, position)


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Each free worker continues to listen (see `workloads.watch`); a new listener begins at `first`."""

    memory: WatchMemory
    keys: tuple[str, ...]
    key: str
    resumes: bool
    bookmarks: bool
    again_every_ns: int
    first: int | None = None
    begin: BeginWatch = BeginWatch.CONTINUE

    def op(self, ctx: Context) -> Step:
        for worker in ctx.free:
            listener = self.memory.listener(worker)
            if ctx.time_ns >= listener.rests_until_ns:
                return Invocation(worker, self._offer(ctx, worker, listener), ctx.time_ns), self
        return PENDING, self

    def _offer(self, ctx: Context, worker: int, listener: Listener) -> Offer:
        draw = ctx.draw(worker)
        if not listener.open:
            if not self.resumes:
                return Offer("watch", self.key, None)
            return Offer("watch", self.key, self.first if listener.cursor is None else listener.cursor)
        begun_ns = listener.begun_ns or 0
        if self.resumes and self.again_every_ns and ctx.time_ns - begun_ns >= self.again_every_ns:
            return Offer("watch", self.key, self._start(draw, listener))
        confirm = draw.choice(self.keys) if self.bookmarks and draw.below(_CONFIRM_ONE_IN) == 0 else None
        return Offer("next", self.key, confirm)

    def _start(self, draw: Draw, listener: Listener) -> int | None:
        """Choose where the next watch begins; what is in the future does not exist yet, as far as the clients know."""
        history, latest = self.memory.history_from, self.memory.latest
        begin = draw.choice(_BEGINS) if self.begin is BeginWatch.ANY else self.begin
        match begin:
            case BeginWatch.PAST if latest > history:
                return history + 1 + draw.below(latest - history)
            case BeginWatch.FUTURE:
                return latest + 2 + draw.below(_AHEAD)
            case _:
                return history if history and draw.chance(_BEGIN_AT_HISTORY) else listener.cursor

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        self.memory.learn(ctx.worker_of(event), event)
        return self


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """Listen until every worker has seen the newest acknowledged change."""

    memory: WatchMemory
    listen: Listen

    def op(self, ctx: Context) -> Step:
        behind = frozenset(w for w in ctx.workers if self.memory.listener(w).reached < self.memory.latest)
        if not behind:
            return None, self
        mine = ctx.only(behind)
        if not mine.free:
            return PENDING, self
        step, _ = self.listen.op(mine)
        return step, self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        self.memory.learn(ctx.worker_of(event), event)
        return self


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Changes, and compactions where the options ask for them.

    The keys of `pair` change together and always exist; without a pair there are no transactions.
    """

    memory: WatchMemory
    keys: tuple[str, ...]
    pair: tuple[str, ...]
    compact_every_ns: int
    compacted_ns: int = 0

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        draw = ctx.draw(worker)
        if self.compact_every_ns and ctx.time_ns - self.compacted_ns >= self.compact_every_ns:
            memory = self.memory
            position = memory.deletion if draw.chance(_AT_DELETION) else memory.latest
            if position > memory.history_from:
                after = msgspec.structs.replace(self, compacted_ns=ctx.time_ns)
                return Invocation(worker, Offer("compact", None, position), ctx.time_ns), after
        number = ctx.number(worker)
        drawn = draw.below(20)
        key = draw.choice(self.keys)
        if drawn < _PAIRS and self.pair:
            offer = Offer("put-all", self.pair[0], [[one, number] for one in self.pair])
        elif drawn < _PAIRS + _DELETES:
            offer = Offer("delete", key)
        elif drawn < _PAIRS + _DELETES + _PUTS or key not in self.memory.numbers:
            offer = Offer("put", key, number)
        else:
            offer = Offer("cas", key, [self.memory.numbers[key], number])
        return Invocation(worker, offer, ctx.time_ns), self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        self.memory.learn(ctx.worker_of(event), event)
        return self


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """`inner`, with its completions added to the memory."""

    memory: WatchMemory
    inner: Generator

    def op(self, ctx: Context) -> Step:
        step, inner = self.inner.op(ctx)
        return step, self if inner is self.inner else Remembered(memory=self.memory, inner=inner)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        self.memory.learn(ctx.worker_of(event), event)
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Remembered(memory=self.memory, inner=inner)
