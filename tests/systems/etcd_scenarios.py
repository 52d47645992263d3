"""What happens to an etcd client and to questions under each fault, in the lab; judged by `test_etcd_cluster`."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from harness.coordination import Definite, Held, Indefinite, ReadMode
from harness.runtime.lab import Lab
from harness.runtime.lab_node import LabNode
from harness.runtime.node import CLIENT, Effect, Link
from harness.systems.etcd import ETCD
from harness.systems.etcd.client import EtcdClient

#: Quick elections keep the scenarios short; the ratio is etcd's own.
OPTIONS: Final = {**ETCD.options(), "heartbeat_ms": 50, "election_ms": 500}
NAMES: Final = ("n1", "n2", "n3")


#: Something done to the cluster.
Action = Callable[[], Awaitable[None]]


async def start(lab: Lab, options: dict[str, object] = OPTIONS) -> None:
    await lab.realise(ETCD.specs(lab.layout, ETCD.resolve(ETCD.default_version), options))
    for node in lab.nodes.values():
        await node.start()
    await settled(lab)


async def settled(lab: Lab, timeout_s: float = 20.0) -> None:
    """Until every member serves and all agree."""
    why: str | None = "never asked"
    try:
        async with asyncio.timeout(timeout_s):
            while (why := await ETCD.healthy(lab.layout)) is not None:
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not healthy: {why}\n{lab.nodes['n1'].log_tail()}") from None


async def opened(lab: Lab, node: str) -> EtcdClient:
    client = await ETCD.open_client(lab.layout[node], connect_timeout_s=2.0, options=OPTIONS)
    assert isinstance(client, EtcdClient)
    return client


async def outcome(request: Callable[[], Awaitable[Any]], timeout_s: float = 1.5) -> list[Any]:
    """[kind, code or answer, seconds], the deadline applied as the interpreter does: by cancelling."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            answer = await request()
            result = ["ok", repr(answer)]
    except Definite as error:
        result = ["definite", error.code, str(error)]
    except Indefinite as error:
        result = ["indefinite", error.code, str(error)]
    except TimeoutError:
        result = ["indefinite", "timeout", ""]
    return [*result, round(time.monotonic() - began, 2)]


async def pause(node: LabNode) -> None:
    """Pause, and wait until every thread has stopped."""
    await node.pause()
    async with asyncio.timeout(2):
        while set(node.thread_states().values()) != {"T"}:
            await asyncio.sleep(0.005)


async def leader_of(lab: Lab) -> str:
    question = ETCD.question(lab.layout["n1"], "leader")
    try:
        async with asyncio.timeout(5):
            leader = (await question.ask()).leader
    finally:
        await question.close()
    assert leader in NAMES
    return str(leader)


def both_ways(one: str, other: str, effect: Effect) -> dict[Link, Effect]:
    return {Link(one, other): effect, Link(other, one): effect}


async def faults(lab: Lab, _: dict[str, Any]) -> dict[str, Any]:
    """Every row of the error table that a fault can provoke, and what beliefs look like meanwhile."""
    await start(lab)
    found: dict[str, Any] = {}
    for case in (_dropped, _reset, _killed, _paused, _minority, _beliefs):
        found[case.__name__.strip("_")] = await case(lab)
        await lab.network.heal_all()
        await settled(lab)
    return found


async def _dropped(lab: Lab) -> dict[str, Any]:
    client = await opened(lab, "n2")
    await client.write("k", b"0")
    await lab.network.apply(1, both_ways(CLIENT, "n2", Effect.DROP))
    in_flight, opening = await asyncio.gather(
        outcome(lambda: client.write("k", b"1")), outcome(lambda: opened(lab, "n2"), 3.0)
    )
    await client.close()
    return {"in flight": in_flight, "opening": opening}


async def _reset(lab: Lab) -> dict[str, Any]:
    client = await opened(lab, "n2")
    await client.write("k", b"0")
    await lab.network.apply(2, both_ways(CLIENT, "n2", Effect.RESET))
    in_flight = await outcome(lambda: client.write("k", b"1"))
    after = await outcome(lambda: client.write("k", b"2"))
    opening = await outcome(lambda: opened(lab, "n2"), 3.0)
    await lab.network.withdraw(2)
    healed = await outcome(lambda: client.write("k", b"3"))
    await client.close()
    return {"in flight": in_flight, "after": after, "opening": opening, "same client, healed": healed}


async def _killed(lab: Lab) -> dict[str, Any]:
    node = lab.nodes["n2"]
    client, other = await opened(lab, "n2"), await opened(lab, "n2")
    await client.write("k", b"0")
    await pause(node)
    in_flight = asyncio.create_task(outcome(lambda: other.write("k", b"1"), 5.0))
    await asyncio.sleep(0.2)
    await node.kill()
    during = await in_flight
    await asyncio.sleep(0.1)
    before = await outcome(lambda: client.write("k", b"2"))
    opening = await outcome(lambda: opened(lab, "n2"), 3.0)
    dead = [await ETCD.ready(node), await ETCD.healthy(lab.layout)]
    await node.start()
    await settled(lab)
    alive = [await ETCD.ready(node), await ETCD.healthy(lab.layout)]
    restarted = await outcome(lambda: client.write("k", b"3"))
    fresh = await opened(lab, "n2")
    again = await outcome(lambda: fresh.write("k", b"4"))
    for one in (client, other, fresh):
        await one.close()
    return {
        "during": during,
        "before": before,
        "opening": opening,
        "same client, restarted": restarted,
        "fresh client, restarted": again,
        "dead": dead,
        "alive": alive,
    }


async def _paused(lab: Lab) -> dict[str, Any]:
    node = lab.nodes["n2"]
    client = await opened(lab, "n2")
    await client.write("k", b"0")
    await pause(node)
    in_flight, opening = await asyncio.gather(
        outcome(lambda: client.write("k", b"1")), outcome(lambda: opened(lab, "n2"), 3.0)
    )
    await node.resume()
    await client.close()
    return {"in flight": in_flight, "opening": opening}


async def _minority(lab: Lab) -> dict[str, Any]:
    leader = await leader_of(lab)
    client = await opened(lab, leader)
    await client.write("k", b"0")
    others = [name for name in NAMES if name != leader]
    cut: dict[Link, Effect] = {}
    for other in others:
        cut |= both_ways(leader, other, Effect.DROP)
    await lab.network.apply(5, cut)
    write, strong, plain, grant = await asyncio.gather(
        outcome(lambda: client.write("k", b"1"), 12.0),
        outcome(lambda: client.read("k", ReadMode.STRONG), 12.0),
        outcome(lambda: client.read("k", ReadMode.PLAIN)),
        outcome(lambda: client.acquire("l"), 12.0),
    )
    unhealthy = [await ETCD.ready(lab.nodes[leader]), await ETCD.healthy(lab.layout)]
    await client.close()
    return {
        "leader": leader,
        "unhealthy": unhealthy,
        "write": write,
        "strong read": strong,
        "plain read": plain,
        "acquire": grant,
    }


async def _beliefs(lab: Lab) -> dict[str, Any]:
    """What a leader says of itself while it is cut off, paused, killed, and how soon it is heard again."""
    found: dict[str, Any] = {}
    leader = await leader_of(lab)
    others = [name for name in NAMES if name != leader]
    question = ETCD.question(lab.layout[leader], "leader")
    found["leads"] = await _said(question)
    cut: dict[Link, Effect] = {}
    for other in others:
        cut |= both_ways(leader, other, Effect.DROP)
    await lab.network.apply(6, cut)
    began = time.monotonic()
    while (said := await _said(question))["claims"] == "yes" and time.monotonic() - began < 10:
        await asyncio.sleep(0.02)
    found["stepped down after"] = time.monotonic() - began
    found["cut off"] = said
    await lab.network.withdraw(6)
    await settled(lab)
    for name, begin, end in (
        ("paused", lab.nodes[leader].pause, lab.nodes[leader].resume),
        (
            "dropped",
            lambda: lab.network.apply(7, both_ways(CLIENT, leader, Effect.DROP)),
            lambda: lab.network.withdraw(7),
        ),
    ):
        found[name] = await _silence(question, begin, end)
        await settled(lab)
    await lab.nodes[leader].kill()
    found["killed"] = await _said(question)
    await lab.nodes[leader].start()
    began = time.monotonic()
    while (await _said(question))["claims"] == "silent" and time.monotonic() - began < 10:
        await asyncio.sleep(0.02)
    found["heard after restart"] = time.monotonic() - began
    await question.close()
    found["epochs in logs"] = sorted(
        epoch
        for node in lab.nodes.values()
        for line in node.log.read_text().splitlines()
        if (epoch := ETCD.became_leader(line)) is not None
    )
    return found


async def _silence(question: Any, begin: Action, end: Action) -> dict[str, Any]:
    """Asked at 20 Hz through a silence of 3 s, at most four questions at a time, as an observer does."""
    answered: list[float] = []
    outstanding: set[asyncio.Task[None]] = set()

    async def ask() -> None:
        if (await _said(question, 1.0))["claims"] != "silent":
            answered.append(time.monotonic())

    await begin()
    began = time.monotonic()
    ended = None
    while time.monotonic() - began < 5:
        if ended is None and time.monotonic() - began > 3:
            await end()
            ended = time.monotonic()
        if len(outstanding) < 4:
            task = asyncio.create_task(ask())
            outstanding.add(task)
            task.add_done_callback(outstanding.discard)
        await asyncio.sleep(0.05)
    await asyncio.gather(*outstanding)
    assert ended is not None
    return {
        "answers within the silence": sum(began + 0.05 < at < ended for at in answered),
        "heard after": min((at - ended for at in answered if at >= ended), default=None),
    }


async def _said(question: Any, deadline_s: float = 1.0) -> dict[str, Any]:
    try:
        async with asyncio.timeout(deadline_s):
            answer = await question.ask()
    except Exception as error:
        return {"claims": "silent", "detail": type(error).__name__}
    return {"claims": answer.claims.value, "epoch": answer.epoch, "leader": answer.leader, "detail": answer.detail}


async def semantics(lab: Lab, _: dict[str, Any]) -> dict[str, Any]:
    """Every request of the client without a fault, twice by clients of different nodes."""
    await start(lab)
    one, two = await opened(lab, "n1"), await opened(lab, "n2")
    found: dict[str, Any] = {}

    async def note(name: str, request: Callable[[], Awaitable[Any]]) -> Any:
        found[name] = await outcome(request, 5.0)

    written = await one.write("r", b"1")
    read = await two.read("r", ReadMode.STRONG)
    found["stamps agree"] = [read.value == b"1", read.value_position == written.position, read.epoch == written.epoch]
    await note("absent", lambda: one.read("absent", ReadMode.STRONG))
    await note("cas", lambda: one.cas("r", b"1", b"2"))
    await note("cas again", lambda: one.cas("r", b"1", b"3"))
    await note("cas absent", lambda: one.cas("absent", b"", b"3"))
    await note("create", lambda: one.create("c", b"1"))
    await note("create again", lambda: two.create("c", b"2"))
    now = await two.read("r", ReadMode.STRONG)
    await note("write_if", lambda: one.write_if("r", b"4", now.value_position, now.version))
    await note("write_if again", lambda: one.write_if("r", b"5", now.value_position, now.version))
    await note("write_if absent", lambda: one.write_if("w", b"1", None, None))
    await note("write_if absent again", lambda: one.write_if("w", b"2", None, None))
    await note("empty key", lambda: one.write("", b""))
    for element in (10, 2, 33):
        await one.add("s", element)
    await one.add("s2", 7)
    await note("add again", lambda: two.add("s", 2))
    found["members"] = [list((await two.members("s", mode)).elements) for mode in (ReadMode.STRONG, ReadMode.PLAIN)]
    await _locks(one, two, note, found)
    await one.close()
    await note("closed", lambda: one.write("r", b"6"))
    await two.close()
    return found


async def _locks(one: EtcdClient, two: EtcdClient, note: Any, found: dict[str, Any]) -> None:
    await note("renew without lease", one.renew)
    held = await one.acquire("l")
    await note("acquire held", lambda: two.acquire("l"))
    await note("renew", one.renew)
    await note("guarded", lambda: one.guarded_write("g", b"1", "l", held))
    stale = Held(token=held.token - 1, handle="")
    await note("guarded, stale token", lambda: two.guarded_write("g", b"2", "l", stale))
    await note("release, stale token", lambda: two.release("l", stale))
    await note("release", lambda: one.release("l", held))
    await note("guarded, released", lambda: one.guarded_write("g", b"3", "l", held))
    again = await one.acquire("l")
    found["token grows"] = again.token > held.token
    # Renewed, the lease outlives its time; not renewed, it ends and takes the lock along.
    for _ in range(8):
        await asyncio.sleep(0.5)
        await asyncio.gather(one.renew(), two.renew())
    await note("acquire, renewed", lambda: two.acquire("l"))
    began = time.monotonic()
    while (taken := await outcome(lambda: two.acquire("l")))[0] != "ok" and time.monotonic() - began < 15:
        await two.renew()
        await asyncio.sleep(0.1)
    found["taken over"] = [taken[0], round(time.monotonic() - began, 2)]
    await note("guarded, expired", lambda: one.guarded_write("g", b"4", "l", again))
    await note("release, expired", lambda: one.release("l", again))
    # With the dead lease still in hand: the server refuses the key, and the next attempt asks for a new lease.
    await note("acquire, dead lease", lambda: one.acquire("l2"))
    await note("acquire, new lease", lambda: one.acquire("l2"))
    await note("renew, new lease", one.renew)
    found["guarded value"] = repr((await two.read("g", ReadMode.STRONG)).value)
