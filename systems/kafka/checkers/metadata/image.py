"""The metadata that a metadata log makes: what each record sets, changes and removes, object by object.

A node that reads a log to some offset holds this state there, whichever snapshot it began from. Objects are those of
Kafka's own images, each as the fields of the record that would make it new: brokers, controllers, topics, partitions,
settings, quotas, credentials, ACLs, delegation tokens, features, and the next producer id.

Records of a transaction count when it ends, and not at all when it is aborted (KIP-868).

Source: MetadataDelta, ClusterDelta, TopicsDelta, PartitionRegistration.merge, ConfigurationsDelta, ScramDelta,
ClientQuotasDelta, AclsDelta, DelegationTokenDelta, FeaturesDelta, ProducerIdsDelta; KIP-630 ("Snapshots").
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fencepost.harness.history import LogEntry
from fencepost.systems.kafka.facts.replicas import SAME_LEADER

#: The kind of an object, and what identifies it among those of its kind.
Key = tuple[str, ...]
Fields = dict[str, Any]

#: Not compared: the first leaves no trace, and how far a migration is has checkers of its own.
_NO_STATE: Final = frozenset({"no-op", "zk-migration-state"})
#: The raft layer's own records: who leads, who votes, and where a snapshot begins and ends.
_OF_RAFT: Final = frozenset({"leader-change", "snapshot-header", "snapshot-footer", "kraft-version"})
_OTHERS_OF_RAFT: Final = "control-"
_TRANSACTIONS: Final = frozenset({"begin-transaction", "end-transaction", "abort-transaction"})
_FENCE: Final = 1
_UNFENCE: Final = -1
_TOPIC_CONFIG: Final = 2
_SAME: Final = -1
#: What a record of a change sets in a partition where it names it.
_REPLICAS: Final = (
    "replicas",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)
#: Lists that Kafka's images keep as maps: a snapshot has them in another order than the registration had.
_WITHOUT_ORDER: Final = frozenset({"features", "end_points", "log_dirs", "cordoned_log_dirs"})


class MetadataImage:
    """The state after the records so far; `unread` are the types of records that nothing is known of."""

    def __init__(self, entries: Iterable[LogEntry] = ()) -> None:
        self.objects: Final[dict[Key, Fields]] = {}
        self.unread: Final[set[str]] = set()
        self._open: list[LogEntry] | None = None
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: LogEntry) -> None:
        """Add one record of the log."""
        match entry.type:
            case "begin-transaction":
                self._open = []
            case "end-transaction":
                pending, self._open = self._open or [], None
                for each in pending:
                    self._apply(each)
            case "abort-transaction":
                self._open = None
            case _ if self._open is not None:
                self._open.append(entry)
            case _:
                self._apply(entry)

    def _apply(self, entry: LogEntry) -> None:
        fields = entry.fields
        if entry.type in _OF_RAFT or entry.type.startswith(_OTHERS_OF_RAFT):
            return
        if "raw" in fields:
            self.unread.add(entry.type)
            return
        match entry.type:
            case "register-broker":
                self.objects[_broker(fields)] = {"fenced": True, **fields}
            case "unregister-broker":
                self.objects.pop(_broker(fields), None)
            case "fence-broker" | "unfence-broker":
                self._change_broker(("broker", str(fields.get("id", 0))), {"fenced": entry.type == "fence-broker"})
            case "broker-registration-change":
                self._change_broker(_broker(fields), _registration(fields))
            case "register-controller":
                self.objects["controller", str(fields.get("controller_id", 0))] = dict(fields)
            case "topic":
                self.objects["topic", str(fields.get("topic_id", ""))] = dict(fields)
            case "remove-topic":
                self._remove_topic(str(fields.get("topic_id", "")))
            case "partition":
                self.objects[_partition(fields)] = _made(fields)
            case "partition-change":
                self._change_partition(fields)
            case "clear-elr":
                self._clear_eligible(str(fields.get("topic_name", "")))
            case _:
                self._apply_small(entry)

    def _apply_small(self, entry: LogEntry) -> None:
        """A record of an object that it sets as a whole, or removes."""
        fields, kind = entry.fields, entry.type
        match kind:
            case "config":
                which = ("config", str(fields.get("resource_type", 0)), str(fields.get("resource_name", "")))
                # A value that is named and null removes the setting; one that is not named is empty.
                gone = fields.get("value", "") is None
                self._set((*which, str(fields.get("name", ""))), fields, gone=gone)
            case "feature-level":
                self._set(("feature", str(fields.get("name", ""))), fields, gone=not fields.get("feature_level", 0))
            case "producer-ids":
                # A snapshot does not say which broker got the last block.
                self.objects[("producer-ids",)] = {"next_producer_id": fields.get("next_producer_id", 0)}
            case "user-scram-credential" | "remove-user-scram-credential":
                user = ("credential", str(fields.get("name", "")), str(fields.get("mechanism", 0)))
                self._set(user, fields, gone=kind.startswith("remove"))
            case "client-quota":
                parts = sorted((sorted(part.items()) for part in fields.get("entity", ())), key=str)
                quota = {"entity": [dict(part) for part in parts], "value": fields.get("value", 0)}
                key = ("quota", *map(str, parts), str(fields.get("key", "")))
                self._set(key, quota, gone=bool(fields.get("remove")))
            case "access-control-entry" | "remove-access-control-entry":
                self._set(("acl", str(fields.get("id", ""))), fields, gone=kind.startswith("remove"))
            case "delegation-token" | "remove-delegation-token":
                self._set(("token", str(fields.get("token_id", ""))), fields, gone=kind.startswith("remove"))
            case _ if kind not in _NO_STATE and kind not in _TRANSACTIONS:
                self.unread.add(kind)

    def _set(self, key: Key, fields: Mapping[str, Any], *, gone: bool) -> None:
        if gone:
            self.objects.pop(key, None)
        else:
            self.objects[key] = dict(fields)

    def _change_broker(self, key: Key, changed: Fields) -> None:
        if key in self.objects:
            self.objects[key] = {**self.objects[key], **changed}

    def _remove_topic(self, topic: str) -> None:
        name = str(self.objects.pop(("topic", topic), {}).get("name", ""))
        settings = ("config", str(_TOPIC_CONFIG), name)
        for key in [key for key in self.objects if key[:2] == ("partition", topic) or key[:3] == settings]:
            del self.objects[key]

    def _change_partition(self, fields: Mapping[str, Any]) -> None:
        key = _partition(fields)
        before = self.objects.get(key)
        if before is None:
            return
        now = {**before, "partition_epoch": before["partition_epoch"] + 1}
        now |= {name: fields[name] for name in _REPLICAS if fields.get(name) is not None}
        if fields.get("leader", SAME_LEADER) != SAME_LEADER:
            now |= {"leader": fields["leader"], "leader_epoch": before["leader_epoch"] + 1}
        if fields.get("leader_recovery_state", _SAME) != _SAME:
            now["leader_recovery_state"] = fields["leader_recovery_state"]
        self.objects[key] = now

    def _clear_eligible(self, topic_name: str) -> None:
        for key, fields in self.objects.items():
            if key[0] == "partition":
                name = self.objects.get(("topic", key[1]), {}).get("name")
                if topic_name in ("", name):
                    self.objects[key] = {**fields, "eligible_leader_replicas": [], "last_known_elr": []}


def differences(one: MetadataImage, other: MetadataImage) -> list[Key]:
    """The objects that are not the same in both, in order; a field with its default is as good as none."""
    keys = one.objects.keys() | other.objects.keys()
    return sorted(key for key in keys if plain(one.objects.get(key)) != plain(other.objects.get(key)))


def plain(fields: Fields | None) -> Fields | None:
    """The fields that say something: an empty list is a list that is not named, and features have no order."""
    if fields is None:
        return None
    content = {name: value for name, value in fields.items() if value not in (None, [], False)}
    return {name: sorted(value, key=str) if name in _WITHOUT_ORDER else value for name, value in content.items()}


def _broker(fields: Mapping[str, Any]) -> Key:
    return "broker", str(fields.get("broker_id", 0))


def _registration(fields: Mapping[str, Any]) -> Fields:
    changed: Fields = {}
    if fields.get("fenced", 0) in (_FENCE, _UNFENCE):
        changed["fenced"] = fields["fenced"] == _FENCE
    if fields.get("in_controlled_shutdown", 0):
        changed["in_controlled_shutdown"] = True
    for name in ("log_dirs", "cordoned_log_dirs"):
        if fields.get(name):
            changed[name] = fields[name]
    return changed


def _partition(fields: Mapping[str, Any]) -> Key:
    return "partition", str(fields.get("topic_id", "")), str(fields.get("partition_id", -1))


def _made(fields: Mapping[str, Any]) -> Fields:
    """A new partition, with the fields that changes add to even where the record leaves them out."""
    return {"leader": -1, "leader_epoch": -1, "partition_epoch": -1, "leader_recovery_state": 0, **fields}
