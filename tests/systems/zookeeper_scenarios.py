"""What happens to ZooKeeper sessions and questions in the lab; judged by `test_zookeeper_cluster`."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kazoo.client import KazooClient

from harness.coordination import Definite, Held, Indefinite, NotSent, ReadMode
from harness.runtime.lab import Lab
from harness.runtime.lab_node import LabNode
from harness.runtime.node import CLIENT, Effect, Link
from harness.systems.zookeeper import ZOOKEEPER
from harness.systems.zookeeper.client import LOCKS, ROOT, ZooKeeperClient
from harness.systems.zookeeper.connection import WatchEvent
from harness.systems.zookeeper.session import EPHEMERAL, SEQUENTIAL

#: Quick elections keep the scenarios short.
OPTIONS: Final[dict[str, object]] = {"tick_ms": 200, "sync_limit": 5, "session_timeout_ms": 30_000}
#: A leader that waits 8 s for a sleeping follower.
PATIENT: Final[dict[str, object]] = {**OPTIONS, "sync_limit": 40}
SHORT: Final[dict[str, object]] = {**OPTIONS, "session_timeout_ms": 1000}
NAMES: Final = ("n1", "n2", "n3")


async def start(lab: Lab, options: dict[str, object]) -> None:
    await lab.realise(ZOOKEEPER.specs(lab.layout, ZOOKEEPER.resolve(ZOOKEEPER.default_version), options))
    for node in lab.nodes.values():
        await node.start()
    await settled(lab)
    client = await opened(lab, "n1")
    await ZOOKEEPER.prepare(client, ("k", "s", "x", "y", "z"))
    await ZOOKEEPER.prepare(client, ("k", "late"))
    await client.close()


async def settled(lab: Lab, timeout_s: float = 30.0) -> None:
    why: str | None = "never asked"
    try:
        async with asyncio.timeout(timeout_s):
            while (why := await ZOOKEEPER.healthy(lab.layout)) is not None:
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not healthy: {why}\n{lab.nodes['n1'].log_tail()}") from None


async def opened(lab: Lab, node: str, options: dict[str, object] = OPTIONS) -> ZooKeeperClient:
    client = await ZOOKEEPER.open_client(lab.layout[node], connect_timeout_s=2.0, options=options)
    assert isinstance(client, ZooKeeperClient)
    return client


async def outcome(request: Callable[[], Awaitable[Any]], timeout_s: float = 1.0) -> list[Any]:
    """[kind, code or answer], the deadline applied as the interpreter does: by cancelling."""
    try:
        async with asyncio.timeout(timeout_s):
            return ["ok", repr(await request())]
    except NotSent as error:
        return ["not-sent", error.code]
    except Definite as error:
        return ["definite", error.code]
    except Indefinite as error:
        return ["indefinite", error.code]
    except TimeoutError:
        return ["cancelled", "timeout"]


async def modes(lab: Lab) -> dict[str, str | None]:
    """What every node says when asked alone; None is silence."""
    said: dict[str, str | None] = {}
    for name, place in lab.layout.items():
        try:
            async with asyncio.timeout(0.5):
                said[name] = (await ZOOKEEPER.question(place, "leader").ask()).detail
        except (OSError, TimeoutError):
            said[name] = None
    return said


async def roles(lab: Lab) -> tuple[str, str]:
    """The leader and one follower."""
    said = await modes(lab)
    leader = next(name for name, mode in said.items() if mode == "leader")
    return leader, next(name for name, mode in said.items() if mode == "follower")


async def pause(node: LabNode) -> None:
    await node.pause()
    async with asyncio.timeout(2):
        while set(node.thread_states().values()) != {"T"}:
            await asyncio.sleep(0.005)


async def _ended(client: ZooKeeperClient) -> None:
    async with asyncio.timeout(5):
        while client.session.connection.ended is None:
            await asyncio.sleep(0.005)


def both_ways(one: str, others: tuple[str, ...], effect: Effect) -> dict[Link, Effect]:
    return {link: effect for other in others for link in (Link(one, other), Link(other, one))}


# Faults


async def faults(lab: Lab, _: dict[str, Any]) -> dict[str, Any]:
    """Every row of the error table that a fault can provoke, and what beliefs look like meanwhile."""
    await start(lab, OPTIONS)
    found: dict[str, Any] = {}
    for case in (_dropped, _reset, _minority, _killed):
        found[case.__name__.strip("_")] = await case(lab)
        await lab.network.heal_all()
        await settled(lab)
    return found


async def _dropped(lab: Lab) -> dict[str, Any]:
    client = await opened(lab, "n2")
    await client.write("k", b"0")
    await lab.network.apply(1, both_ways(CLIENT, ("n2",), Effect.DROP))
    in_flight, opening = await asyncio.gather(
        outcome(lambda: client.write("k", b"1")), outcome(lambda: opened(lab, "n2"), 3.0)
    )
    await lab.network.withdraw(1)
    # The kernel sends the write again once it gets through; its late answer must not be taken for the read's.
    healed = await outcome(lambda: client.read("k", ReadMode.SYNC), 5.0)
    await client.close()
    return {"in flight": in_flight, "opening": opening, "same session, healed": healed}


async def _reset(lab: Lab) -> dict[str, Any]:
    client = await opened(lab, "n2")
    await client.write("k", b"0")
    await lab.network.apply(2, both_ways(CLIENT, ("n2",), Effect.RESET))
    in_flight = await outcome(lambda: client.write("k", b"1"))
    after = await outcome(lambda: client.write("k", b"2"))
    opening = await outcome(lambda: opened(lab, "n2"), 3.0)
    await lab.network.withdraw(2)
    healed = await outcome(lambda: client.write("k", b"3"))
    await client.close()
    return {"in flight": in_flight, "after": after, "opening": opening, "same session, healed": healed}


async def _paused(lab: Lab) -> dict[str, Any]:
    """A follower sleeps 5 s; the session, and what was asked meanwhile, must outlive it."""
    _, follower = await roles(lab)
    client = await opened(lab, follower)
    session = client.session_id
    await client.write("k", b"0")
    await pause(lab.nodes[follower])
    asked = asyncio.create_task(outcome(lambda: client.read("k", ReadMode.SYNC), 20.0))
    said = (await modes(lab))[follower]
    opening = await outcome(lambda: opened(lab, follower), 3.0)
    await asyncio.sleep(5.0)
    await lab.nodes[follower].resume()
    result = {"answered": await asked, "opening": opening, "said": said, "session kept": client.session_id == session}
    await settled(lab)
    result["after"] = await outcome(lambda: client.write("k", b"1"), 5.0)
    await client.close()
    return result


async def _minority(lab: Lab) -> dict[str, Any]:
    """The leader is cut from both others: what is asked through it, and how long it goes on claiming."""
    leader, _ = await roles(lab)
    client, other, third = [await opened(lab, leader) for _ in range(3)]
    await client.write("k", b"0")
    await lab.network.apply(3, both_ways(leader, tuple(n for n in NAMES if n != leader), Effect.DROP))
    cut = time.monotonic()
    plain = await outcome(lambda: third.read("k", ReadMode.PLAIN))
    asked = asyncio.create_task(outcome(lambda: client.write("k", b"1"), 20.0))
    claims_s = 0.0
    while (await modes(lab))[leader] == "leader" and time.monotonic() < cut + 20:
        claims_s = time.monotonic() - cut
        await asyncio.sleep(0.05)
    written = await asked
    # The server closes its connections one after the other: only on one that ended is it certain that nothing is sent.
    await _ended(other)
    found = {
        "plain read": plain,
        "write": written,
        "after": await outcome(lambda: other.write("k", b"2")),
        "opening": await outcome(lambda: opened(lab, leader), 3.0),
        "claims": claims_s,
        "said": (await modes(lab))[leader],
        "unhealthy": await ZOOKEEPER.healthy(lab.layout),
        "leader": leader,
    }
    for one in (client, other, third):
        await one.close()
    return found


async def _killed(lab: Lab) -> dict[str, Any]:
    leader, _ = await roles(lab)
    node = lab.nodes[leader]
    client = await opened(lab, leader)
    await client.write("k", b"kept")
    await pause(node)
    in_flight = asyncio.create_task(outcome(lambda: client.write("k", b"lost"), 5.0))
    await asyncio.sleep(0.1)
    await node.kill()
    during = await in_flight
    after, opening = await outcome(lambda: client.write("k", b"2")), await outcome(lambda: opened(lab, leader), 3.0)
    unhealthy = await ZOOKEEPER.healthy(lab.layout)
    was_ready = await ZOOKEEPER.ready(node)
    await node.start()
    await settled(lab)
    fresh = await opened(lab, leader)
    reply = await fresh.read("k", ReadMode.BARRIER)
    await fresh.close()
    epochs = {
        name: [e for line in n.log.read_text().splitlines() if (e := ZOOKEEPER.became_leader(line)) is not None]
        for name, n in lab.nodes.items()
    }
    return {
        "during": during,
        "after": after,
        "opening": opening,
        "unhealthy": unhealthy,
        "ready": [was_ready, await ZOOKEEPER.ready(node)],
        "value": (reply.value or b"").decode(),
        "epochs": epochs,
        "epoch": reply.epoch,
    }


# Semantics


async def semantics(lab: Lab, _: dict[str, Any]) -> dict[str, Any]:
    """What holds while a majority stands: reads and writes, watches, locks, agreement with kazoo; a server asleep."""
    await start(lab, PATIENT)
    return {case.__name__.strip("_"): await case(lab) for case in (_store, _kazoo, _watches, _own, _locks, _paused)}


async def _store(lab: Lab) -> dict[str, Any]:
    one, two = await opened(lab, "n1"), await opened(lab, "n2")
    absent = await one.read("x", ReadMode.PLAIN)
    written = await one.write("x", b"1")
    reads = {mode.value: await two.read("x", mode) for mode in ZOOKEEPER.read_modes if mode is not ReadMode.PLAIN}
    swapped = await two.cas("x", b"1", b"2")
    created = [await outcome(lambda: one.create("y", b"9")), await outcome(lambda: two.create("y", b"8"), 1.0)]
    conditional = [
        await outcome(lambda: one.write_if("x", b"3", swapped.value_position, swapped.version)),
        await outcome(lambda: two.write_if("x", b"4", swapped.value_position, swapped.version)),
    ]
    await asyncio.gather(*(client.add("s", element) for element, client in ((30, one), (4, two), (100, one))))
    again = await outcome(lambda: two.add("s", 4))
    members = [(await client.members("s", ReadMode.SYNC)).elements for client in (one, two)]
    unknown = await outcome(lambda: one.write("nowhere", b"1"))
    for client in (one, two):
        await client.close()
    return {
        "absent": absent.value,
        "values": [(reply.value or b"").decode() for reply in reads.values()],
        "value positions": [reply.value_position == written.value_position for reply in reads.values()],
        "positions grow": absent.position < written.position <= reads["sync"].position < swapped.position,  # type: ignore[operator]  # None fails the test as well
        "created": created,
        "conditional": conditional,
        "again": again,
        "members": members,
        "unknown": unknown,
    }


async def _kazoo(lab: Lab) -> dict[str, Any]:
    """An independent client writes what ours reads, and the other way round; stats and zxids agree."""
    ours = await opened(lab, "n2")
    theirs = KazooClient(hosts=f"{lab.layout['n3'].address}:2181", timeout=10)
    try:
        await asyncio.to_thread(theirs.start, 10)
        made = await ours.write("z", b"ours")
        await asyncio.to_thread(theirs.sync, f"{ROOT}/z")
        value, stat = await asyncio.to_thread(theirs.get, f"{ROOT}/z")
        seen = [value.decode(), stat.mzxid == made.value_position, stat.version == made.version]
        their_stat = await asyncio.to_thread(theirs.set, f"{ROOT}/z", b"theirs")
        read = await ours.read("z", ReadMode.SYNC)
        back = [
            (read.value or b"").decode(),
            read.value_position == their_stat.mzxid,
            read.version == their_stat.version,
        ]
        both = await asyncio.to_thread(theirs.get_children, f"{ROOT}/s")
        members = await ours.members("s", ReadMode.PLAIN)
        _, our_stat = await ours.session.get(f"{ROOT}/z")
        return {
            "they see ours": seen,
            "we see theirs": back,
            "members": sorted(map(int, both)) == list(members.elements),
            "stat": [our_stat.czxid == their_stat.czxid, our_stat.mzxid == their_stat.mzxid],
            "last zxid": read.position >= their_stat.mzxid,
        }
    finally:
        await asyncio.to_thread(theirs.stop)
        await asyncio.to_thread(theirs.close)
        await ours.close()


async def _watches(lab: Lab) -> dict[str, Any]:
    watcher, writer = await opened(lab, "n1"), await opened(lab, "n3")
    session = watcher.session
    for key in ("x", "y", "z"):
        await session.get(f"{ROOT}/{key}", watch=True)
    await session.children(f"{ROOT}/s", watch=True)
    await session.exists(f"{ROOT}/appears", watch=True)
    order = [f"{ROOT}/z", f"{ROOT}/appears", f"{ROOT}/x", f"{ROOT}/s", f"{ROOT}/y"]
    zxids = [
        (await writer.write("z", b"w")).position,
        (await writer.create("appears", b"w")).position,
        (await writer.write("x", b"w")).position,
        (await writer.add("s", 5)).position,
        (await writer.write("y", b"w")).position,
    ]
    # ZooKeeper's promise: a session sees the event before it sees the change that it tells of.
    await watcher.read("y", ReadMode.SYNC)
    before_the_read = session.watch_events.qsize()
    events: list[WatchEvent] = [session.watch_events.get_nowait() for _ in range(before_the_read)]
    for client in (watcher, writer):
        await client.close()
    return {
        "order": [event.path for event in events] == order,
        "kinds": [event.kind for event in events],
        "zxids": [event.zxid for event in events] == zxids,
    }


async def _own(lab: Lab) -> dict[str, Any]:
    """Ephemeral and sequential znodes, delete, exists, a multi that fails as a whole."""
    one, two = await opened(lab, "n1"), await opened(lab, "n2")
    paths = [(await one.session.make(f"{ROOT}/q-", b"", EPHEMERAL | SEQUENTIAL))[0] for _ in range(2)]
    await two.session.sync("/")
    there = await two.session.exists(paths[0])
    await one.session.delete(paths[1])
    await one.close()
    async with asyncio.timeout(5):
        while await two.session.exists(paths[0]) is not None:
            await asyncio.sleep(0.02)
    gone = await outcome(lambda: two.session.delete(paths[0]))
    await two.session.make(f"{ROOT}/parent", b"")
    await two.session.make(f"{ROOT}/parent/child", b"")
    full = await outcome(lambda: two.session.delete(f"{ROOT}/parent"))
    await two.close()
    return {
        "sequence": int(paths[1][-10:]) - int(paths[0][-10:]),
        "owner": there is not None and there.ephemeral_owner == one.session_id,
        "gone": gone,
        "full": full,
    }


async def _locks(lab: Lab) -> dict[str, Any]:
    """A holder stalls until its session ends; what it had on its way must not take effect after the next grant."""
    stalled, other, renewing = await opened(lab, "n1", SHORT), await opened(lab, "n2"), await opened(lab, "n3", SHORT)
    first = await stalled.acquire("lock")
    held = await outcome(lambda: other.acquire("lock"))
    written = await outcome(lambda: stalled.guarded_write("k", b"first", "lock", first))
    second = await _acquire_once_free(other, "lock")
    # The stalled holder's write, delayed on its way: the same bytes arrive through another session.
    late = await outcome(lambda: renewing.guarded_write("k", b"late", "lock", first))
    own = await outcome(lambda: stalled.guarded_write("k", b"late", "lock", first))
    expired = await outcome(stalled.renew)
    unfenced = await outcome(lambda: stalled.write("k", b"unfenced"))
    late_release = await outcome(lambda: renewing.release("lock", first))
    good = await outcome(lambda: other.guarded_write("k", b"second", "lock", second))
    released = await outcome(lambda: other.release("lock", second))
    after_release = await outcome(lambda: other.guarded_write("k", b"after", "lock", second))
    third = await renewing.acquire("lock")
    for _ in range(10):
        await renewing.renew()
        await asyncio.sleep(0.25)
    renewed = await outcome(lambda: renewing.guarded_write("k", b"third", "lock", third))
    value = (await other.read("k", ReadMode.BARRIER)).value
    _, stat = await other.session.get(f"{LOCKS}/lock")
    for client in (stalled, other, renewing):
        await client.close()
    return {
        "held": held,
        "written": written[0],
        "late": late,
        "own": own,
        "expired": expired,
        "unfenced": unfenced[0],
        "late release": late_release,
        "good": good[0],
        "released": released[0],
        "after release": after_release,
        "renewed": renewed[0],
        "tokens grow": first.token < second.token < third.token,
        "grants": [first.handle, second.handle, third.handle],
        "counted": stat.version,
        "value": (value or b"").decode(),
    }


async def _acquire_once_free(client: ZooKeeperClient, name: str) -> Held:
    async with asyncio.timeout(10):
        while True:
            try:
                return await client.acquire(name)
            except Definite as error:
                if error.code != "held":
                    raise
            await asyncio.sleep(0.05)
