"""Combinators that say *what* is offered and in which order: draws, once, mix, limit, repeat, phases, until_ok, ...

Each public function makes a value of the private class before it. The classes are frozen msgspec Structs, since one is
made for almost every operation and a frozen dataclass costs several times as much.
"""

from collections.abc import Callable

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


class _Draws(msgspec.Struct, frozen=True):
    fn: Callable[[int, int, Draw], Offer]

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        i = ctx.counts[worker]
        return Invocation(worker, self.fn(worker, i, Draw(ctx.seed, worker, i)), ctx.time_ns), self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


def draws(fn: Callable[[int, int, Draw], Offer]) -> Generator:
    """Endless: `fn(worker, i, draw)` for the longest idle worker; i counts that worker's operations in this run.

    `fn` must be pure. `i * workers + worker` is unique in the run.
    """
    return _Draws(fn)


class _Numbered(msgspec.Struct, frozen=True):
    make: Callable[[int], Offer]

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        return Invocation(worker, self.make(ctx.number(worker)), ctx.time_ns), self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


def numbered(make: Callable[[int], Offer]) -> Generator:
    """Endless: `make(number)`, with a number from 1 on that no other operation of the run has."""
    return _Numbered(make)


class _Once(msgspec.Struct, frozen=True):
    offer: Offer
    spent: bool = False

    def op(self, ctx: Context) -> Step:
        if self.spent:
            return None, self
        return Invocation(ctx.free[0], self.offer, ctx.time_ns), _Once(self.offer, True)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


def once(offer: Offer) -> Generator:
    """One operation, then the end."""
    return _Once(offer)


class _Limit(msgspec.Struct, frozen=True):
    left: int
    g: Generator

    def op(self, ctx: Context) -> Step:
        if self.left <= 0:
            return None, self
        step, g = self.g.op(ctx)
        if step is None:
            return None, self
        return step, _Limit(self.left if step is PENDING else self.left - 1, g)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        g = self.g.update(ctx, event)
        return self if g is self.g else _Limit(self.left, g)


def limit(n: int, g: Generator) -> Generator:
    """At most n operations of `g`."""
    return _Limit(n, g)


class _Mix(msgspec.Struct, frozen=True):
    weights: tuple[int, ...]
    parts: tuple[Generator, ...]

    def op(self, ctx: Context) -> Step:
        mix = self
        for worker in ctx.free:
            alone = ctx.alone(worker)
            drawn = ctx.draw(worker, DrawStream.MIX)
            untried = list(range(len(mix.parts)))
            while untried:
                k = mix._pick(untried, drawn)
                step, g = mix.parts[k].op(alone)
                if step is None:
                    # This part is over: draw again among the others.
                    mix = mix._without(k)
                    untried = [other - (other > k) for other in untried if other != k]
                    continue
                mix = mix._with(k, g)
                if step is not PENDING:
                    return step, mix
                untried.remove(k)
        return (PENDING if mix.parts else None), mix

    def _pick(self, untried: list[int], drawn: Draw) -> int:
        point = drawn.below(sum(self.weights[k] for k in untried))
        for k in untried:
            point -= self.weights[k]
            if point < 0:
                return k
        raise AssertionError("the point lies below the sum of the weights")

    def _with(self, k: int, g: Generator) -> "_Mix":
        if g is self.parts[k]:
            return self
        return _Mix(self.weights, (*self.parts[:k], g, *self.parts[k + 1 :]))

    def _without(self, k: int) -> "_Mix":
        return _Mix(self.weights[:k] + self.weights[k + 1 :], self.parts[:k] + self.parts[k + 1 :])

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        parts = tuple([g.update(ctx, event) for g in self.parts])
        same = all(new is old for new, old in zip(parts, self.parts, strict=True))
        return self if same else _Mix(self.weights, parts)


def mix(*parts: Generator | tuple[int, Generator]) -> Generator:
    """Each operation comes from a drawn part, with equal chances or by weight: `mix((3, reads), (1, writes))`.

    A part that is over leaves the mix; while a part is pending, another is drawn.
    """
    pairs = [part if isinstance(part, tuple) else (1, part) for part in parts]
    if any(weight < 1 for weight, _ in pairs):
        raise HarnessError("mix: every weight must be at least 1")
    return _Mix(tuple(weight for weight, _ in pairs), tuple(g for _, g in pairs))


class _Sequence(msgspec.Struct, frozen=True):
    parts: tuple[Generator, ...]
    barrier: bool
    begun: bool = False

    def op(self, ctx: Context) -> Step:
        sequence = self
        while sequence.parts:
            if sequence.barrier and not sequence.begun and len(ctx.free) < len(ctx.workers):
                return PENDING, sequence
            step, g = sequence.parts[0].op(ctx)
            if step is not None:
                return step, _Sequence((g, *sequence.parts[1:]), sequence.barrier, True)
            sequence = _Sequence(sequence.parts[1:], sequence.barrier)
        return None, sequence

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if not self.parts:
            return self
        g = self.parts[0].update(ctx, event)
        return self if g is self.parts[0] else _Sequence((g, *self.parts[1:]), self.barrier, self.begun)


def phases(*parts: Generator) -> Generator:
    """One part after another; each begins when every worker is free."""
    return _Sequence(parts, True)


def sequence(*parts: Generator) -> Generator:
    """One part after another, without waiting for the operations of the part before."""
    return _Sequence(parts, False)


class _Repeat(msgspec.Struct, frozen=True):
    first: Generator
    g: Generator
    left: int | None
    offered: bool = False

    def op(self, ctx: Context) -> Step:
        step, g = self.g.op(ctx)
        if step is not None:
            return step, _Repeat(self.first, g, self.left, self.offered or step is not PENDING)
        left = None if self.left is None else self.left - 1
        if left == 0 or not self.offered:
            # A generator that ends without an offer would restart for ever.
            return None, self
        return _Repeat(self.first, self.first, left).op(ctx)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        g = self.g.update(ctx, event)
        return self if g is self.g else _Repeat(self.first, g, self.left, self.offered)


def repeat(g: Generator, times: int | None = None) -> Generator:
    """`g`, restarted each time it ends: `times` times in all, or endlessly."""
    return _Repeat(g, g, times) if times != 0 else _Sequence((), False)


class _UntilOk(msgspec.Struct, frozen=True):
    first: Generator
    g: Generator
    in_flight: frozenset[int] = frozenset()
    satisfied: bool = False

    def op(self, ctx: Context) -> Step:
        if self.satisfied:
            return None, self
        step, g = self.g.op(ctx)
        if step is None:
            if self.in_flight or self.g is self.first:
                return (PENDING if self.in_flight else None), self
            return _UntilOk(self.first, self.first).op(ctx)
        in_flight = self.in_flight if isinstance(step, Pending) else self.in_flight | {step.worker}
        return step, _UntilOk(self.first, g, in_flight)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        worker = ctx.worker_of(event)
        mine = worker in self.in_flight
        satisfied = self.satisfied or (mine and event.type is Outcome.OK)
        g = self.g.update(ctx, event)
        if not mine and g is self.g:
            return self
        return _UntilOk(self.first, g, self.in_flight - {worker}, satisfied)


def until_ok(g: Generator) -> Generator:
    """`g`, restarted each time it ends, until one of its operations ends `ok`.

    `until_ok(once(offer))` tries one operation at a time.
    """
    return _UntilOk(g, g)


class _Validate(msgspec.Struct, frozen=True):
    g: Generator

    def op(self, ctx: Context) -> Step:
        step, g = self.g.op(ctx)
        if step is not None and step is not PENDING:
            rule = _broken_rule(step, ctx)
            if rule is not None:
                raise HarnessError(f"generator {type(self.g).__name__}: {rule}; it answered {step!r}")
        if g is self.g:
            return step, self
        if not (hasattr(g, "op") and hasattr(g, "update")):
            raise HarnessError(f"generator {type(self.g).__name__}: became {g!r}, which is not a generator")
        return step, _Validate(g)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        g = self.g.update(ctx, event)
        return self if g is self.g else _Validate(g)


def _broken_rule(step: object, ctx: Context) -> str | None:
    if type(step) is not Invocation:
        return "an answer is an Invocation, PENDING or None"
    if step.worker not in ctx.free:
        return f"worker {step.worker} is not one of the free workers {ctx.free}"
    if step.at_ns < ctx.time_ns:
        return f"at_ns lies in the past (it is {ctx.time_ns})"
    offer = step.offer
    if type(offer) is not Offer or type(offer.f) is not str or not (offer.key is None or type(offer.key) is str):
        return "the offer must be an Offer with a string `f` and a string or no key"
    return None


def validate(g: Generator) -> Generator:
    """`g`, with each answer checked against the contract; a HarnessError names the rule that an answer breaks."""
    return _Validate(g)
