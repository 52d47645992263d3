"""The workers: each carries out one operation at a time with a client of its own, within a time limit.

Worker w plays process w. After an operation that ended `info` the process is retired and its client closed, and the
worker continues as process w + number of workers (so worker = process modulo the number of workers). An invocation is
stamped before the request leaves and a completion after the answer came, so a slow loop only widens the interval that a
checker sees.

How an operation ends:
  the client returns           the completion that it returns
  `Definite`                   fail; after `NotSent` the next operation gets a new client
  `Indefinite`                 info
  the deadline passes          info, "timeout"
  any other exception          info, "unforeseen: ..."
  the client cannot be opened  fail, since nothing was sent; the worker then rests for `REOPEN_DELAY_S`, so that a dead
                               node does not flood the history

An effect-free operation ends `fail` instead of `info`. The next operation then gets a new client, so that a late reply
cannot be taken for the answer to the next request. A client's errors outside of an operation are noted in the history.
"""

import asyncio
from typing import Final, Protocol

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.generators.contract import Invocation, Offer
from fencepost.harness.history import CLIENT_DEFECT, Completion, NoteEvent, OpEvent, Outcome
from fencepost.harness.history.operation import unforeseen
from fencepost.harness.interpreter.client import Client, Clients, checked
from fencepost.harness.interpreter.deadlines import Deadlines
from fencepost.harness.interpreter.slot import OPEN_TIMEOUT, SHUTDOWN, TIMEOUT, TIMEOUT_EFFECT_FREE, Slot
from fencepost.harness.results.recorder import Recorder

#: The rest of a worker after it could not open a client.
REOPEN_DELAY_S: Final = 0.05
#: How long a cancelled client may take to end before its worker is replaced.
GRACE_S: Final = 1.0
#: How often the overdue operation of a frozen worker is checked again.
_FROZEN_LOOK_S: Final = 0.05
#: After this many operations in a row a worker lets the others run, in case its client never waits.
_TURN: Final = 16


class Driver(Protocol):
    """What the workers report to the driver that gives them operations."""

    def ended(self, event: OpEvent) -> None:
        """An operation ended."""
        ...

    def free(self, worker: int) -> None:
        """This worker can take the next operation."""
        ...

    def failed(self, error: BaseException) -> None:
        """A worker died: the run cannot go on."""
        ...


class Workers:
    """All workers of a run, from the first operation to `close`."""

    def __init__(self, clients: Clients, recorder: Recorder, driver: Driver) -> None:
        self._clients = clients
        self._recorder = recorder
        self._driver = driver
        self._gates = clients.freezer.gates if clients.freezer is not None else ()
        self._slots = [Slot(worker) for worker in range(len(clients.nodes))]
        self._abandoned: list[Slot] = []
        self._closed = False

    @property
    def busy(self) -> tuple[int, ...]:
        """Workers with an operation in flight, the longest first."""
        begun = [
            (slot.invocation.index, slot.number)
            for slot in self._slots
            if slot.invocation is not None and not slot.opening
        ]
        return tuple(number for _, number in sorted(begun))

    def start(self) -> None:
        """Start every worker on the running loop, unless they run already."""
        if self._slots[0].task is None:
            self._loop = asyncio.get_running_loop()
            self._deadlines = Deadlines(self._loop, self._expire)
            for slot in self._slots:
                self._start(slot)

    def assign(self, invocation: Invocation) -> None:
        """Give a free worker its next operation."""
        slot = self._slots[invocation.worker]
        slot.offer = invocation.offer
        wake = slot.wake
        if wake is not None and not wake.done():
            wake.set_result(None)

    async def close(self) -> None:
        """Close every client; operations in flight end `info`. Idempotent; takes at most twice the grace time."""
        if self._closed:
            return
        self._closed = True
        slots = (*self._slots, *self._abandoned)
        tasks = [slot.task for slot in slots if slot.task is not None]
        for slot in self._slots:
            self._record(slot, SHUTDOWN)
        for task in tasks:
            task.cancel()
        if tasks:
            self._deadlines.close()
            await asyncio.wait(tasks, timeout=GRACE_S)
        closing = [asyncio.ensure_future(self._give_up(slot, slot.client)) for slot in slots if slot.client is not None]
        if closing:
            _, late = await asyncio.wait(closing, timeout=GRACE_S)
            for task in late:
                task.cancel()

    async def _give_up(self, slot: Slot, client: Client) -> None:
        try:
            await client.close()
        except Exception as error:
            self._note(slot, f"could not be closed: {unforeseen(error)}")

    def _note(self, slot: Slot, what: str) -> None:
        node = self._clients.nodes[slot.number]
        self._recorder.record(
            NoteEvent, topic=CLIENT_DEFECT, text=f"the client of process {slot.process} on {node} {what}"
        )

    def _start(self, slot: Slot) -> None:
        slot.task = self._loop.create_task(self._work(slot), name=f"worker-{slot.number}")
        slot.task.add_done_callback(self._worker_ended)

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if self._closed or error is None:
            return
        if isinstance(error, asyncio.CancelledError):
            error = HarnessError(f"{task.get_name()} was cancelled while the run went on")
        self._driver.failed(error)

    # --- one worker ---------------------------------------------------------------------------------------------

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
            self._driver.free(slot.number)

    async def _carry_out(self, slot: Slot, offer: Offer) -> None:
        node = self._clients.nodes[slot.number]
        slot.invocation = self._recorder.invoke(slot.process, offer.f, node, offer.key, offer.value)
        client = slot.client
        if client is None:
            client = await self._open(slot)
            if client is None:
                return
        suspect = False
        self._deadlines.set(slot.number, self._clients.op_timeouts_s[slot.number])
        try:
            completion = checked(await client.invoke(offer))
        except Definite as error:
            suspect = isinstance(error, NotSent)
            completion = Completion(type=Outcome.FAIL, error=error.code)
        except Indefinite as error:
            suspect = True
            outcome = Outcome.FAIL if offer.f in self._clients.effect_free else Outcome.INFO
            completion = Completion(type=outcome, error=error.code)
        except (Exception, asyncio.CancelledError) as error:
            completion = self._thrown(slot, error)
        self._deadlines.clear(slot.number)
        if slot.expired:
            # Whatever came after the deadline is ignored: `info` is always sound.
            suspect = True
            completion = TIMEOUT_EFFECT_FREE if offer.f in self._clients.effect_free else TIMEOUT
            self._calm(slot)
        self._record(slot, completion)
        if suspect or completion.type is Outcome.INFO:
            await self._close_client(slot)

    async def _open(self, slot: Slot) -> Client | None:
        """Open the worker's client; when that fails, the operation fails and the worker rests."""
        self._deadlines.set(slot.number, self._clients.open_timeout_s)
        slot.opening = True
        completion = OPEN_TIMEOUT
        try:
            slot.client = await self._clients.open(slot.process, self._clients.nodes[slot.number])
        except (Definite, Indefinite) as error:
            completion = Completion(type=Outcome.FAIL, error=error.code)
        except (Exception, asyncio.CancelledError) as error:
            thrown = self._thrown(slot, error)
            if thrown is not TIMEOUT:
                # The operation was never sent, so even an unforeseen exception proves that nothing happened.
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
        self._deadlines.set(slot.number, self._clients.open_timeout_s)
        try:
            await client.close()
        except (Exception, asyncio.CancelledError) as error:
            if self._thrown(slot, error) is not TIMEOUT:
                self._note(slot, f"could not be closed: {unforeseen(error)}")
        self._deadlines.clear(slot.number)
        self._calm(slot)

    def _thrown(self, slot: Slot, error: BaseException) -> Completion:
        """The completion for an exception from a client; raised again when this worker itself is being cancelled."""
        if isinstance(error, asyncio.CancelledError):
            if slot.expired:
                return TIMEOUT
            assert slot.task is not None
            if slot.task.cancelling():
                self._deadlines.clear(slot.number)
                self._record(slot, SHUTDOWN)
                raise error
        return Completion(type=Outcome.INFO, error=unforeseen(error))

    def _record(self, slot: Slot, completion: Completion) -> None:
        """Record the end of the slot's operation once, and report it to the driver."""
        invocation, slot.invocation = slot.invocation, None
        if invocation is None:
            return
        event = self._recorder.complete(invocation, completion)
        if completion.type is Outcome.INFO:
            slot.process += len(self._slots)
        self._driver.ended(event)

    # --- deadlines ----------------------------------------------------------------------------------------------

    def _expire(self, number: int) -> None:
        if self._gates and self._gates[number].is_shut:
            # A stopped process would see its deadline only when it runs again, after reading what has arrived.
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
        """Undo the deadline's cancellation, so that the task can be cancelled again."""
        if slot.expired:
            slot.expired = False
            assert slot.task is not None
            slot.task.uncancel()

    def _replace(self, slot: Slot) -> None:
        """Abandon the task of a client that ignored its cancellation, and start another in its place."""
        self._note(slot, "ignored its cancellation; its worker was replaced")
        if slot.invocation is not None:
            effect_free = slot.opening or slot.invocation.f in self._clients.effect_free
            self._record(slot, TIMEOUT_EFFECT_FREE if effect_free else TIMEOUT)
        self._abandoned.append(slot)
        successor = Slot(slot.number)
        successor.process = slot.process
        self._slots[slot.number] = successor
        self._start(successor)
        self._driver.free(slot.number)
