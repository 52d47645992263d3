"""The names of the interfaces: what a session offers, what a workload needs, what a system declares."""

from enum import StrEnum


class Interface(StrEnum):
    """A protocol of `harness.coordination`; the value is the name that `list` and messages show."""

    STORAGE = "key-value"
    LOCKS = "locks"
    ELECTION = "elections"
    LEASES = "leases"
    MEMBERSHIP = "membership"
    METASTORE = "metastore"
    LISTENERS = "watches"
    LISTS = "list-transactions"
    METADATA = "metadata"
    METADATA_LOG = "metadata-log"
    PRODUCER_IDS = "producer-ids"
    PARTITION_STATES = "partition-states"
    LOG = "log"
    TOPICS = "topics"
    GROUPS = "consumer-groups"
    TRANSACTIONS = "log-transactions"
