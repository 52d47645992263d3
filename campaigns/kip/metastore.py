"""`metastore`: what Kafka asks of its metastore by KIP-273's interface, one scenario for each operation.

Every scenario has znodes of its own, but for those that are watched. The number of an operation names its znodes.

  pipeline number   create a znode, then send at once seven writes of it, one of a znode that does not exist (as the
                    fifth) and a read. An ok carries what arrived, in the order of arrival:
                    [place, "write" | "absent" | "read", refusal, position, data] for each answer
  watched  number   read a shared znode with a watch, then read it again and again. An ok carries, in the order of
                    arrival, ["read", position] and ["event", position]; the first read set the watch
  write    number   write a shared znode
  family   number   create a parent and a child, delete the parent, read the child: an ok carries
                    [refusal of the deletion, whether the child is still there]
  expire   ttl_ms   in a session that nothing renews create an ephemeral and a child of it; wait until the session must
                    be over; read the ephemeral by another session, then write in the session that is over. An ok
                    carries [refusal of the child, whether the ephemeral is still there, refusal of the last write]
  versions number   create a znode and write it three times: an ok carries the version after each
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Final

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.coordination import Definite, Indefinite, Interface
from fencepost.harness.coordination.kip_273 import (
    Create,
    Delete,
    GetData,
    Metastore,
    MetastoreChange,
    MetastoreRefusal,
    MetastoreResponse,
    Metastores,
    Request,
    SetData,
)
from fencepost.harness.generators import at_rate, draws, limit, reserve
from fencepost.harness.generators.contract import Draw, Generator, Offer
from fencepost.harness.history import Completion, Outcome, Value
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload

#: Requests of one pipeline before its read, and the place of the one among them that must be refused.
_BEFORE_READ: Final = 8
_REFUSED_AT: Final = 4
#: Reads behind a watched one, and znodes that are watched.
_READS: Final = 40
_SHARED: Final = 2
#: A session that is over, by every clock and every bound of the systems, in times of its time to live.
_OVER_TTLS: Final = 3
_SLACK_S: Final = 2.0


class MetastoreOptions(Options, frozen=True, kw_only=True):
    rate: Annotated[float, about("scenarios per second, all workers together", above=0, most=1e6)] = 40.0
    write_rate: Annotated[float, about("writes of watched paths per second", above=0, most=1e6)] = 150.0
    ttl: Annotated[Duration, about("time to live of sessions that are left to end", above=0)] = seconds(1)
    workers_per_node: Annotated[int, about("workers per node that play scenarios", least=1, most=1000)] = 2


class MetastoreWorkload(Workload[MetastoreOptions]):
    name = "metastore"
    about = "requests of a session in order, events before answers, children, ephemerals, sessions"
    protocol = Interface.METASTORE
    options = MetastoreOptions
    promise = "session-requests-in-order"
    judges = ("metastore",)
    #: A session that is left to end must end while the run lasts.
    wants = {"session_timeout": "2s"}  # noqa: RUF012  # a read-only mapping

    def workers(self, options: MetastoreOptions, node_count: int) -> int:
        return node_count * (2 + options.workers_per_node)

    def generator(self, options: MetastoreOptions, node_count: int) -> Generator:
        def scenario(worker: int, i: int, draw: Draw) -> Offer:
            return Offer(draw.choice(("pipeline", "family", "versions", "watched")), f"s{worker}x{i}")

        writes = draws(lambda worker, i, draw: Offer("write", f"w{draw.below(_SHARED)}", worker * 1_000_000 + i))
        return reserve(
            (node_count, at_rate(options.write_rate, writes)),
            (node_count, at_rate(1.0, _expiries("e", options))),
            (node_count * options.workers_per_node, at_rate(options.rate, draws(scenario))),
        )

    def final_generator(self, options: MetastoreOptions, node_count: int) -> Generator:
        """A few more scenarios once all is healed, so that a run is never without them."""
        last = draws(lambda worker, i, draw: Offer("pipeline", f"f{worker}x{i}"))
        expiries = limit(node_count, _expiries("g", options))
        return reserve((node_count, limit(2 * node_count, last)), (node_count, expiries))

    def client(self, store: Metastores, options: MetastoreOptions, now_ns: Callable[[], int]) -> Client:
        return MetastoreClient(store)


def _expiries(prefix: str, options: MetastoreOptions) -> Generator:
    """Sessions that are left to end, each with its own ephemeral."""
    return draws(lambda worker, i, draw: Offer("expire", f"{prefix}{worker}x{i}", options.ttl // 1_000_000))


class MetastoreClient(SessionClient[Metastores]):
    """One session, and a second one for the scenarios that let theirs end."""

    def __init__(self, store: Metastores) -> None:
        super().__init__(store)
        self._metastore: Metastore | None = None

    async def invoke(self, offer: Offer) -> Completion:
        if self._metastore is None:
            self._metastore = await self._store.metastore(None)
            await self._metastore.wait_until_connected()
        own, key = self._metastore, f"/{offer.key}"
        match offer.f:
            case "pipeline":
                value = await _pipeline(own, key)
            case "watched":
                # By the scenario's name, so that each of the shared znodes is watched about as often.
                value = await _watched(own, f"/w{sum(key.encode()) % _SHARED}")
            case "write":
                value = await _write(own, key, offer.value)
            case "family":
                value = await _family(own, key)
            case "expire":
                value = await self._expire(own, key, int(offer.value))
            case _:
                value = await _versions(own, key)
        return Completion(Outcome.OK, value, session=self._store.session_id)

    async def _expire(self, own: Metastore, key: str, ttl_ms: int) -> Value:
        ending = await self._store.metastore(ttl_ms)
        try:
            _hold(await ending.handle_request(Create(key, b"1", ephemeral=True)))
            child = await ending.handle_request(Create(f"{key}/child", b"1"))
            # One answer is enough to know that the session lived; from here on nothing renews it.
            await asyncio.sleep(_OVER_TTLS * ttl_ms / 1000 + _SLACK_S)
            left = await own.handle_request(GetData(key))
            return [child.refusal, left.refusal is None, await _in_an_ended_session(ending, f"{key}-late")]
        finally:
            await ending.close()


async def _pipeline(own: Metastore, key: str) -> Value:
    _hold(await own.handle_request(Create(key, b"-")))
    requests: list[tuple[str, Request]] = [
        ("write", SetData(key, str(place).encode())) for place in range(_BEFORE_READ)
    ]
    requests[_REFUSED_AT] = ("absent", SetData(f"{key}-absent", b"-"))
    requests.append(("read", GetData(key)))
    arrived: list[Value] = []

    def note(place: int, answer: MetastoreResponse) -> None:
        data = None if answer.data is None else answer.data.decode()
        arrived.append([place, requests[place][0], answer.refusal, answer.position, data])

    await own.handle_requests([request for _, request in requests], note)
    return arrived


async def _watched(own: Metastore, key: str) -> Value:
    arrived: list[list[Value]] = []

    def hear(change: MetastoreChange) -> None:
        arrived.append(["event", change.position])

    def note(place: int, answer: MetastoreResponse) -> None:
        arrived.append(["read", answer.position])

    own.register_path_change_handler(key, hear)
    try:
        (first,) = await own.handle_requests((GetData(key),), note)
        for _ in range(_READS if first.refusal is None else 0):
            await own.handle_requests((GetData(key),), note)
            if any(kind == "event" for kind, _ in arrived):
                break
    finally:
        own.unregister_path_change_handler(key)
    return arrived


async def _write(own: Metastore, key: str, number: int) -> Value:
    data = str(number).encode()
    written = await own.handle_request(SetData(key, data))
    if written.refusal is MetastoreRefusal.NO_NODE:
        _hold(await own.handle_request(Create(key, data)))
    return number


async def _family(own: Metastore, key: str) -> Value:
    _hold(await own.handle_request(Create(key, b"-")))
    _hold(await own.handle_request(Create(f"{key}/child", b"-")))
    deleted = await own.handle_request(Delete(key))
    child = await own.handle_request(GetData(f"{key}/child"))
    return [deleted.refusal, child.refusal is None]


async def _versions(own: Metastore, key: str) -> Value:
    _hold(await own.handle_request(Create(key, b"-")))
    versions = [(await own.handle_request(GetData(key))).version]
    for number in range(3):
        _hold(await own.handle_request(SetData(key, str(number).encode())))
        versions.append((await own.handle_request(GetData(key))).version)
    return list(versions)


async def _in_an_ended_session(ending: Metastore, key: str) -> MetastoreRefusal | None:
    """Write in a session that is over; None when that was carried out. A closed connection refuses as well."""
    try:
        return (await ending.handle_request(Create(key, b"1"))).refusal
    except (Definite, Indefinite):
        return MetastoreRefusal.SESSION_EXPIRED


def _hold(response: MetastoreResponse) -> None:
    """Raise Definite where a step that must succeed was refused: the scenario says nothing then."""
    if response.refusal is not None:
        raise Definite(response.refusal.value)
