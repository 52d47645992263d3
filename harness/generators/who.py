"""Combinators that say *who* and *when*: on_workers, each_worker, reserve, time_limit, stagger, at_rate, sleep; probes.

They pass on parts of the context, and read time from it only.

Probes are operations for a node that was superseded as leader, sent while its successor serves. A deposed node seldom
gets a request that matters: the workers on it still wait for earlier answers, and a paused node opens no new
connection. So the worker of a probe stays idle on an open connection and uses it now and then to keep it proven. As
soon as the driver reports that another node has claimed leadership after this one (`Context.superseded`), the worker
sends its request.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.generators.contract import (
    PENDING,
    Context,
    Draw,
    DrawStream,
    Generator,
    Invocation,
    Offer,
    Pending,
    Step,
)
from fencepost.harness.history import OpEvent, Outcome


class _OnWorkers(msgspec.Struct, frozen=True):
    members: frozenset[int]
    g: Generator

    def op(self, ctx: Context) -> Step:
        mine = ctx.only(self.members)
        if not mine.free:
            return PENDING, self
        step, g = self.g.op(mine)
        return step, (self if g is self.g else _OnWorkers(self.members, g))

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if ctx.worker_of(event) not in self.members:
            return self
        g = self.g.update(ctx.only(self.members), event)
        return self if g is self.g else _OnWorkers(self.members, g)


def on_workers(members: Iterable[int], g: Generator) -> Generator:
    """`g` for these workers only; it sees only their completions."""
    return _OnWorkers(frozenset(members), g)


class _Shares(msgspec.Struct, frozen=True):
    """Each worker belongs to one share, and each share has its own generator; None where that share is over.

    `owner` and `members` are made at the first call, when the workers are known, and never changed.
    """

    sizes: tuple[int, ...]
    parts: tuple[Generator | None, ...]
    owner: dict[int, int] = {}
    members: tuple[tuple[int, ...], ...] = ()

    def op(self, ctx: Context) -> Step:
        shares = self if self.owner else self._resolved(ctx)
        best: Invocation | None = None
        best_next: _Shares = shares
        free_by: dict[int, list[int]] = {}
        for worker in ctx.free:
            if (k := shares.owner.get(worker)) is not None:
                free_by.setdefault(k, []).append(worker)
        for k, free in free_by.items():
            g = shares.parts[k]
            if g is None:
                continue
            step, after = g.op(shares._of(k, tuple(free), ctx))
            if step is None:
                shares = shares._with(k, None)
            elif isinstance(step, Pending):
                shares = shares._with(k, after)
            elif step.at_ns <= ctx.time_ns:
                return step, shares._with(k, after)
            elif best is None or step.at_ns < best.at_ns:
                best, best_next = step, shares._with(k, after)
        if best is not None:
            return best, best_next
        return (None if all(g is None for g in shares.parts) else PENDING), shares

    def _resolved(self, ctx: Context) -> "_Shares":
        owner: dict[int, int] = {}
        members: list[tuple[int, ...]] = []
        at = 0
        for k, size in enumerate(self.sizes):
            mine = ctx.workers[at : at + size] if size >= 0 else ctx.workers[at:]
            if not mine and self.parts[k] is not None and size != 0:
                raise HarnessError(
                    f"{len(ctx.workers)} workers are too few for shares of {self.sizes}",
                    hint=f"use at least {sum(s for s in self.sizes if s > 0) + (-1 in self.sizes)} workers",
                )
            owner.update(dict.fromkeys(mine, k))
            members.append(mine)
            at += len(mine)
        parts = tuple(g if mine else None for g, mine in zip(self.parts, members, strict=True))
        return _Shares(self.sizes, parts, owner, tuple(members))

    def _of(self, k: int, free: tuple[int, ...], ctx: Context) -> Context:
        return Context(ctx.time_ns, free, self.members[k], ctx.counts, ctx.total, ctx.seed, ctx.superseded)

    def _with(self, k: int, g: Generator | None) -> "_Shares":
        if g is self.parts[k]:
            return self
        return _Shares(self.sizes, (*self.parts[:k], g, *self.parts[k + 1 :]), self.owner, self.members)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        k = self.owner.get(ctx.worker_of(event))
        g = None if k is None else self.parts[k]
        if k is None or g is None:
            return self
        free = tuple([w for w in ctx.free if self.owner.get(w) == k])
        return self._with(k, g.update(self._of(k, free, ctx), event))


def reserve(*shares: tuple[int, Generator], default: Generator | None = None) -> Generator:
    """The first n workers do `g`, the next m do `h`, ..., the others `default`; no share starves another.

    When two operations are due, the one of the worker that has been idle longer goes first; otherwise the earlier one.
    """
    sizes = [n for n, _ in shares]
    parts: list[Generator | None] = [g for _, g in shares]
    if default is not None:
        sizes.append(-1)
        parts.append(default)
    return _Shares(tuple(sizes), tuple(parts))


class _EachWorker(msgspec.Struct, frozen=True):
    g: Generator

    def op(self, ctx: Context) -> Step:
        n = len(ctx.workers)
        return _Shares((1,) * n, (self.g,) * n).op(ctx)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


def each_worker(g: Generator) -> Generator:
    """Every worker works through its own copy of `g`; over when all copies are."""
    return _EachWorker(g)


#: A paced generator catches up with delays up to this, and skips what it missed beyond.
SLACK_NS: Final = 10_000_000


class _TimeLimit(msgspec.Struct, frozen=True):
    duration_ns: int
    g: Generator
    end_ns: int | None = None

    def op(self, ctx: Context) -> Step:
        end_ns = self.end_ns if self.end_ns is not None else ctx.time_ns + self.duration_ns
        if ctx.time_ns >= end_ns:
            return None, self
        step, g = self.g.op(ctx)
        if step is None:
            return None, self
        if not isinstance(step, Pending) and step.at_ns >= end_ns:
            # A worker that is busy now may get an earlier operation once it is free.
            busy = len(ctx.free) < len(ctx.workers)
            return (PENDING, _TimeLimit(self.duration_ns, self.g, end_ns)) if busy else (None, self)
        return step, (self if g is self.g and self.end_ns is not None else _TimeLimit(self.duration_ns, g, end_ns))

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        g = self.g.update(ctx, event)
        return self if g is self.g else _TimeLimit(self.duration_ns, g, self.end_ns)


def time_limit(duration_ns: int, g: Generator) -> Generator:
    """`g` for this long from the moment it is first asked. Limits new operations, not those in flight."""
    return _TimeLimit(duration_ns, g)


class _Paced(msgspec.Struct, frozen=True):
    interval_ns: int
    g: Generator
    next_ns: int | None = None

    def op(self, ctx: Context) -> Step:
        step, g = self.g.op(ctx)
        if step is None:
            return None, self
        if isinstance(step, Pending):
            return step, (self if g is self.g else _Paced(self.interval_ns, g, self.next_ns))
        due_ns = ctx.time_ns if self.next_ns is None else self.next_ns
        gap_ns = ctx.draw(step.worker, DrawStream.PACE).below(2 * self.interval_ns + 1)
        if due_ns > step.at_ns:
            step = Invocation(step.worker, step.offer, due_ns)
        return step, _Paced(self.interval_ns, g, max(due_ns, step.at_ns - SLACK_NS) + gap_ns)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        g = self.g.update(ctx, event)
        return self if g is self.g else _Paced(self.interval_ns, g, self.next_ns)


def stagger(interval_ns: int, g: Generator) -> Generator:
    """`g` at one operation per `interval_ns` on average, all workers together; gaps are uniform in 0..2 intervals.

    The gap after an operation is drawn from (seed, worker, i) of that operation. Delays up to 10 ms (timers, a busy
    loop) are caught up, so that the rate holds. What a longer stall missed is skipped, so that a store that comes back
    is not flooded. The first operation comes at once. `stagger(0, g)` is `g`.
    """
    return _Paced(interval_ns, g) if interval_ns > 0 else g


def at_rate(per_second: float, g: Generator) -> Generator:
    """`stagger` by operations per second, all workers of `g` together; 0 or less: as fast as they are answered."""
    return stagger(round(1e9 / per_second), g) if per_second > 0 else g


class _Sleep(msgspec.Struct, frozen=True):
    duration_ns: int
    end_ns: int | None = None

    def op(self, ctx: Context) -> Step:
        end_ns = self.end_ns if self.end_ns is not None else ctx.time_ns + self.duration_ns
        if ctx.time_ns >= end_ns:
            return None, self
        return PENDING, _Sleep(self.duration_ns, end_ns)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


def sleep(duration_ns: int) -> Generator:
    """No operation for this long, then the end; a part of `phases` or `sequence`."""
    return _Sleep(duration_ns)


#: Mean time between two operations that keep a probe's connection open.
KEEP_NS: Final = 8_000_000_000
#: After a failure the connection is opened again within this time.
_MEND_NS: Final = 2_000_000_000
#: A superseded node gets a request within this time, and the next one as soon after an answer. The times are drawn,
#: since all probes at once would test one single moment.
_ASK_NS: Final = 150_000_000


class _Probe(msgspec.Struct, frozen=True):
    """The probe of one worker. It acts at `due_ns`; `asks` says whether that was drawn for a superseded node."""

    keep: Callable[[Draw], Offer]
    ask: Callable[[int, Draw], Offer]
    due_ns: int | None = None
    asks: bool = False

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        superseded = worker in ctx.superseded
        if self.due_ns is None or superseded != self.asks:
            # Also when the node is no longer superseded: the last request has shown whether the connection is open.
            within_ns = _ASK_NS if superseded else _MEND_NS
            return PENDING, self._due(ctx, worker, within_ns, superseded)
        if ctx.time_ns < self.due_ns:
            return PENDING, self
        draw = ctx.draw(worker)
        offer = self.ask(ctx.number(worker), draw) if superseded else self.keep(draw)
        return Invocation(worker, offer, ctx.time_ns), self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        worker = ctx.worker_of(event)
        superseded = worker in ctx.superseded
        within_ns = 2 * KEEP_NS if event.type is Outcome.OK else _MEND_NS
        return self._due(ctx, worker, _ASK_NS if superseded else within_ns, superseded)

    def _due(self, ctx: Context, worker: int, within_ns: int, superseded: bool) -> "_Probe":
        due_ns = ctx.time_ns + ctx.draw(worker, DrawStream.PACE).below(within_ns)
        return _Probe(self.keep, self.ask, due_ns, superseded)


def probes(keep: Callable[[Draw], Offer], ask: Callable[[int, Draw], Offer]) -> Generator:
    """Endless: each worker offers `keep` now and then, and `ask(number, draw)` while its node is superseded.

    No other operation of the run has the same number.
    """
    return each_worker(_Probe(keep, ask))
