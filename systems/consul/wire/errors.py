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

TABLE: Final = {
    (409, "due to lock delay"): Row(LOCK_DELAY, Definite, OWN_DEFINITE[LOCK_DELAY]),
    (409, "invalid session"): Row(
        LEASE_EXPIRED, Definite, "a lock names a session that has ended: the transaction is rolled back"
    ),
    (409, None): Row("refused", Definite, "an operation of the transaction did not hold: it is rolled back as a whole"),
    (404, "ession id '"): Row(LEASE_EXPIRED, Definite, "the leader knows no such session"),
    (404, "Unknown check ID"): Row(LEASE_EXPIRED, Definite, "the agent has no such check"),
    (404, "Unknown service ID"): Row(LEASE_EXPIRED, Definite, "the agent has no such service"),
    (400, None): Row("invalid-argument", Definite, "refused by the agent before it asks a server"),
    (413, None): Row("too-large", Definite, "refused by the agent before it asks a server"),
    (500, "No cluster leader"): Row(
        "no-leader", Definite, "no server that was asked leads, and none of them keeps a request that it does not lead"
    ),
    (500, "Raft leader not found in server lookup mapping"): Row(
        "leader-not-tracked",
        Definite,
        "the server does not know how to reach the leader, so the request was sent nowhere",
    ),
    (500, "Not ready to serve consistent reads"): Row(
        "not-ready", Definite, "a new leader has not yet applied its first entry; only reads get this answer"
    ),
    (500, "node is not the leader"): Row(
        "not-leader",
        Definite,
        "raft refuses an entry on a server that does not lead, before it is in the log (ErrNotLeader)",
    ),
    (500, "leadership transfer in progress"): Row(
        "leadership-transfer", Definite, "raft takes no entry while it hands its leadership over"
    ),
    (500, "leadership lost while committing log"): Row(
        "leader-changed",
        Indefinite,
        "the entry is in the old leader's log, and a later leader may commit it (ErrLeadershipLost)",
    ),
    (500, "Missing node registration"): Row(
        "missing-node", Definite, "a session names a node that is not in the catalog yet: applying it changes nothing"
    ),
    (500, "rpc error getting client"): Row(
        "no-connection", Definite, "the server could not connect to the leader, so it sent the request nowhere"
    ),
    (500, "rpc error making call"): Row(
        "rpc-error", Indefinite, "the connection to the leader broke after the request was sent on it"
    ),
    (None, None): Row("unforeseen-answer", Indefinite, "any other status or text: nothing is known"),
}


def outcome(status: int, text: str, otherwise: str | None = None) -> Definite | Indefinite:
    """The exception for an answer with this status and text: of the first row that fits.

    Args:
        otherwise: the code for a transaction whose own checks did not hold, instead of "refused".
    """
    row = first_fit(TABLE, status, text)
    if row.code == "refused" and otherwise is not None:
        row = row._replace(code=otherwise)
    return row.outcome(f"{status}: {text}")
