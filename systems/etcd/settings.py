"""Settings of etcd itself: the flags of its command line.

etcd reads its whole command line before it handles `--version`, so the binary shows before the start whether it knows
every flag and accepts every value. The values of a running server come from the line that it logs at its start, else
from the command line of its process.
"""

import json
import re
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
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.node import Node
from fencepost.systems.etcd.options import EtcdOptions

ETCD: Final = "etcd"
_RESERVED: Final = Reserved.beside(
    EtcdOptions,
    reasons={
        "name|data-dir|wal-dir": "identifies the node and its data by it",
        "(initial|listen|advertise|discovery)-.*|force-new-cluster|proxy|discovery": "builds the links of the cluster"
        " from it",
        "config-file": "with a file etcd would ignore all other flags",
        "log-.*|logger": "reads from this log who leads",
        "(peer|client)-.*|cert-file|key-file|trusted-ca-file|auto-tls": "speaks to etcd without TLS",
        "version|help|h": "with it etcd would end at once",
    },
)
#: Flags that an option of fencepost also sets; only one of the two can hold.
_TWICE: Final = {"snapshot-count": "snapshot_count"}
REFUSED: Final = r"flag provided but not defined: -*\S+|invalid value .* for flag .*"
_STARTING: Final = '"msg":"starting an etcd server"'


def _refuse(of: str, key: str, options: EtcdOptions) -> Refusal | None:
    option = _TWICE.get(key)
    if option is not None and getattr(options, option) != getattr(EtcdOptions(), option):
        return Refusal(f"-O {option}={getattr(options, option)} sets it as well", "leave one of them out")
    return _RESERVED.refuse(key)


def flags(settings: Settings) -> Mapping[str, str]:
    return settings.get(ETCD, {})


def _refuse_unknown(artifacts: Artifacts, settings: Settings) -> Refusal | None:
    """Why the binary does not accept these flags; None when it does. An image is not asked before its start."""
    if "image" in artifacts.paths or not flags(settings):
        return None
    binary = artifacts.paths["etcd"]
    output = rejection([binary, *(f"--{key}={value}" for key, value in flags(settings).items()), "--version"])
    if output is None:
        return None
    refusal = re.search(REFUSED, output)
    message = refusal.group() if refusal else output.splitlines()[0]
    return Refusal(f"etcd {artifacts.version} says: {message}", f"its flags are listed by: {Path(binary).name} --help")


async def _applied(node: Node, settings: Settings) -> list[AppliedSetting]:
    """How each flag is known to apply: from the line logged at the start, else from the process's command line.

    Raises ValueError when a flag is missing in the process's command line.
    """
    reported = _configuration_at_start(node.log)
    given = processes.command_line(node.pid) if node.pid is not None else []

    def of(key: str, value: str) -> AppliedSetting:
        if key in reported and same_value(as_text(reported[key]), value):
            return applied(ETCD, node, key, value, says=as_text(reported[key]), by="its log")
        if given and f"--{key}={value}" not in given:
            raise ValueError(f"{node.name}: --{key}={value} is not in the command line of its process")
        return applied(ETCD, node, key, value, by="command line of its process" if given else "command line, unread")

    return [of(key, value) for key, value in flags(settings).items()]


def _configuration_at_start(log: Path) -> dict[str, Any]:
    """The configuration that the server logged at its newest start; empty when there is none."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if _STARTING in line]
        configuration = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return configuration if isinstance(configuration, dict) else {}


SETTINGS: Final = ServerSettings(
    settable={ETCD: "a flag of etcd's command line, without its dashes (etcd --help)"},
    samples={ETCD: {"snapshot-count": "5000"}},
    refuse=_refuse,
    refuse_unknown=_refuse_unknown,
    applied=_applied,
)
