"""The names of the shared interfaces: what a session offers, what a workload needs, what a system declares.

An interface that only one system offers is named beside it, by a `StrEnum` of its own; who compares takes any name.
"""

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
    LOG = "log"
