"""Probes: operations for a node that was superseded as leader, sent while its successor serves.

A deposed node seldom gets a request that matters: the workers on it still wait for earlier answers, and a paused node
opens no new connection. So the worker of a probe stays idle on an open connection and uses it now and then to keep it
proven. As soon as the driver reports that another node has claimed leadership after this one (`Context.superseded`),
the worker sends its request.
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
        due_ns = ctx.time_ns + ctx.draw(worker, Stream.PACE).below(within_ns)
        return _Probe(self.keep, self.ask, due_ns, superseded)


def probes(keep: Callable[[Draw], Offer], ask: Callable[[int, Draw], Offer]) -> Generator:
    """Endless: each worker offers `keep` now and then, and `ask(number, draw)` while its node is superseded.

    No other operation of the run has the same number.
    """
    return each_worker(_Probe(keep, ask))
