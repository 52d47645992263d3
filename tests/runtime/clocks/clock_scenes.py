"""What the cluster tests of `clock-skew` do inside the lab: real servers, one fault at a time, looked at from outside.

Each scene gives back plain figures; the tests say what they must be. What a server shows is taken from the server: the
times of its log's lines, the Date of its answers, its uptime.
"""

import asyncio
import contextlib
import os
import random
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from fencepost.harness.contract.system import ReportedTime
from fencepost.harness.faults import clock_answers
from fencepost.harness.faults.kind import Proof, Resolved, View
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.history import Clock, ClockEvent
from fencepost.harness.plugins import registry
from fencepost.harness.runner.readiness import await_healthy
from fencepost.harness.runtime.clocks.memory import Gone
from fencepost.harness.runtime.clocks.process import ClockedProcess
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.clock.clock_skew import ClockSkew
from tests.fakes import acting
from tests.fakes.fakes_runtime import KeptRecords, cluster_of

_DEADLINE_S = 30.0
_QUICK_NS = 500_000_000


class Scene:
    """A healthy cluster of `system`, and the fault."""

    def __init__(self, lab: Lab, system: str) -> None:
        self.lab, self.system = lab, registry.system(system)
        self.records = _RealTimes()
        self.fault = ClockSkew()
        # All servers of a scene answer, sooner or later.
        clock_answers._ANSWER_S = _DEADLINE_S  # type: ignore[misc]
        self.cluster = cluster_of(lab, records=self.records, system=system)
        self._count = 0

    async def start(self) -> None:
        artifacts = self.system.releases.resolve(self.system.releases.default)
        await self.lab.realise(self.system.specs(self.lab.layout, artifacts, self.system.profile.options()))
        for node in self.lab.nodes.values():
            await node.start()
        await self.healthy()

    async def healthy(self) -> None:
        wrong = await await_healthy(self.system, self.lab.layout, deadline_s=_DEADLINE_S)
        assert wrong is None, wrong

    def resolved(self, text: str) -> Resolved:
        (spec,) = parse_faults(text, {"clock-skew": self.fault}, Placement(nodes=len(self.lab.nodes)))
        view = View(nodes=tuple(self.lab.nodes), leader=None, epoch=None)
        return acting.aimed(self.fault, spec, view, random.Random(0))

    async def inject(self, text: str) -> tuple[int, Resolved, Proof]:
        resolved, self._count = self.resolved(text), self._count + 1
        return self._count, resolved, await acting.inject(self.fault, self._count, resolved, self.cluster)

    async def heal(self, fault_id: int, resolved: Resolved) -> Proof:
        return await acting.heal(self.fault, fault_id, resolved, self.cluster)

    async def ahead_s(self, name: str, clock: Clock = Clock.WALL) -> float:
        """What the server itself reports, less true time (for a monotonic clock: less this machine's)."""
        ask = self.system.reported_time
        assert ask is not None
        true_time = time.time_ns if clock is Clock.WALL else time.monotonic_ns
        async with asyncio.timeout(_DEADLINE_S):
            while True:
                began_ns = true_time()
                told = cast(ReportedTime, await ask(self.lab.layout[name], clock))
                # An answer that took long tells little: on a busy machine it is asked for again.
                if (ended_ns := true_time()) - began_ns < _QUICK_NS:
                    return (told.shown_ns - ended_ns) / 1e9

    def clock_events(self) -> list[dict[str, Any]]:
        return [
            {"node": e.node, "clock": str(e.clock), "incarnation": e.incarnation, "certain": e.certain}
            | {"offset_ns": e.offset_ns, "rate": e.rate, "skew_ns": e.skew_ns(self.records.now_ns())}
            for e in self.records.events
            if isinstance(e, ClockEvent)
        ]

    def left(self) -> list[str]:
        """Processes of the cluster whose clock functions are not the kernel's own, tracers, and helpers."""
        found = []
        for node in self.lab.nodes.values():
            for pid in processes.group_members(node.pid or -1):
                # One that has ended meanwhile holds nothing.
                with contextlib.suppress(Gone, FileNotFoundError, ProcessLookupError):
                    found += [f"{node.name}: {what}" for what in _held(pid)]
            if node.wrap_argv:
                found.append(f"{node.name} is wrapped")
        for name in os.listdir("/proc"):
            if name.isdigit() and b"clocks.clock_daemon" in _cmdline(int(name)):
                found.append(f"a clock daemon runs as {name}")
        return found


class _RealTimes(KeptRecords):
    def now_ns(self) -> int:
        return time.monotonic_ns()

    def record(self, cls: Any, **fields: Any) -> Any:
        event = cls(index=len(self.events), time_ns=self.now_ns(), **fields)
        self.events.append(event)
        return event


def _held(pid: int) -> Iterator[str]:
    process = ClockedProcess(pid)
    try:
        if not process.is_original():
            yield f"{pid} is armed"
    finally:
        process.close()
    if "TracerPid:\t0" not in Path(f"/proc/{pid}/status").read_text():
        yield f"{pid} is traced"


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def offsets(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """An offset on n1, told by it and not by the others; then healed, and nothing is left."""
    scene = Scene(lab, args["system"])
    await scene.start()
    found: dict[str, Any] = {"steps": []}
    for text in args["faults"]:
        fault_id, resolved, proof = await scene.inject(text)
        others = [await scene.ahead_s(name) for name in ("n2", "n3")]
        own = await scene.ahead_s("n1")
        healed = await scene.heal(fault_id, resolved)
        found["steps"].append(
            {
                "outcome": proof.outcome,
                "proof": proof.text,
                "own_s": own,
                "others_s": others,
                "healed": healed.outcome,
                "healed_proof": healed.text,
                "after_s": await scene.ahead_s("n1"),
                "left": scene.left(),
            }
        )
    found["events"] = scene.clock_events()
    await scene.healthy()
    return found


async def drift(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """A clock at another rate: what the server gains, and what the recorded function says that it gains."""
    scene = Scene(lab, args["system"])
    await scene.start()
    clock = Clock(args["clock"])
    before_s = await scene.ahead_s("n1", clock)
    fault_id, resolved, proof = await scene.inject(f"clock-skew:n1:clock={clock.value}:rate={args['rate']}")
    await asyncio.sleep(args["seconds"])
    gained_s = await scene.ahead_s("n1", clock) - before_s
    said_s = scene.clock_events()[-1]["skew_ns"] / 1e9
    healed = await scene.heal(fault_id, resolved)
    left = scene.left()
    event = scene.clock_events()[-1]
    kept_s = await scene.ahead_s("n1", clock) - before_s
    await scene.fault.close()
    return {
        "outcome": proof.outcome,
        "proof": proof.text,
        "gained_s": gained_s,
        "said_s": said_s,
        "healed": healed.outcome,
        "healed_proof": healed.text,
        "left": left,
        "kept_s": kept_s,
        "event": event,
    }


async def strobe(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """A strobe that ends by itself: both sides are seen while it lasts, true time alone when it is over."""
    scene = Scene(lab, args["system"])
    await scene.start()
    fault_id, resolved, proof = await scene.inject("clock-skew:n1:strobe=1h:period=40ms:length=2s")
    end = time.monotonic() + 2.0
    during = []
    for _ in range(40):
        during.append(await scene.ahead_s("n1"))
        await asyncio.sleep(0.013)
    in_time = time.monotonic() < end
    await asyncio.sleep(max(0.0, end - time.monotonic()) + 0.1)
    after = [await scene.ahead_s("n1") for _ in range(10)]
    healed = await scene.heal(fault_id, resolved)
    return {
        "outcome": proof.outcome,
        "proof": proof.text,
        "in_time": in_time,
        "ahead_h": [round(value / 3600) for value in during],
        "after_h": [round(value / 3600) for value in after],
        "healed": healed.outcome,
        "left": scene.left(),
    }


async def restart(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """A node killed and started while its clock is skewed: its log's every line, the first included, shows the skew."""
    scene = Scene(lab, args["system"])
    await scene.start()
    node = lab.nodes["n1"]
    fault_id, resolved, proof = await scene.inject("clock-skew:n1:offset=2h")
    await node.kill()
    size = node.log.stat().st_size
    await node.start()
    await scene.healthy()
    text = node.log.read_bytes()[size:].decode(errors="replace")
    own_s = await scene.ahead_s("n1")
    reading = scene.fault._clocks.read_back(scene.fault._clocks.of(node))
    healed = await scene.heal(fault_id, resolved)
    left = scene.left()
    await node.kill()
    await node.start()
    await scene.healthy()
    return {
        "outcome": proof.outcome,
        "lines_h": [round(ahead / 3600) for ahead in _line_times(text)],
        "own_s": own_s,
        "reading": [list(reading.wrong), reading.how],
        "healed": healed.outcome,
        "healed_proof": healed.text,
        "left": left,
        "events": scene.clock_events(),
        "after_s": await scene.ahead_s("n1"),
    }


def _line_times(text: str) -> list[float]:
    """How far ahead of now each line's time is, in s: etcd's JSON, or a time of day."""
    now = datetime.now(tz=UTC)
    found = []
    for line in text.splitlines():
        stamp = re.search(r'"ts":"([^"]+)"', line)
        clock = re.match(r"(\d\d):(\d\d):(\d\d)[.,](\d{3})", line)
        if stamp is not None:
            found.append((datetime.fromisoformat(stamp[1]) - now).total_seconds())
        elif clock is not None:
            hours, minutes, seconds, _ = map(int, clock.groups())
            local = datetime.now()
            of_day = (hours - local.hour) * 3600 + (minutes - local.minute) * 60 + seconds - local.second
            # A time of day that is two hours ahead may be tomorrow's.
            found.append(float((of_day + 43_200) % 86_400 - 43_200))
    return found
