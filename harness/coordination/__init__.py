"""The protocols that workloads are written against, and how their requests end. This module is the whole public face.

KIP-30 names four: `KeyValue` (storage.py), `Watchable` (listeners.py), and `Locks`, `Elections` and `Leases` with
`Memberships` (election.py). `ListTransactions` reach several keys, and `Log` is append-only (storage.py). What only one
system offers stands in its folder. `session.py` says what every connection owes its user, and how a request ends
without a reply. `recipes.py` puts the interfaces that KIP-30 proposes on these requests; that of KIP-273 is in
`kip_273.py`. A client of any system may stand on `connection.py`, and its error table on `session.py`.
"""

from fencepost.harness.coordination.election import (
    TRAIL as TRAIL,
    Deeds as Deeds,
    Elections as Elections,
    Granted as Granted,
    Held as Held,
    Leading as Leading,
    Leases as Leases,
    ListedMember as ListedMember,
    Locks as Locks,
    Memberships as Memberships,
    Roster as Roster,
)
from fencepost.harness.coordination.listeners import (
    Bookmark as Bookmark,
    Change as Change,
    Changes as Changes,
    Heard as Heard,
    Watchable as Watchable,
    WatchBegun as WatchBegun,
    WatchedKey as WatchedKey,
    WatchedRead as WatchedRead,
    Watches as Watches,
    WatchMode as WatchMode,
)
from fencepost.harness.coordination.session import (
    ClientSession as ClientSession,
    Compacted as Compacted,
    Definite as Definite,
    Indefinite as Indefinite,
    Interface as Interface,
    Needs as Needs,
    NotSent as NotSent,
    Prepares as Prepares,
    prepare as prepare,
)
from fencepost.harness.coordination.storage import (
    Appended as Appended,
    Keys as Keys,
    KeyValue as KeyValue,
    Lists as Lists,
    ListTransactions as ListTransactions,
    Log as Log,
    Members as Members,
    Partitions as Partitions,
    Polled as Polled,
    ReadMode as ReadMode,
    Record as Record,
    Reply as Reply,
)
