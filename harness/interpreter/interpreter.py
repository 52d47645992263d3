"""The interpreter carries a generator's offers out: long-lived workers on one event loop, every operation bounded.

Worker w plays process w; after an operation that ended `info` the process is retired, its client closed, and the
worker goes on as process w + workers (pairing is by process, and worker = process modulo workers always holds). The
invocation is stamped before the request leaves and the completion after the answer came: lateness of the loop only
widens what a checker sees.

How an operation ends: what the client returns; `Definite` fail (after `NotSent` the next one is on a fresh client);
`Indefinite` info; deadline info ("timeout"); anything else info ("unforeseen: ..."), counted. An effect-free operation
ends `fail` where it would have been `Indefinite` or a time-out, on a fresh client, since the late reply must not meet
the next request. A client that cannot be opened makes the operation `fail`: nothing was sent; its worker rests
`REOPEN_DELAY_S`, so that a dead node does not flood the history.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.base.event_loop import new_event_loop as new_event_loop
from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.coordination.client_gate import Freezer
from fencepost.harness.generators.contract import PENDING, Context, Generator, Invocation, Offer
from fencepost.harness.history import Completion, Outcome
from fencepost.harness.history.operation_error import unforeseen
from fencepost.harness.interpreter.client import Client, ClientFactory, checked
from fencepost.harness.interpreter.deadlines import Deadlines
from fencepost.harness.interpreter.slot import OPEN_TIMEOUT, SHUTDOWN, TIMEOUT, TIMEOUT_EFFECT_FREE, Slot
from fencepost.harness.results.recorder import Recorder

#: A generator that is pending is asked again at the latest after this.
PENDING_POLL_S: Final = 0.002
#: An operation due this soon is begun now: timers of the loop are no finer.
TIMER_GRAIN_NS: Final = 500_000
#: Rest of a worker after it could not open a client.
REOPEN_DELAY_S: Final = 0.05
#: How long a client may take to give in after it was cancelled, before its worker is replaced.
GRACE_S: Final = 1.0
#: How often an operation of a frozen worker that is overdue is looked at again.
_FROZEN_LOOK_S: Final = 0.05
#: After this many operations in a row a worker lets the others run, should its client never wait.
_TURN: Final = 16


class Interpreter:
    """Runs one generator after another (phases of a run) with the same workers and sessions.

    `op_timeout_s` bounds an operation, for all workers or by worker.
    """

    def __init__(
        self,
        *,
        workers: int,
        node_of: Callable[[int], str],
        open_client: ClientFactory,
        recorder: Recorder,
        seed: int,
        op_timeout_s: float | Callable[[int], float],
        open_timeout_s: float,
        effect_free: frozenset[str] = frozenset(),
        freezer: Freezer | None = None,
    ) -> None:
        self.counts: Counter[Outcome] = Counter()
        self.unforeseen: Counter[str] = Counter()
        self._workers = tuple(range(workers))
        self._nodes = [node_of(w) for w in self._workers]
        self._open_client = open_client
        self._recorder = recorder
        self._seed = seed
        self._op_timeouts_s = [op_timeout_s(w) if callable(op_timeout_s) else op_timeout_s for w in self._workers]
        self._open_timeout_s = open_timeout_s
        self._effect_free = effect_free
        self._gates = freezer.gates if freezer is not None else ()
        self._slots = [Slot(w) for w in self._workers]
        # A dictionary as an ordered set: the longest idle worker stands first.
        self._free: dict[int, None] = dict.fromkeys(self._workers)
        self._begun = [0] * workers
        self._generator: Generator | None = None
        self._finished: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._closed = False
        self._failure: BaseException | None = None
        self._abandoned: list[Slot] = []

    @property
    def completed(self) -> int:
        """Operations that ended, whatever their outcome."""
        return self.counts.total()

    @property
    def busy(self) -> tuple[int, ...]:
        """Workers with an operation in flight, the longest first."""
        slots = [slot for slot in self._slots if slot.invocation is not None and not slot.opening]
        return tuple(slot.number for slot in sorted(slots, key=lambda slot: slot.invocation.index))  # type: ignore[union-attr]

    @property
    def in_flight(self) -> int:
        """Operations begun and not yet ended (and workers still closing a client)."""
        return len(self._workers) - len(self._free)

    async def run(self, generator: Generator, *, stop: asyncio.Event | None = None) -> None:
        """Carry out one phase: until `generator` is over or `stop` is set, and then until every operation has ended."""
        if self._finished is not None or self._closed:
            raise RuntimeError("an interpreter runs one generator at a time, and none after it was closed")
        if self._failure is not None:
            raise self._failure
        self._loop = asyncio.get_running_loop()
        if self._slots[0].task is None:
            self._deadlines = Deadlines(self._loop, self._expire)
            for slot in self._slots:
                self._start(slot)
        self._generator = generator
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
        """Close every client; operations in flight are recorded `info`. Idempotent, and bounded by the grace time."""
        if self._closed:
            return
        self._closed = True
        self._generator = None
        tasks = [slot.task for slot in (*self._slots, *self._abandoned) if slot.task is not None]
        for slot in self._slots:
            self._record(slot, SHUTDOWN)
        for task in tasks:
            task.cancel()
        if tasks:
            self._deadlines.close()
            await asyncio.wait(tasks, timeout=GRACE_S)
        closing = [
            asyncio.ensure_future(self._close_quietly(slot.client))
            for slot in (*self._slots, *self._abandoned)
            if slot.client is not None
        ]
        if closing:
            _, late = await asyncio.wait(closing, timeout=GRACE_S)
            for task in late:
                task.cancel()

    async def _close_quietly(self, client: Client) -> None:
        try:
            await client.close()
        except Exception as error:
            self._unforeseen(error)

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
                self._assign(step)
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
        workers = self._workers
        return Context(time_ns, tuple(self._free), workers, tuple(self._begun), len(workers), self._seed)

    def _assign(self, invocation: Invocation) -> None:
        worker = invocation.worker
        del self._free[worker]
        self._begun[worker] += 1
        slot = self._slots[worker]
        slot.offer = invocation.offer
        wake = slot.wake
        if wake is not None and not wake.done():
            wake.set_result(None)

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
        """A generator that throws ends the run with its exception instead of silence."""
        try:
            act()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._generator = None
        self._failure = error
        if self._finished is not None and not self._finished.done():
            self._finished.set_exception(error)

    # --- one worker ---------------------------------------------------------------------------------------------

    def _start(self, slot: Slot) -> None:
        slot.task = self._loop.create_task(self._work(slot), name=f"worker-{slot.number}")
        slot.task.add_done_callback(self._worker_ended)

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if self._closed or error is None:
            return
        if isinstance(error, asyncio.CancelledError):
            error = HarnessError(f"{task.get_name()} was cancelled while the run went on")
        self._fail(error)

    async def _work(self, slot: Slot) -> None:
        turns = 0
        gate = self._gates[slot.number] if self._gates else None
        if gate is not None:
            gate.enter()
        while True:
            if slot.offer is None:
                slot.wake = self._loop.create_future()
                await slot.wake
                slot.wake = None
                turns = 0
            elif (turns := turns + 1) >= _TURN:
                turns = 0
                await asyncio.sleep(0)
            offer = slot.offer
            assert offer is not None
            slot.offer = None
            if gate is not None:
                await gate.passed()
            await self._carry_out(slot, offer)
            if self._closed or self._slots[slot.number] is not slot:
                return
            self._free[slot.number] = None
            self._advance()

    async def _carry_out(self, slot: Slot, offer: Offer) -> None:
        slot.invocation = self._recorder.invoke(slot.process, offer.f, self._nodes[slot.number], offer.key, offer.value)
        client = slot.client
        if client is None:
            client = await self._open(slot)
            if client is None:
                return
        suspect = False
        self._deadlines.set(slot.number, self._op_timeouts_s[slot.number])
        try:
            completion = checked(await client.invoke(offer))
        except Definite as error:
            suspect = isinstance(error, NotSent)
            completion = Completion(type=Outcome.FAIL, error=error.code)
        except Indefinite as error:
            suspect = True
            outcome = Outcome.FAIL if offer.f in self._effect_free else Outcome.INFO
            completion = Completion(type=outcome, error=error.code)
        except (Exception, asyncio.CancelledError) as error:
            completion = self._thrown(slot, error)
        self._deadlines.clear(slot.number)
        if slot.expired:
            # Whatever came after the deadline: nobody waited for it any more, and `info` is always sound.
            suspect = True
            completion = TIMEOUT_EFFECT_FREE if offer.f in self._effect_free else TIMEOUT
            self._calm(slot)
        self._record(slot, completion)
        if suspect or completion.type is Outcome.INFO:
            await self._close_client(slot)

    async def _open(self, slot: Slot) -> Client | None:
        """Open the worker's client; when that fails, the operation fails and the worker rests."""
        self._deadlines.set(slot.number, self._open_timeout_s)
        slot.opening = True
        completion = OPEN_TIMEOUT
        try:
            slot.client = await self._open_client(slot.process, self._nodes[slot.number])
        except (Definite, Indefinite) as error:
            completion = Completion(type=Outcome.FAIL, error=error.code)
        except (Exception, asyncio.CancelledError) as error:
            thrown = self._thrown(slot, error)
            if thrown is not TIMEOUT:
                # The operation itself was never sent, so even what was not foreseen proves that nothing happened.
                completion = Completion(type=Outcome.FAIL, error=f"open: {thrown.error}")
        self._deadlines.clear(slot.number)
        self._calm(slot)
        slot.opening = False
        if slot.client is None:
            self._record(slot, completion)
            await asyncio.sleep(REOPEN_DELAY_S)
        return slot.client

    async def _close_client(self, slot: Slot) -> None:
        client, slot.client = slot.client, None
        if client is None:
            return
        self._deadlines.set(slot.number, self._open_timeout_s)
        try:
            await client.close()
        except (Exception, asyncio.CancelledError) as error:
            self._thrown(slot, error)
        self._deadlines.clear(slot.number)
        self._calm(slot)

    def _thrown(self, slot: Slot, error: BaseException) -> Completion:
        """What an exception out of a client means; raised again when this worker itself is being cancelled."""
        if isinstance(error, asyncio.CancelledError):
            if slot.expired:
                return TIMEOUT
            assert slot.task is not None
            if slot.task.cancelling():
                self._deadlines.clear(slot.number)
                self._record(slot, SHUTDOWN)
                raise error
        return self._unforeseen(error)

    def _record(self, slot: Slot, completion: Completion) -> None:
        """Record the end of the slot's operation once, and tell the generator."""
        invocation, slot.invocation = slot.invocation, None
        if invocation is None:
            return
        event = self._recorder.complete(invocation, completion)
        self.counts[completion.type] += 1
        if completion.type is Outcome.INFO:
            slot.process += len(self._workers)
        generator = self._generator
        if generator is not None:
            self._generator = generator.update(self._context(event.time_ns), event)

    def _unforeseen(self, error: BaseException) -> Completion:
        self.unforeseen[type(error).__name__] += 1
        return Completion(type=Outcome.INFO, error=unforeseen(error))

    # --- deadlines ----------------------------------------------------------------------------------------------

    def _expire(self, number: int) -> None:
        if self._gates and self._gates[number].is_shut:
            # A stopped process would notice when it runs again, after what has come meanwhile.
            self._deadlines.set(number, _FROZEN_LOOK_S)
            return
        slot = self._slots[number]
        assert slot.task is not None
        if slot.expired:
            self._replace(slot)
            return
        slot.expired = True
        slot.task.cancel()
        self._deadlines.set(number, GRACE_S)

    def _calm(self, slot: Slot) -> None:
        """Take the deadline's cancellation back, so that the task may be cancelled again."""
        if slot.expired:
            slot.expired = False
            assert slot.task is not None
            slot.task.uncancel()

    def _replace(self, slot: Slot) -> None:
        """The client did not give in to cancellation: leave its task behind, a new one takes the worker's place."""
        self.unforeseen["ClientIgnoresCancellation"] += 1
        if slot.invocation is not None:
            effect_free = slot.opening or slot.invocation.f in self._effect_free
            self._record(slot, TIMEOUT_EFFECT_FREE if effect_free else TIMEOUT)
        self._abandoned.append(slot)
        successor = Slot(slot.number)
        successor.process = slot.process
        self._slots[slot.number] = successor
        self._start(successor)
        self._free[slot.number] = None
        self._guarded(self._advance)
