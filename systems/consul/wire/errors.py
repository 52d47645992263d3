"""The table from Consul's errors to outcomes.

Consul answers almost every error with status 500, so the text decides. A row is *definite* only where no server can
have put the request into raft's log, or where applying it changes nothing. In doubt a row is indefinite. The first row
that fits decides; the last one fits everything. An error of the leader reaches the client of another server behind
"rpc error making call: ", so the rows for certain texts come before the row for that prefix.

A server that knows no leader holds a request for up to rpc_hold_timeout and may pass it on when it learns of one. So an
answer that comes late is like any other, and a client that stopped waiting knows nothing.

Sources: Consul 1.19 agent/http.go (status codes), agent/consul/rpc.go (forwardRequestToLeader, canRetry), agent/pool,
agent/consul/state/txn.go and kvs.go (refusals of a transaction, which is rolled back as a whole); hashicorp/raft
api.go and raft.go (ErrNotLeader, ErrLeadershipLost, ErrLeadershipTransferInProgress).
"""

from dataclasses import dataclass
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of answer: its status and a part of its text; None fits any."""

    code: str
    status: int | None = 500
    text: str | None = None
    definite: bool
    why: str

    def fits(self, status: int, text: str) -> bool:
        return self.status in (None, status) and (self.text is None or self.text in text)


#: Outcomes that the client itself decides, without an answer or from what an answer says.
NOT_CONNECTED: Final = "not-connected"
CAS_MISMATCH: Final = "cas-mismatch"
EXISTS: Final = "exists"
HELD: Final = "held"
NOT_HELD: Final = "not-held"
FENCED: Final = "fenced"
LEASE_EXPIRED: Final = "lease-expired"
LEASE_NOT_GRANTED: Final = "lease-not-granted"
LOCK_DELAY: Final = "lock-delay"
ABSENT: Final = "absent"
NOT_WATCHING: Final = "not-watching"
#: The connection ended after the request was handed to the kernel: indefinite.
CONNECTION_LOST: Final = "connection-lost"

#: Definite by what the client itself knows: code and reason.
OWN_DEFINITE: Final = {
    NOT_CONNECTED: "the connection was not open when the request was made, so no byte of it was sent",
    CAS_MISMATCH: "the read before the write saw another value, or the transaction's index was stale: nothing was"
    " written",
    EXISTS: "the transaction's check says that the key existed, so nothing was written",
    HELD: "the transaction's check says that another session holds the lock",
    NOT_HELD: "the transaction's check says that this session no longer held the lock, so nothing was deleted",
    FENCED: "the transaction's check says that this session no longer held the lock, so nothing was written",
    LEASE_EXPIRED: "the server answered that the session has ended or never existed",
    LEASE_NOT_GRANTED: "no session was made, so the lock was not requested; a session without a key has no effect",
    LOCK_DELAY: "the leader refuses to give a lock away for a while after its holder's session ended",
    ABSENT: "the transaction's check says that there was nothing to delete",
    NOT_WATCHING: "this client has no watch",
}

TABLE: Final = (
    Row(
        code=LOCK_DELAY,
        status=409,
        text="due to lock delay",
        definite=True,
        why=OWN_DEFINITE[LOCK_DELAY],
    ),
    Row(
        code=LEASE_EXPIRED,
        status=409,
        text="invalid session",
        definite=True,
        why="a lock names a session that has ended: the transaction is rolled back",
    ),
    Row(
        code="refused",
        status=409,
        definite=True,
        why="an operation of the transaction did not hold: it is rolled back as a whole",
    ),
    Row(code=LEASE_EXPIRED, status=404, text="ession id '", definite=True, why="the leader knows no such session"),
    Row(code=LEASE_EXPIRED, status=404, text="Unknown check ID", definite=True, why="the agent has no such check"),
    Row(code=LEASE_EXPIRED, status=404, text="Unknown service ID", definite=True, why="the agent has no such service"),
    Row(code="invalid-argument", status=400, definite=True, why="refused by the agent before it asks a server"),
    Row(code="too-large", status=413, definite=True, why="refused by the agent before it asks a server"),
    Row(
        code="no-leader",
        text="No cluster leader",
        definite=True,
        why="no server that was asked leads, and none of them keeps a request that it does not lead",
    ),
    Row(
        code="leader-not-tracked",
        text="Raft leader not found in server lookup mapping",
        definite=True,
        why="the server does not know how to reach the leader, so the request was sent nowhere",
    ),
    Row(
        code="not-ready",
        text="Not ready to serve consistent reads",
        definite=True,
        why="a new leader has not yet applied its first entry; only reads get this answer",
    ),
    Row(
        code="not-leader",
        text="node is not the leader",
        definite=True,
        why="raft refuses an entry on a server that does not lead, before it is in the log (ErrNotLeader)",
    ),
    Row(
        code="leadership-transfer",
        text="leadership transfer in progress",
        definite=True,
        why="raft takes no entry while it hands its leadership over",
    ),
    Row(
        code="leader-changed",
        text="leadership lost while committing log",
        definite=False,
        why="the entry is in the old leader's log, and a later leader may commit it (ErrLeadershipLost)",
    ),
    Row(
        code="missing-node",
        text="Missing node registration",
        definite=True,
        why="a session names a node that is not in the catalog yet: applying it changes nothing",
    ),
    Row(
        code="no-connection",
        text="rpc error getting client",
        definite=True,
        why="the server could not connect to the leader, so it sent the request nowhere",
    ),
    Row(
        code="rpc-error",
        text="rpc error making call",
        definite=False,
        why="the connection to the leader broke after the request was sent on it",
    ),
    Row(code="unforeseen-answer", status=None, definite=False, why="any other status or text: nothing is known"),
)


def row_of(status: int, text: str) -> Row:
    """The first row of the table that fits this status and text."""
    return next(row for row in TABLE if row.fits(status, text))


def outcome(status: int, text: str, otherwise: str | None = None) -> Definite | Indefinite:
    """Decide what an answer with this status means.

    Args:
        otherwise: the code for a transaction whose own checks did not hold, instead of "refused".

    Returns:
        The exception to raise: `Definite` where the table proves that nothing happened, else `Indefinite`.
    """
    row = row_of(status, text)
    code = otherwise if row.code == "refused" and otherwise is not None else row.code
    return (Definite if row.definite else Indefinite)(code, f"{status}: {text}")
