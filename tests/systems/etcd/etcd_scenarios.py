"""What happens to an etcd client and to questions under each fault, in the lab; judged by `test_etcd_cluster`."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fencepost.harness.base.options import seconds
from fencepost.harness.contract.logs import BecameLeader
from fencepost.harness.coordination import Definite, Held, Indefinite, ReadMode
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.network import CLIENT, Effect, Link
from fencepost.systems.etcd.options import EtcdOptions
from fencepost.systems.etcd.question import EtcdQuestion
from fencepost.systems.etcd.system import ETCD
from tests.systems.contract.patience import PATIENCE_S, Disturbed, Pace, once, stopped, until
from tests.systems.etcd import whole_client
from tests.systems.etcd.whole_client import EtcdClient

#: Quick elections keep the scenarios short; the ratio is etcd's own.
OPTIONS: Final = EtcdOptions(heartbeat=seconds(0.05), election=seconds(0.5))
NAMES: Final = ("n1", "n2", "n3")
#: The lease of a lock whose end is waited for.
_SHORT_S: Final = 2
#: Given to what stays without an answer.
_UNANSWERED_S: Final = 1.0


#: Something done to the cluster.
Action = Callable[[], Awaitable[None]]


async def start(lab: Lab, options: EtcdOptions = OPTIONS) -> None:
    await lab.realise(ETCD.specs(lab.layout, ETCD.releases.resolve(ETCD.releases.default), options))
    for node in lab.nodes.values():
        await node.start()
    await settled(lab)


async def settled(lab: Lab, timeout_s: float = 30.0) -> None:
    """Until every member serves and all agree."""
    why: str | None = "never asked"
    try:
        async with asyncio.timeout(timeout_s):
            while (why := await ETCD.healthy(lab.layout)) is not None:
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not healthy: {why}\n{lab.nodes['n1'].log_tail()}") from None


async def opened(lab: Lab, node: str, *, connect_timeout_s: float = PATIENCE_S, lock_ttl_s: int = 60) -> EtcdClient:
    where = lab.layout[node].dial(ETCD.profile.listeners[CLIENT])
    return await whole_client.opened(*where, connect_timeout_s, lock_ttl_s=lock_ttl_s)


async def outcome(request: Callable[[], Awaitable[Any]], timeout_s: float = PATIENCE_S) -> list[Any]:
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


async def opening(lab: Lab, node: str) -> list[Any]:
    """How an attempt ends to open a client where nobody answers."""
    return await outcome(lambda: opened(lab, node, connect_timeout_s=1.0))


async def taken(request: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Until it is ok: members of a busy machine elect at any time, and refuse meanwhile."""
    return await once(lambda: outcome(request), lambda ended: ended[0] == "ok")


async def leader_of(lab: Lab) -> str:
    question = ETCD.question(lab.layout["n1"], "leader")
    said = await once(lambda: _said(question), lambda said: said.get("leader") in NAMES)
    await question.close()
    assert said["leader"] in NAMES
    return str(said["leader"])


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
    await taken(lambda: client.write("k", b"0"))
    await lab.network.apply(1, both_ways(CLIENT, "n2", Effect.DROP))
    in_flight, refused = await asyncio.gather(
        outcome(lambda: client.write("k", b"1"), _UNANSWERED_S), opening(lab, "n2")
    )
    await client.close()
    return {"in flight": in_flight, "opening": refused}


async def _reset(lab: Lab) -> dict[str, Any]:
    client = await opened(lab, "n2")
    await taken(lambda: client.write("k", b"0"))
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
    client, other = await opened(lab, "n2"), await opened(lab, "n2")
    await taken(lambda: client.write("k", b"0"))
    await stopped(node)
    in_flight = asyncio.create_task(outcome(lambda: other.write("k", b"1")))
    await asyncio.sleep(0.2)
    await node.kill()
    during = await in_flight
    # Only on a connection that ended is it certain that nothing is sent.
    await until(lambda: client._connection.shut is not None)
    before = await outcome(lambda: client.write("k", b"2"))
    refused = await opening(lab, "n2")
    # That it did not answer in time is what is said where the machine is busy.
    wrong = await once(lambda: ETCD.healthy(lab.layout), lambda wrong: wrong is not None and "refused" in wrong)
    dead = [await ETCD.ready(node), wrong]
    await node.start()
    await settled(lab)
    ready = await once(lambda: ETCD.ready(node), bool)
    alive = [ready, await once(lambda: ETCD.healthy(lab.layout), lambda wrong: wrong is None)]
    restarted = await outcome(lambda: client.write("k", b"3"))
    fresh = await opened(lab, "n2")
    again = await taken(lambda: fresh.write("k", b"4"))
    for one in (client, other, fresh):
        await one.close()
    return {
        "during": during,
        "before": before,
        "opening": refused,
        "same client, restarted": restarted,
        "fresh client, restarted": again,
        "dead": dead,
        "alive": alive,
    }


async def _paused(lab: Lab) -> dict[str, Any]:
    node = lab.nodes["n2"]
    client = await opened(lab, "n2")
    await taken(lambda: client.write("k", b"0"))
    await stopped(node)
    in_flight, refused = await asyncio.gather(
        outcome(lambda: client.write("k", b"1"), _UNANSWERED_S), opening(lab, "n2")
    )
    await node.resume()
    await client.close()
    return {"in flight": in_flight, "opening": refused}


async def _minority(lab: Lab) -> dict[str, Any]:
    leader = await leader_of(lab)
    client = await opened(lab, leader)
    await taken(lambda: client.write("k", b"0"))
    others = [name for name in NAMES if name != leader]
    cut: dict[Link, Effect] = {}
    for other in others:
        cut |= both_ways(leader, other, Effect.DROP)
    await lab.network.apply(5, cut)
    write, strong, plain, grant = await asyncio.gather(
        outcome(lambda: client.write("k", b"1")),
        outcome(lambda: client.read("k", ReadMode.STRONG)),
        outcome(lambda: client.read("k", ReadMode.PLAIN)),
        outcome(lambda: client.acquire("l")),
    )
    expected = f"{leader}: etcdserver: no leader"
    wrong = await once(lambda: ETCD.healthy(lab.layout), lambda wrong: wrong == expected)
    unhealthy = [await ETCD.ready(lab.nodes[leader]), wrong]
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
    leader, question, found["leads"] = await _leading(lab)
    others = [name for name in NAMES if name != leader]
    cut: dict[Link, Effect] = {}
    for other in others:
        cut |= both_ways(leader, other, Effect.DROP)
    await lab.network.apply(6, cut)
    began = time.monotonic()
    found["cut off"] = await once(lambda: _said(question), lambda said: said["claims"] == "no")
    found["stepped down after"] = time.monotonic() - began
    await lab.network.withdraw(6)
    await settled(lab)
    for name, begin, end in (
        ("paused", lambda: stopped(lab.nodes[leader]), lab.nodes[leader].resume),
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
    found["restarted"] = await once(lambda: _said(question), lambda said: said["claims"] != "silent")
    await question.close()
    found["epochs in logs"] = sorted(
        event.epoch
        for node in lab.nodes.values()
        for event in ETCD.logs.events(node.log.read_text().splitlines())
        if isinstance(event, BecameLeader)
    )
    return found


async def _leading(lab: Lab) -> tuple[str, EtcdQuestion, dict[str, Any]]:
    """A member that says itself that it leads, and the line on which it said so."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            leader = await leader_of(lab)
            question = ETCD.question(lab.layout[leader], "leader")
            assert isinstance(question, EtcdQuestion)
            said = await _said(question)
            if said["claims"] == "yes":
                return leader, question, said
            await question.close()


async def _silence(question: EtcdQuestion, begin: Action, end: Action) -> dict[str, Any]:
    """Asked at 20 Hz through a silence of 3 s and until one answers, at most four questions at a time."""
    answered: list[float] = []
    before = question._line
    outstanding: set[asyncio.Task[None]] = set()

    async def ask() -> None:
        if (await _said(question, 1.0))["claims"] != "silent":
            answered.append(time.monotonic())

    await begin()
    began = time.monotonic()
    ended = None
    while ended is None or (not answered and time.monotonic() - ended < PATIENCE_S):
        if ended is None and time.monotonic() - began > 3:
            within = len(answered)
            ended = time.monotonic()
            await end()
        if len(outstanding) < 4:
            task = asyncio.create_task(ask())
            outstanding.add(task)
            task.add_done_callback(outstanding.discard)
        await asyncio.sleep(0.05)
    await asyncio.gather(*outstanding)
    return {
        "answers within the silence": within,
        "heard again": len(answered) > within,
        "on another connection": question._line is not before,
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
    await start(lab, EtcdOptions())
    return await _undisturbed(lab, _requests) | await _undisturbed(lab, _expiry)


async def _undisturbed(lab: Lab, play: Callable[[Lab, str], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Once more, under other names, where members elected meanwhile or a lease could not be renewed in time."""
    for attempt in range(12):
        term = await _term(lab)
        try:
            found = await play(lab, f"{attempt}-")
        except (Definite, Indefinite):
            if await _term(lab) == term:
                raise
        except Disturbed:
            continue
        else:
            if await _term(lab) == term:
                return found
    raise AssertionError("the members elected, or were kept waiting, every time")


async def _term(lab: Lab) -> int | None:
    client = await opened(lab, "n1")
    try:
        return (await client.read("term", ReadMode.STRONG)).epoch
    except Indefinite:
        return None
    finally:
        await client.close()


async def _requests(lab: Lab, to: str) -> dict[str, Any]:
    """`to` begins every key's name."""
    one, two = await opened(lab, "n1"), await opened(lab, "n2")
    found: dict[str, Any] = {}
    note = _noting(found)
    written = await one.write(f"{to}r", b"1")
    read = await two.read(f"{to}r", ReadMode.STRONG)
    found["stamps agree"] = [read.value == b"1", read.value_position == written.position, read.epoch == written.epoch]
    await note("absent", lambda: one.read(f"{to}absent", ReadMode.STRONG))
    await note("cas", lambda: one.cas(f"{to}r", b"1", b"2"))
    await note("cas again", lambda: one.cas(f"{to}r", b"1", b"3"))
    await note("cas absent", lambda: one.cas(f"{to}absent", b"", b"3"))
    await note("create", lambda: one.create(f"{to}c", b"1"))
    await note("create again", lambda: two.create(f"{to}c", b"2"))
    await note("update", lambda: two.update(f"{to}c", b"2"))
    await note("update absent", lambda: two.update(f"{to}absent", b"2"))
    await note("append", lambda: one.transact([f"{to}l"], [(f"{to}l", 1), (f"{to}k", 2), (f"{to}l", 3)]))
    found["lists"] = (await two.transact([f"{to}k", f"{to}l", f"{to}absent"], [])).lists
    racing = (one.transact([], [(f"{to}l", number)]) for number in range(4, 24))
    ended = await asyncio.gather(*racing, return_exceptions=True)
    (last,) = (await two.transact([f"{to}l"], [])).lists
    refused = [error for error in ended if isinstance(error, Definite) and error.code == "cas-mismatch"]
    found["each append is made or refused"] = len(last) - 2 + len(refused) == len(ended) and len(set(last)) == len(last)
    now = await two.read(f"{to}r", ReadMode.STRONG)
    await note("write_if", lambda: one.write_if(f"{to}r", b"4", now.value_position, now.version))
    await note("write_if again", lambda: one.write_if(f"{to}r", b"5", now.value_position, now.version))
    await note("write_if absent", lambda: one.write_if(f"{to}w", b"1", None, None))
    await note("write_if absent again", lambda: one.write_if(f"{to}w", b"2", None, None))
    await note("empty key", lambda: one.write("", b""))
    for element in (10, 2, 33):
        await one.add(f"{to}s", element)
    await one.add(f"{to}s2", 7)
    await note("add again", lambda: two.add(f"{to}s", 2))
    members = [await two.members(f"{to}s", mode) for mode in (ReadMode.STRONG, ReadMode.PLAIN)]
    found["members"] = [list(of_mode.elements) for of_mode in members]
    await _locks(one, two, to, note, found)
    await one.close()
    await note("closed", lambda: one.write(f"{to}r", b"6"))
    await two.close()
    return found


def _noting(found: dict[str, Any]) -> Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[None]]:
    async def note(name: str, request: Callable[[], Awaitable[Any]]) -> None:
        found[name] = await outcome(request)

    return note


async def _locks(one: EtcdClient, two: EtcdClient, to: str, note: Any, found: dict[str, Any]) -> None:
    """With leases that outlast every wait."""
    lock, guarded = f"{to}l", f"{to}g"
    await note("renew without lease", one.renew)
    held = await one.acquire(lock)
    await note("acquire held", lambda: two.acquire(lock))
    await note("renew", one.renew)
    await note("guarded", lambda: one.guarded_write(guarded, b"1", lock, held))
    stale = Held(token=held.token - 1, handle="")
    await note("guarded, stale token", lambda: two.guarded_write(guarded, b"2", lock, stale))
    await note("release, stale token", lambda: two.release(lock, stale))
    await note("release", lambda: one.release(lock, held))
    await note("guarded, released", lambda: one.guarded_write(guarded, b"3", lock, held))
    again = await one.acquire(lock)
    found["token grows"] = again.token > held.token
    found["guarded value"] = await _value(two, guarded)


async def _value(client: EtcdClient, key: str) -> str:
    return ((await client.read(key, ReadMode.STRONG)).value or b"").decode()


async def _expiry(lab: Lab, to: str) -> dict[str, Any]:
    """Renewed, a lease outlives its time; not renewed, it ends and takes the lock along."""
    one, two = [await opened(lab, name, lock_ttl_s=_SHORT_S) for name in ("n1", "n2")]
    found: dict[str, Any] = {}
    note = _noting(found)
    lock, guarded = f"{to}e", f"{to}h"
    pace = Pace(_SHORT_S / 2 - 0.1)
    held = await pace.step(one.acquire(lock))
    await pace.step(one.guarded_write(guarded, b"1", lock, held))
    for _ in range(14):
        await asyncio.sleep(_SHORT_S / 8)
        await pace.step(one.renew())
    await pace.step(note("acquire, renewed", lambda: two.acquire(lock)))
    began = time.monotonic()
    while (got := await outcome(lambda: two.acquire(lock)))[0] != "ok" and time.monotonic() - began < PATIENCE_S:
        await outcome(two.renew)
        await asyncio.sleep(0.1)
    found["taken over"] = got[0]
    await note("guarded, expired", lambda: one.guarded_write(guarded, b"4", lock, held))
    await note("release, expired", lambda: one.release(lock, held))
    # With the dead lease still in hand: the server refuses the key, and the next attempt asks for a new lease.
    await note("acquire, dead lease", lambda: one.acquire(f"{lock}2"))
    pace = Pace(_SHORT_S / 2 - 0.1)
    await pace.step(note("acquire, new lease", lambda: one.acquire(f"{lock}2")))
    await pace.step(note("renew, new lease", one.renew))
    found["guarded value, expired"] = await _value(two, guarded)
    for client in (one, two):
        await client.close()
    return found
