"""What happens to transactional producers on real brokers in the lab; judged by `test_kafka_elections`."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from fencepost.harness.coordination import TRAIL, Definite, Held, Indefinite, Keys, ReadMode
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.systems.kafka.client import transactions
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.client.elections import KafkaElections, producer_of
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.wire.errors import ServerRefusal
from fencepost.systems.kafka.wire.records import Producer
from fencepost.systems.kafka.wire.values import ProducerId
from tests.systems.contract.patience import PATIENCE_S
from tests.systems.kafka.kraft.kraft_scenarios import opened, start

_NAME: Final = "election"
#: By Java's hash these are in the same one of three partitions, so one coordinator has all of them.
_OTHER: Final = "e"
_NEVER_BEGUN: Final = "h"
_SETTLE_S: Final = 60.0

T = TypeVar("T")


async def elections(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Two brokers: who is superseded, and what is refused where; every row of the table that can be brought about."""
    await start(lab, args["version"], args.get("options", {}))
    brokers = [name for name, place in lab.layout.items() if "broker" in place.roles]
    one, two = await opened(lab, brokers[0], KafkaElections), await opened(lab, brokers[1], KafkaElections)
    for session in (one, two):
        # In ZooKeeper mode only the controller makes topics.
        with suppress(ServerRefusal):
            await session.prepare(Keys((TRAIL,)))
    found = {"terms": await _terms(lab, brokers, one, two)}
    found["requests"] = await _requests(lab, brokers, one)
    for session in (one, two):
        await session.close()
    return found


async def _refused(request: Awaitable[Any]) -> list[str]:
    """[kind, code, what the node said]; an answer is of the kind "ok"."""
    try:
        return ["ok", "", repr(await request)]
    except Definite as error:
        return ["definite", error.code, str(error)]
    except Indefinite as error:
        return ["indefinite", error.code, str(error)]


async def _settled(request: Callable[[], Awaitable[T]]) -> T:
    """The first answer of a fresh cluster, whose coordinators may still be moving into place."""
    async with asyncio.timeout(_SETTLE_S):
        while True:
            try:
                return await request()
            except (Definite, Indefinite):
                await asyncio.sleep(0.2)


async def _terms(lab: Lab, brokers: list[str], one: KafkaElections, two: KafkaElections) -> dict[str, Any]:
    async def act(session: KafkaElections, held: Held, number: int, *, guarded: bool = True) -> list[str]:
        deed = f"{held.token}-{held.handle}-{number}"
        return await _refused(session.act(TRAIL, deed, _NAME, held, guarded=guarded))

    async def resumed(held: Held, number: int) -> list[str]:
        session = await opened(lab, brokers[0], KafkaElections)
        try:
            return await act(session, held, number)
        finally:
            await session.close()

    first = await _settled(lambda: one.acquire(_NAME))
    found: dict[str, Any] = {
        "coordinator": [first.handle, sorted(str(lab.layout[name].number) for name in brokers)],
        "first acts": [await act(one, first, number) for number in (1, 2)],
        "seen": (await two.leader(_NAME, ReadMode.PLAIN)).token == first.token,
        "renewed": await _refused(one.renew()),
        # Nothing was produced in this session, and what an earlier one produced is not known to it.
        "first term in another session": await resumed(first, 3),
    }
    second = await two.acquire(_NAME)
    found |= {
        "grew": second.token > first.token,
        # Its transaction is still open as far as it knows, so this one goes to the partition's leader at once.
        "old term acts": await act(one, first, 4),
        "second acts": await act(two, second, 5),
        "old term acts again": await act(one, first, 6),
        "old term renews": await _refused(one.renew()),
        "old term in another session": await resumed(first, 7),
        "old term resigns": await _refused(one.release(_NAME, first)),
        "old term acts blindly": await act(one, first, 8, guarded=False),
        "second acts on": await act(two, second, 9),
        "resigned": await _refused(two.release(_NAME, second)),
        "acts after that": await act(two, second, 10),
        "later": ((await one.leader(_NAME, ReadMode.PLAIN)).token or 0) > second.token,
    }
    # A record that is never committed: its producer is superseded in between.
    third = await one.acquire(_NAME)
    node = await open_node(*lab.layout[await _leader(lab, brokers)].dial(CLIENT_PORT), connect_timeout_s=PATIENCE_S)
    by = producer_of(third)
    await transactions.add_partition(await _coordinator(lab, one), _NAME, by, TRAIL, 0)
    uncommitted = await node.logs.produce(TRAIL, 0, [b"never"], producer=Producer(by.id, by.epoch, 0, _NAME))
    last = await two.acquire(_NAME)
    found["last acts"] = await act(two, last, 11)
    everything = await node.logs.fetch(TRAIL, 0, 0)
    read = await two.deeds(TRAIL, ReadMode.BARRIER)
    tokens = {first.token: 1, second.token: 2, third.token: 3, last.token: 4}
    return found | {
        "in the log": any(r.offset == uncommitted.base_offset and r.value == b"never" for r in everything.records),
        "trail": [[tokens[int(deed.split("-")[0])], int(deed.split("-")[2])] for deed in read.deeds],
        "read alike": read.deeds == (await one.deeds(TRAIL, ReadMode.PLAIN)).deeds,
        "epochs along the log": _never_back([r.producer_epoch for r in everything.records if r.producer_id >= 0]),
    }


def _never_back(numbers: list[int]) -> bool:
    return numbers == sorted(numbers)


async def _leader(lab: Lab, brokers: list[str]) -> str:
    node = await open_node(*lab.layout[brokers[0]].dial(CLIENT_PORT), connect_timeout_s=PATIENCE_S)
    number = (await node.metadata([TRAIL])).topics[0].partitions[0].leader
    node.close()
    return next(name for name in brokers if lab.layout[name].number == number)


async def _coordinator(lab: Lab, session: KafkaElections) -> KafkaNode:
    found = await transactions.find_coordinator(session.node, _NAME)
    return await open_node(found.host, found.port, connect_timeout_s=PATIENCE_S)


async def _requests(lab: Lab, brokers: list[str], session: KafkaElections) -> dict[str, list[str]]:
    """Single requests, each of the coordinator unless its name says otherwise."""
    at = await _coordinator(lab, session)
    number = (await transactions.find_coordinator(session.node, _NAME)).node
    wrong = next(lab.layout[name] for name in brokers if lab.layout[name].number != number)
    other = await open_node(*wrong.dial(CLIENT_PORT), connect_timeout_s=PATIENCE_S)
    leader = await open_node(*lab.layout[await _leader(lab, brokers)].dial(CLIENT_PORT), connect_timeout_s=PATIENCE_S)

    old = await transactions.init_producer(at, _OTHER, timeout_ms=60_000)
    new = await transactions.init_producer(at, _OTHER, timeout_ms=60_000)
    stranger = ProducerId(new.id + 1, 0)
    steps: dict[str, Awaitable[Any]] = {
        "nothing to end": transactions.end_transaction(at, _OTHER, new, commit=True),
        "not in the transaction": leader.logs.produce(
            TRAIL, 0, [b"x"], producer=Producer(new.id, new.epoch, 0, _OTHER)
        ),
        "opened": transactions.add_partition(at, _OTHER, new, TRAIL, 0),
        "opened again": transactions.add_partition(at, _OTHER, new, TRAIL, 0),
        "old opens": transactions.add_partition(at, _OTHER, old, TRAIL, 0),
        "old ends": transactions.end_transaction(at, _OTHER, old, commit=True),
        "stranger opens": transactions.add_partition(at, _OTHER, stranger, TRAIL, 0),
        "stranger ends": transactions.end_transaction(at, _OTHER, stranger, commit=True),
        "unknown topic": transactions.add_partition(at, _OTHER, new, "nowhere", 0),
        "begin elsewhere": transactions.init_producer(other, _OTHER, timeout_ms=60_000),
        "open elsewhere": transactions.add_partition(other, _OTHER, new, TRAIL, 0),
        "end elsewhere": transactions.end_transaction(other, _OTHER, new, commit=True),
        "describe elsewhere": transactions.describe_transaction(other, _OTHER),
        "describe": transactions.describe_transaction(at, _OTHER),
        "describe nothing": transactions.describe_transaction(at, _NEVER_BEGUN),
        "begin while open": transactions.init_producer(at, _OTHER, timeout_ms=60_000),
        "the one before ends": transactions.end_transaction(at, _OTHER, new, commit=True),
        "the one before resumes": transactions.init_producer(at, _OTHER, timeout_ms=60_000, resumed=old),
        "too long": transactions.init_producer(at, _OTHER, timeout_ms=2**31 - 1),
        "no name": transactions.init_producer(at, "", timeout_ms=60_000),
    }
    found = {name: await _refused(step) for name, step in steps.items()}
    for node in (at, other, leader):
        node.close()
    return found
