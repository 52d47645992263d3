"""Settings of ZooKeeper itself: keys of zoo.cfg, and Java system properties ("zookeeper.*", "jute.*").

ZooKeeper accepts any key silently: an unknown key of zoo.cfg becomes the system property "zookeeper.<key>"
(QuorumPeerConfig.parseProperties). So each key is searched for in the classes of the release's own jars before the
start. A running server reports some of its values, in `conf` and in its log.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.profile import SystemOptions
from fencepost.harness.contract.server_settings import (
    AppliedSetting,
    Reserved,
    ServerSettings,
    Settings,
    applied,
    same_value,
)
from fencepost.harness.java import class_constants
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.node import Node
from fencepost.systems.zookeeper.configuration import CLIENT_PORT, PROPERTY, ZOOKEEPER
from fencepost.systems.zookeeper.question import four_letter_word
from fencepost.systems.zookeeper.versions import JARS

ABOUT: Final = "a key of zoo.cfg, or a Java system property that begins with zookeeper. or jute."
_LINKS: Final = "builds the links of the cluster from it"
_REASONS: Final = {
    "dataDir|dataLogDir": "copies, damages and measures the data where it puts them",
    r"clientPort.*|secureClientPort.*|observerMasterPort|dynamicConfigFile|peerType": _LINKS,
    r"(server|group|weight)\..*": _LINKS,
    r"4lw\.commands\.whitelist": "asks every server with four-letter words",
    r"admin\..*": "leaves out the jars of the admin server",
    "maxClientCnxns|maxCnxns": "lets all clients come from one address",
    "leaderServes": "connects to every server, also to the leader",
    r"ssl.*|portUnification|client\.portUnification|serverCnxnFactory": "connects to ZooKeeper without TLS",
}
#: The class that reads zoo.cfg: a constant in it is a key, while in another class it may mean something else.
_READS_ZOO_CFG: Final = "org/apache/zookeeper/server/quorum/QuorumPeerConfig.class"


def refuse(of: str, key: str, options: SystemOptions) -> Refusal | None:
    """Why this key, or the property that stands for it, may not be set; None when it may.

    `options` are those of the system of which ZooKeepers are a part.
    """
    return Reserved.beside(type(options), _REASONS).refuse(key.removeprefix("zookeeper."))


def refuse_unknown(jars: Iterable[Path], version: str, settings: Settings) -> Refusal | None:
    """Refuse the first key that is in no class of these jars; None when all are."""
    keys = settings.get(ZOOKEEPER, {})
    own = [jar for jar in jars if jar.name.startswith("zookeeper")]
    read = class_constants.constants(own, set(keys), only=_READS_ZOO_CFG)
    spelled = {key: (key if key.startswith(PROPERTY) else f"zookeeper.{key}",) for key in keys if key not in read}
    what = f"known to ZooKeeper {version}: its classes do not name it"
    return class_constants.refuse_unknown(ZOOKEEPER, spelled, own, what=what, prefix="zookeeper.")


async def applied_settings(node: Node, settings: Settings) -> list[AppliedSetting]:
    """How each setting is known to apply: from `conf` or the log, else from the process or zoo.cfg.

    Raises ValueError when a setting is in none of them, or `conf` has another value.
    """
    keys = settings.get(ZOOKEEPER, {})
    if not keys:
        return []
    answer = await four_letter_word(*node.place.dial(CLIENT_PORT), b"conf")
    conf = dict(line.split("=", 1) for line in answer.splitlines() if "=" in line)
    log = node.log.read_text(errors="replace") if node.log.exists() else ""
    given = processes.command_line(node.pid) if node.pid is not None else []
    # Where members may change, the server rewrites its zoo.cfg, which therefore lies beside its data.
    zoo_cfg = str({**node.spec.data_files, **node.spec.files}.get("zoo.cfg", ""))
    made = []
    for key, value in keys.items():
        says, by = _evidence(key, value, conf, log, given, zoo_cfg)
        if by is None:
            raise ValueError(f"{node.name}: {key}={value} is not what it has" + (f", but {says}" if says else ""))
        made.append(applied(ZOOKEEPER, node, key, value, says=says, by=by))
    return made


def _evidence(
    key: str, value: str, conf: Mapping[str, str], log: str, given: list[str], zoo_cfg: str
) -> tuple[str | None, str | None]:
    """The value that the server reports (or None) and where it is known from; None for a setting that is nowhere."""
    if key in conf:
        return conf[key], "conf" if same_value(conf[key], value) else None
    if re.search(rf"(?<![\w.])(zookeeper\.)?{re.escape(key)}(: | ?= ?){re.escape(value)}(?![\w.])", log):
        return value, "its log"
    if f"-D{key}={value}" in given:
        return None, "command line of its process"
    if key.startswith(PROPERTY):
        return None, None if given else "command line, unread"
    return None, "zoo.cfg" if f"\n{key}={value}\n" in f"\n{zoo_cfg}" else None


SETTINGS: Final[ServerSettings[Any]] = ServerSettings(
    settable={ZOOKEEPER: ABOUT},
    samples={ZOOKEEPER: {"snapCount": "5000"}},
    refuse=refuse,
    refuse_unknown=lambda artifacts, settings: refuse_unknown(JARS.of(artifacts), artifacts.version, settings),
    applied=applied_settings,
)
