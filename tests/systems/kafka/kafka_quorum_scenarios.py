"""What three Kafka nodes say when one is asked that does not lead, and when the leader is cut from the others.

Judged by `test_kafka_cluster`.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from fencepost.harness.contract.system import Answer
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.network import Effect, Link
from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.client.question import QuorumQuestion
from fencepost.systems.kafka.server.log_lines import read_role_change
from fencepost.systems.kafka.wire.values import ALL_BROKERS, ToldPartition
from tests.systems.contract.patience import PATIENCE_S, Disturbed, once
from tests.systems.kafka.kafka_scenarios import (
    CONTROLLER_PORT,
    answer_of,
    at_broker,
    at_controller,
    outcome,
    start,
    until,
)


async def together(lab: Lab, _: dict[str, Any]) -> dict[str, Any]:
    """What only a follower answers, and what is said when the leader is cut from the others but not from us."""
    await start(lab)
    names = {place.number: name for name, place in lab.layout.items()}
    for attempt in range(6):
        try:
            before = await _before(lab, names, attempt)
            break
        except Disturbed:
            continue
    else:
        raise AssertionError("they elected, or were kept waiting, every time")
    leader, epoch, strict = before.leader, before.epoch, before.strict
    led_by_old, led_by_other, majority = before.led_by_old, before.led_by_other, before.majority
    followers = [name for name in lab.layout if name != leader]
    found: dict[str, Any] = dict(before.found)
    cut_off = await at_broker(lab.layout[leader])
    old = await at_controller(lab.layout[leader])
    await lab.network.apply(
        1, {link: Effect.DROP for name in followers for link in (Link(leader, name), Link(name, leader))}
    )
    hanging = asyncio.create_task(outcome(old.create_topic("hangs"), 2 * PATIENCE_S))
    said: dict[str, list[Answer]] = {name: [] for name in lab.layout}
    asked = {
        place.number: QuorumQuestion(place.number, *place.dial(CONTROLLER_PORT), names.__getitem__)
        for place in lab.layout.values()
    }

    async def replaced() -> bool:
        for number, question in asked.items():
            said[names[number]].append(await answer_of(question))
        return said[leader][-1].epoch is None and any(newer(answers[-1]) for answers in said.values())

    def newer(answer: Answer) -> bool:
        return answer.epoch is not None and answer.epoch > epoch

    found["waits for followers"] = await outcome(cut_off.logs.produce(strict, led_by_old, [b"x"], timeout_ms=1000))
    await until(replaced)

    async def refused() -> bool:
        ends.append(await outcome(majority.logs.produce(strict, led_by_other, [b"x"], timeout_ms=1000)))
        return ends[-1] == ["definite", "not-enough-replicas"]

    ends: list[list[Any]] = []
    await until(refused)
    found |= await _of_other_epochs(lab, before, followers)
    found["too few replicas"] = ends[-1]
    found["before too few replicas"] = sorted({end[1] if end[0] != "ok" else "ok" for end in ends[:-1]})
    found["epochs"] = {
        "old": sorted({answer.epoch for answer in said[leader] if answer.epoch is not None}) == [epoch],
        "one leader each": all(
            len({name for name, answers in said.items() for a in answers if a.claims == "yes" and a.epoch == e}) <= 1
            for e in {a.epoch for answers in said.values() for a in answers}
        ),
    }
    found["change at the old leader"] = await hanging
    await lab.network.heal_all()
    for question in asked.values():
        await question.close()
    found["log"] = {name: changes_of(lab, name) for name in lab.layout}
    found["led"] = [leader, epoch]
    return found


@dataclass(frozen=True, kw_only=True)
class _Before:
    """Three nodes in step: who leads, two topics, and what was found so far."""

    leader: str
    epoch: int
    strict: str
    single: str
    led_by_old: int
    led_by_other: int
    majority: KafkaNode
    found: dict[str, Any]


async def _before(lab: Lab, names: dict[int, str], attempt: int) -> _Before:
    """Raises Disturbed where they elected meanwhile, or a broker was fenced, as may be on a busy machine."""
    strict, single = f"strict-{attempt}", f"single-{attempt}"
    leader, epoch = await leading(lab, names)
    try:
        controller = await at_controller(lab.layout[leader])
        await controller.create_topic(strict, partitions=3, replication=3, configs={"min.insync.replicas": "3"})
        await controller.create_topic(single, partitions=3)
        followers = [name for name in lab.layout if name != leader]
        other = await at_controller(lab.layout[followers[0]])
        found: dict[str, Any] = {
            "at a follower": {
                "quorum": await outcome(other.describe_quorum()),
                "create": await outcome(other.create_topic("t")),
                "validate": await outcome(other.create_topic("t", validate_only=True)),
                "delete": await outcome(other.delete_topic("all")),
                "alter": await outcome(other.alter_config(ALL_BROKERS, "log.retention.ms", "1")),
            },
            "not the partition's leader": await outcome(of_another(lab)),
        }
        led_by_old, cut_off = await led_by(lab, strict, leader)
        led_by_other, majority = await led_by(lab, strict, followers[0])
        views: list[ToldPartition] = []

        async def known() -> bool:
            views[:] = (await cut_off.metadata([single])).topics[0].partitions
            return len(views) == 3 and all(view.leader > 0 for view in views)

        await until(known, 10.0)
        found["all in step"] = await outcome(majority.logs.produce(strict, led_by_other, [b"x"]))
    except (Definite, Indefinite, TimeoutError) as error:
        raise Disturbed from error
    if (
        all(view.leader != lab.layout[leader].number for view in views)
        or found["all in step"][0] != "ok"
        or await leading(lab, names) != (leader, epoch)
    ):
        raise Disturbed
    return _Before(
        leader=leader,
        epoch=epoch,
        strict=strict,
        single=single,
        led_by_old=led_by_old,
        led_by_other=led_by_other,
        majority=majority,
        found=found,
    )


async def _of_other_epochs(lab: Lab, before: _Before, followers: list[str]) -> dict[str, Any]:
    """A partition that the cut-off broker led, asked for under its epoch elsewhere; and one that nobody leads."""
    brokers = {lab.layout[name].number: await at_broker(lab.layout[name]) for name in followers}
    number = lab.layout[before.leader].number
    asked = next(iter(brokers.values()))
    leaders: list[int] = []

    async def moved() -> bool:
        views = (await asked.metadata([before.strict])).topics[0].partitions
        leaders[:] = [view.leader for view in views if view.partition == before.led_by_old]
        return leaders[0] in brokers

    await until(moved)

    async def fenced() -> list[str]:
        return await outcome(brokers[leaders[0]].logs.fetch(before.strict, before.led_by_old, 0, leader_epoch=0))

    async def errors() -> list[int]:
        views = (await asked.metadata([before.single])).topics[0].partitions
        return sorted({view.error for view in views if number in view.replicas})

    # The broker that was told to lead may be behind the one that was asked, and that one may hear of it piece by piece.
    return {
        "fetch of an earlier epoch": await once(fenced, lambda end: end[1] != "not-leader-or-follower"),
        "nobody leads": await once(errors, lambda told: told == [5]),
    }


async def leading(lab: Lab, names: dict[int, str]) -> tuple[str, int]:
    async with asyncio.timeout(2 * PATIENCE_S):
        while True:
            for place in lab.layout.values():
                question = QuorumQuestion(place.number, *place.dial(CONTROLLER_PORT), names.__getitem__)
                answer = await answer_of(question)
                await question.close()
                if answer.claims == "yes":
                    assert answer.epoch is not None
                    return place.name, answer.epoch


async def led_by(lab: Lab, topic: str, name: str) -> tuple[int, KafkaNode]:
    """A partition of the topic that this node leads, and a connection to it."""
    place = lab.layout[name]
    broker = await at_broker(place)
    partitions: list[int] = []

    async def led() -> bool:
        views = (await broker.metadata([topic])).topics[0].partitions
        partitions[:] = [view.partition for view in views if view.leader == place.number and len(view.isr) == 3]
        return bool(partitions)

    await until(led, 10.0)
    return partitions[0], broker


async def of_another(lab: Lab) -> Any:
    """Produce to a broker that does not lead the partition."""
    broker = await at_broker(lab.layout["n1"])
    (topic,) = (await broker.metadata(["all"])).topics
    elsewhere = next(place for place in lab.layout.values() if place.number != topic.partitions[0].leader)
    return await (await at_broker(elsewhere)).logs.produce("all", 0, [b"x"])


def changes_of(lab: Lab, name: str) -> list[list[Any]]:
    text = lab.nodes[name].log.read_text(errors="replace")
    return [list(change) for line in text.splitlines() if (change := read_role_change(line)) is not None]
