"""The part of ZooKeeper's figures that is measured inside the lab."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fencepost.harness.coordination import Definite, Indefinite, ReadMode
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.systems.zookeeper import ZOOKEEPER
from fencepost.harness.systems.zookeeper.client import ZooKeeperClient
from fencepost.harness.systems.zookeeper.wire.session import ZooKeeperSession


async def _start(lab: Lab) -> None:
    artifacts = ZOOKEEPER.releases.resolve(ZOOKEEPER.releases.default)
    await lab.realise(ZOOKEEPER.specs(lab.layout, artifacts, ZOOKEEPER.profile.options()))


async def _open(lab: Lab, node: str) -> ZooKeeperClient:
    client = await ZOOKEEPER.open_client(lab.layout[node], connect_timeout_s=2.0)
    assert isinstance(client, ZooKeeperClient)
    return client


async def _create(session: ZooKeeperSession) -> bool:
    try:
        async with asyncio.timeout(2):
            await session.make("/first", b"1")
    except (Definite, Indefinite, TimeoutError):
        return False
    return True


async def first_write(lab: Lab, _: dict[str, Any]) -> float:
    """Return the seconds from the first server's exec to the first acknowledged write."""
    await _start(lab)
    began = time.monotonic()
    for node in lab.nodes.values():
        await node.start()
    async with asyncio.timeout(60):
        while True:
            try:
                client = await _open(lab, "n1")
            except Definite:
                await asyncio.sleep(0.005)
                continue
            written = await _create(client.session)
            await client.close()
            if written:
                return time.monotonic() - began


async def costs(lab: Lab, args: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
    """Return this thread's CPU time per operation, for a plain read, a read after sync and a write."""
    await _start(lab)
    for node in lab.nodes.values():
        await node.start()
    async with asyncio.timeout(60):
        while await ZOOKEEPER.healthy(lab.layout) is not None:
            await asyncio.sleep(0.05)
    names = list(lab.nodes)
    clients = [await _open(lab, names[i % len(names)]) for i in range(args["sessions"])]
    await ZOOKEEPER.prepare(clients[0], ("k",))
    await clients[0].write("k", b"value")
    await asyncio.gather(*(client.read("k", ReadMode.BARRIER) for client in clients))
    kinds: dict[str, Callable[[ZooKeeperClient], Awaitable[Any]]] = {
        "plain read": lambda client: client.read("k", ReadMode.PLAIN),
        "read after sync": lambda client: client.read("k", ReadMode.SYNC),
        "write": lambda client: client.write("k", b"value"),
    }
    costs: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(args["repeats"]):
        for kind, act in kinds.items():
            costs[kind].append(await _cost(clients, act, args["seconds"] / len(kinds)))
    for client in clients:
        await client.close()
    return costs


async def _cost(
    clients: list[ZooKeeperClient], act: Callable[[ZooKeeperClient], Awaitable[Any]], seconds: float
) -> dict[str, float]:
    done = 0
    end = time.monotonic() + seconds

    async def busy(client: ZooKeeperClient) -> None:
        nonlocal done
        while time.monotonic() < end:
            await act(client)
            done += 1

    began, cpu = time.monotonic(), time.thread_time()
    await asyncio.gather(*(busy(client) for client in clients))
    return {
        "cpu_us": (time.thread_time() - cpu) / done * 1e6,
        "operations_per_s": done / (time.monotonic() - began),
    }
