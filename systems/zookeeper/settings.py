"""Settings of ZooKeeper itself: keys of zoo.cfg, and Java system properties ("zookeeper.*", "jute.*").

ZooKeeper accepts any key silently: an unknown key of zoo.cfg becomes the system property "zookeeper.<key>"
(QuorumPeerConfig.parseProperties). So each key is searched for in the classes of the release's own jars before the
start. A running server reports some of its values, in `conf` and in its log.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.server_settings import AppliedSetting, Reserved, Settings, same_value, unknown
from fencepost.harness.java import class_constants as class_words
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.node import Node
from fencepost.systems.zookeeper.question import four_letter_word

ZOOKEEPER: Final = "zookeeper"
ABOUT: Final = "a key of zoo.cfg, or a Java system property that begins with zookeeper. or jute."
_PROPERTY: Final = ("zookeeper.", "jute.")
#: In KiB (FilePadding).
_LAID_OUT: Final = "preAllocSize"
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


def reserved(options: Mapping[str, str]) -> Reserved:
    """The keys that may not be set; `options` are those that have an option in this system."""
    return Reserved(options=options, reasons=_REASONS)


def refuse(key: str, held: Reserved) -> Refusal | None:
    """Why this key, or the property that stands for it, may not be set; None when it may."""
    return held.refuse(key.removeprefix("zookeeper."))


def in_file(settings: Settings) -> dict[str, str]:
    """The settings that go into zoo.cfg.

    Where a snapshot count is set, the log grows in steps of 1 MiB unless that is set too. By default each log file
    begins with 64 MiB, and with many of them gigabytes of zeros would be copied and read after the run.
    """
    given = settings.get(ZOOKEEPER, {})
    named = {key.removeprefix("zookeeper.") for key in given}
    laid_out = {_LAID_OUT: "1024"} if "snapCount" in named and _LAID_OUT not in named else {}
    return {**laid_out, **{key: value for key, value in given.items() if not key.startswith(_PROPERTY)}}


def jvm_flags(settings: Settings) -> tuple[str, ...]:
    """The settings that are Java system properties, as flags of the JVM."""
    return tuple(f"-D{k}={v}" for k, v in settings.get(ZOOKEEPER, {}).items() if k.startswith(_PROPERTY))


def refuse_unknown(jars: Iterable[Path], version: str, settings: Settings) -> Refusal | None:
    """Refuse the first key that is in no class of these jars; None when all are."""
    keys = settings.get(ZOOKEEPER, {})
    own = [jar for jar in jars if jar.name.startswith("zookeeper")]
    if not own:
        return None
    properties = {key: key if key.startswith(_PROPERTY) else f"zookeeper.{key}" for key in keys}
    known = class_words.constants(own, set(properties.values()))
    read = class_words.constants(own, set(keys), only=_READS_ZOO_CFG)
    for key, name in properties.items():
        if name not in known and key not in read:
            every = {
                word.removeprefix("" if key.startswith(_PROPERTY) else "zookeeper.") for word in class_words.names(own)
            }
            return unknown(ZOOKEEPER, key, every, what=f"known to ZooKeeper {version}: its classes do not name it")
    return None


async def applied_settings(node: Node, address: str, port: int, settings: Settings) -> list[AppliedSetting]:
    """How each setting is known to apply: from `conf` or the log, else from the process or zoo.cfg.

    Raises ValueError when a setting is in none of them, or `conf` has another value.
    """
    keys = settings.get(ZOOKEEPER, {})
    if not keys:
        return []
    conf = dict(
        line.split("=", 1) for line in (await four_letter_word(address, port, b"conf")).splitlines() if "=" in line
    )
    log = node.log.read_text(errors="replace") if node.log.exists() else ""
    given = processes.command_line(node.pid) if node.pid is not None else []
    # Where members may change, the server rewrites its zoo.cfg, which therefore lies beside its data.
    zoo_cfg = str({**node.spec.data_files, **node.spec.files}.get("zoo.cfg", ""))
    applied = []
    for key, value in keys.items():
        says, by = _evidence(key, value, conf, log, given, zoo_cfg)
        if by is None:
            raise ValueError(f"{node.name}: {key}={value} is not what it has" + (f", but {says}" if says else ""))
        applied.append(AppliedSetting(node=node.name, setting=f"{ZOOKEEPER}.{key}", value=value, says=says, by=by))
    return applied


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
    if key.startswith(_PROPERTY):
        return None, None if given else "command line, unread"
    return None, "zoo.cfg" if f"\n{key}={value}\n" in f"\n{zoo_cfg}" else None
