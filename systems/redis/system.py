"""Redis with Sentinel as a system under test: how its nodes start, what they promise, how one node is asked.

A node is one machine of redis.io's "Example 2: basic setup with three boxes": a server, and beside it a sentinel. So a
master that is cut off has lost all replicas and all other sentinels, and only its clients still reach it.

Both keep what they learn in their own configuration file: a sentinel its epoch and whom it knows, a server whose
replica it is. So these files are data: written before the first start alone.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.system import Answer, BaseSystem, Question
from fencepost.harness.coordination import ClientSession, Definite, Indefinite, Interface, ReadMode
from fencepost.harness.history import Claim, Clock
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, NodeSpec, Place
from fencepost.harness.verdict import LeadershipBound, LeaseBound, ResumeBound, Standing, Vocabulary
from fencepost.systems.redis import replicas
from fencepost.systems.redis.client import RedisClient
from fencepost.systems.redis.options import RedisOptions
from fencepost.systems.redis.releases import LIBRARIES, SERVER, RedisReleases
from fencepost.systems.redis.wire import SERVER_PORT, ask_once, connect

SENTINEL_PORT: Final = 26379
#: What sentinels call the servers that they watch.
_GROUP: Final = "fencepost"
#: The sentinel is the child of its server; a node whose server has ended has ended.
_BOTH: Final = '"$0" "$2" --sentinel & exec "$0" "$1"'
#: How long a sentinel tries to be elected; not an option of Redis.
_ELECTION_NS: Final = 10_000_000_000


class Redis(BaseSystem[RedisOptions]):
    """`harness.contract.system.System`."""

    profile = Profile(
        name="redis",
        options=RedisOptions,
        interfaces=frozenset({Interface.STORAGE, Interface.LOCKS, Interface.ELECTION}),
        reads={ReadMode.STRONG: "linearizable", ReadMode.PLAIN: "fresh-from-any-node"},
        listeners={"client": SERVER_PORT, "sentinel": SENTINEL_PORT},
        subjects=("master",),
        vocabulary=Vocabulary(epoch="configuration epoch"),
        sizes=(3, 5),
    )
    releases = RedisReleases()
    guarantees = Path(__file__).with_name("guarantees.toml")
    replica_states = staticmethod(replicas.read)

    @staticmethod
    def spec(place: Place, layout: Layout, artifacts: Artifacts, options: RedisOptions, settings: Settings) -> NodeSpec:
        files = {"redis.conf": server(place, layout, options), "sentinel.conf": sentinel(place, layout, options)}
        libraries = artifacts.paths.get(LIBRARIES)
        return NodeSpec(
            name=place.name,
            argv=("/bin/sh", "-c", _BOTH, artifacts.paths[SERVER], *(str(place.data / name) for name in files)),
            listeners=REDIS.profile.listeners,
            environment={"LD_LIBRARY_PATH": libraries} if libraries else {},
            data_files=files,
        )

    def leadership(self, options: RedisOptions, version: str = "") -> LeadershipBound:
        return LeadershipBound(
            bound_ns=None,
            source="redis.io, Sentinel: a master that is cut off stays one until a sentinel reaches it again",
            standing=Standing.MEASURED,
            # Role and epoch come from two processes; but no sentinel names two servers in one epoch.
            one_leader_per_epoch=True,
            superseded_acknowledges_nothing=True,
        )

    def lease_bound(self, options: RedisOptions) -> LeaseBound:
        return LeaseBound(
            extra_ns=1_000_000_000,
            source="redis.io, EXPIRE: a key ends 0 to 1 ms late, by the wall clock; plus 1 s for a busy machine",
            clocks=(Clock.WALL,),
        )

    def resume_bound(self, options: RedisOptions) -> ResumeBound:
        return ResumeBound(
            bound_ns=options.down_after + _ELECTION_NS,
            source="sentinel.c: a master is down after down-after-milliseconds, and a sentinel is elected within "
            "sentinel_election_timeout, 10 s, or gives up; one attempt, since the next follows failover-timeout",
        )

    async def ready(self, node: Node) -> bool:
        """Whether the server has its data, and the sentinel answers."""
        try:
            role, _ = await _ask(node.place)
        except (Definite, Indefinite, TimeoutError):
            return False
        return role[0] == b"master" or role[3] == b"connected"

    async def healthy(self, layout: Layout) -> str | None:
        answers = await asyncio.gather(*(_ask(place) for place in layout.values()), return_exceptions=True)
        masters, named = [], set()
        for (name, place), answer in zip(layout.items(), answers, strict=True):
            if isinstance(answer, BaseException):
                return f"{name} does not answer: {answer or type(answer).__name__}"
            role, view = answer
            if role[0] == b"master":
                masters.append(_address(place))
            elif role[3] != b"connected":
                return f"{name} is a replica that is not in contact with its master ({role[3].decode()})"
            named.add((view["ip"], view["port"]))
            others = len(layout) - 1
            known = view["num-slaves"], view["num-other-sentinels"]
            if view["flags"] != "master" or known != (str(others), str(others)):
                return f"the sentinel of {name} sees a {view['flags']} with {known[0]} replicas, {known[1]} sentinels"
        if len(masters) != 1 or named != set(masters):
            return f"{len(masters)} masters, and sentinels name {len(named)}"
        return None

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: RedisOptions | None = None
    ) -> ClientSession:
        connection = await connect(*place.dial(SERVER_PORT), connect_timeout_s)
        return RedisClient(connection, options or RedisOptions())

    def question(self, place: Place, subject: str) -> Question:
        return RedisQuestion(place)


class RedisQuestion:
    """The role by the server's own word, and the epoch by that of the sentinel beside it.

    A server goes on as master in the epoch in which its sentinel last named it, even when the sentinel has learned of
    another master since: it waits for seconds before it makes the old one a replica.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._epoch: int | None = None

    async def ask(self) -> Answer:
        role, view = await _ask(self._place)
        leads, names_it = role[0] == b"master", (view["ip"], view["port"]) == _address(self._place)
        if leads and names_it:
            self._epoch = int(view["config-epoch"])
        elif not leads:
            self._epoch = None
        return Answer(
            claims=Claim.YES if leads else Claim.NO,
            source="ROLE and SENTINEL MASTER",
            epoch=self._epoch,
            leader=self._place.name if leads else None,
            detail=f"its sentinel names {view['ip']} in epoch {view['config-epoch']}",
        )

    async def close(self) -> None:
        """Do nothing: nothing is kept between questions."""


async def _ask(place: Place) -> tuple[list[bytes], Mapping[str, str]]:
    """What ROLE answers, and the sentinel's view; raises Definite, Indefinite or TimeoutError."""
    role, view = await asyncio.gather(
        ask_once(place.dial(SERVER_PORT), "ROLE"),
        ask_once(place.dial(SENTINEL_PORT), "SENTINEL", "MASTER", _GROUP),
    )
    texts = [text.decode() for text in view]
    return role, dict(zip(texts[::2], texts[1::2], strict=True))


def _address(place: Place) -> tuple[str, str]:
    """How other nodes, and so their sentinels, name this server."""
    host, port = place.peer(SERVER_PORT)
    return host, str(port)


def server(place: Place, layout: Layout, options: RedisOptions) -> str:
    """The configuration of a server; the first node begins as the master."""
    first = next(iter(layout.values()))
    host, port = _address(place)
    lines = [
        f"bind {place.address}",
        f"port {SERVER_PORT}",
        "protected-mode no",
        f"dir {place.data}",
        f"replica-announce-ip {host}",
        f"replica-announce-port {port}",
        # Redis's own delay of 5 s would decide how long a cluster takes to start.
        "repl-diskless-sync-delay 0",
        f"min-replicas-to-write {options.min_replicas_to_write}",
        f"min-replicas-max-lag {options.min_replicas_max_lag.ms // 1000}",
        "appendonly no" if options.persistence == "rdb" else f"appendonly yes\nappendfsync {options.persistence}",
    ]
    if place.name != first.name:
        lines.append("replicaof {} {}".format(*_address(first)))
    return "\n".join((*lines, ""))


def sentinel(place: Place, layout: Layout, options: RedisOptions) -> str:
    """The configuration of a sentinel as it would write it itself once it has found the others."""
    first = next(iter(layout.values()))
    host, port = place.peer(SENTINEL_PORT)
    lines = [
        f"bind {place.address}",
        f"port {SENTINEL_PORT}",
        "protected-mode no",
        f"dir {place.data}",
        f"sentinel myid {_id(place)}",
        f"sentinel announce-ip {host}",
        f"sentinel announce-port {port}",
        "sentinel monitor {} {} {} {}".format(_GROUP, *_address(first), len(layout) // 2 + 1),
        f"sentinel down-after-milliseconds {_GROUP} {options.down_after.ms}",
        f"sentinel failover-timeout {_GROUP} {options.failover_timeout.ms}",
    ]
    for other in layout.values():
        if other.name != first.name:
            lines.append("sentinel known-replica {} {} {}".format(_GROUP, *_address(other)))
        if other.name != place.name:
            lines.append("sentinel known-sentinel {} {} {} {}".format(_GROUP, *other.peer(SENTINEL_PORT), _id(other)))
    return "\n".join((*lines, ""))


def _id(place: Place) -> str:
    return hashlib.sha1(place.name.encode(), usedforsecurity=False).hexdigest()


REDIS: Final = Redis()
