"""What becomes of transactions on real brokers in the lab; judged by `test_kafka_transactions`."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.systems.kafka.client.log_transactions import KafkaTransactions
from fencepost.systems.kafka.protocols import NamedProducer, Piece, Producers
from tests.systems.kafka.kraft.kraft_scenarios import opened, start

_PLAIN: Final = NamedProducer("x0")
_READER: Final = NamedProducer("c0", input=0)
_MEMBER: Final = NamedProducer("m1", input=1, grouped=True)
_BOTH: Final = (0, 1)


async def transactions(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Two producers of one name, by way of two brokers where there are two, in each version that is asked for."""
    await start(lab, args["version"], args.get("options", {}))
    brokers = [name for name, place in lab.layout.items() if "broker" in place.roles]
    said: dict[str, Any] = {}
    for version in args["of"]:
        one, two = await opened(lab, brokers[0], KafkaTransactions), await opened(lab, brokers[-1], KafkaTransactions)
        try:
            for session in (one, two):
                session.use_version(version)
            said[str(version)] = await _said(one, two)
        finally:
            for session in (one, two):
                await session.close()
    return said


async def _said(one: KafkaTransactions, two: KafkaTransactions) -> dict[str, Any]:
    said: dict[str, Any] = {}
    said["not begun"] = await _ended(one.transact(_PLAIN, 1, _BOTH, commit=True, wait_s=0))
    await one.prepare(Producers(3, (_PLAIN, _READER, _MEMBER)))
    said["begin"] = await _ended(one.begin(_PLAIN))
    if said["begin"]:
        return said
    first = await one.begin(_PLAIN)
    said["version"] = first.version
    at = (await one.read(0, 0, committed=False)).high_watermark
    for number, commit in ((1, True), (2, False), (3, True)):
        put = await one.transact(_PLAIN, number, _BOTH, commit=commit, wait_s=0)
        said[f"partitions of {number}"] = [partition for partition, _ in put.records]
    said["committed"] = await _numbers(one, at, 3)
    said["in the log"] = [r.number for r in (await two.read(0, at, committed=False)).records]
    # The second one begins while the first one is inside a transaction.
    waiting = asyncio.ensure_future(_ended(one.transact(_PLAIN, 4, _BOTH, commit=True, wait_s=1.5)))
    await asyncio.sleep(0.5)
    second = await two.begin(_PLAIN)
    said["later"] = second.token > first.token
    said["superseded inside"] = await waiting
    said["left"] = await _ended(one.transact(_PLAIN, 5, _BOTH, commit=True, wait_s=0))
    await two.transact(_PLAIN, 6, _BOTH, commit=True, wait_s=0)
    said["after that"] = await _numbers(two, at, 6)
    # Superseded between two transactions.
    third = await one.begin(_PLAIN)
    said["still later"] = third.token > second.token
    said["superseded between"] = await _ended(two.transact(_PLAIN, 7, _BOTH, commit=True, wait_s=0))
    await one.begin(_READER)
    start_at = await one.consumed(_READER)
    done = await one.transform(_READER, 8, 2, commit=True, wait_s=0)
    said["read"] = [done.at - start_at, done.count]
    await one.transform(_READER, 9, 3, commit=False, wait_s=0)
    await two.begin(_READER)
    said["consumed"] = await two.consumed(_READER) - start_at
    said["read again"] = (await two.transform(_READER, 10, 1, commit=True, wait_s=0)).at - start_at
    await _as_members(one, two, said)
    ends = [await _stable(two, partition) for partition in range(3)]
    said["stable at the end"] = all(piece.stable == piece.high_watermark for piece in ends)
    return said


async def _as_members(one: KafkaTransactions, two: KafkaTransactions, said: dict[str, Any]) -> None:
    """Two members of one group, the second of which joins while the first is inside a transaction."""
    first = await one.begin(_MEMBER)
    start_at = await one.consumed(_MEMBER)
    await one.transform(_MEMBER, 11, 2, commit=True, wait_s=0)
    waiting = asyncio.ensure_future(_ended(one.transform(_MEMBER, 12, 2, commit=True, wait_s=5.0)))
    await asyncio.sleep(0.5)
    second = await two.begin(_MEMBER)
    said["later generation"] = second.token > first.token
    said["member left out"] = await waiting
    said["read by the next"] = (await two.transform(_MEMBER, 13, 1, commit=True, wait_s=0)).at - start_at


async def _numbers(session: KafkaTransactions, at: int, last: int) -> list[int]:
    """The committed numbers of partition 0 from an offset on, once the last one is among them."""
    async with asyncio.timeout(10):
        while True:
            numbers = [r.number for r in (await session.read(0, at, committed=True)).records]
            if last in numbers:
                return numbers
            await asyncio.sleep(0.05)


async def _stable(session: KafkaTransactions, partition: int) -> Piece:
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
