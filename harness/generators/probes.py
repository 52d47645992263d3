"""Probes: operations for a node that was superseded as leader, sent while its successor serves.

A node that was deposed is seldom asked anything that matters: workers on it wait for answers to what they asked before,
and a new connection is not opened by a node that stands still. A probe's worker therefore sits idle on an open
connection, which it proves now and then, and asks as soon as the driver says (`Context.superseded`) that its node last
claimed to lead though another one has claimed it since.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from fencepost.harness.generators.contract import (
    PENDING,
    Context,
    Draw,
    Generator,
    Invocation,
    Offer,
    Step,
    Stream,
)
from fencepost.harness.generators.who import each_worker
from fencepost.harness.history import OpEvent, Outcome

#: Mean time between two operations that keep a probe's connection open.
KEEP_NS: Final = 8_000_000_000
#: After a failure the connection is opened again within this.
_MEND_NS: Final = 2_000_000_000
#: A superseded node is asked within this, and so soon again after an answer: all its probes at once would meet the same
#: moment.
_ASK_NS: Final = 150_000_000


class _Probe(msgspec.Struct, frozen=True):
    """One worker's. `due_ns` is when it acts next, set for a node that is superseded (`asks`) or that is not."""

    keep: Callable[[Draw], Offer]
    ask: Callable[[int, Draw], Offer]
    due_ns: int | None = None
    asks: bool = False

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        superseded = worker in ctx.superseded
        if self.due_ns is None or superseded != self.asks:
            # Also from superseded to not: what it asked then was its proof that the connection is open, or is not.
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
        due_ns = ctx.time_ns + ctx.draw(worker, Stream.PACE).below(within_ns)
        return _Probe(self.keep, self.ask, due_ns, superseded)


def probes(keep: Callable[[Draw], Offer], ask: Callable[[int, Draw], Offer]) -> Generator:
    """Without end: each worker offers `keep` now and then, and `ask(number, draw)` while its node is superseded.

    The number is one that no other operation of the run has.
    """
    return each_worker(_Probe(keep, ask))
