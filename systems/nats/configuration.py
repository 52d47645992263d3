"""A server of NATS as data: its configuration file, its ports, its disk limit.

The clients' account and that of the server's own groups are two, since `/raftz` lists the groups of one account.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fencepost.harness.base.options import Duration
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.nats.options import NatsOptions

CLIENT_PORT: Final = 4222
PEER_PORT: Final = 6222
MONITOR_PORT: Final = 8222
LISTENERS: Final[Mapping[str, int]] = {"client": CLIENT_PORT, "peer": PEER_PORT, "monitor": MONITOR_PORT}
#: The account that owns the stream.
ACCOUNT: Final = "A"
SYSTEM_ACCOUNT: Final = "SYS"
NATS: Final = "nats"

#: Who may ask for changes of the meta group.
SYSTEM_USER: Final = "s"

_NAME: Final = "server_name:"
#: Between the name of a node and the number of its server's life.
_LIFE: Final = "-"
_JETSTREAM: Final = "jetstream."
_FILE: Final = "nats.conf"
_DATA_LIMIT_BYTES: Final = 512 << 20
_STORE_BYTES: Final = 384 << 20


def server_name(node: str, life: int | None = None) -> str:
    """The server's name, which is its identity in every group; `life` tells a wiped server from the one before it."""
    return node if life is None else f"{node}{_LIFE}{life}"


def node_of(server: str) -> str:
    """The node of the server with this name."""
    return server.partition(_LIFE)[0]


def with_life(spec: NodeSpec, life: int) -> NodeSpec:
    """The same server under a new name."""
    lines = str(spec.files[_FILE]).splitlines()
    named = [f"{_NAME} {server_name(spec.name, life)}" if line.startswith(_NAME) else line for line in lines]
    return replace(spec, files={**spec.files, _FILE: "\n".join([*named, ""])})


def spec(place: Place, layout: Layout, artifacts: Artifacts, options: NatsOptions, settings: Settings) -> NodeSpec:
    """One server of the cluster `layout` as data; `settings` are the lines of `--set`."""
    return NodeSpec(
        name=place.name,
        argv=(artifacts.paths["nats-server"], "--config", str(place.folder / _FILE)),
        listeners=LISTENERS,
        files={_FILE: _text(place, layout, options, settings)},
        data_limit_bytes=_DATA_LIMIT_BYTES,
    )


def lines(settings: Settings, store: Sequence[str] = ()) -> list[str]:
    """The lines of `--set`, and the block of JetStream with its own ones behind those of `store`."""
    own = settings.get(NATS, {})
    top = [f"{key}: {value}" for key, value in own.items() if not key.startswith(_JETSTREAM)]
    inner = [f"{key.removeprefix(_JETSTREAM)}: {value}" for key, value in own.items() if key.startswith(_JETSTREAM)]
    return [*top, "jetstream {", *(f"  {line}" for line in (*store, *inner)), "}"]


def _text(place: Place, layout: Layout, options: NatsOptions, settings: Settings) -> str:
    routes = ", ".join(f'"nats://{host}:{port}"' for host, port in (o.peer(PEER_PORT) for o in layout.values()))
    host, port = place.peer(PEER_PORT)
    store = (
        f'store_dir: "{place.data}"',
        "max_memory_store: 16MB",
        f"max_file_store: {_STORE_BYTES}",
        f"sync_interval: {_interval(options.sync_interval)}",
    )
    return "\n".join(
        (
            f"{_NAME} {server_name(place.name)}",
            f'listen: "{place.address}:{CLIENT_PORT}"',
            f'http: "{place.address}:{MONITOR_PORT}"',
            "cluster {",
            "  name: fencepost",
            f'  listen: "{place.address}:{port}"',
            f'  advertise: "{host}:{port}"',
            "  no_advertise: true",
            f"  routes: [{routes}]",
            "}",
            *lines(settings, store),
            "accounts {",
            f'  {ACCOUNT}: {{ jetstream: enabled, users: [ {{ user: "a", password: "a" }} ] }}',
            f'  {SYSTEM_ACCOUNT}: {{ users: [ {{ user: "{SYSTEM_USER}", password: "{SYSTEM_USER}" }} ] }}',
            "}",
            f"system_account: {SYSTEM_ACCOUNT}",
            'no_auth_user: "a"',
            "",
        )
    )


def _interval(interval: Duration) -> str:
    return f'"{interval.ms}ms"' if interval else "always"
