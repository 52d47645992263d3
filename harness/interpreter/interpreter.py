"""The interpreter: a generator says which operation is next and when, and the workers carry it out.

Every answer of a generator is checked against the contract (`validate`). That costs about a microsecond per operation,
and an error names the plug-in's workload that breaks the contract.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from fencepost.harness.base.event_loop import new_event_loop as new_event_loop
from fencepost.harness.generators import validate
from fencepost.harness.generators.contract import PENDING, Context, Generator, Invocation
from fencepost.harness.history import OpEvent, Outcome
from fencepost.harness.interpreter.client import Clients
from fencepost.harness.interpreter.workers import Workers
from fencepost.harness.results.recorder import Recorder

#: A pending generator is asked again after this time at the latest.
PENDING_POLL_S: Final = 0.002
#: An operation that is due this soon begins now: the loop's timers are no finer.
TIMER_GRAIN_NS: Final = 500_000


class Interpreter:
    """Run one generator after another (the phases of a run) with the same workers and sessions.

    `superseded` gives the nodes that are known to be superseded as leaders now.
    """

    def __init__(
        self,
        clients: Clients,
        *,
        recorder: Recorder,
        seed: int,
        superseded: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self.counts: Counter[Outcome] = Counter()
        self._workers = tuple(range(len(clients.nodes)))
        self._crew = Workers(clients, recorder, self)
        self._recorder = recorder
        self._seed = seed
        self._nodes = clients.nodes
        self._superseded = superseded
        self._superseded_nodes: frozenset[str] = frozenset()
        self._superseded_workers: frozenset[int] = frozenset()
        # A dictionary as an ordered set: the longest idle worker stands first.
        self._free: dict[int, None] = dict.fromkeys(self._workers)
        self._begun = [0] * len(self._workers)
        self._generator: Generator | None = None
        self._finished: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._closed = False
        self._failure: BaseException | None = None

    @property
    def completed(self) -> int:
        """The number of operations that ended, with any outcome."""
        return self.counts.total()

    @property
    def busy(self) -> tuple[int, ...]:
        """The workers with an operation in flight, the oldest operation first."""
        return self._crew.busy

    async def run(self, generator: Generator, *, stop: asyncio.Event | None = None) -> None:
        """Carry out one phase, until `generator` is over or `stop` is set and every operation has ended.

        Raises:
            HarnessError: the generator broke its contract, or a worker died.
        """
        if self._finished is not None or self._closed:
            raise RuntimeError("an interpreter runs one generator at a time, and none after it was closed")
        if self._failure is not None:
            raise self._failure
        self._loop = asyncio.get_running_loop()
        self._crew.start()
        self._generator = validate(generator)
        self._finished = self._loop.create_future()
        stopper = asyncio.ensure_future(self._stop_when(stop)) if stop is not None else None
        if stop is not None and stop.is_set():
            self._generator = None
        try:
            self._advance()
            await self._finished
        finally:
            self._generator = None
            self._finished = None
            self._disarm()
            if stopper is not None:
                stopper.cancel()

    async def _stop_when(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._end_generator()

    async def close(self) -> None:
        """Close every client; operations in flight end `info`. Idempotent; takes at most twice the grace time."""
        self._closed = True
        self._generator = None
        await self._crew.close()

    # --- what the workers report --------------------------------------------------------------------------------

    def ended(self, event: OpEvent) -> None:
        """Report the end of an operation to the generator."""
        self.counts[event.type] += 1
        generator = self._generator
        if generator is not None:
            self._generator = generator.update(self._context(event.time_ns), event)

    def free(self, worker: int) -> None:
        """Give a free worker its next operation. A generator that raises ends the run with its exception."""
        self._free[worker] = None
        self._guarded(self._advance)

    def failed(self, error: BaseException) -> None:
        """End the run with the exception of a worker or of the generator."""
        self._generator = None
        self._failure = error
        if self._finished is not None and not self._finished.done():
            self._finished.set_exception(error)

    # --- which operation next -----------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Ask the generator for as many operations as can begin now, and hand them to their workers."""
        generator = self._generator
        free = self._free
        while generator is not None and free:
            now_ns = self._recorder.now_ns()
            step, after = generator.op(self._context(now_ns))
            if type(step) is Invocation:
                if step.at_ns > now_ns + TIMER_GRAIN_NS:
                    self._arm(step.at_ns, now_ns)
                    return
                self._generator = generator = after
                del free[step.worker]
                self._begun[step.worker] += 1
                self._crew.assign(step)
            elif step is PENDING:
                self._generator = after
                self._arm(now_ns + int(PENDING_POLL_S * 1e9), now_ns)
                return
            else:
                self._end_generator()
                return
        if generator is None:
            self._end_if_idle()

    def _context(self, time_ns: int) -> Context:
        workers, nodes = self._workers, self._superseded()
        if nodes != self._superseded_nodes:
            self._superseded_nodes = nodes
            self._superseded_workers = frozenset(w for w in workers if self._nodes[w] in nodes)
        begun, superseded = tuple(self._begun), self._superseded_workers
        return Context(time_ns, tuple(self._free), workers, begun, len(workers), self._seed, superseded)

    def _end_generator(self) -> None:
        self._generator = None
        self._disarm()
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._finished is not None and not self._finished.done() and len(self._free) == len(self._workers):
            self._finished.set_result(None)

    def _arm(self, at_ns: int, now_ns: int) -> None:
        if self._timer is not None:
            if self._timer_ns == at_ns:
                return
            self._timer.cancel()
        self._timer_ns = at_ns
        self._timer = self._loop.call_later((at_ns - now_ns) / 1e9, self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        self._guarded(self._advance)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self.failed(error)
