"""Settings of Consul itself: the keys of its configuration file, with dots between levels (`limits.rpc_rate`).

`consul validate` reads a configuration before the start and names the keys that this release does not know. The values
of a running server come from the part of `/v1/agent/self` that lists what its configuration became; Consul writes the
names differently there (`raft_snapshot_threshold` is RaftSnapshotThreshold) and turns some settings into others.
"""

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.server_settings import (
    AppliedSetting,
    Reserved,
    ServerSettings,
    Settings,
    applied,
    as_text,
    rejection,
    same_value,
)
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node
from fencepost.systems.consul.agent import running_configuration
from fencepost.systems.consul.configuration import CONSUL, tree
from fencepost.systems.consul.options import ConsulOptions

_RESERVED: Final = Reserved.beside(
    ConsulOptions,
    reasons={
        "node_name|node_id|data_dir|datacenter|server|server_mode": "identifies the node and its data by it",
        "bootstrap.*|(bind|client|advertise|serf).*addr.*|retry_join.*|start_join.*|ports\\..*|addresses\\..*": "builds"
        " the links of the cluster from it",
        "session_ttl_min": "leases and locks are granted by it",
        "log_.*|enable_syslog": "reads from this log who leads",
        "(tls|auto_encrypt|auto_config|acl|encrypt).*|.*_file|verify_.*": "speaks to Consul without TLS and tokens",
    },
)
_KNOWN_BY_FILE: Final = "its configuration file"


def _refuse_unknown(artifacts: Artifacts, settings: Settings) -> Refusal | None:
    """Why the binary does not accept these settings; None when it does. An image is not asked before its start."""
    if "image" in artifacts.paths or not settings.get(CONSUL):
        return None
    with tempfile.TemporaryDirectory(prefix="fencepost-consul-") as folder:
        file = Path(folder) / "consul.json"
        file.write_text(json.dumps({"data_dir": folder, "bind_addr": "127.0.0.1", **tree(settings)}), encoding="utf-8")
        output = rejection([artifacts.paths["consul"], "validate", str(file)])
    if output is None:
        return None
    message = re.sub(r"\s+", " ", output.replace(f"{file}: ", ""))
    return Refusal(
        f"Consul {artifacts.version} says: {message}",
        "the keys stand in the reference of the agent's configuration file",
    )


async def _applied(node: Node, settings: Settings) -> list[AppliedSetting]:
    return compared(node, settings, await running_configuration(node.place))


def compared(node: Node, settings: Settings, running: Mapping[str, Any]) -> list[AppliedSetting]:
    """How each setting is known to apply; `running` is what the server says its configuration became."""
    reported = {_plain(name): as_text(value) for name, value in running.items() if value is not None}

    def of(key: str, value: str) -> AppliedSetting:
        says = reported.get(_plain(key.rpartition(".")[2]))
        if says is None or not same_value(says, value):
            return applied(CONSUL, node, key, value, by=_KNOWN_BY_FILE)
        return applied(CONSUL, node, key, value, says=says, by="agent/self")

    return [of(key, value) for key, value in settings.get(CONSUL, {}).items()]


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


SETTINGS: Final[ServerSettings[ConsulOptions]] = ServerSettings(
    settable={CONSUL: "a key of Consul's configuration file, with dots between levels"},
    samples={CONSUL: {"raft_snapshot_threshold": "8192"}},
    refuse=lambda of, key, options: _RESERVED.refuse(key),
    refuse_unknown=_refuse_unknown,
    applied=_applied,
)
