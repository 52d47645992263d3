"""The protocols that workloads are written against, and how their requests end. This module is the whole public face.

KIP-30 names four: `KeyValue` (storage.py), `Watchable` (listeners.py), and `Locks`, `Elections` and `Leases` with
`Memberships` (election.py). `ListTransactions` reach several keys, and `Log` is append-only (storage.py). What only one
system offers stands in its folder. `session.py` says what every connection owes its user, and how a request ends
without a reply. `recipes.py` puts the interfaces that KIP-30 proposes on these requests; that of KIP-273 is in
`kip_273.py`. A client of any system may stand on `connection.py`, and its error table on `session.py`.
"""

from fencepost.harness.coordination.election import (
    TRAIL,
    Deeds,
    Elections,
    Granted,
    Held,
    Leading,
    Leases,
    ListedMember,
    Locks,
    Memberships,
    Roster,
)
from fencepost.harness.coordination.listeners import (
    Bookmark,
    Change,
    Changes,
    Heard,
    Watchable,
    WatchBegun,
    WatchedKey,
    WatchedRead,
    Watches,
    WatchMode,
)
from fencepost.harness.coordination.session import (
    ClientSession,
    Compacted,
    Definite,
    Indefinite,
    Interface,
    Needs,
    NotSent,
    Prepares,
    prepare,
)
from fencepost.harness.coordination.storage import (
    Appended,
    Keys,
    KeyValue,
    Lists,
    ListTransactions,
    Log,
    Members,
    Partitions,
    Polled,
    ReadMode,
    Record,
    Reply,
)

__all__ = [
    "TRAIL",
    "Appended",
    "Bookmark",
    "Change",
    "Changes",
    "ClientSession",
    "Compacted",
    "Deeds",
    "Definite",
    "Elections",
    "Granted",
    "Heard",
    "Held",
    "Indefinite",
    "Interface",
    "KeyValue",
    "Keys",
    "Leading",
    "Leases",
    "ListTransactions",
    "ListedMember",
    "Lists",
    "Locks",
    "Log",
    "Members",
    "Memberships",
    "Needs",
    "NotSent",
    "Partitions",
    "Polled",
    "Prepares",
    "ReadMode",
    "Record",
    "Reply",
    "Roster",
    "WatchBegun",
    "WatchMode",
    "Watchable",
    "WatchedKey",
    "WatchedRead",
    "Watches",
    "prepare",
]
