"""Kafka's metadata as the znodes that ZooKeeper holds of it: what KRaft's records make, and what transactions wrote.

| znode                                | content                                                                    |
| /brokers/topics/T                    | the topic's id; of each partition the replicas, and those that come and go |
| /brokers/topics/T/partitions/N/state | leader, its epoch, replicas in sync                                        |
| /config/topics/T, /config/brokers/B  | settings                                                                   |
| /config/users/U, and other clients   | quotas; SCRAM credentials of the user                                      |
| /kafka-acl/TYPE/NAME, and -extended  | ACLs                                                                       |
| /delegation_token/tokens/ID          | owner, time of issue, time of expiry                                       |
| /latest_producer_id_block            | the next producer id                                                       |

Names of users and clients are written as in a URL; the default of all is `<default>`.

Source: KRaftMigrationZkWriter and the migration clients of Kafka 3.6 to 3.9; Sanitizer, ScramCredentialUtils, ZkData.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Final
from urllib.parse import quote

from fencepost.harness.history import LogEntry
from fencepost.systems.kafka.checkers.metadata.image import Key, MetadataImage
from fencepost.systems.kafka.facts.controllers import written_by

#: The content of one znode, by name.
Content = Mapping[str, Any]
#: Znodes by path.
Znodes = dict[str, Content]
#: Stands for a content that the kept log does not name.
UNREAD: Final[Content] = {"unread": True}

_TOPICS: Final = "/brokers/topics"
_PRODUCER_IDS: Final = "/latest_producer_id_block"
_DEFAULT: Final = "<default>"
_OF_TOPIC: Final = re.compile(rf"{_TOPICS}/([^/]+)")
#: What a znode holds, by its path.
_KINDS: Final = {
    "topics": _OF_TOPIC,
    "partitions": re.compile(rf"{_TOPICS}/([^/]+)/partitions/(\d+)/state"),
    "settings of topics": re.compile(r"/config/topics/([^/]+)"),
    "settings of brokers": re.compile(r"/config/brokers/([^/]+)"),
    "quotas and credentials": re.compile(r"/config/(users/[^/]+(?:/clients/[^/]+)?|(?:clients|ips)/[^/]+)"),
    "lists of ACLs": re.compile(r"/kafka-acl((?:-extended/[^/]+)?/[^/]+/.+)"),
    "tokens": re.compile(r"/delegation_token/tokens/([^/]+)"),
    "next producer id": re.compile(_PRODUCER_IDS),
}
#: Without any content such a znode is empty or not there, which is the same.
_MAY_BE_EMPTY: Final = re.compile(rf"/(?:config|kafka-acl|kafka-acl-extended)/.+|{_PRODUCER_IDS}")
#: Of ConfigRecord.
_CONFIG_FOLDERS: Final = {"2": "topics", "4": "brokers"}
#: Of QuotaEntity, in the order of the path.
_QUOTA_FOLDERS: Final = {"user": "users", "client-id": "clients", "ip": "ips"}
_MECHANISMS: Final = {"1": "SCRAM-SHA-256", "2": "SCRAM-SHA-512"}
_ACL_TYPES: Final = {2: "Topic", 3: "Group", 4: "Cluster", 5: "TransactionalId", 6: "DelegationToken"}
_PREFIXED: Final = 4
_OPERATIONS: Final = {
    2: "All",
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
    13: "CreateTokens",
    14: "DescribeTokens",
}
_PERMISSIONS: Final = {2: "Deny", 3: "Allow"}


def kind_of(path: str) -> str | None:
    """ "topics", "partitions"; None for a znode that holds no metadata."""
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(path)), None)


def znode_in_words(path: str) -> str:
    """ "partition t1-0", "topic t1"; of other kinds what the path says."""
    for kind, name in (("partitions", "partition"), ("topics", "topic"), ("settings of topics", "settings of")):
        if match := _KINDS[kind].fullmatch(path):
            return f"{name} {'-'.join(match.groups())}"
    return f"{kind_of(path)} of {path}"


def there(znodes: Znodes, path: str) -> Content | None:
    """The content of a znode; None if it is not there, or is empty where that is the same."""
    content = znodes.get(path)
    return None if not content and _MAY_BE_EMPTY.fullmatch(path) else content


def is_known(path: str, content: Content | None) -> bool:
    """Whether enough was kept of a znode to compare it: of what may be empty, its presence says nothing."""
    return content != UNREAD or not _MAY_BE_EMPTY.fullmatch(path)


def same(one: Content | None, other: Content | None) -> bool:
    """Whether two contents agree; of one that was not kept only the presence counts."""
    return None not in (one, other) if UNREAD in (one, other) else one == other


# -- what KRaft's records make ----------------------------------------------------------------------------------------


def znodes_of(image: MetadataImage, paths: Set[str] | None = None) -> Znodes:
    """The znodes that ZooKeeper must hold if KRaft's state is this; of partitions only those of topics in `paths`."""
    znodes: dict[str, dict[str, Any]] = {}
    topics = None if paths is None else {match.group(1) for path in paths if (match := _OF_TOPIC.match(path))}
    for path, content in _parts(image, topics):
        znodes.setdefault(path, {}).update(content)
    return dict(znodes)


def _parts(image: MetadataImage, topics: Set[str] | None) -> Iterator[tuple[str, Content]]:
    """Each object of the image as a part of one znode."""
    made = ((key[1], str(fields["name"])) for key, fields in image.objects.items() if key[0] == "topic")
    names = {number: name for number, name in made if topics is None or name in topics}
    for key, fields in image.objects.items():
        if key[0] == "partition":
            if name := names.get(key[1]):
                yield f"{_TOPICS}/{name}", _assigned(key[2], *(fields.get(each, ()) for each in _ASSIGNED))
                yield f"{_TOPICS}/{name}/partitions/{key[2]}/state", _state(fields)
        elif part := _PARTS.get(key[0]):
            yield from part(key, fields)


def _topic(key: Key, fields: Content) -> Iterator[tuple[str, Content]]:
    yield f"{_TOPICS}/{fields['name']}", {"topic id": key[1]}


def _setting(key: Key, fields: Content) -> Iterator[tuple[str, Content]]:
    _, number, name, setting = key
    if folder := _CONFIG_FOLDERS.get(number):
        yield f"/config/{folder}/{name or _DEFAULT}", {setting: fields.get("value", "")}


def _quota(key: Key, fields: Content) -> Iterator[tuple[str, Content]]:
    parts = {str(part.get("entity_type", "")): part.get("entity_name") for part in fields["entity"]}
    path = "/config" + "".join(
        f"/{folder}/{_DEFAULT if parts[kind] is None else _sanitised(parts[kind])}"
        for kind, folder in _QUOTA_FOLDERS.items()
        if kind in parts
    )
    yield path, {key[-1]: float(fields["value"])}


def _credential(key: Key, fields: Content) -> Iterator[tuple[str, Content]]:
    _, user, mechanism = key
    parts = {name: _base64(fields.get(name, "")) for name in ("salt", "stored_key", "server_key")}
    text = ",".join(f"{name}={value}" for name, value in {**parts, "iterations": fields.get("iterations", 0)}.items())
    yield f"/config/users/{_sanitised(user)}", {_MECHANISMS.get(mechanism, mechanism): text}


def _acl(_: Key, fields: Content) -> Iterator[tuple[str, Content]]:
    folder = "/kafka-acl-extended/prefixed" if fields.get("pattern_type") == _PREFIXED else "/kafka-acl"
    kind = _ACL_TYPES.get(fields.get("resource_type", 0), "Unknown")
    operation = _OPERATIONS.get(fields.get("operation", 0), "Unknown")
    permission = _PERMISSIONS.get(fields.get("permission_type", 0), "Unknown")
    acl = f"{permission} {fields.get('principal', '')} {operation} from {fields.get('host', '')}"
    yield f"{folder}/{kind}/{fields.get('resource_name', '')}", {acl: True}


def _token(key: Key, fields: Content) -> Iterator[tuple[str, Content]]:
    yield f"/delegation_token/tokens/{key[1]}", {name: fields.get(name) for name in _OF_TOKEN}


def _producer_ids(_: Key, fields: Content) -> Iterator[tuple[str, Content]]:
    yield _PRODUCER_IDS, {"next producer id": fields["next_producer_id"]}


_PARTS: Final[Mapping[str, Callable[[Key, Content], Iterator[tuple[str, Content]]]]] = {
    "topic": _topic,
    "config": _setting,
    "quota": _quota,
    "credential": _credential,
    "acl": _acl,
    "token": _token,
    "producer-ids": _producer_ids,
}


# -- what transactions wrote ------------------------------------------------------------------------------------------


def apply(znodes: Znodes, transaction: LogEntry) -> None:
    """Make, set and delete what one transaction does."""
    for change in transaction.fields.get("changes", ()):
        word, _, path = change.partition(" ")
        _apply_path(znodes, word, path, {})
    kind, written = written_by(transaction)
    match kind:
        case "topic":
            _put(znodes, f"{_TOPICS}/{written['name']}", written)
        case "partition-state":
            znodes[f"{_TOPICS}/{written['topic']}/partitions/{written['partition']}/state"] = _state(written)
        case "config":
            znodes[f"/config/topics/{written['resource_name']}"] = {written["name"]: written["value"]}
        case "configs":
            znodes[f"/config/topics/{written['resource_name']}"] = written["settings"]
        case "delegation-token":
            znodes[f"/delegation_token/tokens/{written['token_id']}"] = {n: written.get(n) for n in _OF_TOKEN}
        case "create" | "set" | "delete" as word:
            _apply_path(znodes, word, written["path"], written)


def _apply_path(znodes: Znodes, word: str, path: str, written: Content) -> None:
    if kind_of(path) is None:
        return
    if word == "delete":
        znodes.pop(path, None)
    elif word in ("create", "set"):
        _put(znodes, path, written)


def _put(znodes: Znodes, path: str, written: Content) -> None:
    content = written.get("content")
    znodes[path] = UNREAD if content is None else _flat(content)


def _flat(content: Content) -> Content:
    """The content of a znode as `znodes_of` names it."""
    if "topic_id" in content:
        flat = {"topic id": content["topic_id"]}
        adding, removing = content["adding_replicas"], content["removing_replicas"]
        for number, replicas in content["replicas"].items():
            flat |= _assigned(number, replicas, adding.get(number, ()), removing.get(number, ()))
        return flat
    if "acls" in content:
        return dict.fromkeys(content["acls"], True)
    if "config" in content:
        return {name: _value(name, value) for name, value in content["config"].items()}
    return {"next producer id": content["next_producer_id"]}


# -- common to both ---------------------------------------------------------------------------------------------------

_ASSIGNED: Final = ("replicas", "adding_replicas", "removing_replicas")
_OF_TOKEN: Final = ("owner", "issue_timestamp", "expiration_timestamp")
_QUOTAS: Final = frozenset(
    {
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
        "connection_creation_rate",
    }
)


def _assigned(number: str, replicas: Any, adding: Any, removing: Any) -> Content:
    return {
        f"replicas of {number}": list(replicas),
        **({f"adding to {number}": sorted(adding)} if adding else {}),
        **({f"removing from {number}": sorted(removing)} if removing else {}),
    }


def _state(fields: Content) -> Content:
    return {
        "leader": fields.get("leader", -1),
        "leader_epoch": fields.get("leader_epoch", 0),
        "isr": sorted(fields.get("isr", ())),
    }


def _value(name: str, value: str) -> str | float:
    return float(value) if name in _QUOTAS else value


def _sanitised(name: str) -> str:
    """A name as in a URL, as Java writes it."""
    return quote(name, safe="").replace("~", "%7E")


def _base64(hexadecimal: str) -> str:
    return base64.b64encode(bytes.fromhex(hexadecimal)).decode()
