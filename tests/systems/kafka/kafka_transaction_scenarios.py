"""What becomes of transactions on real brokers in the lab; judged by `test_kafka_transactions`."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.protocols import Piece
from tests.systems.kafka.kraft.kraft_scenarios import opened, start

_KEYS: Final = ("p0", "p1", "p2", "x0", "c0", "m1")
_BOTH: Final = (0, 1)


async def transactions(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Two producers of one name, by way of two brokers where there are two, in each version that is asked for."""
    await start(lab, args["version"], args.get("options", {}))
    brokers = [name for name, place in lab.layout.items() if "broker" in place.roles]
    said: dict[str, Any] = {}
    for version in args["of"]:
        one, two = await opened(lab, brokers[0]), await opened(lab, brokers[-1])
        try:
            for session in (one, two):
                session.use_version(version)
            said[str(version)] = await _said(one, two)
        finally:
            for session in (one, two):
                await session.close()
    return said


async def _said(one: KafkaSession, two: KafkaSession) -> dict[str, Any]:
    said: dict[str, Any] = {}
    said["not begun"] = await _ended(one.transact("x0", 1, _BOTH, commit=True, wait_s=0))
    await one.prepare(_KEYS)
    said["begin"] = await _ended(one.begin("x0"))
    if said["begin"]:
        return said
    first = await one.begin("x0")
    said["version"] = first.version
    at = (await one.read(0, 0, committed=False)).high_watermark
    for number, commit in ((1, True), (2, False), (3, True)):
        put = await one.transact("x0", number, _BOTH, commit=commit, wait_s=0)
        said[f"partitions of {number}"] = [partition for partition, _ in put.records]
    said["committed"] = await _numbers(one, at, 3)
    said["in the log"] = [r.number for r in (await two.read(0, at, committed=False)).records]
    # The second one begins while the first one is inside a transaction.
    waiting = asyncio.ensure_future(_ended(one.transact("x0", 4, _BOTH, commit=True, wait_s=1.5)))
    await asyncio.sleep(0.5)
    second = await two.begin("x0")
    said["later"] = second.token > first.token
    said["superseded inside"] = await waiting
    said["left"] = await _ended(one.transact("x0", 5, _BOTH, commit=True, wait_s=0))
    await two.transact("x0", 6, _BOTH, commit=True, wait_s=0)
    said["after that"] = await _numbers(two, at, 6)
    # Superseded between two transactions.
    third = await one.begin("x0")
    said["still later"] = third.token > second.token
    said["superseded between"] = await _ended(two.transact("x0", 7, _BOTH, commit=True, wait_s=0))
    await one.begin("c0")
    start_at = await one.consumed("c0")
    done = await one.transform("c0", 8, 2, commit=True, wait_s=0)
    said["read"] = [done.at - start_at, done.count]
    await one.transform("c0", 9, 3, commit=False, wait_s=0)
    await two.begin("c0")
    said["consumed"] = await two.consumed("c0") - start_at
    said["read again"] = (await two.transform("c0", 10, 1, commit=True, wait_s=0)).at - start_at
    await _as_members(one, two, said)
    ends = [await _stable(two, partition) for partition in range(3)]
    said["stable at the end"] = all(piece.stable == piece.high_watermark for piece in ends)
    return said


async def _as_members(one: KafkaSession, two: KafkaSession, said: dict[str, Any]) -> None:
    """Two members of one group, the second of which joins while the first is inside a transaction."""
    first = await one.begin("m1")
    start_at = await one.consumed("m1")
    await one.transform("m1", 11, 2, commit=True, wait_s=0)
    waiting = asyncio.ensure_future(_ended(one.transform("m1", 12, 2, commit=True, wait_s=5.0)))
    await asyncio.sleep(0.5)
    second = await two.begin("m1")
    said["later generation"] = second.token > first.token
    said["member left out"] = await waiting
    said["read by the next"] = (await two.transform("m1", 13, 1, commit=True, wait_s=0)).at - start_at


async def _numbers(session: KafkaSession, at: int, last: int) -> list[int]:
    """The committed numbers of partition 0 from an offset on, once the last one is among them."""
    async with asyncio.timeout(10):
        while True:
            numbers = [r.number for r in (await session.read(0, at, committed=True)).records]
            if last in numbers:
                return numbers
            await asyncio.sleep(0.05)


async def _stable(session: KafkaSession, partition: int) -> Piece:
    """The end of a partition, when nothing in it is open any more; the last try after ten seconds."""
    for _ in range(200):
        piece = await session.read(partition, 0, committed=True)
        if piece.stable == piece.high_watermark:
            break
        await asyncio.sleep(0.05)
    return piece


async def _ended(request: Awaitable[Any]) -> str:
    """The code of the refusal; "" for none, and with a question mark where the outcome is unknown."""
    try:
        await request
    except Definite as refusal:
        return refusal.code
    except Indefinite as doubt:
        return f"{doubt.code}?"
    return ""
