"""What etcd's client makes of every error: the table, and nothing else.

A row is *definite* only where the server refuses a request before it proposes it to raft, or where applying it can
have no effect. In doubt a row is indefinite. The first row that fits decides; the last one fits everything.

Sources: etcd 3.5 api/v3rpc/rpctypes/error.go (texts and status codes), server/etcdserver/v3_server.go (what is refused
before a proposal), server/etcdserver/apply.go (what is refused after one).
"""

from dataclasses import dataclass
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of answer: `status` names gRPC's code, `text` stands in the message; None fits any."""

    code: str
    status: str | None
    text: str | None = None
    definite: bool
    why: str

    def fits(self, status: str, details: str) -> bool:
        return self.status in (None, status) and (self.text is None or self.text in details)


#: Refusals of our own, made without an answer from the server or from an answer that says so.
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
#: The server said that it did not act on the request: see `streams.Refused`.
REFUSED: Final = "refused"
TOO_MANY_STREAMS: Final = "too-many-streams"
#: The connection ended after the request was handed over: indefinite.
CONNECTION_LOST: Final = "connection-lost"
#: The client was closed while the request was under way: indefinite.
CLOSED: Final = "closed"

#: Definite, by our own knowledge: code and reason.
OWN_DEFINITE: Final = {
    NOT_CONNECTED: "the connection was not open when the request was made: not one byte of it was sent",
    TOO_MANY_STREAMS: "as many requests were under way as the server allows: not one byte of it was sent",
    REFUSED: "the server gave its word that it did not act on the request and will not (RFC 9113, 6.8 and 8.7): it "
    "reset the stream as refused before any answer, or is going away and named an earlier stream as its last",
    CAS_MISMATCH: "the transaction was answered: its comparison failed, so nothing was written",
    EXISTS: "the transaction was answered: the key was there, so nothing was written",
    HELD: "the transaction was answered: another holds the lock",
    NOT_HELD: "the transaction was answered: the lock was no longer ours, so nothing was deleted",
    FENCED: "the transaction was answered: the lock was no longer ours, so nothing was written",
    ABSENT: "the deletion was answered: there was nothing to delete",
    NOT_WATCHING: "this client has begun no watch",
    WATCH_CANCELLED: "the server ended the watch; a watch changes nothing",
    LEASE_EXPIRED: "the server answered that the lease has ended, or there never was one",
    LEASE_NOT_GRANTED: "no lease was obtained, so the lock was never asked for; a lease without a key does nothing",
}

TABLE: Final = (
    Row(
        code="invalid-argument",
        status="INVALID_ARGUMENT",
        definite=True,
        why="checked before the proposal (empty key, duplicate key in a transaction, ...)",
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
        why="a revision that is compacted or not yet there, or a lease time beyond the limit: refused as a whole",
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
        why="also answered to a put that was applied and found the quota spent afterwards (quotaApplierV3)",
    ),
    Row(
        code="unhealthy-cluster",
        status="UNAVAILABLE",
        text="etcdserver: unhealthy cluster",
        definite=True,
        why="a change of members is refused before the proposal while members are not connected well enough",
    ),
    Row(
        code="request-timed-out",
        status="UNAVAILABLE",
        text="etcdserver: request timed out",
        definite=False,
        why="proposed and not applied in time: it may still be committed, by this leader or the next",
    ),
    Row(
        code="leader-changed",
        status="UNAVAILABLE",
        text="etcdserver: leader changed",
        definite=False,
        why="the request may have been in the old leader's log already",
    ),
    Row(
        code="unavailable",
        status="UNAVAILABLE",
        text="etcdserver: ",
        definite=False,
        why="the server refuses by itself (no leader, stopping, ...), but not provably before the proposal",
    ),
    Row(
        code=CONNECTION_LOST,
        status="UNAVAILABLE",
        definite=False,
        why="the connection broke (reset, server killed) after the request was handed over; what left is not known",
    ),
    Row(
        code="deadline-exceeded",
        status="DEADLINE_EXCEEDED",
        definite=False,
        why="no answer in time says nothing about the request",
    ),
    Row(
        code="cancelled",
        status="CANCELLED",
        definite=False,
        why="a stream that is given up may have been served",
    ),
    Row(
        code="unforeseen-status",
        status=None,
        definite=False,
        why="UNKNOWN, INTERNAL, ABORTED, DATA_LOSS, UNIMPLEMENTED, ...: nothing is known",
    ),
)


def row_of(status: str, details: str) -> Row:
    """The first row of the table that fits."""
    return next(row for row in TABLE if row.fits(status, details))


def outcome(status: str, details: str) -> Definite | Indefinite:
    """The exception to raise for an answer with this status."""
    row = row_of(status, details)
    detail = f"{status}: {details}"
    return Definite(row.code, detail) if row.definite else Indefinite(row.code, detail)
