"""What happens to members of a consumer group on real brokers in the lab; judged by `test_kafka_groups`."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite, Keys
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.systems.kafka.client.groups import KafkaGroups
from tests.systems.kafka.kraft.kraft_scenarios import opened, start

_GROUP: Final = "g0"


async def groups(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Two members of one group, by way of two brokers where there are two: who may commit, and who may not."""
    await start(lab, args["version"], args.get("options", {}))
    brokers = [name for name, place in lab.layout.items() if "broker" in place.roles]
    one, two = await opened(lab, brokers[0], KafkaGroups), await opened(lab, brokers[-1], KafkaGroups)
    try:
        return await _said(one, two)
    finally:
        for session in (one, two):
            await session.close()


async def _said(one: KafkaGroups, two: KafkaGroups) -> dict[str, Any]:
    await one.prepare(Keys((_GROUP,)))
    said: dict[str, Any] = {}
    said["not a member"] = await _ended(one.beat(_GROUP))
    said["nothing yet"] = await one.fetch_offset(_GROUP)
    first = await one.join(_GROUP)
    said["beat"] = await _ended(one.beat(_GROUP))
    said["commit"] = (await one.commit_offset(_GROUP, 11)).generation - first.generation
    said["no generation before"] = await _ended(one.commit_offset(_GROUP, 12, late=True))
    joining = asyncio.ensure_future(two.join(_GROUP))
    said["has to join again"] = await _until(one, "rebalance-in-progress")
    said["still in the old one"] = await _ended(one.commit_offset(_GROUP, 13))
    again, other = await asyncio.gather(one.join(_GROUP), joining)
    said["generations"] = [again.generation - first.generation, other.generation - first.generation]
    said["shares"] = sorted((again.share, other.share))
    said["late"] = await _ended(one.commit_offset(_GROUP, 14, late=True))
    said["elsewhere"] = await two.fetch_offset(_GROUP)
    # The first one does not hear that the second one leaves and comes back: it is left out.
    await two.leave(_GROUP)
    third = await two.join(_GROUP)
    said["left out"] = await _ended(one.commit_offset(_GROUP, 15))
    said["forgotten"] = await _ended(one.commit_offset(_GROUP, 16))
    said["alone"] = [third.share, third.generation > other.generation]
    said["at the end"] = [await session.fetch_offset(_GROUP) for session in (one, two)]
    return said


async def _until(session: KafkaGroups, code: str) -> str:
    async with asyncio.timeout(10):
        while (ended := await _ended(session.beat(_GROUP))) != code:
            await asyncio.sleep(0.05)
    return ended


async def _ended(request: Awaitable[Any]) -> str:
    """The code of the refusal; "" for none, and with a question mark where the outcome is unknown."""
    try:
        await request
    except Definite as refusal:
        return refusal.code
    except Indefinite as doubt:
        return f"{doubt.code}?"
    return ""
