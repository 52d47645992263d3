"""The part of the faults' times that is measured inside the lab: on etcd, written to all the time."""

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from fencepost.harness.coordination.client_gate import Freezer
from fencepost.harness.faults.kind import FaultSpec
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.clocks.node_clocks import NodeClocks
from fencepost.harness.runtime.disks import data_limit
from fencepost.harness.runtime.disks.sync_mirror import SyncMirror
from fencepost.harness.runtime.disks.traced_node import TracedNode
from fencepost.harness.runtime.lab.lab import Lab, LabNetwork
from fencepost.harness.runtime.lab.node import LabNode
from fencepost.harness.runtime.shaping.shaped_links import LinkShapes
from fencepost.harness.systems.etcd import ETCD
from fencepost.nemesis.disk import damage
from tests.nemesis.state_machine.stage import Stage

#: What changes the machine; everything else of an injection or a healing looks at it.
ACTS: Final[tuple[tuple[Any, tuple[str, ...]], ...]] = (
    (LabNetwork, ("apply", "withdraw")),
    (LinkShapes, ("apply", "withdraw", "break_connections")),
    (LabNode, ("kill", "start", "pause", "resume")),
    (TracedNode, ("begin", "end")),
    (SyncMirror, ("begin", "restore", "close")),
    (NodeClocks, ("arm", "set", "release")),
    (Freezer, ("freeze", "thaw")),
    (type(ETCD), ("move_leadership",)),
    (data_limit, ("fill", "set_limit")),
    (damage, ("damage",)),
)
_AT_REST_S: Final = 0.2


class Stopwatch:
    """Records when one of these steps was under way, in any thread."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._lock = threading.Lock()
        for owner, names in ACTS:
            for name in names:
                setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, real: Callable[..., Any]) -> Callable[..., Any]:
        if asyncio.iscoroutinefunction(real):

            @functools.wraps(real)
            async def waited(*arguments: Any, **named: Any) -> Any:
                with self._span():
                    return await real(*arguments, **named)

            return waited

        @functools.wraps(real)
        def called(*arguments: Any, **named: Any) -> Any:
            with self._span():
                return real(*arguments, **named)

        return called

    @contextmanager
    def _span(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self._spans.append((began, time.perf_counter()))

    def within_ms(self, began: float, ended: float) -> float:
        """Return for how many ms, between the two times, at least one step was under way."""
        with self._lock:
            spans = sorted((max(a, began), min(b, ended)) for a, b in self._spans if b > began and a < ended)
            self._spans.clear()
        total, reached = 0.0, began
        for a, b in spans:
            total += max(0.0, b - max(a, reached))
            reached = max(reached, b)
        return total * 1e3


async def times(lab: Lab, args: dict[str, Any]) -> Any:
    """Inject and heal each fault of `texts` `repeats` times, each time on a healthy cluster."""
    stage = await Stage.open(lab, args["system"])
    try:
        watch = Stopwatch()
        await stage.lab.network.shapes.prepare()
        measured: list[dict[str, Any]] = []
        left_out: dict[str, str] = {}
        for text in args["texts"]:
            spec = stage.parsed(text)
            if isinstance(spec, FaultSpec):
                measured.append(await _measured(stage, spec, watch, args["repeats"]))
            else:
                left_out[text] = spec.removeprefix(f"{text}: ")
        return {"measured": measured, "left_out": left_out}
    finally:
        await stage.close()


async def _measured(stage: Stage, spec: FaultSpec, watch: Stopwatch, repeats: int) -> dict[str, Any]:
    costs: dict[str, Any] = {
        "text": spec.text,
        "inject_ms": [],
        "inject_act_ms": [],
        "heal_ms": [],
        "heal_act_ms": [],
        "installed": 0,
        "healed": 0,
    }
    for number in range(repeats):
        await stage.healthy()
        await stage.led()
        await stage.written()
        began = time.perf_counter()
        acted = await stage.inject(spec, number)
        ended = time.perf_counter()
        assert acted is not None, f"{spec.text} was skipped"
        costs["inject_ms"].append((ended - began) * 1e3)
        costs["inject_act_ms"].append(watch.within_ms(began, ended))
        await asyncio.sleep(_AT_REST_S)
        began = time.perf_counter()
        await stage.heal(acted)
        ended = time.perf_counter()
        costs["heal_ms"].append((ended - began) * 1e3)
        costs["heal_act_ms"].append(watch.within_ms(began, ended))
        (injected, why), (healed, why_not) = acted.outcomes
        costs["installed"] += injected is FaultOutcome.INSTALLED
        costs["healed"] += healed is FaultOutcome.HEALED
        for outcome, text in ((injected, why), (healed, why_not)):
            if outcome is FaultOutcome.INDETERMINATE:
                print(f"  {spec.text}: {text}", flush=True)
    return costs
