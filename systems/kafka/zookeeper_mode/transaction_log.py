"""What Kafka wrote to ZooKeeper, out of the servers' transaction logs: one entry for each transaction.

The offset of an entry is its zxid and its epoch ZooKeeper's own; the controller epoch is in the fields. Every field of
an entry is the transaction's: who wrote it (the session), when by the clock of ZooKeeper's leader, and what. A write of
the controller is a multi whose first operation checks the version of /controller_epoch (2.2 and later): the version
that was checked says under which election it was made, whatever its data say.

What a refused transaction would have written is not kept; its codes are. Which session is whose stands in the
registration of each broker.

Source: KIP-380 and KAFKA-6082; KafkaZkClient and ZkData of Kafka 2.8 to 3.9.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from fencepost.harness.history import LogEntry, NodeLog
from fencepost.systems.kafka.server.configuration import ZOOKEEPER_MODE
from fencepost.systems.kafka.server.znodes import CONTROLLER, CONTROLLER_EPOCH, MIGRATION
from fencepost.systems.kafka.zookeeper_mode.znode_content import content_of
from fencepost.systems.zookeeper import transaction_log
from fencepost.systems.zookeeper.transaction_log import (
    CREATE_SESSION,
    CREATES,
    DELETES,
    LoggedTransaction,
    MalformedLog,
    ZnodeChange,
)
from fencepost.systems.zookeeper.wire.jute import Op

name_of: Final = ZOOKEEPER_MODE.node_name

_BROKER: Final = re.compile(r"/brokers/ids/(\d+)")
_TOPIC: Final = re.compile(r"/brokers/topics/([^/]+)")
_STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
_CONFIG: Final = re.compile(r"/config/topics/([^/]+)")
_TOKEN: Final = re.compile(r"/delegation_token/tokens/([^/]+)")
_DELETION: Final = re.compile(r"/admin/delete_topics/([^/]+)")


class _Controller(msgspec.Struct):
    """What stands in /controller; a claim by KRaft has an epoch of its quorum. The other fields do not matter."""

    brokerid: int
    kraft_epoch: int = msgspec.field(default=-1, name="kraftControllerEpoch")


class _Migration(msgspec.Struct):
    """What stands in /migration: up to which offset of its log KRaft has written to ZooKeeper; -1 before the copy."""

    offset: int = msgspec.field(default=-1, name="kraft_metadata_offset")


class _State(msgspec.Struct):
    """What stands in the state of a topic partition."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: list[int]


class _Settings(msgspec.Struct):
    """What stands in the configuration of a topic."""

    config: dict[str, str] = {}


class _Token(msgspec.Struct, rename="camel"):
    """What stands in the znode of a delegation token; the owner is written as in a URL ("User%3Aalice")."""

    owner: str
    issue_timestamp: int
    expiry_timestamp: int


def read_archive(archive: Path, node: str) -> NodeLog | None:
    """The transaction log in a ZooKeeper's kept data (tar.gz); None when it has none. Raises ValueError or OSError."""
    return log_of(transaction_log.files_in(archive), node)


def log_of(files: Mapping[str, bytes], node: str) -> NodeLog | None:
    """The log in these files of one server, by their names; of snapshots the names are enough. Raises MalformedLog."""
    log = transaction_log.log_of(files, node, entry_of)
    if log is not None and log.damaged:
        raise MalformedLog(log.damaged)
    return log


def entry_of(transaction: LoggedTransaction) -> LogEntry:
    kind, fields = _meaning(transaction)
    common: dict[str, Any] = {"session": f"{transaction.session & (1 << 64) - 1:#x}", "time_ms": transaction.time_ms}
    if not transaction.errors:
        common["crc32"] = transaction.checksum
    return LogEntry(offset=transaction.zxid, epoch=transaction.zxid >> 32, type=kind, fields={**fields, **common})


def _meaning(transaction: LoggedTransaction) -> tuple[str, dict[str, Any]]:
    if transaction.errors:
        return "refused", {"multi": transaction.op == Op.MULTI, "errors": list(transaction.errors)}
    if transaction.op == CREATE_SESSION:
        return "session", {"timeout_ms": transaction.changes[0].version}
    if transaction.op == Op.CLOSE_SESSION:
        return "session-closed", {"deleted": transaction.changes[0].path.split()}
    checks = [change for change in transaction.changes if change.op == Op.CHECK]
    effects = [change for change in transaction.changes if change.op != Op.CHECK]
    fields: dict[str, Any] = {}
    for check in checks:
        # The log has the version that comes after the one that was checked.
        if check.path == CONTROLLER_EPOCH and check.version is not None:
            fields["checked_version"] = check.version - 1
        if check.path == MIGRATION:
            fields["by_kraft"] = True
    for effect in effects:
        if effect.path == MIGRATION and effect.data:
            fields["migrated_to"] = msgspec.json.decode(effect.data, type=_Migration).offset
    kind, more = _effect(effects)
    return kind, {**more, **fields}


def _effect(effects: Sequence[ZnodeChange]) -> tuple[str, dict[str, Any]]:
    by_path = {change.path: change for change in effects}
    made, raised = by_path.get(CONTROLLER), by_path.get(CONTROLLER_EPOCH)
    if made is not None and made.op in CREATES and raised is not None and raised.op == Op.SET_DATA:
        holder = msgspec.json.decode(made.data or b"", type=_Controller)
        broker = holder.brokerid
        epoch = int(raised.data or b"")
        return "election", {
            "node": name_of(broker),
            "broker": broker,
            "controller_epoch": epoch,
            "version": raised.version,
            **({"kraft_epoch": holder.kraft_epoch} if holder.kraft_epoch >= 0 else {}),
        }
    for change in effects:
        match = _BROKER.fullmatch(change.path)
        if match and change.op in CREATES:
            return "registration", {"node": name_of(int(match.group(1))), "broker": int(match.group(1))}
    if len(effects) != 1:
        fields: dict[str, Any] = {"changes": [f"{_word(change)} {change.path}" for change in effects]}
        others = [change for change in effects if change.path != MIGRATION]
        if len(others) == 1:
            written, more = _single(others[0])
            fields["wrote"] = {"type": written, **more}
        return "multi", fields
    return _single(effects[0])


def _single(change: ZnodeChange) -> tuple[str, dict[str, Any]]:
    word = _word(change)
    if (match := _STATE.fullmatch(change.path)) and word in ("create", "set"):
        state = msgspec.to_builtins(msgspec.json.decode(change.data or b"", type=_State))
        which = {"topic": match.group(1), "partition": int(match.group(2))}
        return "partition-state", {**which, **state, "version": 0 if word == "create" else change.version}
    if (match := _CONFIG.fullmatch(change.path)) and word in ("create", "set"):
        settings = msgspec.json.decode(change.data or b"", type=_Settings).config
        if len(settings) == 1:
            ((name, value),) = settings.items()
            return "config", {"resource_name": match.group(1), "name": name, "value": value}
        return "configs", {"resource_name": match.group(1), "settings": settings}
    if (match := _TOKEN.fullmatch(change.path)) and word in ("create", "set"):
        token = msgspec.json.decode(change.data or b"", type=_Token)
        times = {"issue_timestamp": token.issue_timestamp, "expiration_timestamp": token.expiry_timestamp}
        return "delegation-token", {"token_id": match.group(1), "owner": unquote(token.owner), **times}
    if change.path == CONTROLLER_EPOCH and word == "set":
        return "epoch-raised", {"controller_epoch": int(change.data or b"")}
    content = content_of(change.path, change.data) if word in ("create", "set") else None
    more = {} if content is None else {"content": content}
    if (match := _TOPIC.fullmatch(change.path)) and word == "create":
        return "topic", {"name": match.group(1), **more}
    if (match := _DELETION.fullmatch(change.path)) and word == "create":
        return "remove-topic", {"name": match.group(1)}
    return word, {"path": change.path, **more}


def _word(change: ZnodeChange) -> str:
    if change.op in CREATES:
        return "create"
    if change.op in DELETES:
        return "delete"
    return "set" if change.op == Op.SET_DATA else f"operation {change.op}"
