"""A member of etcd as data: its command line, its ports, its disk limit."""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.etcd.options import EtcdOptions
from fencepost.systems.etcd.settings import flags as own_flags

CLIENT_PORT: Final = 2379
PEER_PORT: Final = 2380
LISTENERS: Final[Mapping[str, int]] = {"client": CLIENT_PORT, "peer": PEER_PORT}

#: For the data directory: etcd allocates two segments of 64 MiB for its write-ahead log; the rest is for the store.
_DATA_LIMIT_BYTES: Final = 512 << 20
_STORE_QUOTA_BYTES: Final = 192 << 20


def spec(place: Place, layout: Layout, artifacts: Artifacts, options: EtcdOptions, settings: Settings) -> NodeSpec:
    """One member of the cluster `layout` as data; `settings` are the flags of `--set`."""
    cluster = ",".join(f"{other.name}={url(*other.peer(PEER_PORT))}" for other in layout.values())
    return NodeSpec(
        name=place.name,
        argv=_argv(artifacts.paths["etcd"], place, cluster, options, own_flags(settings)),
        listeners=LISTENERS,
        data_limit_bytes=_DATA_LIMIT_BYTES,
    )


def _argv(binary: str, place: Place, cluster: str, options: EtcdOptions, more: Mapping[str, str]) -> tuple[str, ...]:
    client, peer = url(place.address, CLIENT_PORT), url(*place.peer(PEER_PORT))
    flags = {
        "name": place.name,
        "data-dir": str(place.data / "etcd"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        # An address: etcd does not listen on a name.
        "listen-peer-urls": url(place.address, place.peer(PEER_PORT)[1]),
        "initial-advertise-peer-urls": peer,
        "initial-cluster": cluster,
        # Ignored once there is data, so a restart has the same command line.
        "initial-cluster-state": "new",
        "initial-cluster-token": "fencepost",
        "heartbeat-interval": str(options.heartbeat.ms),
        "election-timeout": str(options.election.ms),
        "snapshot-count": str(options.snapshot_count),
        "quota-backend-bytes": str(_STORE_QUOTA_BYTES),
        "max-wals": "2",
        "max-snapshots": "2",
        # Fixed, since the epoch of a leader is read from this log.
        "logger": "zap",
        "log-level": "info",
        "log-outputs": "stderr",
    }
    return (binary, *(f"--{flag}={value}" for flag, value in {**flags, **more}.items()))


def url(host: str, port: int) -> str:
    return f"http://{host}:{port}"
