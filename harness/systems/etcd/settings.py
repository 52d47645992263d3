"""Settings of etcd itself: the flags of its command line.

etcd reads its whole command line before it looks at `--version`, so the binary itself says before the start whether it
knows every flag and accepts every value. What a running server has is read off the line that it writes when it starts,
else off the command line of its process.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import MachineError, Refusal
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.node import Node
from fencepost.harness.systems.contract.server_settings import Reserved, Settings, Taken, same
from fencepost.harness.systems.etcd.options import EtcdOptions

ETCD: Final = "etcd"
SETTABLE: Final = {ETCD: "a flag of etcd's command line, without its dashes (etcd --help)"}
RESERVED: Final = Reserved(
    options={"heartbeat-interval": "heartbeat", "election-timeout": "election"},
    reasons={
        "name|data-dir|wal-dir": "knows the node and its data by it",
        "(initial|listen|advertise|discovery)-.*|force-new-cluster|proxy|discovery": "lays every link of the cluster"
        " by it",
        "config-file": "with a file etcd would leave all other flags out of account",
        "log-.*|logger": "reads off this log who leads",
        "(peer|client)-.*|cert-file|key-file|trusted-ca-file|auto-tls": "speaks to etcd without TLS",
        "version|help|h": "with it etcd would end at once",
    },
)
#: An option of ours says the same; both at once could not both hold.
_TWICE: Final = {"snapshot-count": "snapshot_count"}
_REFUSED: Final = re.compile(r"flag provided but not defined: -*\S+|invalid value .* for flag .*")
_STARTING: Final = '"msg":"starting an etcd server"'
_ASK_S: Final = 20.0


def refuse(key: str, options: EtcdOptions) -> Refusal | None:
    """`harness.systems.contract.server_settings.TakesSettings.refuse_setting`."""
    option = _TWICE.get(key)
    if option is not None and getattr(options, option) != getattr(EtcdOptions(), option):
        return Refusal(f"-O {option}={getattr(options, option)} says the same", "leave one of them out")
    return RESERVED.refuse(key)


def flags(settings: Settings) -> Mapping[str, str]:
    return settings.get(ETCD, {})


def refused_by_binary(artifacts: Artifacts, settings: Settings) -> Refusal | None:
    """What etcd says of these flags; None when it takes them. In an image it says so at its start."""
    if "image" in artifacts.paths or not flags(settings):
        return None
    words = [f"--{key}={value}" for key, value in flags(settings).items()]
    try:
        done = subprocess.run(
            [artifacts.paths["etcd"], *words, "--version"], capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(
            f"{artifacts.paths['etcd']} does not say whether it takes {' '.join(words)}: {error}"
        ) from None
    if done.returncode == 0:
        return None
    found = _REFUSED.search(f"{done.stderr}\n{done.stdout}")
    said = found.group() if found else (done.stderr.strip().splitlines() or ["nothing"])[0]
    command = f"{Path(artifacts.paths['etcd']).name} --help"
    return Refusal(f"etcd {artifacts.version} says: {said}", f"its flags are listed by: {command}")


def refused_line(line: str) -> str | None:
    """Why this line of a log says that the server does not take its flags; else None."""
    found = _REFUSED.match(line.strip())
    return f"etcd says: {found.group()}" if found else None


def taken(node: Node, settings: Settings) -> list[Taken]:
    """What it wrote when it started, else what its process was given; raises ValueError when it was not given it."""
    said = _said_at_start(node.log)
    given = processes.command_line(node.pid) if node.pid is not None else []
    found = []
    for key, value in flags(settings).items():
        setting = f"{ETCD}.{key}"
        if key in said and same(_text(said[key]), value):
            found.append(Taken(node=node.name, setting=setting, value=value, says=_text(said[key]), by="its log"))
        elif f"--{key}={value}" in given:
            found.append(
                Taken(node=node.name, setting=setting, value=value, says=None, by="command line of its process")
            )
        elif given:
            raise ValueError(f"{node.name}: --{key}={value} does not stand in the command line of its process")
        else:
            found.append(Taken(node=node.name, setting=setting, value=value, says=None, by="command line, unread"))
    return found


def _said_at_start(log: Path) -> dict[str, Any]:
    """The newest line in which it tells its configuration."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if _STARTING in line]
        found = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
