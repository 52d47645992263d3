"""Combinators that say *when*: time_limit, stagger, at_rate, sleep. They read time from the context only."""

from typing import Final

import msgspec

from fencepost.harness.generators.contract import PENDING, Context, Generator, Invocation, Pending, Step, Stream
from fencepost.harness.history import OpEvent

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
        gap_ns = ctx.draw(step.worker, Stream.PACE).below(2 * self.interval_ns + 1)
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
