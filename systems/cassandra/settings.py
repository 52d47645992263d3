"""Settings of Cassandra itself: keys of cassandra.yaml.

A key that the class `Config` of the release does not name is refused before the start. A running server tells its
settings in a virtual table.
"""

import asyncio
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.server_settings import AppliedSetting, Reserved, ServerSettings, Settings, applied
from fencepost.harness.java import class_constants
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node
from fencepost.systems.cassandra.asking import ATTEMPT_S, asking
from fencepost.systems.cassandra.configuration import CASSANDRA
from fencepost.systems.cassandra.options import CassandraOptions
from fencepost.systems.cassandra.releases import JARS
from fencepost.systems.cassandra.wire.frames import Consistency

_LINKS: Final = "builds the links of the cluster from it"
_RESERVED: Final = Reserved.beside(
    CassandraOptions,
    reasons={
        r".*_directory|.*_directories": "copies, damages and measures the data where it puts them",
        r"listen_.*|rpc_.*|broadcast_.*|storage_port|ssl_storage_port|native_transport_port.*|seed_provider": _LINKS,
        r"cluster_name|num_tokens|initial_token|auto_bootstrap|partitioner|.*snitch": "gives every node its share",
        r"authenticator|authorizer|role_manager|.*encryption_options": "connects without a password and without TLS",
    },
)
_CONFIG: Final = "org/apache/cassandra/config/Config.class"
_READ: Final = "SELECT value FROM system_views.settings WHERE name = ?"
_TABLE: Final = "system_views.settings"


def _refuse_unknown(artifacts: Artifacts, settings: Settings) -> Refusal | None:
    """Refuse a key that the server's configuration does not have; a server in an unknown image says so and ends."""
    keys = {key: (key,) for key in settings.get(CASSANDRA, {})}
    own = [jar for jar in JARS.of(artifacts) if "cassandra" in jar.name] if keys else []
    return class_constants.refuse_unknown(
        CASSANDRA, keys, own, what=f"known to Cassandra {artifacts.version}", only=_CONFIG
    )


async def _applied(node: Node, settings: Settings) -> list[AppliedSetting]:
    """Each setting as the node itself tells it; raises Definite or Indefinite when it does not answer."""
    made = []
    async with asyncio.timeout(ATTEMPT_S), asking(node.place) as connection:
        for key, value in settings.get(CASSANDRA, {}).items():
            rows = await connection.query(_READ, key.encode(), consistency=Consistency.ONE)
            says = (rows[0]["value"] or b"").decode() if rows else None
            made.append(applied(CASSANDRA, node, key, value, says=says, by=_TABLE if rows else "cassandra.yaml"))
    return made


SETTINGS: Final[ServerSettings[CassandraOptions]] = ServerSettings(
    settable={CASSANDRA: "a key of cassandra.yaml with a simple value"},
    samples={CASSANDRA: {"concurrent_reads": "12", "hinted_handoff_enabled": "false"}},
    refuse=lambda of, key, options: _RESERVED.refuse(key),
    refuse_unknown=_refuse_unknown,
    applied=_applied,
)
