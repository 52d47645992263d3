"""What happens to ZooKeeper sessions and questions in the lab; judged by `test_zookeeper_cluster`."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from kazoo.client import KazooClient

from fencepost.harness.base.options import seconds
from fencepost.harness.contract.logs import BecameLeader
from fencepost.harness.coordination import Definite, Held, Indefinite, Keys, NotSent, ReadMode
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.network import CLIENT, Effect, Link
from fencepost.systems.zookeeper.health import open_session
from fencepost.systems.zookeeper.leases import SessionLeases
from fencepost.systems.zookeeper.options import ZooKeeperOptions
from fencepost.systems.zookeeper.storage import LOCKS, ROOT
from fencepost.systems.zookeeper.system import ZOOKEEPER
from fencepost.systems.zookeeper.wire.connection import WatchEvent
from fencepost.systems.zookeeper.wire.session import EPHEMERAL, SEQUENTIAL
from tests.systems.contract.patience import PATIENCE_S, Disturbed, Pace, once, stopped, until
from tests.systems.zookeeper.zookeeper_scripts import ZooKeeperClient

#: Quick elections keep the scenarios short.
OPTIONS: Final = ZooKeeperOptions(tick=seconds(0.2), sync_limit=5, session_timeout=seconds(30))
#: A leader that waits 30 s for a sleeping follower.
PATIENT: Final = msgspec.structs.replace(OPTIONS, sync_limit=150)
SHORT_S: Final = 2.0
SHORT: Final = msgspec.structs.replace(OPTIONS, session_timeout=seconds(SHORT_S))
#: Given to what stays without an answer.
_UNANSWERED_S: Final = 1.0
NAMES: Final = ("n1", "n2", "n3")


async def start(lab: Lab, options: ZooKeeperOptions) -> None:
    await lab.realise(ZOOKEEPER.specs(lab.layout, ZOOKEEPER.releases.resolve(ZOOKEEPER.releases.default), options))
    for node in lab.nodes.values():
        await node.start()
    await settled(lab)
    client = await opened(lab, "n1")
    await client.prepare(Keys(("k", "s", "x", "y", "z")))
    await client.prepare(Keys(("k", "late")))
    await client.close()


async def settled(lab: Lab, timeout_s: float = 30.0) -> None:
    why: str | None = "never asked"
    try:
        async with asyncio.timeout(timeout_s):
            while (why := await ZOOKEEPER.healthy(lab.layout)) is not None:
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not healthy: {why}\n{lab.nodes['n1'].log_tail()}") from None


async def opened(
    lab: Lab, node: str, options: ZooKeeperOptions = OPTIONS, *, connect_timeout_s: float = PATIENCE_S
) -> ZooKeeperClient:
    place, session_ms = lab.layout[node], options.session_timeout.ms
    leases = SessionLeases(*place.dial(ZOOKEEPER.profile.listeners[CLIENT]), connect_timeout_s)
    return ZooKeeperClient(await open_session(place, connect_timeout_s, session_ms), leases)


async def served(lab: Lab, node: str, value: bytes = b"0") -> ZooKeeperClient:
    """A client through which `value` was just written: servers of a busy machine elect, and hang up, at any time."""
    async with asyncio.timeout(2 * PATIENCE_S):
        while True:
            with contextlib.suppress(Definite, Indefinite):
                client = await opened(lab, node, connect_timeout_s=5.0)
                try:
                    await client.write("k", value)
                    return client
                except (Definite, Indefinite):
                    await client.close()
            await asyncio.sleep(0.05)


async def opening(lab: Lab, node: str) -> list[Any]:
    """How an attempt ends to open a client where nobody grants a session."""
    return await outcome(lambda: opened(lab, node, connect_timeout_s=1.0))


async def outcome(request: Callable[[], Awaitable[Any]], timeout_s: float = PATIENCE_S) -> list[Any]:
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


async def mode(lab: Lab, name: str) -> str | None:
    """What this node says when asked alone; None is silence."""
    try:
        async with asyncio.timeout(0.5):
            return (await ZOOKEEPER.question(lab.layout[name], "leader").ask()).detail
    except (OSError, TimeoutError):
        return None


async def roles(lab: Lab) -> tuple[str, str]:
    """The leader and one follower."""

    async def asked() -> dict[str | None, str]:
        return {await mode(lab, name): name for name in NAMES}

    said = await once(asked, lambda said: {"leader", "follower"} <= said.keys())
    return said["leader"], said["follower"]


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
    for _ in range(6):
        client = await served(lab, "n2")
        found = await _cut_from(lab, client)
        ended = client.session.connection.ended
        await client.close()
        if ended != "the server closed the connection":  # as one does that was kept waiting, and elects
            break
        await settled(lab)
    return found


async def _cut_from(lab: Lab, client: ZooKeeperClient) -> dict[str, Any]:
    await lab.network.apply(1, both_ways(CLIENT, ("n2",), Effect.DROP))
    in_flight, refused = await asyncio.gather(
        outcome(lambda: client.write("k", b"1"), _UNANSWERED_S), opening(lab, "n2")
    )
    await lab.network.withdraw(1)
    # The kernel sends the write again once it gets through; its late answer must not be taken for the read's.
    healed = await outcome(lambda: client.read("k", ReadMode.SYNC))
    return {"in flight": in_flight, "opening": refused, "same session, healed": healed}


async def _reset(lab: Lab) -> dict[str, Any]:
    client = await served(lab, "n2")
    await lab.network.apply(2, both_ways(CLIENT, ("n2",), Effect.RESET))
    in_flight = await outcome(lambda: client.write("k", b"1"))
    after = await outcome(lambda: client.write("k", b"2"))
    refused = await opening(lab, "n2")
    await lab.network.withdraw(2)
    healed = await outcome(lambda: client.write("k", b"3"))
    await client.close()
    return {"in flight": in_flight, "after": after, "opening": refused, "same session, healed": healed}


async def _paused(lab: Lab) -> dict[str, Any]:
    """A follower sleeps 5 s; the session, and what was asked meanwhile, must outlive it."""
    _, follower = await roles(lab)
    client = await opened(lab, follower)
    session = client.session_id
    await client.write("k", b"0")
    await stopped(lab.nodes[follower])
    paused = time.monotonic()
    asked = asyncio.create_task(outcome(lambda: client.read("k", ReadMode.SYNC), 2 * PATIENCE_S))
    said = await mode(lab, follower)
    refused = await opening(lab, follower)
    await asyncio.sleep(max(0.0, paused + 5.0 - time.monotonic()))
    await lab.nodes[follower].resume()
    result = {"answered": await asked, "opening": refused, "said": said, "session kept": client.session_id == session}
    await settled(lab)
    result["after"] = await outcome(lambda: client.write("k", b"1"))
    await client.close()
    return result


async def _minority(lab: Lab) -> dict[str, Any]:
    """The leader is cut from both others: what is asked through it, and how long it goes on claiming."""
    for _ in range(6):
        leader, _follower = await roles(lab)
        clients = [await served(lab, leader) for _ in range(3)]
        await lab.network.apply(3, both_ways(leader, tuple(n for n in NAMES if n != leader), Effect.DROP))
        found = await _without_majority(lab, leader, *clients)
        for one in clients:
            await one.close()
        if found["claims"] and found["open"]:
            break
        # It had elected before it was cut, or was kept waiting until it gave up: nothing was asked of a leader.
        await lab.network.heal_all()
        await settled(lab)
    return found


async def _without_majority(
    lab: Lab, leader: str, client: ZooKeeperClient, other: ZooKeeperClient, third: ZooKeeperClient
) -> dict[str, Any]:
    cut = time.monotonic()
    plain = await outcome(lambda: third.read("k", ReadMode.PLAIN))
    asked = asyncio.create_task(outcome(lambda: client.write("k", b"1"), 2 * PATIENCE_S))
    claims_s = 0.0
    is_open = third.session.connection.ended is None
    while (said := await mode(lab, leader)) in ("leader", None) and time.monotonic() < cut + PATIENCE_S:
        if said is not None:
            claims_s = time.monotonic() - cut
        await asyncio.sleep(0.05)
    written = await asked
    # The server closes its connections one after the other: only on one that ended is it certain that nothing is sent.
    await until(lambda: other.session.connection.ended)
    found: dict[str, Any] = {
        "plain read": plain,
        "open": is_open,
        "write": written,
        "after": await outcome(lambda: other.write("k", b"2")),
        "opening": await opening(lab, leader),
        "claims": claims_s,
        "said": await once(lambda: mode(lab, leader), lambda said: said is not None),
        "leader": leader,
    }
    expected = f"{leader} is not serving"
    found["unhealthy"] = await once(lambda: ZOOKEEPER.healthy(lab.layout), lambda wrong: expected in (wrong or ""))
    return found


async def _killed(lab: Lab) -> dict[str, Any]:
    leader, _ = await roles(lab)
    node = lab.nodes[leader]
    client = await served(lab, leader, b"kept")
    await stopped(node)
    in_flight = asyncio.create_task(outcome(lambda: client.write("k", b"lost")))
    await asyncio.sleep(0.1)
    await node.kill()
    during = await in_flight
    after, refused = await outcome(lambda: client.write("k", b"2")), await opening(lab, leader)
    unhealthy = await once(lambda: ZOOKEEPER.healthy(lab.layout), lambda wrong: "silent" in (wrong or ""))
    was_ready = await ZOOKEEPER.ready(node)
    await node.start()
    await settled(lab)
    is_ready = await once(lambda: ZOOKEEPER.ready(node), bool)

    async def read() -> tuple[list[Any], dict[str, list[int]]]:
        fresh = await opened(lab, leader)
        try:
            reply = await fresh.read("k", ReadMode.BARRIER)
            said = [(reply.value or b"").decode(), reply.epoch]
        except (Definite, Indefinite) as error:
            said = [error.code, None]
        finally:
            await fresh.close()
        return said, {
            name: [
                event.epoch
                for event in ZOOKEEPER.logs.events(n.log.read_text().splitlines())
                if isinstance(event, BecameLeader)
            ]
            for name, n in lab.nodes.items()
        }

    # Again, where they elected between the two.
    (value, epoch), epochs = await once(read, lambda both: both[0][1] == max(e for of in both[1].values() for e in of))
    return {
        "during": during,
        "after": after,
        "opening": refused,
        "unhealthy": unhealthy,
        "ready": [was_ready, is_ready],
        "value": value,
        "epochs": epochs,
        "epoch": epoch,
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
    reads = {
        mode.value: await two.read("x", mode) for mode in ZOOKEEPER.profile.read_modes if mode is not ReadMode.PLAIN
    }
    swapped = await two.cas("x", b"1", b"2")
    created = [await outcome(lambda: one.create("y", b"9")), await outcome(lambda: two.create("y", b"8"))]
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
    theirs = KazooClient(hosts=f"{lab.layout['n3'].address}:2181", timeout=30)
    try:
        await asyncio.to_thread(theirs.start, 30)
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
    # This server may be behind the changes that others made before.
    await watcher.read("z", ReadMode.SYNC)
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
    async with asyncio.timeout(PATIENCE_S):
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
    for attempt in range(12):
        with contextlib.suppress(Disturbed):
            return await _contended(lab, f"lock-{attempt}")
    raise AssertionError("somebody was kept waiting for too long every time")


async def _contended(lab: Lab, lock: str) -> dict[str, Any]:
    """A holder stalls until its session ends; what it had on its way must not take effect after the next grant."""
    stalled, other, renewing = await opened(lab, "n1", SHORT), await opened(lab, "n2"), await opened(lab, "n3", SHORT)
    # Sessions are kept alive at a third of their time, and the leader hears of it a little later.
    pace = Pace(SHORT_S / 2)

    async def ask(request: Callable[[], Awaitable[Any]]) -> list[Any]:
        return await pace.step(outcome(request))

    first = await pace.step(stalled.acquire(lock))
    held = await ask(lambda: other.acquire(lock))
    written = await ask(lambda: stalled.guarded_write("k", b"first", lock, first))
    second = await _acquire_once_free(other, lock, pace)
    # The stalled holder's write, delayed on its way: the same bytes arrive through another session.
    late = await ask(lambda: renewing.guarded_write("k", b"late", lock, first))
    own = await ask(lambda: stalled.guarded_write("k", b"late", lock, first))
    expired = await ask(stalled.renew)
    unfenced = await ask(lambda: stalled.write("k", b"unfenced"))
    late_release = await ask(lambda: renewing.release(lock, first))
    good = await ask(lambda: other.guarded_write("k", b"second", lock, second))
    released = await ask(lambda: other.release(lock, second))
    after_release = await ask(lambda: other.guarded_write("k", b"after", lock, second))
    third = await pace.step(renewing.acquire(lock))
    for _ in range(round(1.25 * SHORT_S / 0.25)):
        await pace.step(renewing.renew())
        # A follower answers the renewal by itself; this shows whether the leader is kept waiting.
        await pace.step(other.read("k", ReadMode.BARRIER))
        await asyncio.sleep(0.25)
    renewed = await ask(lambda: renewing.guarded_write("k", b"third", lock, third))
    value = (await other.read("k", ReadMode.BARRIER)).value
    _, stat = await other.session.get(f"{LOCKS}/{lock}")
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


async def _acquire_once_free(client: ZooKeeperClient, name: str, pace: Pace) -> Held:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await pace.step(client.acquire(name))
            except Definite as error:
                if error.code != "held":
                    raise
            await asyncio.sleep(0.05)
