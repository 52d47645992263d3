"""The table from etcd's errors to outcomes.

A row is *definite* only where the server refuses a request before it proposes it to raft, or where applying it cannot
have an effect. In doubt a row is indefinite. The first row that fits decides; the last one fits everything.

Sources: etcd 3.5 api/v3rpc/rpctypes/error.go (texts and status codes), server/etcdserver/v3_server.go (refusals before
a proposal), server/etcdserver/apply.go (refusals after one).
"""

from dataclasses import dataclass
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of answer: `status` is the name of gRPC's code, `text` a part of the message; None fits any."""

    code: str
    status: str | None
    text: str | None = None
    definite: bool
    why: str

    def fits(self, status: str, details: str) -> bool:
        return self.status in (None, status) and (self.text is None or self.text in details)


#: Outcomes that the client itself decides, without an answer or from what an answer says.
NOT_CONNECTED: Final = "not-connected"
CAS_MISMATCH: Final = "cas-mismatch"
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

TABLE: Final = (
    Row(
        code="invalid-argument",
        status="INVALID_ARGUMENT",
        definite=True,
        why="refused before the proposal (empty key, duplicate key in a transaction, ...)",
    ),
    Row(
        code="failed-precondition",
        status="FAILED_PRECONDITION",
        definite=True,
        why="refused as a whole (lease or member exists already)",
    ),
    Row(
        code="not-found",
        status="NOT_FOUND",
        definite=True,
        why="the lease or member named in the request is absent: applying it changes nothing",
    ),
    Row(
        code="out-of-range",
        status="OUT_OF_RANGE",
        definite=True,
        why="the revision is compacted or not reached yet, or the lease time is beyond the limit: refused as a whole",
    ),
    Row(
        code="too-many-requests",
        status="RESOURCE_EXHAUSTED",
        text="etcdserver: too many requests",
        definite=True,
        why="refused before the proposal, when applying lags 5000 entries behind the commits",
    ),
    Row(
        code="no-space",
        status="RESOURCE_EXHAUSTED",
        text="etcdserver: mvcc: database space exceeded",
        definite=False,
        why="may also answer a put that was applied and used up the quota (quotaApplierV3)",
    ),
    Row(
        code="unhealthy-cluster",
        status="UNAVAILABLE",
        text="etcdserver: unhealthy cluster",
        definite=True,
        why="a change of members is refused before the proposal while too few members are connected",
    ),
    Row(
        code="request-timed-out",
        status="UNAVAILABLE",
        text="etcdserver: request timed out",
        definite=False,
        why="proposed and not applied in time; this leader or the next may still commit it",
    ),
    Row(
        code="leader-changed",
        status="UNAVAILABLE",
        text="etcdserver: leader changed",
        definite=False,
        why="the request may already have been in the old leader's log",
    ),
    Row(
        code="unavailable",
        status="UNAVAILABLE",
        text="etcdserver: ",
        definite=False,
        why="the server refuses (no leader, stopping, ...), but perhaps after the proposal",
    ),
    Row(
        code=CONNECTION_LOST,
        status="UNAVAILABLE",
        definite=False,
        why="the connection broke (reset, server killed) after the request was handed over; nobody knows what was sent",
    ),
    Row(
        code="deadline-exceeded",
        status="DEADLINE_EXCEEDED",
        definite=False,
        why="a missing answer says nothing about the request",
    ),
    Row(
        code="cancelled",
        status="CANCELLED",
        definite=False,
        why="a cancelled request may have been served",
    ),
    Row(
        code="unforeseen-status",
        status=None,
        definite=False,
        why="UNKNOWN, INTERNAL, ABORTED, DATA_LOSS, UNIMPLEMENTED, ...: nothing is known",
    ),
)


def row_of(status: str, details: str) -> Row:
    """The first row of the table that fits this status (the name of gRPC's code) and message."""
    return next(row for row in TABLE if row.fits(status, details))


def outcome(status: str, details: str) -> Definite | Indefinite:
    """Decide what an answer with this status means.

    Args:
        status: the name of gRPC's status code.
        details: the server's message.

    Returns:
        The exception to raise: `Definite` where the table proves that nothing happened, else `Indefinite`. Its code is
        that of the first row that fits.
    """
    row = row_of(status, details)
    detail = f"{status}: {details}"
    return Definite(row.code, detail) if row.definite else Indefinite(row.code, detail)
