"""Combinators that say *who*: on_workers, each_worker, reserve. They pass on parts of the context."""

from collections.abc import Iterable

import msgspec

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.generators.contract import (
    PENDING,
    Context,
    Generator,
    Invocation,
    Pending,
    Step,
)
from fencepost.harness.history import OpEvent


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
        tried: set[int] = set()
        for worker in ctx.free:
            k = shares.owner.get(worker)
            g = None if k is None else shares.parts[k]
            if k is None or g is None or k in tried:
                continue
            tried.add(k)
            step, after = g.op(shares._seen_by(k, ctx))
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

    def _seen_by(self, k: int, ctx: Context) -> Context:
        owner = self.owner
        free = ctx.free if len(ctx.free) == 1 else tuple([w for w in ctx.free if owner.get(w) == k])
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
        return self._with(k, g.update(self._seen_by(k, ctx), event))


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
