"""Runs a generator in simulated time, without clocks, tasks or systems, by the interpreter's contract.

Tests of generators and workloads use it. Latencies and outcomes are drawn from the seed, so the same generator and
seed give the same events. The driver's rules (future operations, pending, retirement of processes) are those of
`harness/generators/contract.py`.
"""

import heapq
from collections.abc import Callable
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.generators.contract import PENDING, Context, Draw, DrawStream, Generator, Invocation
from fencepost.harness.history import Completion, OpEvent, Outcome

#: Decides how one operation ends, and after how many nanoseconds.
Respond = Callable[[OpEvent, Draw], tuple[int, Completion]]

#: A pending generator is asked again after this, as by the interpreter.
_POLL_NS: Final = 2_000_000


def respond(latency_ns: int = 1_000_000, *, fail: float = 0.05, info: float = 0.05) -> Respond:
    """Return exponential latencies with this mean; the shares `fail` and `info` end so, the rest `ok`."""

    def outcome(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        waited_ns = 1 + round(draw.exponential(latency_ns))
        point = draw.random()
        if point < info:
            return waited_ns, Completion(Outcome.INFO, error="simulated")
        if point < info + fail:
            return waited_ns, Completion(Outcome.FAIL, error="simulated")
        return waited_ns, Completion(Outcome.OK, event.value)

    return outcome


def at_once(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
    """Every operation ends `ok` after one nanosecond."""
    return 1, Completion(Outcome.OK, event.value)


def simulate(
    generator: Generator,
    *,
    workers: int = 3,
    nodes: int = 3,
    seed: int = 0,
    respond: Respond = at_once,
    operations_max: int = 100_000,
    time_ns_max: int = 3_600_000_000_000,
) -> list[OpEvent]:
    """Return all events until the generator is over and nothing is in flight, or a limit is reached.

    Raises HarnessError when the generator stays pending: past `time_ns_max` with nothing in flight.
    """
    run = _Simulation(generator, workers, nodes, seed, respond)
    while run.generator is not None and run.begun < operations_max:
        run.step(time_ns_max)
    while run.in_flight:
        run.complete_next()
    return run.events


class _Simulation:
    def __init__(self, generator: Generator, workers: int, nodes: int, seed: int, respond: Respond) -> None:
        self.generator: Generator | None = generator
        self.events: list[OpEvent] = []
        self.in_flight: list[tuple[int, int, OpEvent, Completion]] = []
        self.begun = 0
        self._respond = respond
        self._nodes = nodes
        self._seed = seed
        self._now_ns = 0
        self._workers = tuple(range(workers))
        self._free = dict.fromkeys(self._workers)
        self._counts = [0] * workers
        self._processes = list(self._workers)

    def step(self, time_ns_max: int) -> None:
        """Begin an operation, or let one end, or let time pass."""
        if self.in_flight and (not self._free or self.in_flight[0][0] <= self._now_ns):
            self.complete_next()
            return
        assert self.generator is not None
        step, after = self.generator.op(self._context())
        if step is None:
            self.generator = None
        elif isinstance(step, Invocation):
            if self.in_flight and self.in_flight[0][0] <= step.at_ns:
                self.complete_next()
            elif step.at_ns > self._now_ns:
                self._now_ns = step.at_ns
            else:
                self.generator = after
                self._begin(step)
        else:
            assert step is PENDING
            self.generator = after
            self._wait(time_ns_max)

    def _wait(self, time_ns_max: int) -> None:
        poll_ns = self._now_ns + _POLL_NS
        if self.in_flight and self.in_flight[0][0] <= poll_ns:
            self.complete_next()
        elif poll_ns > time_ns_max:
            raise HarnessError(f"the generator is still pending after {self._now_ns / 1e9:g} s, with nothing in flight")
        else:
            self._now_ns = poll_ns

    def _begin(self, invocation: Invocation) -> None:
        worker, offer = invocation.worker, invocation.offer
        del self._free[worker]
        event = OpEvent(
            index=len(self.events),
            time_ns=self._now_ns,
            type=Outcome.INVOKE,
            process=self._processes[worker],
            f=offer.f,
            node=f"n{worker % self._nodes + 1}",
            key=offer.key,
            value=offer.value,
        )
        self.events.append(event)
        draw = Draw(self._seed, worker, self._counts[worker], DrawStream.SIMULATION)
        self._counts[worker] += 1
        self.begun += 1
        latency_ns, completion = self._respond(event, draw)
        heapq.heappush(self.in_flight, (self._now_ns + max(1, latency_ns), event.index, event, completion))

    def complete_next(self) -> None:
        at_ns, _, invocation, completion = heapq.heappop(self.in_flight)
        self._now_ns = max(self._now_ns, at_ns)
        event = OpEvent(
            index=len(self.events),
            time_ns=self._now_ns,
            type=completion.type,
            process=invocation.process,
            f=invocation.f,
            node=invocation.node,
            key=invocation.key,
            value=completion.value,
            error=completion.error,
        )
        self.events.append(event)
        worker = invocation.process % len(self._workers)
        if completion.type is Outcome.INFO:
            self._processes[worker] += len(self._workers)
        if self.generator is not None:
            self.generator = self.generator.update(self._context(), event)
        self._free[worker] = None

    def _context(self) -> Context:
        workers = self._workers
        return Context(self._now_ns, tuple(self._free), workers, tuple(self._counts), len(workers), self._seed)
