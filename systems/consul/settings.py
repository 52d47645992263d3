"""Settings of Consul itself: the keys of its configuration file, with dots between levels (`limits.rpc_rate`).

`consul validate` reads a configuration before the start and names the keys that this release does not know. The values
of a running server come from the part of `/v1/agent/self` that lists what its configuration became; Consul writes the
names differently there (`raft_snapshot_threshold` is RaftSnapshotThreshold) and turns some settings into others.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import MachineError, Refusal
from fencepost.harness.contract.server_settings import AppliedSetting, Reserved, Settings, same_value
from fencepost.harness.runtime.artifacts import Artifacts

CONSUL: Final = "consul"
SETTABLE: Final = {CONSUL: "a key of Consul's configuration file, with dots between levels"}
RESERVED: Final = Reserved(
    options={
        "performance.raft_multiplier": "raft_multiplier",
        "performance.rpc_hold_timeout": "hold",
        "raft_logstore.backend": "log_store",
    },
    reasons={
        "node_name|node_id|data_dir|datacenter|server|server_mode": "identifies the node and its data by it",
        "bootstrap.*|(bind|client|advertise|serf).*addr.*|retry_join.*|start_join.*|ports\\..*|addresses\\..*": "builds"
        " the links of the cluster from it",
        "session_ttl_min": "leases and locks are granted by it",
        "log_.*|enable_syslog": "reads from this log who leads",
        "(tls|auto_encrypt|auto_config|acl|encrypt).*|.*_file|verify_.*": "speaks to Consul without TLS and tokens",
    },
)
_ASK_S: Final = 20.0
_KNOWN_BY_FILE: Final = "its configuration file"


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


def refused_by_binary(artifacts: Artifacts, settings: Settings) -> Refusal | None:
    """Why the binary does not accept these settings; None when it does. An image is not asked before its start."""
    if "image" in artifacts.paths or not settings.get(CONSUL):
        return None
    with tempfile.TemporaryDirectory(prefix="fencepost-consul-") as folder:
        file = Path(folder) / "consul.json"
        file.write_text(json.dumps({"data_dir": folder, "bind_addr": "127.0.0.1", **tree(settings)}), encoding="utf-8")
        command = [artifacts.paths["consul"], "validate", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(f"{command[0]} does not validate a configuration: {error}") from None
    if done.returncode == 0:
        return None
    message = re.sub(r"\s+", " ", f"{done.stdout} {done.stderr}".replace(f"{file}: ", "")).strip()
    return Refusal(
        f"Consul {artifacts.version} says: {message}",
        "the keys stand in the reference of the agent's configuration file",
    )


def applied_settings(node: str, settings: Settings, running: Mapping[str, Any]) -> list[AppliedSetting]:
    """How each setting is known to apply; `running` is what the server says its configuration became."""
    reported = {_plain(name): value for name, value in running.items()}
    applied = []
    for key, value in settings.get(CONSUL, {}).items():
        says = reported.get(_plain(key.rpartition(".")[2]))
        known = says is not None and same_value(_text(says), value)
        applied.append(
            AppliedSetting(
                node=node,
                setting=f"{CONSUL}.{key}",
                value=value,
                says=_text(says) if known else None,
                by="agent/self" if known else _KNOWN_BY_FILE,
            )
        )
    return applied


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _typed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
