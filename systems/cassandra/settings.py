"""Settings of Cassandra itself: keys of cassandra.yaml.

A key that the class `Config` of the release does not name is refused before the start. A running server tells its
settings in a virtual table.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.server_settings import AppliedSetting, Reserved, Settings, unknown
from fencepost.harness.java import class_constants
from fencepost.systems.cassandra.configuration import CASSANDRA
from fencepost.systems.cassandra.wire.connection import Connection
from fencepost.systems.cassandra.wire.frames import Consistency

SETTABLE: Final[Mapping[str, str]] = {CASSANDRA: "a key of cassandra.yaml with a simple value"}
SAMPLES: Final[Settings] = {CASSANDRA: {"concurrent_reads": "12", "hinted_handoff_enabled": "false"}}
_LINKS: Final = "builds the links of the cluster from it"
RESERVED: Final = Reserved(
    options={
        "paxos_variant": "paxos_variant",
        "read_request_timeout": "timeout",
        "write_request_timeout": "timeout",
        "cas_contention_timeout": "contention_timeout",
        "commitlog_sync": "commitlog_sync",
        "commitlog_sync_period": "commitlog_period",
    },
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


def refuse_unknown(jars: Iterable[Path], version: str, settings: Settings) -> Refusal | None:
    """Refuse the first key that the server's configuration does not have; None when it has all."""
    keys = settings.get(CASSANDRA, {})
    own = [jar for jar in jars if "cassandra" in jar.name]
    known = class_constants.constants(own, set(keys), only=_CONFIG) if keys else set()
    missing = next((key for key in keys if key not in known), None)
    if missing is None:
        return None
    return unknown(CASSANDRA, missing, class_constants.names(own, only=_CONFIG), what=f"known to Cassandra {version}")


async def applied_settings(connection: Connection, node: str, settings: Settings) -> list[AppliedSetting]:
    """Each setting as the node itself tells it; raises Definite or Indefinite when it does not answer."""
    applied = []
    for key, value in settings.get(CASSANDRA, {}).items():
        rows = await connection.query(_READ, key.encode(), consistency=Consistency.ONE)
        says = (rows[0]["value"] or b"").decode() if rows else None
        by = _TABLE if rows else "cassandra.yaml"
        applied.append(AppliedSetting(node=node, setting=f"{CASSANDRA}.{key}", value=value, says=says, by=by))
    return applied
