"""Figures of the links of containers, by every way that rules are set: a whole-cluster split, its healing, the probes.

Measured on small servers in the side-car's image; the lab's own figures are those of `bench.lab`. Without a
container engine there is nothing to measure.
"""

import asyncio
import statistics
import tempfile
import time
from itertools import permutations
from pathlib import Path
from typing import Final

from _pytest.outcomes import Skipped

from bench.figure import Figure
from fencepost.harness.runtime.containers.rules.from_here import RulesFabric
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import Effect, Link, Reach
from tests.runtime.containers.links_scene import Scene, scene

#: What each way is called, and the split that is wanted of it in milliseconds.
_WAYS: Final = {
    "rules": ("from the host", "at most 1 ms"),
    "sidecar": ("by side-car", "at most 3 ms"),
    "published": ("by side-car, ports published", "at most 3 ms"),
}
_COMMITS: Final = 500
_PROBES: Final = 50


def run() -> list[Figure]:
    figures: list[Figure] = []
    for kind, (way, wanted) in _WAYS.items():
        with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
            try:
                medians = asyncio.run(_measure(kind, Path(folder)))
            except Skipped as reason:
                print(f"  not measured: {reason.msg}", flush=True)
                continue
        figures += [
            Figure(
                f"containers: split on all nodes {way}",
                medians["split"],
                "ms",
                wanted,
                f"3 nodes cut off from each other, call of apply() to its return; p99 {medians['split p99']:.3f} ms "
                f"of {_COMMITS}; its healing {medians['heal']:.3f} (p99 {medians['heal p99']:.3f}) ms",
            ),
            Figure(
                f"containers: probe of all links {way}",
                medians["probe"],
                "ms",
                "-",
                f"12 links of 3 nodes and the client, all open; p99 {medians['probe p99']:.3f} ms of {_PROBES}; "
                f"network and side-cars up in {medians['open']:.2f} s, nodes started and all links probed "
                f"{medians['start']:.2f} s later",
            ),
        ]
        if "attach" in medians:
            figures.append(
                Figure(
                    f"containers: process made to links enforced again {way}",
                    medians["attach"],
                    "ms",
                    "-",
                    "restart of a node in a partition; an upper bound, most of it before the server is executed",
                )
            )
    return figures


async def _measure(kind: str, folder: Path) -> dict[str, float]:
    begun = time.perf_counter()
    async with scene(kind, folder) as it:
        opened = time.perf_counter()
        await it.start_all()
        medians = {"open": opened - begun, "start": time.perf_counter() - opened}
        split = {Link(a, b): Effect.DROP for a, b in permutations(it.names, 2)}
        applied, healed, probed = [], [], []
        for _ in range(_COMMITS):
            start = time.perf_counter()
            await it.network.apply(1, split)
            middle = time.perf_counter()
            await it.network.withdraw(1)
            applied.append(middle - start)
            healed.append(time.perf_counter() - middle)
        links = list(all_links(it.names))
        for _ in range(_PROBES):
            start = time.perf_counter()
            reaches = await it.network.probe(links)
            probed.append(time.perf_counter() - start)
            assert set(reaches.values()) == {Reach.OPEN}
        for name, times in (("split", applied), ("heal", healed), ("probe", probed)):
            medians[name] = statistics.median(times) * 1e3
            medians[f"{name} p99"] = sorted(times)[len(times) * 99 // 100] * 1e3
        if kind == "rules":
            medians["attach"] = statistics.median([await _restart(it, split) for _ in range(5)])
    return medians


async def _restart(it: Scene, split: dict[Link, Effect]) -> float:
    """Restart a node in a partition, which must hold afterwards; return for how many ms, at most, it did not."""
    await it.network.apply(1, split)
    await it.kill("n1")
    await it.start("n1")
    await it.prove(split)
    await it.network.withdraw(1)
    assert isinstance(it.fabric, RulesFabric)
    return it.fabric.last_attach_s * 1e3
