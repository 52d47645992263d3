"""A client's gate on real sockets: nothing leaves and nothing is taken while it is shut, and nothing is lost by it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest
import uvloop

from fencepost.harness.coordination.client_gate import Freezer, Gate, create_connection
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.kind import View
from fencepost.harness.generators import Offer, once, repeat, time_limit
from fencepost.harness.history import Completion, FaultAction, FaultEvent, FaultOutcome, FaultStage, Outcome
from tests.fakes.fakes_runtime import FakeRuntime, KeptRecords, cluster_of
from tests.fakes.virtual_time import run_virtual
from tests.faults.test_workers import FAULTS, entry
from tests.interpreter.test_interpreter import Bench, Scripted, answer

Loop = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Loop:
    def running(scenario: Coroutine[Any, Any, None]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(scenario)

    return running


class Server(asyncio.Protocol):
    """Keeps what comes; `lost` once the other side has closed."""

    def __init__(self, met: "list[Server]") -> None:
        self.got = b""
        self.lost = False
        met.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Caller(asyncio.Protocol):
    def __init__(self) -> None:
        self.got = b""
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(b"hello ")

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.002)


async def _served(scenario: Callable[[Gate, int, list[Server]], Awaitable[None]]) -> None:
    met: list[Server] = []
    server = await asyncio.get_running_loop().create_server(lambda: Server(met), "127.0.0.1", 0)
    gate = Gate()
    gate.enter()
    try:
        await scenario(gate, server.sockets[0].getsockname()[1], met)
    finally:
        server.close()
        for one in met:
            one.transport.abort()
        await asyncio.sleep(0.01)


def test_what_is_sent_and_what_comes_waits_and_keeps_its_order(run: Loop) -> None:
    async def scenario(gate: Gate, port: int, met: list[Server]) -> None:
        caller = await create_connection(Caller, "127.0.0.1", port)
        await _until(lambda: bool(met) and met[0].got == b"hello ")
        gate.shut(1)
        before = gate.sent_bytes()
        caller.transport.write(b"one ")
        met[0].transport.write(b"answer ")
        caller.transport.write(b"two ")
        await asyncio.sleep(0.05)
        assert (met[0].got, caller.got) == (b"hello ", b"")
        assert gate.sent_bytes() == before == {next(iter(before)): len(b"hello ")}
        assert (gate.held_back, caller.transport.get_write_buffer_size()) == (2, len(b"one two "))
        gate.open(1)
        caller.transport.write(b"three")
        met[0].transport.write(b"more")
        await _until(lambda: met[0].got == b"hello one two three" and caller.got == b"answer more")
        caller.transport.close()
        await _until(lambda: met[0].lost and caller.lost)
        assert gate.sent_bytes() == {}

    run(_served(scenario))


@pytest.mark.parametrize("ending", ["close", "abort"])
def test_an_ending_waits_too(run: Loop, ending: str) -> None:
    async def scenario(gate: Gate, port: int, met: list[Server]) -> None:
        caller = await create_connection(Caller, "127.0.0.1", port)
        await _until(lambda: bool(met) and met[0].got == b"hello ")
        gate.shut(1)
        caller.transport.write(b"last")
        getattr(caller.transport, ending)()
        caller.transport.write(b"after the end")
        await asyncio.sleep(0.05)
        assert caller.transport.is_closing()
        assert not met[0].lost and not caller.lost
        gate.open(1)
        await _until(lambda: met[0].lost and caller.lost)
        assert met[0].got == (b"hello last" if ending == "close" else b"hello ")

    run(_served(scenario))


def test_that_the_server_has_gone_is_learnt_afterwards(run: Loop) -> None:
    async def scenario(gate: Gate, port: int, met: list[Server]) -> None:
        caller = await create_connection(Caller, "127.0.0.1", port)
        await _until(lambda: bool(met) and met[0].got == b"hello ")
        gate.shut(1)
        met[0].transport.write(b"goodbye")
        met[0].transport.close()
        await asyncio.sleep(0.05)
        assert (caller.got, caller.lost) == (b"", False)
        gate.open(1)
        await _until(lambda: caller.lost)
        assert caller.got == b"goodbye"

    run(_served(scenario))


def test_no_connection_is_dialled_while_it_is_shut_and_each_holder_counts(run: Loop) -> None:
    async def scenario(gate: Gate, port: int, met: list[Server]) -> None:
        gate.shut(1)
        gate.shut(2)
        dialling = asyncio.create_task(create_connection(Caller, "127.0.0.1", port))
        await asyncio.sleep(0.05)
        gate.open(1)
        gate.open(1)
        await asyncio.sleep(0.05)
        assert not met and not dialling.done()
        gate.open(2)
        caller = await dialling
        caller.transport.abort()

    run(_served(scenario))


def test_a_task_without_a_gate_is_not_touched(run: Loop) -> None:
    async def scenario(port: int) -> None:
        caller = await create_connection(Caller, "127.0.0.1", port)
        assert type(caller.transport).__name__ != "_GatedTransport"
        caller.transport.abort()

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Server([]), "127.0.0.1", 0)
        await scenario(server.sockets[0].getsockname()[1])
        server.close()
        await asyncio.sleep(0.01)

    run(main())


# -- the worker ---------------------------------------------------------------------------------------------------


def test_a_frozen_worker_begins_nothing_and_the_others_go_on() -> None:
    async def main() -> Bench:
        freezer = Freezer(3)
        bench = Bench(answer, freezer=freezer)
        running = asyncio.create_task(bench.run(time_limit(1_000_000_000, repeat(once(Offer("read"))))))
        await asyncio.sleep(0.2)
        await freezer.freeze(1, 0)
        await asyncio.sleep(0.5)
        await freezer.thaw(1, 0)
        return await running

    bench = run_virtual(main())
    begun = [op.invoked_ns / 1e9 for op in bench.history.operations if op.process % 3 == 1]
    assert not [at_s for at_s in begun if 0.21 < at_s < 0.7]
    assert [at_s for at_s in begun if at_s > 0.7]
    assert (
        len([op for op in bench.history.operations if op.process % 3 != 1 and 0.21 < op.invoked_ns / 1e9 < 0.7]) > 100
    )


def test_an_operation_that_is_overdue_ends_when_its_worker_runs_again() -> None:
    async def never(client: Scripted, offer: Offer) -> Completion:
        await asyncio.sleep(3600)
        raise AssertionError

    async def main() -> Bench:
        freezer = Freezer(1)
        bench = Bench(never, workers=1, freezer=freezer)
        running = asyncio.create_task(bench.run(time_limit(2_000_000_000, repeat(once(Offer("write"))))))
        await asyncio.sleep(0.5)
        assert bench.interpreter.busy == (0,)
        await freezer.freeze(0, 0)
        await asyncio.sleep(2.0)
        assert [op.type for op in bench.history.operations] == [Outcome.INFO], "still open: its deadline waits"
        assert bench.interpreter.counts.total() == 0
        await freezer.thaw(0, 0)
        return await running

    bench = run_virtual(main())
    (operation,) = bench.history.operations
    assert operation.error == "timeout"
    assert operation.ended_ns is not None and operation.ended_ns >= 2.5e9


# -- the proof ----------------------------------------------------------------------------------------------------


class LeakyClients:
    """Clients that go on sending: what the proof must notice, at once or at the end."""

    def __init__(self, leaks_after: int) -> None:
        self._looks, self._leaks_after = 0, leaks_after
        self.frozen: set[int] = set()

    async def freeze(self, worker: int, fault_id: int) -> None:
        self.frozen.add(worker)

    async def thaw(self, worker: int, fault_id: int) -> None:
        self.frozen.discard(worker)

    def sent_bytes(self, worker: int) -> dict[int, int]:
        self._looks += 1
        return {7: 100 if self._looks <= self._leaks_after else 101}

    def held_back(self, worker: int) -> int:
        return 0


@pytest.mark.parametrize(
    ("leaks_after", "outcomes"),
    [
        (9, [FaultOutcome.INSTALLED, FaultOutcome.HEALED]),
        # Injecting, healing, healing once more, and at the end when all else is gone.
        (1, [FaultOutcome.INDETERMINATE] * 4),
        (2, [FaultOutcome.INSTALLED, *[FaultOutcome.INDETERMINATE] * 3]),
    ],
)
def test_a_client_that_still_sends_is_not_called_frozen(leaks_after: int, outcomes: list[FaultOutcome]) -> None:
    clients = LeakyClients(leaks_after)
    ends = _ends_of_a_pause(clients)
    assert [e.outcome for e in ends] == outcomes
    assert {e.action for e in ends[1:]} == {FaultAction.HEAL}
    assert ends[0].details == {"client_worker": 2}, "drawn from those with an operation under way"
    assert not clients.frozen


class UnseenClients(LeakyClients):
    """Clients whose bytes cannot be counted any more once they were seen frozen."""

    def sent_bytes(self, worker: int) -> dict[int, int]:
        if self._looks == 2:
            raise OSError("no such socket")
        return super().sent_bytes(worker)


def test_a_client_whose_bytes_cannot_be_counted_runs_again_all_the_same() -> None:
    clients = UnseenClients(9)
    assert {end.outcome for end in _ends_of_a_pause(clients)[1:]} == {FaultOutcome.INDETERMINATE}
    assert not clients.frozen


def _ends_of_a_pause(clients: LeakyClients) -> list[FaultEvent]:
    records, runtime = KeptRecords(), FakeRuntime()
    view = View(nodes=tuple(runtime.nodes), leader="n1", epoch=1, clients=4, busy_clients=(2,))
    cluster = cluster_of(runtime, records=records, view=lambda: view, clients=clients)
    conductor = Conductor(cluster=cluster, faults=FAULTS, schedule_sink=lambda _: None)
    run_virtual(conductor.run([entry("pause:client")], stop=asyncio.Event()))
    return [e for e in records.events if isinstance(e, FaultEvent) and e.stage is FaultStage.END]
