"""Figures of links through Toxiproxy: how long a cut takes, which is not one transaction but many requests."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

from bench.figure import Figure
from fencepost.harness.runtime.network import CLIENT, Effect, Link
from tests.runtime.containers.star_scene import CLIENT_PORT, PEER_PORT, Star, star

_CUTS = 60


def run(repeats: int = 3) -> list[Figure]:
    """Measure the figures; none if no container engine answers."""
    if not engine_answers():
        print("  no container engine answers: nothing measured; start one, or set DOCKER_HOST", flush=True)
        return []
    rounds = [asyncio.run(_measure(_CUTS)) for _ in range(repeats)]
    every = {name: sorted(ms for times in rounds for ms in times[name]) for name in rounds[0]}
    how = f"3 nodes, {repeats} clusters x {_CUTS}"
    return [
        _figure("one node cut off through Toxiproxy", every["isolate"], f"{how}: apply(), read back from the server"),
        _figure("its healing", every["heal"], f"{how}: withdraw(), read back; the last fault goes by one request"),
        _figure("whole-cluster split through Toxiproxy", every["split"], f"{how}: every node from every other"),
        _figure("probe matrix through Toxiproxy", every["probe"], f"{how}: all 12 links open", wanted="-"),
        Figure(
            "round trip through Toxiproxy",
            statistics.median(every["trip"]),
            "ms",
            "-",
            "one line from the harness to a node, which asks another: four passages of the proxy; "
            f"p99 {every['trip'][len(every['trip']) * 99 // 100]:.2f} ms",
        ),
        Figure(
            "star of networks opened",
            statistics.median(every["open"]) / 1e3,
            "s",
            "-",
            "4 networks, the Toxiproxy container, 21 proxies, 3 servers started, all links probed, isolation checked",
        ),
    ]


def _figure(name: str, sorted_ms: list[float], how: str, wanted: str = "at most 50 ms") -> Figure:
    p99, largest = sorted_ms[len(sorted_ms) * 99 // 100], sorted_ms[-1]
    return Figure(name, statistics.median(sorted_ms), "ms", wanted, f"{how}; p99 {p99:.1f}, largest {largest:.1f} ms")


async def _measure(cuts: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"isolate": [], "heal": [], "split": [], "probe": [], "trip": [], "open": []}
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        async with star(Path(folder)) as scene:
            times["open"].append((time.perf_counter() - begun) * 1e3)
            names = list(scene.nodes)
            for number in range(cuts):
                alone = names[number % len(names)]
                isolation = {link: Effect.DROP for link in _between_nodes(names) if alone in link}
                times["isolate"].append(await _timed(scene.network.apply(number, isolation)))
                times["heal"].append(await _timed(scene.network.withdraw(number)))
                split = dict.fromkeys(_between_nodes(names), Effect.DROP)
                times["split"].append(await _timed(scene.network.apply(number, split)))
                await scene.network.withdraw(number)
                times["probe"].append(await _timed(scene.network.probe(scene.every_link)))
            times["trip"] = await _trips(scene, 200)
    return times


async def _trips(scene: Star, count: int) -> list[float]:
    """Measure round trips in ms: each line over one connection makes a node ask another node and pass on the answer."""
    reader, writer = await asyncio.open_connection(*scene.fabric.layout["n1"].dial(CLIENT_PORT))
    host, port = scene.fabric.layout["n2"].peer(PEER_PORT)
    times = []
    try:
        for _ in range(count):
            begun = time.perf_counter()
            writer.write(f"{host} {port} hello 5\n".encode())
            async with asyncio.timeout(5.0):
                assert await reader.readline() == b"hello\n"
            times.append((time.perf_counter() - begun) * 1e3)
    finally:
        writer.close()
    return times


async def _timed(work: Awaitable[object]) -> float:
    begun = time.perf_counter()
    await work
    return (time.perf_counter() - begun) * 1e3


def _between_nodes(names: list[str]) -> list[Link]:
    return [Link(a, b) for a in names for b in names if a != b and CLIENT not in (a, b)]


def engine_answers() -> bool:
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env()
        client.ping()
    except DockerException:
        return False
    client.close()
    return True
