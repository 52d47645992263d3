"""What three Kafka nodes say when one is asked that does not lead, and when the leader is cut from the others.

Judged by `test_kafka_cluster`.
"""

import asyncio
from typing import Any

from harness.runtime.lab import Lab
from harness.runtime.node import Effect, Link
from harness.systems.kafka.client import KafkaNode
from harness.systems.kafka.log_lines import read_role_change
from harness.systems.kafka.question import QuorumQuestion
from harness.systems.kafka.values import ALL_BROKERS
from harness.systems.system import Answer
from tests.systems.kafka_scenarios import CONTROLLER_PORT, at_broker, at_controller, outcome, start, until


async def together(lab: Lab, _: dict[str, Any]) -> dict[str, Any]:
    """What only a follower answers, and what is said when the leader is cut from the others but not from us."""
    await start(lab)
    names = {place.number: name for name, place in lab.layout.items()}
    leader, epoch = await leading(lab, names)
    await (await at_controller(lab.layout[leader])).create_topic(
        "strict", partitions=3, replication=3, configs={"min.insync.replicas": "3"}
    )
    await (await at_controller(lab.layout[leader])).create_topic("single", partitions=3)
    followers = [name for name in lab.layout if name != leader]
    other = await at_controller(lab.layout[followers[0]])
    found: dict[str, Any] = {
        "at a follower": {
            "quorum": await outcome(other.describe_quorum()),
            "create": await outcome(other.create_topic("t")),
            "validate": await outcome(other.create_topic("t", validate_only=True)),
            "delete": await outcome(other.delete_topic("all")),
            "alter": await outcome(other.alter_config(ALL_BROKERS, "log.retention.ms", "1")),
            "block": await outcome(other.allocate_producer_ids(1, -1)),
        },
        "not the partition's leader": await outcome(of_another(lab)),
    }
    led_by_old, cut_off = await led_by(lab, "strict", leader)
    led_by_other, majority = await led_by(lab, "strict", followers[0])
    found["all in step"] = await outcome(majority.produce("strict", led_by_other, [b"x"]))
    old = await at_controller(lab.layout[leader])
    await lab.network.apply(
        1, {link: Effect.DROP for name in followers for link in (Link(leader, name), Link(name, leader))}
    )
    hanging = asyncio.create_task(outcome(old.create_topic("hangs"), 12.0))
    said: dict[str, list[Answer]] = {name: [] for name in lab.layout}
    asked = {
        place.number: QuorumQuestion(place.number, *place.dial(CONTROLLER_PORT), names) for place in lab.layout.values()
    }

    async def replaced() -> bool:
        for number, question in asked.items():
            said[names[number]].append(await question.ask())
        return said[leader][-1].epoch is None and any(newer(answers[-1]) for answers in said.values())

    def newer(answer: Answer) -> bool:
        return answer.epoch is not None and answer.epoch > epoch

    found["waits for followers"] = await outcome(cut_off.produce("strict", led_by_old, [b"x"], timeout_ms=1000))
    await until(replaced)

    async def refused() -> bool:
        ends.append(await outcome(majority.produce("strict", led_by_other, [b"x"], timeout_ms=1000)))
        return ends[-1] == ["definite", "not-enough-replicas"]

    ends: list[list[Any]] = []
    await until(refused)
    found |= await _of_other_epochs(lab, led_by_old, leader, followers)
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


async def _of_other_epochs(lab: Lab, led_by_old: int, old: str, followers: list[str]) -> dict[str, Any]:
    """A partition that the cut-off broker led, asked for under its epoch elsewhere; and one that nobody leads."""
    brokers = {lab.layout[name].number: await at_broker(lab.layout[name]) for name in followers}
    number = lab.layout[old].number
    asked = next(iter(brokers.values()))
    leaders: list[int] = []

    async def moved() -> bool:
        views = (await asked.metadata(["strict"])).topics[0].partitions
        leaders[:] = [view.leader for view in views if view.partition == led_by_old]
        return leaders[0] in brokers

    await until(moved)
    fenced = await outcome(brokers[leaders[0]].fetch("strict", led_by_old, 0, leader_epoch=0))
    views = (await asked.metadata(["single"])).topics[0].partitions
    return {
        "fetch of an earlier epoch": fenced,
        "nobody leads": sorted({view.error for view in views if number in view.replicas}),
    }


async def leading(lab: Lab, names: dict[int, str]) -> tuple[str, int]:
    for place in lab.layout.values():
        question = QuorumQuestion(place.number, *place.dial(CONTROLLER_PORT), names)
        answer = await question.ask()
        await question.close()
        if answer.claims == "yes":
            assert answer.epoch is not None
            return place.name, answer.epoch
    raise AssertionError("nobody claims to lead")


async def led_by(lab: Lab, topic: str, name: str) -> tuple[int, KafkaNode]:
    """A partition of the topic that this node leads, and a connection to it."""
    place = lab.layout[name]
    broker = await at_broker(place)
    partitions: list[int] = []

    async def led() -> bool:
        views = (await broker.metadata([topic])).topics[0].partitions
        partitions[:] = [view.partition for view in views if view.leader == place.number and len(view.isr) == 3]
        return bool(partitions)

    await until(led)
    return partitions[0], broker


async def of_another(lab: Lab) -> Any:
    """Produce to a broker that does not lead the partition."""
    broker = await at_broker(lab.layout["n1"])
    (topic,) = (await broker.metadata(["all"])).topics
    elsewhere = next(place for place in lab.layout.values() if place.number != topic.partitions[0].leader)
    return await (await at_broker(elsewhere)).produce("all", 0, [b"x"])


def changes_of(lab: Lab, name: str) -> list[list[Any]]:
    text = lab.nodes[name].log.read_text(errors="replace")
    return [list(change) for line in text.splitlines() if (change := read_role_change(line)) is not None]
