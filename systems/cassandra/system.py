"""Cassandra as a system under test: how its servers start, what it promises, how one node is asked.

No node leads: every node coordinates the requests of its own clients. So nobody is asked who leads, and faults cannot
follow a leader.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.reported_version import minor
from fencepost.harness.contract.server_settings import NO_SETTINGS, AppliedSetting, Settings
from fencepost.harness.contract.servers import ReportedTime
from fencepost.harness.contract.system import BaseSystem
from fencepost.harness.coordination import Definite, Indefinite, Interface, KeyValue, ReadMode, Session
from fencepost.harness.history import Clock
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, NodeSpec, Place
from fencepost.harness.verdict import LeaseBound
from fencepost.systems.cassandra import configuration, schema, versions
from fencepost.systems.cassandra import settings as server_settings
from fencepost.systems.cassandra.client import CassandraClient
from fencepost.systems.cassandra.configuration import CLIENT_PORT
from fencepost.systems.cassandra.guarantees import lease_bound, unpromised
from fencepost.systems.cassandra.kip_column import COLUMN
from fencepost.systems.cassandra.options import CassandraOptions
from fencepost.systems.cassandra.releases import CassandraReleases
from fencepost.systems.cassandra.wire.connection import Connection, connect
from fencepost.systems.cassandra.wire.frames import Consistency

#: One attempt to ask a node.
_ATTEMPT_S: Final = 2.0
_MS_NS: Final = 1_000_000
#: The server ends itself after it.
_FATAL: Final = re.compile(
    r"(?:ERROR .*)?Exception .*encountered during startup:? ?(.*)|Fatal (?:error|configuration).*"
)


class Cassandra(BaseSystem[CassandraOptions]):
    """`harness.contract.system.System`."""

    profile: Final = Profile(
        name="cassandra",
        java=True,
        options=CassandraOptions,
        interfaces=frozenset({Interface.STORAGE, Interface.ELECTION, Interface.MEMBERSHIP, Interface.LISTS}),
        # In Cassandra's words: SERIAL, LOCAL_SERIAL, QUORUM and ONE.
        reads={
            ReadMode.STRONG: "linearizable",
            ReadMode.LOCAL: "linearizable",
            ReadMode.QUORUM: "fresh-by-quorum",
            ReadMode.PLAIN: "fresh-from-any-node",
        },
        listeners=configuration.LISTENERS,
        subjects=(),
        register_checkers=("late-effects",),
        # Transactions over several rows are Accord's alone.
        wants={Interface.LISTS: {"transactions": "accord"}},
        sizes=(1, 3, 5),
    )
    releases: Final = CassandraReleases()
    guarantees = Path(__file__).with_name("guarantees.toml")
    column: Final = COLUMN

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: CassandraOptions, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        return [configuration.spec(place, layout, artifacts, options, settings) for place in layout.values()]

    def lease_bound(self, options: CassandraOptions) -> LeaseBound:
        """`harness.contract.leadership.BoundsLeases`."""
        return lease_bound(options)

    def unpromised(self, settings: Settings, options: CassandraOptions) -> Mapping[str, str]:
        """`harness.contract.conditions.QualifiesPromises`."""
        return unpromised(options)

    async def ready(self, node: Node) -> bool:
        """Whether the node answers, and knows all others: the number of replicas is taken from that."""
        async with asyncio.timeout(_ATTEMPT_S), _asking(node.place) as connection:
            return await schema.peers(connection) == configuration.nodes_of(node.spec) - 1

    async def healthy(self, layout: Layout) -> str | None:
        """Check that every node knows all others, has their schema, and reads from all of them."""
        answers = await asyncio.gather(*(_wrong(place, len(layout)) for place in layout.values()))
        return "; ".join(f"{node}: {wrong}" for node, wrong in zip(layout, answers, strict=True) if wrong) or None

    async def open_client(
        self, place: Place, *, connect_timeout_s: float, options: CassandraOptions | None = None
    ) -> KeyValue:
        return CassandraClient(
            await connect(*place.dial(CLIENT_PORT), connect_timeout_s), options or CassandraOptions()
        )

    async def prepare(self, client: Session, keys: tuple[str, ...]) -> None:
        """`harness.contract.servers.PreparesKeys`."""
        if not isinstance(client, CassandraClient):
            raise TypeError(f"expected a client that this system opened, got {type(client).__name__}")
        await client.prepare(keys)

    async def reported_time(self, place: Place, clock: Clock) -> ReportedTime | None:
        """`harness.contract.servers.TellsTime`: the wall clock, in milliseconds."""
        if clock is not Clock.WALL:
            return None
        async with _asking(place) as connection:
            try:
                rows = await connection.query(
                    "SELECT currentTimestamp() AS now FROM system.local", consistency=Consistency.ONE
                )
            except (Definite, Indefinite) as error:
                raise ValueError(str(error)) from None
        return ReportedTime(int.from_bytes(rows[0]["now"] or b"") * _MS_NS, _MS_NS, "currentTimestamp()")

    @property
    def settable(self) -> Mapping[str, str]:
        """`harness.contract.server_settings.TakesSettings`."""
        return server_settings.SETTABLE

    @property
    def sample_settings(self) -> Settings:
        """`harness.contract.server_settings.SamplesSettings`."""
        return server_settings.SAMPLES

    def refuse_setting(self, of: str, key: str, options: CassandraOptions) -> Refusal | None:
        return server_settings.RESERVED.refuse(key)

    def refuse_settings(self, artifacts: Artifacts, settings: Settings) -> Refusal | None:
        if not configuration.is_image(artifacts):
            jars = list(map(Path, artifacts.paths["classpath"].split(":")))
        elif artifacts.version in versions.RECORDED.known():
            jars = versions.jars(artifacts.version)
        else:
            # The jars cannot be seen from here; a server that does not know a key says so and ends.
            return None
        return server_settings.refuse_unknown(jars, artifacts.version, settings)

    async def applied_settings(self, node: Node, artifacts: Artifacts, settings: Settings) -> list[AppliedSetting]:
        async with asyncio.timeout(_ATTEMPT_S), _asking(node.place) as connection:
            return await server_settings.applied_settings(connection, node.name, settings)

    async def reported_version(self, node: Node, *, log_from: int) -> str:
        """`harness.contract.reported_version.TellsVersion`."""
        async with _asking(node.place) as connection:
            rows = await connection.query("SELECT release_version FROM system.local", consistency=Consistency.ONE)
        return (rows[0]["release_version"] or b"").decode()

    def version_of(self, node: Node, artifacts: Artifacts) -> str:
        return artifacts.version

    def refuse_change(
        self, start: str, to: str, *, back: bool, options: CassandraOptions, settings: Settings
    ) -> Refusal | None:
        """Allow changes of the patch release, and forth to the next one; files of a later one are not read back."""
        if not back or minor(start) == minor(to):
            return None
        return Refusal(
            f"Cassandra {start} does not read the files that {to} has written",
            "leave back= out, or name a patch release",
        )

    def fatal_line(self, line: str) -> str | None:
        """`harness.contract.servers.LogsFailures`."""
        match = _FATAL.search(line)
        return (match.group(1) or line.strip()) if match else None


@contextlib.asynccontextmanager
async def _asking(place: Place) -> AsyncIterator[Connection]:
    """A connection of its own, for a short question."""
    connection = await connect(*place.dial(CLIENT_PORT), _ATTEMPT_S)
    try:
        yield connection
    finally:
        connection.close()


async def _wrong(place: Place, nodes: int) -> str | None:
    """What is wrong with the cluster as this node sees it; None when nothing is."""
    try:
        async with asyncio.timeout(_ATTEMPT_S * 2), _asking(place) as connection:
            return await schema.wrong(connection, nodes)
    except TimeoutError:
        return f"it does not answer within {_ATTEMPT_S * 2:g} s"
    except (Definite, Indefinite) as error:
        return str(error)


CASSANDRA: Final = Cassandra()
