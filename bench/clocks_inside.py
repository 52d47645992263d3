"""The part of the clocks' figures that is measured inside the lab, on real servers."""

import asyncio
import os
import statistics
import time
from typing import Any, Final

from fencepost.harness.generators import time_limit
from fencepost.harness.history import BeliefEvent, Claim, Event, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.clients import Clients
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.observer import Observers
from fencepost.harness.runtime.clocks.setting import RATE_ONE, ClockSetting, Settings
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.systems.etcd import ETCD
from fencepost.workloads.register import Register, RegisterOptions
from tests.runtime.clocks.clock_scenes import Scene

_ARMS: Final = 30
_FAULTS: Final = 9
_IDLE_S: Final = 10.0
_FLIP_S: Final = 0.01
_S: Final = 10**9


async def changes(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """On a healthy cluster, arm and disarm n1, change its clocks many times, and carry out the whole fault."""
    scene = Scene(lab, args["system"])
    await scene.start()
    node, clocks = lab.nodes["n1"], scene.fault._clocks
    kept = await clocks.arm(node)
    arms: list[float] = []
    releases: list[float] = []
    for _ in range(_ARMS):
        began = time.perf_counter()
        await clocks.release(kept)
        releases.append((time.perf_counter() - began) * 1e3)
        await clocks.arm(node)
        arms += [armed.took_ms for armed in kept.armed.values()]
    took: list[float] = []
    for number in range(args["repeats"]):
        settings = Settings(wall=ClockSetting(offset_ns=number + 1), monotonic=ClockSetting(offset_ns=number + 1))
        began = time.perf_counter()
        clocks.set(kept, settings)
        took.append((time.perf_counter() - began) * 1e3)
        await asyncio.sleep(0)
    threads = len(os.listdir(f"/proc/{node.pid}/task"))
    clocks.set(kept, Settings())
    await clocks.release(kept)
    await clocks.rest()
    injects, heals = [], []
    for _ in range(_FAULTS):
        began = time.perf_counter()
        fault_id, resolved, proof = await scene.inject("clock-skew:n1:offset=2m")
        injects.append((time.perf_counter() - began) * 1e3)
        assert proof.outcome == "installed", proof.text
        began = time.perf_counter()
        healed = await scene.heal(fault_id, resolved)
        heals.append((time.perf_counter() - began) * 1e3)
        assert healed.outcome == "healed", healed.text
    await scene.fault.close()
    took.sort()
    return {
        "change_ms": statistics.median(took),
        "change_ms_p99": took[len(took) * 99 // 100],
        "arm_ms": statistics.median(arms),
        "arms": len(arms),
        "release_ms": statistics.median(releases),
        "threads": threads,
        "inject_ms": statistics.median(injects),
        "heal_ms": statistics.median(heals),
        "faults": _FAULTS,
        "load": os.getloadavg()[0],
    }


async def soak(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Load etcd while each node's clock is skewed differently; return errors, terms and the host's clock."""
    scene = Scene(lab, "etcd")
    await scene.start()
    began = _host_ns()
    await asyncio.sleep(_IDLE_S)
    idle_ns = _host_ns() - began
    clocks = scene.fault._clocks
    kept = [await clocks.arm(node) for node in lab.nodes.values()]
    counted = _Counted()
    recorder = Recorder(None)
    recorder.listeners.append(counted)
    observers = Observers(ETCD, lab.nodes, recorder)
    observers.start()
    now_ns = time.time_ns()
    strobing = ClockSetting(base_ns=now_ns, period_ns=10**7, delta_ns=-3600 * _S, length_ns=3600 * _S)
    drifting = ClockSetting(base_ns=time.monotonic_ns(), extra_rate=-RATE_ONE // 20)
    clocks.set(kept[1], Settings(wall=strobing))
    clocks.set(kept[2], Settings(monotonic=drifting))
    flipping = asyncio.create_task(_flip(clocks, kept[0], counted))
    began = _host_ns()
    try:
        await _load(lab, recorder, args["seconds"])
    finally:
        host_ns = _host_ns() - began
        flipping.cancel()
        await asyncio.gather(flipping, return_exceptions=True)
        await observers.close()
    wrong = [text for each in kept for text in clocks.read_back(each).wrong]
    assert not wrong, wrong
    await clocks.close()
    return {
        "operations": counted.ok,
        "errors": counted.errors,
        "first_error": counted.first_error,
        "terms": sorted(counted.terms),
        "changes": counted.changes,
        "host_us": abs(host_ns) / 1e3,
        "idle_us": abs(idle_ns) / 1e3,
        "idle_s": _IDLE_S,
        "load": os.getloadavg()[0],
    }


class _Counted:
    """Listens to a recorder."""

    def __init__(self) -> None:
        self.ok = self.errors = self.changes = 0
        self.first_error = ""
        self.terms: set[int] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, BeliefEvent) and event.claims is Claim.YES and event.epoch is not None:
            self.terms.add(event.epoch)
        if not isinstance(event, OpEvent) or event.type is Outcome.INVOKE:
            return
        if event.type is Outcome.OK or (event.type is Outcome.FAIL and event.f == "cas"):
            self.ok += event.type is Outcome.OK
        else:
            self.errors += 1
            self.first_error = self.first_error or f"{event.f} {event.type} {event.error}"


async def _flip(clocks: Any, kept: Any, counted: _Counted) -> None:
    """Set a clock ahead and behind, from the harness itself."""
    while True:
        side = 120 * _S if counted.changes % 2 else -120 * _S
        clocks.set(kept, Settings(wall=ClockSetting(offset_ns=side)))
        counted.changes += 1
        await asyncio.sleep(_FLIP_S)


def _host_ns() -> int:
    """Return the wall clock less the raw monotonic clock; it moves only if somebody sets or slews the wall clock."""
    best = None
    for _ in range(50):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        wall = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if best is None or after - before < best[0]:
            best = (after - before, wall - (before + after) // 2)
    assert best is not None
    return best[1]


async def _load(lab: Lab, recorder: Recorder, seconds: float) -> None:
    workload = Register()
    names = list(lab.nodes)
    options = RegisterOptions(rate=1e6, active_per_node=3, seldom_per_node=0)

    async def open_client(process: int, node: str) -> Client:
        client = await ETCD.open_client(lab.layout[node], connect_timeout_s=2.0)
        return workload.client(client, options, time.monotonic_ns)

    workers = 3 * len(names)
    clients = Clients(
        open=open_client,
        nodes=tuple(names[worker % len(names)] for worker in range(workers)),
        op_timeouts_s=(5.0,) * workers,
        open_timeout_s=2.5,
        effect_free=workload.effect_free,
    )
    interpreter = Interpreter(clients, recorder=recorder, seed=1)
    await interpreter.run(time_limit(round(seconds * 1e9), workload.generator(options, len(names))))
    await interpreter.close()
