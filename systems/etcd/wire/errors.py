"""The table from etcd's errors to outcomes.

A row is *definite* only where the server refuses a request before it proposes it to raft, or where applying it cannot
have an effect. In doubt a row is indefinite. The first row that fits decides; the last one fits everything.

Sources: etcd 3.5 api/v3rpc/rpctypes/error.go (texts and status codes), server/etcdserver/v3_server.go (refusals before
a proposal), server/etcdserver/apply.go (refusals after one).
"""

from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.coordination.session import Row, first_fit
from fencepost.harness.history import CAS_MISMATCH as CAS_MISMATCH

#: Outcomes that the client itself decides, without an answer or from what an answer says.
NOT_CONNECTED: Final = "not-connected"
EXISTS: Final = "exists"
HELD: Final = "held"
NOT_HELD: Final = "not-held"
FENCED: Final = "fenced"
LEASE_EXPIRED: Final = "lease-expired"
LEASE_NOT_GRANTED: Final = "lease-not-granted"
ABSENT: Final = "absent"
NOT_WATCHING: Final = "not-watching"
WATCH_CANCELLED: Final = "watch-cancelled"
#: The server states that it did not act on the request: see `streams.Refused`.
REFUSED: Final = "refused"
TOO_MANY_STREAMS: Final = "too-many-streams"
#: The connection ended after the request was handed to the kernel: indefinite.
CONNECTION_LOST: Final = "connection-lost"
#: The client was closed while the request was under way: indefinite.
CLOSED: Final = "closed"

#: Definite by what the client itself knows: code and reason.
OWN_DEFINITE: Final = {
    NOT_CONNECTED: "the connection was not open when the request was made, so no byte of it was sent",
    TOO_MANY_STREAMS: "the server allows no more requests at the same time, so no byte of this one was sent",
    REFUSED: "the server states that it did not act on the request and will not (RFC 9113, 6.8 and 8.7): it reset the "
    "stream as refused before any answer, or it is going away and named an earlier stream as its last",
    CAS_MISMATCH: "the answer says that the comparison failed, so nothing was written",
    EXISTS: "the answer says that the key existed, so nothing was written",
    HELD: "the answer says that another client holds the lock",
    NOT_HELD: "the answer says that this client no longer held the lock, so nothing was deleted",
    FENCED: "the answer says that this client no longer held the lock, so nothing was written",
    ABSENT: "the answer says that there was nothing to delete or to update",
    NOT_WATCHING: "this client has no watch",
    WATCH_CANCELLED: "the server ended the watch; a watch changes nothing",
    LEASE_EXPIRED: "the server answered that the lease has ended or never existed",
    LEASE_NOT_GRANTED: "no lease was granted, so the lock was not requested; a lease without a key has no effect",
}

TABLE: Final = {
    ("INVALID_ARGUMENT", None): Row(
        "invalid-argument", Definite, "refused before the proposal (empty key, duplicate key in a transaction, ...)"
    ),
    ("FAILED_PRECONDITION", None): Row(
        "failed-precondition", Definite, "refused as a whole (lease or member exists already)"
    ),
    ("NOT_FOUND", None): Row(
        "not-found", Definite, "the lease or member named in the request is absent: applying it changes nothing"
    ),
    ("OUT_OF_RANGE", None): Row(
        "out-of-range",
        Definite,
        "the revision is compacted or not reached yet, or the lease time is beyond the limit: refused as a whole",
    ),
    ("RESOURCE_EXHAUSTED", "etcdserver: too many requests"): Row(
        "too-many-requests", Definite, "refused before the proposal, when applying lags 5000 entries behind the commits"
    ),
    ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded"): Row(
        "no-space", Indefinite, "may also answer a put that was applied and used up the quota (quotaApplierV3)"
    ),
    ("UNAVAILABLE", "etcdserver: unhealthy cluster"): Row(
        "unhealthy-cluster",
        Definite,
        "a change of members is refused before the proposal while too few members are connected",
    ),
    ("UNAVAILABLE", "etcdserver: request timed out"): Row(
        "request-timed-out", Indefinite, "proposed and not applied in time; this leader or the next may still commit it"
    ),
    ("UNAVAILABLE", "etcdserver: leader changed"): Row(
        "leader-changed", Indefinite, "the request may already have been in the old leader's log"
    ),
    ("UNAVAILABLE", "etcdserver: "): Row(
        "unavailable", Indefinite, "the server refuses (no leader, stopping, ...), but perhaps after the proposal"
    ),
    ("UNAVAILABLE", None): Row(
        CONNECTION_LOST,
        Indefinite,
        "the connection broke (reset, server killed) after the request was handed over; nobody knows what was sent",
    ),
    ("DEADLINE_EXCEEDED", None): Row(
        "deadline-exceeded", Indefinite, "a missing answer says nothing about the request"
    ),
    ("CANCELLED", None): Row("cancelled", Indefinite, "a cancelled request may have been served"),
    (None, None): Row(
        "unforeseen-status", Indefinite, "UNKNOWN, INTERNAL, ABORTED, DATA_LOSS, UNIMPLEMENTED, ...: nothing is known"
    ),
}


def outcome(status: str, details: str) -> Definite | Indefinite:
    """The exception for an answer with this status (the name of gRPC's code) and message: the first row's that fits."""
    return first_fit(TABLE, status, details).outcome(f"{status}: {details}")
