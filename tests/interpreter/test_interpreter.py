"""The interpreter against scripted clients, in virtual time: how operations end, and what becomes of processes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.generators import (
    PENDING,
    Context,
    Generator,
    Offer,
    Step,
    draws,
    each_worker,
    limit,
    once,
    phases,
    repeat,
    sequence,
    sleep,
    stagger,
    time_limit,
    until_ok,
)
from fencepost.harness.history import (
    CLIENT_DEFECT,
    Completion,
    Event,
    History,
    NoteEvent,
    OpEvent,
    Outcome,
    SampleEvent,
)
from fencepost.harness.interpreter.client import Clients
from fencepost.harness.interpreter.interpreter import Interpreter, new_event_loop
from fencepost.harness.interpreter.workers import GRACE_S
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.health import HealthSampler
from tests.fakes.virtual_time import run_virtual, virtual_clock_ns

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
Behaviour = Callable[["Scripted", Offer], Awaitable[Any]]


class Scripted:
    """A client that does as it is told, and remembers what was done to it."""

    def __init__(self, process: int, node: str, behave: Behaviour) -> None:
        self.process, self.node, self.behave = process, node, behave
        self.offers: list[Offer] = []
        self.closed = False

    async def invoke(self, offer: Offer) -> Completion:
        assert not self.closed, "a closed client is never used again"
        self.offers.append(offer)
        return cast(Completion, await self.behave(self, offer))

    async def close(self) -> None:
        self.closed = True


class Bench:
    """An interpreter with a recorder that keeps events in memory, and every client that it opened."""

    def __init__(self, behave: Behaviour, *, workers: int = 3, **options: Any) -> None:
        self.recorder = Recorder(None, clock_ns=options.pop("clock_ns", virtual_clock_ns))
        self.events: list[Event] = []
        self.recorder.listeners.append(self.events.append)
        self.clients: list[Scripted] = []
        self.refuse: Callable[[int], Exception | None] = lambda attempt: None
        self.attempts = 0

        async def open_client(process: int, node: str) -> Scripted:
            self.attempts += 1
            if (error := self.refuse(self.attempts)) is not None:
                raise error
            self.clients.append(Scripted(process, node, behave))
            return self.clients[-1]

        op_timeout_s, superseded = options.pop("op_timeout_s", 1.0), options.pop("superseded", frozenset)
        clients = Clients(
            open=options.pop("open_client", open_client),
            nodes=tuple(f"n{worker % 3 + 1}" for worker in range(workers)),
            op_timeouts_s=(op_timeout_s,) * workers,
            **{"open_timeout_s": 0.5, **options},
        )
        self.interpreter = Interpreter(clients, recorder=self.recorder, seed=1, superseded=superseded)

    async def run(self, generator: Generator, stop: asyncio.Event | None = None) -> "Bench":
        await self.interpreter.run(generator, stop=stop)
        return self

    @property
    def history(self) -> History:
        return History(self.events)

    @property
    def outcomes(self) -> list[tuple[int, Outcome, str | None]]:
        return [(o.process, o.type, o.error) for o in self.history.operations]


def play(generator: Generator, behave: Behaviour, **options: Any) -> Bench:
    async def main() -> Bench:
        return await Bench(behave, **options).run(generator)

    return run_virtual(main())


async def answer(client: Scripted, offer: Offer) -> Completion:
    await asyncio.sleep(0.001)
    return Completion(OK, offer.value)


def script(*steps: Any, then: Behaviour = answer) -> Behaviour:
    """One step per operation: an exception to raise, a number of seconds to take, or anything to return."""
    left = list(steps)

    async def behave(client: Scripted, offer: Offer) -> Any:
        if not left:
            return await then(client, offer)
        step = left.pop(0)
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, float):
            await asyncio.sleep(step)
            return Completion(OK, offer.value)
        return step

    return behave


def writes(n: int) -> Generator:
    return limit(n, draws(lambda worker, i, draw: Offer("write", "r1", i * 10 + worker)))


def test_operations_are_carried_out_by_long_lived_workers_on_their_nodes() -> None:
    async def main() -> Bench:
        bench = await Bench(answer, workers=4).run(writes(400))
        await bench.interpreter.close()
        return bench

    bench = run_virtual(main())
    operations = bench.history.operations
    assert len(operations) == 400
    assert {(o.process, o.node) for o in operations} == {(0, "n1"), (1, "n2"), (2, "n3"), (3, "n1")}
    assert len({o.value for o in operations}) == 400
    assert len(bench.clients) == 4
    assert all(client.closed for client in bench.clients)
    assert bench.interpreter.counts == {OK: 400}
    assert bench.interpreter.completed == 400


def test_how_operations_end_and_what_becomes_of_the_process() -> None:
    steps = script(
        Definite("cas-mismatch"),
        Indefinite("lost"),
        ValueError("boom"),
        5.0,
        "no completion",
        Completion(Outcome.INVOKE),
        Completion(INFO, error="said so"),
        Completion(FAIL, error="said so"),
        asyncio.CancelledError(),
    )
    bench = play(writes(10), steps, workers=1)
    broken = "unforeseen: BrokenClient: "
    assert bench.outcomes == [
        (0, FAIL, "cas-mismatch"),
        (0, INFO, "lost"),
        (1, INFO, "unforeseen: ValueError: boom"),
        (2, INFO, "timeout"),
        (3, INFO, broken + "a client must return a Completion; it returned 'no completion'"),
        (4, INFO, broken + "a completion is ok, fail or info; the client returned <Outcome.INVOKE: 'invoke'>"),
        (5, INFO, "said so"),
        (6, FAIL, "said so"),
        (6, INFO, "unforeseen: CancelledError: "),
        (7, OK, None),
    ]
    # A new process has a new client; a process that lives on keeps its own.
    assert [client.process for client in bench.clients] == list(range(8))
    assert [client.closed for client in bench.clients] == [True] * 7 + [False]


def test_an_effect_free_operation_fails_instead_and_gets_a_fresh_client() -> None:
    steps = script(5.0, Indefinite("lost"), Definite("no"), ValueError("boom"))
    g = limit(5, repeat(once(Offer("read", "r1"))))
    bench = play(g, steps, workers=1, effect_free=frozenset({"read"}))
    assert bench.outcomes == [
        (0, FAIL, "timeout"),
        (0, FAIL, "lost"),
        (0, FAIL, "no"),
        (0, INFO, "unforeseen: ValueError: boom"),
        (1, OK, None),
    ]
    assert [(c.process, len(c.offers), c.closed) for c in bench.clients] == [
        (0, 1, True),
        (0, 1, True),
        (0, 2, True),
        (1, 1, False),
    ]


def test_a_deadline_is_kept_for_each_operation() -> None:
    async def main() -> Bench:
        bench = Bench(script(*[0.9] * 3, *[5.0] * 3, *[0.9] * 3), workers=3, op_timeout_s=1.0)
        return await bench.run(writes(9))

    operations = run_virtual(main()).history.operations
    assert [o.type for o in operations] == [OK] * 3 + [INFO] * 3 + [OK] * 3
    lasted = [((o.ended_ns or 0) - o.invoked_ns) / 1e9 for o in operations]
    assert lasted == pytest.approx([0.9] * 3 + [1.0] * 3 + [0.9] * 3, abs=0.002)


def test_a_client_that_ignores_cancellation_is_left_behind() -> None:
    async def stubborn(client: Scripted, offer: Offer) -> Completion:
        if client.process > 0:
            return Completion(OK)
        end_s = asyncio.get_running_loop().time() + 20
        while (left := end_s - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        return Completion(OK)

    async def main() -> Bench:
        bench = await Bench(stubborn, workers=1).run(writes(2))
        await bench.interpreter.close()
        return bench

    bench = run_virtual(main())
    assert bench.outcomes == [(0, INFO, "timeout"), (1, OK, None)]
    first = bench.history.operations[0]
    assert (first.ended_ns or 0) - first.invoked_ns == pytest.approx((1.0 + GRACE_S) * 1e9, rel=0.01)
    (note,) = [event for event in bench.history.events if isinstance(event, NoteEvent)]
    assert note.topic == CLIENT_DEFECT
    assert note.text == "the client of process 0 on n1 ignored its cancellation; its worker was replaced"


def test_a_client_that_answers_after_cancellation_comes_too_late() -> None:
    async def swallow(client: Scripted, offer: Offer) -> Completion:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return Completion(OK, "late")
        raise AssertionError

    bench = play(writes(2), swallow, workers=1)
    assert bench.outcomes == [(0, INFO, "timeout"), (1, INFO, "timeout")]


def test_what_cannot_be_opened_fails_without_ending_the_process() -> None:
    errors = [Definite("refused"), Indefinite("odd"), OSError("unreachable")]

    async def main() -> Bench:
        bench = Bench(answer, workers=1)
        bench.refuse = lambda attempt: errors[attempt - 1] if attempt <= len(errors) else None
        return await bench.run(writes(4))

    bench = run_virtual(main())
    assert bench.outcomes == [
        (0, FAIL, "refused"),
        (0, FAIL, "odd"),
        (0, FAIL, "open: unforeseen: OSError: unreachable"),
        (0, OK, None),
    ]
    assert bench.history.end_ns >= 3 * 50_000_000, "after a refusal the worker rests"


def test_opening_has_its_own_deadline() -> None:
    async def never(process: int, node: str) -> Any:
        await asyncio.sleep(1000)

    async def main() -> Bench:
        bench = Bench(answer, workers=1, open_client=never)
        return await bench.run(writes(2))

    bench = run_virtual(main())
    assert bench.outcomes == [(0, FAIL, "open-timeout")] * 2
    assert bench.history.end_ns == pytest.approx(1.05e9, rel=0.01)


def test_stop_begins_nothing_new_and_waits_for_what_is_in_flight() -> None:
    async def main() -> Bench:
        bench, stop = Bench(script(then=_slow), workers=3), asyncio.Event()
        asyncio.get_running_loop().call_later(1.0, stop.set)
        await bench.run(draws(lambda worker, i, draw: Offer("write")), stop=stop)
        stop.set()
        await bench.run(writes(5), stop=stop)
        await bench.interpreter.close()
        return bench

    async def _slow(client: Scripted, offer: Offer) -> Completion:
        await asyncio.sleep(0.3)
        return Completion(OK)

    bench = run_virtual(main())
    operations = bench.history.operations
    assert len(operations) == 12, "nothing begins once stop is set"
    assert all(o.type is OK for o in operations)
    assert max(o.invoked_ns for o in operations if o.value is None) < 1.01e9


def test_phases_keep_sessions_and_counts() -> None:
    async def main() -> Bench:
        bench = Bench(answer)
        await bench.run(writes(30))
        await bench.run(writes(30))
        return bench

    bench = run_virtual(main())
    assert len(bench.clients) == 3
    assert len({o.value for o in bench.history.operations}) == 60


def test_closing_records_what_is_in_flight_as_info() -> None:
    async def main() -> Bench:
        bench = Bench(script(then=_hang), workers=3, op_timeout_s=100.0)
        running = asyncio.create_task(bench.run(writes(3)))
        await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await bench.interpreter.close()
        await bench.interpreter.close()
        return bench

    async def _hang(client: Scripted, offer: Offer) -> Completion:
        await asyncio.sleep(1000)
        raise AssertionError

    bench = run_virtual(main())
    assert bench.outcomes == [(p, INFO, "shutdown") for p in range(3)]
    assert all(client.closed for client in bench.clients)
    assert bench.history.end_ns < 1e9


def test_closing_is_bounded_when_clients_are_not() -> None:
    class Endless(Scripted):
        async def close(self) -> None:
            await asyncio.sleep(10_000)

    async def main() -> float:
        async def open_client(process: int, node: str) -> Endless:
            return Endless(process, node, answer)

        bench = Bench(answer, workers=2, open_client=open_client)
        await bench.run(writes(4))
        before_s = asyncio.get_running_loop().time()
        await bench.interpreter.close()
        return asyncio.get_running_loop().time() - before_s

    assert run_virtual(main()) <= 2 * GRACE_S + 0.1


def test_a_client_that_cannot_be_closed_is_noted() -> None:
    class Stuck(Scripted):
        async def close(self) -> None:
            raise OSError("the socket is gone")

    async def main() -> Bench:
        async def open_client(process: int, node: str) -> Stuck:
            return Stuck(process, node, answer)

        bench = await Bench(answer, workers=1, open_client=open_client).run(writes(1))
        await bench.interpreter.close()
        return bench

    notes = [event for event in run_virtual(main()).history.events if isinstance(event, NoteEvent)]
    assert [note.text for note in notes] == [
        "the client of process 0 on n1 could not be closed: unforeseen: OSError: the socket is gone"
    ]


def test_a_generator_that_throws_ends_the_run() -> None:
    def broken(worker: int, i: int, draw: Any) -> Offer:
        if i == 3:
            raise ZeroDivisionError("in the generator")
        return Offer("write")

    async def main() -> None:
        bench = Bench(answer)
        with pytest.raises(ZeroDivisionError):
            await bench.run(draws(broken))
        with pytest.raises(ZeroDivisionError):
            await bench.run(writes(1))
        await bench.interpreter.close()

    run_virtual(main())


def test_a_generator_that_breaks_the_contract_is_named() -> None:
    async def main() -> None:
        bench = Bench(answer)
        with pytest.raises(HarnessError, match="must be an Offer"):
            await bench.run(once(cast(Any, "write")))
        await bench.interpreter.close()

    run_virtual(main())


def test_times_of_the_generator_are_kept() -> None:
    async def main() -> Bench:
        g = phases(
            time_limit(1_000_000_000, stagger(10_000_000, draws(lambda worker, i, draw: Offer("a")))),
            sleep(500_000_000),
            each_worker(once(Offer("b"))),
        )
        return await Bench(answer).run(g)

    operations = run_virtual(main()).history.operations
    a = [o.invoked_ns for o in operations if o.f == "a"]
    b = [o.invoked_ns for o in operations if o.f == "b"]
    assert 80 < len(a) < 120
    assert 900_000_000 < max(a) < 1_000_000_000
    assert sum(at < 500_000_000 for at in a) in range(35, 65)
    assert len(b) == 3
    assert min(b) - max(a) >= 500_000_000


def test_completions_reach_the_generator() -> None:
    steps = script(Definite("no"), Indefinite("lost"), 0.1)
    g = sequence(until_ok(once(Offer("try"))), once(Offer("then")))
    bench = play(g, steps, workers=1)
    assert [o.f for o in bench.history.operations] == ["try", "try", "try", "then"]


def test_a_client_that_never_waits_does_not_starve_the_others() -> None:
    async def main() -> Bench:
        bench, stop = Bench(script(then=_at_once), workers=2, clock_ns=_real_ns), asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, stop.set)
        async with asyncio.timeout(5):
            await bench.run(draws(lambda worker, i, draw: Offer("write")), stop=stop)
        return bench

    async def _at_once(client: Scripted, offer: Offer) -> Completion:
        return Completion(OK)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        bench = runner.run(main())
    assert {o.process for o in bench.history.operations} == {0, 1}


def _real_ns() -> int:
    import time

    return time.monotonic_ns()


def test_the_same_seed_makes_the_same_history_in_virtual_time() -> None:
    def once_more() -> list[Event]:
        g = limit(200, stagger(1_000_000, draws(lambda worker, i, draw: Offer("write", None, draw.below(99)))))
        return play(g, answer).events

    assert once_more() == once_more()


def test_health_is_sampled_into_the_history() -> None:
    async def main() -> list[Event]:
        bench = Bench(answer, clock_ns=_real_ns)
        spent = {"n1": 0}

        def cpu_ns() -> int:
            spent["n1"] += 5
            return spent["n1"]

        task = asyncio.create_task(HealthSampler(bench.recorder, node_cpu={"n1": cpu_ns}).run())
        await asyncio.sleep(0.15)
        _stall(0.08)
        await asyncio.sleep(0.15)
        task.cancel()
        return bench.events

    def _stall(seconds: float) -> None:
        end_ns = _real_ns() + int(seconds * 1e9)
        while _real_ns() < end_ns:
            pass

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        events = runner.run(main())
    samples = [event for event in events if isinstance(event, SampleEvent)]
    assert len(samples) >= 2
    assert max(sample.loop_lag_ns_max for sample in samples) > 50_000_000
    assert samples[0].node_cpu_ns == {"n1": 5}
    assert not any(isinstance(event, OpEvent) for event in events)


def test_a_generator_is_told_which_workers_have_a_node_that_was_superseded() -> None:
    nodes = iter((frozenset[str](), frozenset({"n2"}), frozenset({"n1", "n2"})))
    seen: list[frozenset[int]] = []

    class Noting:
        """Notes what it is told, three times."""

        def op(self, ctx: Context) -> Step:
            seen.append(ctx.superseded)
            return (PENDING if len(seen) < 3 else None), self

        def update(self, ctx: Context, event: OpEvent) -> Generator:
            return self

    play(Noting(), answer, workers=6, superseded=lambda: next(nodes))
    assert seen == [frozenset(), {1, 4}, {0, 1, 3, 4}]
