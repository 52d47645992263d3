"""Settings of the NATS server itself: lines of its configuration file, those of JetStream as `jetstream.KEY`.

The server checks a whole file before it starts (`-t`), so unknown names and values that it does not accept are found
before the start. It does not report its configuration; what it read is the file that each start writes.
"""

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError, Refusal
from fencepost.harness.contract.server_settings import AppliedSetting, Reserved, Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node
from fencepost.systems.nats.configuration import NATS, lines
from fencepost.systems.nats.releases import SERVER

SETTABLE: Final[Mapping[str, str]] = {
    NATS: "a line of the configuration file of nats-server; jetstream.KEY is one of its block jetstream"
}
RESERVED: Final = Reserved(
    options={"jetstream.sync_interval": "sync_interval", "jetstream.sync": "sync_interval"},
    reasons={
        "server_name|jetstream.store_dir": "identifies the node and its data by it",
        "listen|host|port|net|http|http_port|https|https_port|monitor_port|cluster|gateway|leafnodes": "builds the"
        " links of the cluster from it",
        "accounts|system_account|system|no_auth_user|authorization|tls|operator|resolver": "logs in by it",
        "logfile|log_file|logtime|debug|trace": "keeps the server's log",
    },
)
SAMPLES: Final[Settings] = {NATS: {"write_deadline": "9s", "jetstream.max_outstanding_catchup": "32MB"}}
_CHECK_S: Final = 20.0


def refused_by_server(artifacts: Artifacts, settings: Settings) -> Refusal | None:
    """Why the server does not accept these lines; None when it does. An image is not asked before its start."""
    if "image" in artifacts.paths or not settings.get(NATS):
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nats.conf"
        file.write_text("\n".join([*lines(settings), ""]), encoding="utf-8")
        try:
            done = subprocess.run(
                [artifacts.paths[SERVER], "-t", "-c", str(file)],
                capture_output=True,
                text=True,
                timeout=_CHECK_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(f"{artifacts.paths[SERVER]} does not check its settings: {error}") from None
    if done.returncode == 0:
        return None
    output = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["nothing"]
    message = output[-1].replace(str(file), "nats.conf")
    return Refusal(f"nats-server {artifacts.version} says: {message}", "see docs.nats.io, NATS Server Configuration")


async def applied_settings(node: Node, settings: Settings) -> list[AppliedSetting]:
    """Each setting, with the file from which the server took it."""
    return [
        AppliedSetting(node=node.name, setting=f"{NATS}.{key}", value=value, says=None, by="its configuration file")
        for key, value in settings.get(NATS, {}).items()
    ]
