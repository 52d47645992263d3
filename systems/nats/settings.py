"""Settings of the NATS server itself: lines of its configuration file, those of JetStream as `jetstream.KEY`.

The server checks a whole file before it starts (`-t`), so unknown names and values that it does not accept are found
before the start. It does not report its configuration; what it read is the file that each start writes.
"""

import tempfile
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.server_settings import (
    AppliedSetting,
    Reserved,
    ServerSettings,
    Settings,
    applied,
    rejection,
)
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node
from fencepost.systems.nats.configuration import NATS, lines
from fencepost.systems.nats.options import NatsOptions
from fencepost.systems.nats.releases import SERVER

_RESERVED: Final = Reserved.beside(
    NatsOptions,
    reasons={
        "server_name|jetstream.store_dir": "identifies the node and its data by it",
        "listen|host|port|net|http|http_port|https|https_port|monitor_port|cluster|gateway|leafnodes": "builds the"
        " links of the cluster from it",
        "accounts|system_account|system|no_auth_user|authorization|tls|operator|resolver": "logs in by it",
        "logfile|log_file|logtime|debug|trace": "keeps the server's log",
    },
)


def _refuse_unknown(artifacts: Artifacts, settings: Settings) -> Refusal | None:
    """Why the server does not accept these lines; None when it does. An image is not asked before its start."""
    if "image" in artifacts.paths or not settings.get(NATS):
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nats.conf"
        file.write_text("\n".join([*lines(settings), ""]), encoding="utf-8")
        output = rejection([artifacts.paths[SERVER], "-t", "-c", str(file)])
    if output is None:
        return None
    message = output.splitlines()[-1].replace(str(file), "nats.conf")
    return Refusal(f"nats-server {artifacts.version} says: {message}", "see docs.nats.io, NATS Server Configuration")


async def _applied(node: Node, settings: Settings) -> list[AppliedSetting]:
    """Each setting, with the file from which the server took it."""
    given = settings.get(NATS, {})
    return [applied(NATS, node, key, value, by="its configuration file") for key, value in given.items()]


SETTINGS: Final[ServerSettings[NatsOptions]] = ServerSettings(
    settable={NATS: "a line of the configuration file of nats-server; jetstream.KEY is one of its block jetstream"},
    samples={NATS: {"write_deadline": "9s", "jetstream.max_outstanding_catchup": "32MB"}},
    refuse=lambda of, key, options: _RESERVED.refuse(key),
    refuse_unknown=_refuse_unknown,
    applied=_applied,
)
