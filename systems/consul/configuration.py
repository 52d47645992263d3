"""A server of Consul as data: its configuration file, its ports, its disk limit."""

import json
from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.releases import is_before
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.consul.options import SESSION_TTL_MIN, ConsulOptions

CONSUL: Final = "consul"
CLIENT_PORT: Final = 8500
SERVER_PORT: Final = 8300
SERF_PORT: Final = 8301
LISTENERS: Final[Mapping[str, int]] = {"client": CLIENT_PORT, "server": SERVER_PORT, "serf": SERF_PORT}

_FILE: Final = "consul.json"
_DATA_LIMIT_BYTES: Final = 512 << 20
_NO_WAL_BEFORE: Final = (1, 15)
_NO_GRPC_TLS_BEFORE: Final = (1, 14)


def spec(place: Place, layout: Layout, artifacts: Artifacts, options: ConsulOptions, settings: Settings) -> NodeSpec:
    """One server of the cluster `layout` as data; `settings` are merged over its configuration."""
    configuration = merged(server(place, layout, artifacts.version, options), tree(settings))
    return NodeSpec(
        name=place.name,
        argv=(artifacts.paths["consul"], "agent", "-config-file", str(place.folder / _FILE)),
        listeners=LISTENERS,
        files={_FILE: json.dumps(configuration, indent=1)},
        data_limit_bytes=_DATA_LIMIT_BYTES,
    )


def tree(settings: Settings) -> dict[str, Any]:
    """The settings as levels of the configuration file; a value that reads as JSON is taken as JSON."""
    root: dict[str, Any] = {}
    for key, value in settings.get(CONSUL, {}).items():
        *levels, last = key.split(".")
        place = root
        for level in levels:
            place = place.setdefault(level, {})
        place[last] = _typed(value)
    return root


def _typed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def server(place: Place, layout: Layout, version: str, options: ConsulOptions) -> dict[str, Any]:
    """The configuration of one server of this release; raises UsageError for what it cannot do."""
    ports = {"http": CLIENT_PORT, "server": SERVER_PORT, "serf_lan": SERF_PORT, "serf_wan": -1, "dns": -1, "grpc": -1}
    if not is_before(version, _NO_GRPC_TLS_BEFORE):
        ports["grpc_tls"] = -1
    configuration: dict[str, Any] = {
        "server": True,
        "bootstrap_expect": len(layout),
        "node_name": place.name,
        "data_dir": str(place.data / "consul"),
        "bind_addr": place.address,
        "client_addr": place.address,
        "retry_join": [other.address for other in layout.values() if other.name != place.name],
        # Consul's own default of 30 s would decide how long a cluster takes to start.
        "retry_interval": "50ms",
        "rejoin_after_leave": True,
        "ports": ports,
        "performance": {
            "raft_multiplier": options.raft_multiplier,
            "rpc_hold_timeout": f"{options.hold.ms}ms",
        },
        "session_ttl_min": f"{SESSION_TTL_MIN.ms}ms",
        # A server that gossip declares failed would otherwise be removed from raft while it is cut off.
        "autopilot": {"cleanup_dead_servers": False},
        # All clients of a run have one address.
        "limits": {"http_max_conns_per_client": 5000},
        "connect": {"enabled": False},
        # Otherwise servers write to raft when nobody asks them to.
        "disable_coordinates": True,
        "disable_update_check": True,
        # Fixed, since the epoch of a leader is read from this log.
        "log_level": "info",
    }
    if options.log_store != "boltdb":
        if is_before(version, _NO_WAL_BEFORE):
            raise UsageError(
                f"-O log_store={options.log_store}: Consul {version} keeps raft's log in boltdb alone",
                hint="choose release 1.15 or later, or leave log_store out",
            )
        configuration["raft_logstore"] = {"backend": options.log_store}
    return configuration


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`below`, with the values of `above` in the place of its own, level by level."""
    both = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            both[key] = merged(below[key], above[key])
    return both
