"""How long toxics take: on three small servers in containers, whose every connection goes through Toxiproxy."""

import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from fencepost.harness.faults.kind import Resolved, View
from fencepost.harness.faults.nemesis_text import parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import members_alike
from fencepost.harness.runtime.provider import Links, Placement
from tests.fakes.fakes_runtime import cluster_of
from tests.runtime.containers.star_scene import Star, star


def measure(texts: tuple[str, ...], repeats: int) -> list[dict[str, Any]]:
    return asyncio.run(_measure(texts, repeats))


async def _measure(texts: tuple[str, ...], repeats: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        async with star(Path(folder)) as scene:
            return [await _measured(text, scene, repeats) for text in texts]


async def _measured(text: str, scene: Star, repeats: int) -> dict[str, Any]:
    faults = registry.faults()
    placement = Placement(runtime="containers", links=Links.TOXIPROXY)
    (spec,) = parse_faults(text, faults, placement)
    fault, cluster = faults[spec.fault], cluster_of(scene)
    apply, withdraw = _Timed(scene.streams, "apply"), _Timed(scene.streams, "withdraw")
    costs: dict[str, Any] = {"text": text, "inject_ms": [], "heal_ms": [], "installed": 0, "healed": 0}
    for number in range(repeats):
        view = View(nodes=tuple(scene.nodes), leader="n1", epoch=1, members=members_alike(3))
        resolved = fault.resolve(spec, view, random.Random(number))
        assert isinstance(resolved, Resolved)
        began = time.perf_counter()
        injected = await fault.inject(number, resolved, cluster)
        costs["inject_ms"].append((time.perf_counter() - began) * 1e3)
        began = time.perf_counter()
        healed = await fault.heal(number, resolved, cluster)
        costs["heal_ms"].append((time.perf_counter() - began) * 1e3)
        costs["installed"] += injected.outcome is FaultOutcome.INSTALLED
        costs["healed"] += healed.outcome is FaultOutcome.HEALED
    apply.remove()
    withdraw.remove()
    return {**costs, "inject_act_ms": apply.took_ms, "heal_act_ms": withdraw.took_ms}


class _Timed:
    """One method of one object, timed until `remove`."""

    def __init__(self, owner: Any, name: str) -> None:
        self.took_ms: list[float] = []
        self._owner, self._name = owner, name
        real = getattr(owner, name)

        async def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return await real(*arguments)
            finally:
                self.took_ms.append((time.perf_counter() - began) * 1e3)

        setattr(owner, name, timed)

    def remove(self) -> None:
        delattr(self._owner, self._name)
