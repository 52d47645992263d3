"""What happens to a Consul client and to questions under each fault, in the lab; judged by `test_consul_cluster`."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec

from fencepost.harness.base.options import seconds
from fencepost.harness.contract.logs import BecameLeader
from fencepost.harness.coordination import Definite, Held, Indefinite, Interface, ReadMode
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.network import CLIENT, Effect, Link
from fencepost.systems.consul.catalog import CatalogClient
from fencepost.systems.consul.client import ConsulClient
from fencepost.systems.consul.options import ConsulOptions, MembersBy
from fencepost.systems.consul.system import CONSUL
from tests.systems.contract.patience import PATIENCE_S, once, stopped

NAMES: Final = ("n1", "n2", "n3")
_UNANSWERED_S: Final = 1.0
#: A session that outlasts every wait, and one whose end is waited for.
_LONG: Final = ConsulOptions(session_ttl=seconds(60), lock_delay=seconds(0))
_SHORT: Final = ConsulOptions(session_ttl=seconds(1), lock_delay=seconds(0))


async def start(lab: Lab, options: ConsulOptions, version: str) -> float:
    """Start the servers; returns the seconds until a write was acknowledged."""
    await lab.realise(CONSUL.specs(lab.layout, CONSUL.releases.resolve(version), options))
    began = time.monotonic()
    for node in lab.nodes.values():
        await node.start()
    while (await outcome(lambda: _first_write(lab), 1.0))[0] != "ok":
        assert time.monotonic() - began < 60, lab.nodes["n1"].log_tail()
        await asyncio.sleep(0.02)
    took_s = time.monotonic() - began
    await settled(lab)
    return took_s


async def _first_write(lab: Lab) -> None:
    client = await opened(lab, "n1")
    try:
        await client.write("first", b"1")
    finally:
        await client.close()


async def settled(lab: Lab, timeout_s: float = 60.0) -> None:
    """Until every server serves and all agree."""
    why = await once_within(lambda: CONSUL.healthy(lab.layout), timeout_s)
    assert why is None, f"not healthy: {why}\n{lab.nodes['n1'].log_tail()}"


async def once_within(ask: Callable[[], Awaitable[str | None]], timeout_s: float) -> str | None:
    """Ask until nothing is wrong, or the time is over; returns what is wrong."""
    deadline = time.monotonic() + timeout_s
    while (why := await ask()) is not None and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    return why


async def opened(
    lab: Lab, node: str, options: ConsulOptions = _LONG, *, connect_timeout_s: float = PATIENCE_S
) -> ConsulClient:
    return await CONSUL.open_client(
        lab.layout[node], Interface.LOCKS, connect_timeout_s=connect_timeout_s, options=options
    )


async def outcome(request: Callable[[], Awaitable[Any]], timeout_s: float = PATIENCE_S) -> list[Any]:
    """[kind, code or answer, text, seconds], the deadline applied as the interpreter does: by cancelling."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            result = ["ok", repr(await request()), ""]
    except Definite as error:
        result = ["definite", error.code, str(error)]
    except Indefinite as error:
        result = ["indefinite", error.code, str(error)]
    except TimeoutError:
        result = ["indefinite", "timeout", ""]
    return [*result, round(time.monotonic() - began, 2)]


async def opening(lab: Lab, node: str) -> list[Any]:
    return await outcome(lambda: opened(lab, node, connect_timeout_s=1.0))


async def taken(lab: Lab, node: str) -> ConsulClient:
    """A client that has written."""
    while True:
        client = await opened(lab, node)
        if (await outcome(partial(client.write, "k", b"0")))[0] == "ok":
            return client
        await client.close()


async def leader_of(lab: Lab) -> str:
    """The server that says itself that it leads."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for name in NAMES:
                if (await said(lab, name))["claims"] == "yes":
                    return name
            await asyncio.sleep(0.05)


async def said(lab: Lab, node: str, deadline_s: float = 1.0) -> dict[str, Any]:
    question = CONSUL.question(lab.layout[node], "leader")
    try:
        async with asyncio.timeout(deadline_s):
            answer = await question.ask()
    except Exception as error:
        return {"claims": "silent", "detail": type(error).__name__}
    return {"claims": answer.claims.value, "epoch": answer.epoch, "leader": answer.leader, "detail": answer.detail}


def both_ways(one: str, other: str, effect: Effect) -> dict[Link, Effect]:
    return {Link(one, other): effect, Link(other, one): effect}


def alone(node: str, effect: Effect) -> dict[Link, Effect]:
    """Cut this node off from the other nodes, and not from its clients."""
    cut: dict[Link, Effect] = {}
    for other in NAMES:
        if other != node:
            cut |= both_ways(node, other, effect)
    return cut


async def faults(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Every row of the error table that a fault can provoke, and what servers say of themselves meanwhile."""
    found: dict[str, Any] = {"first write after": await start(lab, ConsulOptions(), args["version"])}
    found["agree"] = [await said(lab, name) for name in NAMES]
    for case in (_dropped, _reset, _killed, _paused, _follower, _minority):
        found[case.__name__.strip("_")] = await case(lab)
        await lab.network.heal_all()
        began = time.monotonic()
        await settled(lab)
        found[case.__name__.strip("_")]["settled after"] = time.monotonic() - began
    found["epochs in logs"] = sorted(
        event.epoch
        for node in lab.nodes.values()
        for event in CONSUL.logs.events(node.log.read_text().splitlines())
        if isinstance(event, BecameLeader)
    )
    return found


async def _dropped(lab: Lab) -> dict[str, Any]:
    client = await taken(lab, "n2")
    await lab.network.apply(1, both_ways(CLIENT, "n2", Effect.DROP))
    in_flight, refused = await asyncio.gather(
        outcome(lambda: client.write("k", b"1"), _UNANSWERED_S), opening(lab, "n2")
    )
    after = await outcome(lambda: client.write("k", b"2"))
    await client.close()
    return {"in flight": in_flight, "opening": refused, "after giving up": after}


async def _reset(lab: Lab) -> dict[str, Any]:
    client = await taken(lab, "n2")
    await lab.network.apply(2, both_ways(CLIENT, "n2", Effect.RESET))
    in_flight = await outcome(lambda: client.write("k", b"1"))
    after = await outcome(lambda: client.write("k", b"2"))
    refused = await opening(lab, "n2")
    await lab.network.withdraw(2)
    healed = await outcome(lambda: client.write("k", b"3"))
    await client.close()
    return {"in flight": in_flight, "after": after, "opening": refused, "same client, healed": healed}


async def _killed(lab: Lab) -> dict[str, Any]:
    node = lab.nodes["n2"]
    client = await taken(lab, "n2")
    await stopped(node)
    in_flight = asyncio.create_task(outcome(lambda: client.write("k", b"1")))
    await asyncio.sleep(0.2)
    await node.kill()
    during = await in_flight
    before, refused = await outcome(lambda: client.write("k", b"2")), await opening(lab, "n2")
    dead = [await CONSUL.ready(node), await CONSUL.healthy(lab.layout)]
    await node.start()
    await settled(lab)
    fresh = await taken(lab, "n2")
    kept = repr(await fresh.read("first", ReadMode.STRONG))
    restarted = await outcome(lambda: client.write("k", b"3"))
    for one in (client, fresh):
        await one.close()
    return {"during": during, "before": before, "opening": refused, "dead": dead, "restarted": restarted, "kept": kept}


async def _paused(lab: Lab) -> dict[str, Any]:
    client = await taken(lab, "n2")
    await stopped(lab.nodes["n2"])
    in_flight, silent = await asyncio.gather(outcome(lambda: client.write("k", b"1"), _UNANSWERED_S), said(lab, "n2"))
    await lab.nodes["n2"].resume()
    await client.close()
    return {"in flight": in_flight, "says": silent}


async def _follower(lab: Lab) -> dict[str, Any]:
    """A follower that is cut off: its clients get errors, and old values in mode stale."""
    leader = await leader_of(lab)
    follower = next(name for name in NAMES if name != leader)
    clients = [await taken(lab, follower) for _ in range(3)]
    other = await taken(lab, leader)
    await lab.network.apply(3, alone(follower, Effect.DROP))
    await other.write("k", b"new")
    # Until it knows that it is cut off: before, its requests wait for a leader that does not hear them.
    await once(lambda: said(lab, follower), lambda now: now["detail"] == "candidate")
    write, strong, stale = await asyncio.gather(
        outcome(lambda: clients[0].write("k", b"1")),
        outcome(lambda: clients[1].read("k", ReadMode.STRONG)),
        outcome(lambda: clients[2].read("k", ReadMode.PLAIN)),
    )
    for one in (*clients, other):
        await one.close()
    return {"write": write, "strong": strong, "stale": stale}


async def _minority(lab: Lab) -> dict[str, Any]:
    leader = await leader_of(lab)
    clients = [await taken(lab, leader) for _ in range(5)]
    before = await said(lab, leader)
    await lab.network.apply(5, alone(leader, Effect.DROP))
    began = time.monotonic()
    write, strong, stale, acquire = await asyncio.gather(
        outcome(lambda: clients[0].write("k", b"1")),
        outcome(lambda: clients[1].read("k", ReadMode.STRONG)),
        outcome(lambda: clients[2].read("k", ReadMode.PLAIN)),
        outcome(lambda: clients[3].acquire("l")),
    )
    stepped_down = await once(lambda: said(lab, leader), lambda now: now["claims"] == "no")
    after_s = time.monotonic() - began
    later = await outcome(lambda: clients[4].write("k", b"2"))
    unhealthy = [await CONSUL.ready(lab.nodes[leader]), await CONSUL.healthy(lab.layout)]
    for client in clients:
        await client.close()
    return {
        "leader": leader,
        "before": before,
        "stepped down": stepped_down,
        "stepped down after": after_s,
        "write": write,
        "later": later,
        "strong": strong,
        "stale": stale,
        "acquire": acquire,
        "unhealthy": unhealthy,
    }


async def semantics(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Every request of the client without a fault, by clients of different servers."""
    options = msgspec.structs.replace(ConsulOptions(), log_store=args.get("log_store", "boltdb"))
    await start(lab, options, args["version"])
    found: dict[str, Any] = {}

    async def note(name: str, request: Callable[[], Awaitable[Any]]) -> None:
        found[name] = await outcome(request)

    one, two = await opened(lab, "n1"), await opened(lab, "n2")
    await _storage(one, two, note, found)
    await _locks(one, two, note, found)
    await _leases(one, two, note, found)
    await _catalog(lab, note, found)
    await _expiry(lab, note, found)
    # The agent closes the connection on which so much came.
    await note("too large", lambda: one.write("large", b"x" * 600_000))
    await one.close()
    await note("closed", lambda: one.write("r", b"6"))
    await two.close()
    return found


async def _storage(one: ConsulClient, two: ConsulClient, note: Any, found: dict[str, Any]) -> None:
    written = await one.write("r", b"1")
    read = await two.read("r", ReadMode.STRONG)
    found["positions agree"] = [read.value == b"1", read.value_position == written.position]
    absent = await two.read("absent", ReadMode.STRONG)
    found["absent"] = [absent.value, (absent.position or 0) >= (written.position or 0)]
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
    await note("empty key", lambda: one.write("", b"1"))
    for element in (10, 2, 33):
        await one.add("s", element)
    await one.add("s2", 7)
    await note("add again", lambda: two.add("s", 2))
    found["members"] = list((await two.members("s", ReadMode.STRONG)).elements)
    found["no members"] = list((await two.members("none", ReadMode.STRONG)).elements)
    found["modes"] = [((await two.read("r", mode)).value or b"").decode() for mode in CONSUL.profile.reads]


async def _locks(one: ConsulClient, two: ConsulClient, note: Any, found: dict[str, Any]) -> None:
    await note("renew without session", one.renew)
    held = await one.acquire("l")
    await note("acquire held", lambda: two.acquire("l"))
    await note("acquire held by oneself", lambda: one.acquire("l"))
    await note("renew", one.renew)
    found["leads"] = (await two.leader("l", ReadMode.STRONG)).token == held.token
    await note("guarded", lambda: one.guarded_write("g", b"1", "l", held))
    stale = Held(token=held.token - 1, handle="")
    await note("guarded, stale token", lambda: two.guarded_write("g", b"2", "l", stale))
    await note("act", lambda: one.act("trail", "b", "l", held, guarded=True))
    await note("act, not guarded", lambda: two.act("trail", "a", "l", stale, guarded=False))
    await note("act, stale token", lambda: two.act("trail", "c", "l", stale, guarded=True))
    found["deeds"] = list((await two.deeds("trail", ReadMode.STRONG)).deeds)
    await note("release, stale token", lambda: two.release("l", stale))
    released = await one.release("l", held)
    found["nobody leads"] = (await two.leader("l", ReadMode.STRONG)).token
    await note("guarded, released", lambda: one.guarded_write("g", b"3", "l", held))
    again = await two.acquire("l")
    found["positions grow"] = held.token < (released.position or 0) < again.token
    await two.release("l", again)
    found["guarded value"] = ((await two.read("g", ReadMode.STRONG)).value or b"").decode()


async def _leases(one: ConsulClient, two: ConsulClient, note: Any, found: dict[str, Any]) -> None:
    granted = await one.grant(3000)
    found["ttl"] = [granted.ttl_ms, (await two.keep_alive(granted.handle)).ttl_ms]
    await two.attach("bound", 1, granted.handle)
    found["bound"] = list((await one.members("bound", ReadMode.STRONG)).elements)
    await note("revoke", lambda: two.revoke(granted.handle))
    found["bound, revoked"] = list((await one.members("bound", ReadMode.STRONG)).elements)
    await note("keep alive, revoked", lambda: one.keep_alive(granted.handle))
    await note("attach, revoked", lambda: one.attach("bound", 1, granted.handle))


async def _catalog(lab: Lab, note: Any, found: dict[str, Any]) -> None:
    """Two members of one id, by two agents; one falls silent, is dropped, and comes back by a late renewal."""
    options = ConsulOptions(members=MembersBy.CATALOG_TTL)
    one, two = await opened(lab, "n1", options), await opened(lab, "n2", options)
    assert isinstance(one, CatalogClient) and isinstance(two, CatalogClient)

    async def listed(*wanted: bytes) -> str | None:
        """An agent tells the servers after its answer."""
        data = sorted(member.data for member in (await two.roster("g", ReadMode.STRONG)).members)
        return None if data == sorted(wanted) else str(data)

    short, long = await one.grant(1000), await two.grant(60_000)
    await one.enter("g", "m", b"1", short.handle)
    await two.enter("g", "m", b"2", long.handle)
    found["members of one id"] = await once_within(lambda: listed(b"1", b"2"), 10)
    await two.watch_roster("g")
    await note("renew by another agent", lambda: two.keep_alive(short.handle))
    await note("leave by another agent", lambda: two.revoke(short.handle))
    found["a member heard of the end"] = await two.roster_changed(10)
    found["silent member is dropped"] = await once_within(lambda: listed(b"2"), 10)
    await note("late renewal", lambda: one.keep_alive(short.handle))
    found["dropped member is back"] = await once_within(lambda: listed(b"1", b"2"), 10)
    await one.revoke(short.handle)
    found["member left"] = await once_within(lambda: listed(b"2"), 10)
    await note("leave again", lambda: one.revoke(short.handle))
    for client in (one, two):
        await client.close()


async def _expiry(lab: Lab, note: Any, found: dict[str, Any]) -> None:
    await _ended(lab, note, found, "no delay", 0.0)
    await _ended(lab, note, found, "delay", 2.0)


async def _ended(lab: Lab, note: Any, found: dict[str, Any], name: str, delay_s: float) -> None:
    """A session that is not renewed ends after twice its time to live, and the lock-delay begins then."""
    options = msgspec.structs.replace(_SHORT, lock_delay=seconds(delay_s))
    one, two = await opened(lab, "n1", options), await opened(lab, "n2")
    lock = f"expiring-{name}".replace(" ", "-")
    held = await one.acquire(lock)
    began = time.monotonic()
    codes: set[str] = set()
    asked = began
    while (got := await outcome(lambda: two.acquire(lock)))[0] != "ok" and time.monotonic() - began < PATIENCE_S:
        codes |= {got[1]} if time.monotonic() - asked < 1 else {got[1], "stalled"}
        asked = time.monotonic()
        await asyncio.sleep(0.05)
    codes |= set() if time.monotonic() - asked < 1 else {"stalled"}
    found[f"taken over, {name}"] = [got[0], time.monotonic() - began, sorted(codes)]
    await note(f"guarded, expired, {name}", lambda: one.guarded_write("h", b"4", lock, held))
    await note(f"release, expired, {name}", lambda: one.release(lock, held))
    await note(f"acquire, dead session, {name}", lambda: one.acquire(f"{lock}-2"))
    await note(f"acquire, new session, {name}", lambda: one.acquire(f"{lock}-2"))
    for client in (one, two):
        await client.close()
