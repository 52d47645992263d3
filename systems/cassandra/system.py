"""Cassandra as a system under test: how its servers start, what it promises, how one node is asked.

No node leads: every node coordinates the requests of its own clients. So nobody is asked who leads, and faults cannot
follow a leader.
"""

import asyncio
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.logs import LogTable
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.releases import Versions, minor
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.system import BaseSystem, ReportedTime
from fencepost.harness.coordination import ClientSession, Definite, Indefinite, Interface, ReadMode
from fencepost.harness.history import Clock
from fencepost.harness.runtime.node import Layout, Node, Place
from fencepost.systems.cassandra import configuration, replicas, schema
from fencepost.systems.cassandra.asking import ATTEMPT_S, asking
from fencepost.systems.cassandra.client import SESSIONS
from fencepost.systems.cassandra.configuration import CLIENT_PORT
from fencepost.systems.cassandra.guarantees import lease_bound, resume_bound, unpromised
from fencepost.systems.cassandra.maintenance import REQUESTS
from fencepost.systems.cassandra.options import CassandraOptions
from fencepost.systems.cassandra.releases import RELEASES
from fencepost.systems.cassandra.settings import SETTINGS
from fencepost.systems.cassandra.wire.connection import connect
from fencepost.systems.cassandra.wire.frames import Consistency

_MS_NS: Final = 1_000_000
#: The server ends itself after it.
_LOGS: Final = LogTable(
    failed={
        r"(?:ERROR .*)?Exception .*encountered during startup:? ?(.*)|Fatal (?:error|configuration).*": (
            lambda match: match[1] or match.string.strip()
        )
    }
)


async def _reported_version(node: Node, log_from: int) -> str:
    async with asking(node.place) as connection:
        rows = await connection.query("SELECT release_version FROM system.local", consistency=Consistency.ONE)
    return (rows[0]["release_version"] or b"").decode()


def _refuse_change(start: str, to: str, back: bool, settings: Settings) -> Refusal | None:
    """Allow changes of the patch release, and forth to the next one; files of a later one are not read back."""
    if not back or minor(start) == minor(to):
        return None
    return Refusal(
        f"Cassandra {start} does not read the files that {to} has written",
        "leave back= out, or name a patch release",
    )


class Cassandra(BaseSystem[CassandraOptions]):
    """`harness.contract.system.System`."""

    profile = Profile(
        name="cassandra",
        java=True,
        options=CassandraOptions,
        interfaces=frozenset(SESSIONS),
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
    releases = RELEASES
    guarantees = Path(__file__).with_name("guarantees.toml")
    spec = staticmethod(configuration.spec)
    settings = SETTINGS
    maintenance = REQUESTS
    logs = _LOGS
    lease_bound = staticmethod(lease_bound)
    replica_states = staticmethod(replicas.read)
    resume_bound = staticmethod(resume_bound)
    unpromised = staticmethod(unpromised)
    versions = Versions(reported=_reported_version, refuse_change=_refuse_change)

    async def ready(self, node: Node) -> bool:
        """Whether the node answers, and knows all others: the number of replicas is taken from that."""
        async with asyncio.timeout(ATTEMPT_S), asking(node.place) as connection:
            return await schema.peers(connection) == configuration.nodes_of(node.spec) - 1

    async def healthy(self, layout: Layout) -> str | None:
        """Check that every node knows all others, has their schema, and reads from all of them."""
        answers = await asyncio.gather(*(_wrong(place, len(layout)) for place in layout.values()))
        return "; ".join(f"{node}: {wrong}" for node, wrong in zip(layout, answers, strict=True) if wrong) or None

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: CassandraOptions | None = None
    ) -> ClientSession:
        connection = await connect(*place.dial(CLIENT_PORT), connect_timeout_s)
        return SESSIONS[interface](connection, options or CassandraOptions())

    async def reported_time(self, place: Place, clock: Clock) -> ReportedTime | None:
        """Ask for the wall clock, in milliseconds."""
        if clock is not Clock.WALL:
            return None
        async with asking(place) as connection:
            try:
                rows = await connection.query(
                    "SELECT currentTimestamp() AS now FROM system.local", consistency=Consistency.ONE
                )
            except (Definite, Indefinite) as error:
                raise ValueError(str(error)) from None
        return ReportedTime(int.from_bytes(rows[0]["now"] or b"") * _MS_NS, _MS_NS, "currentTimestamp()")


async def _wrong(place: Place, nodes: int) -> str | None:
    """What is wrong with the cluster as this node sees it; None when nothing is."""
    try:
        async with asyncio.timeout(ATTEMPT_S * 2), asking(place) as connection:
            return await schema.wrong(connection, nodes)
    except TimeoutError:
        return f"it does not answer within {ATTEMPT_S * 2:g} s"
    except (Definite, Indefinite) as error:
        return str(error)


CASSANDRA: Final = Cassandra()
