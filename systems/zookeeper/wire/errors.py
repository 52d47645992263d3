"""The table from ZooKeeper's errors to outcomes: which errors prove that nothing happened.

A server refuses a write before it is proposed, or proposes an *error transaction* instead of it (PrepRequestProcessor).
In both cases the code in the reply proves that the request changed nothing and never will: definite. Codes that a
server may also send after the transaction was applied, or that promise nothing, are indefinite. So is every code that
is not in the table. Events of the connection are in the table too, under fencepost's own words.

Source: KeeperException.Code, PrepRequestProcessor and FinalRequestProcessor of Apache ZooKeeper 3.9.5.
"""

from typing import Final, NamedTuple

from fencepost.harness.coordination import Definite, Indefinite, NotSent


class Row(NamedTuple):
    """One error: its word in histories, whether it is definite, and why."""

    word: str
    definite: bool
    why: str


#: Events of the connection.
NOT_CONNECTED: Final = Row("not-connected", True, "no session was opened, so nothing was sent")
NOT_SERVING: Final = Row("not-serving", True, "the server closed the connection instead of opening a session")
NOT_SENT: Final = Row("not-sent", True, "the connection was known to be closed: no byte was handed to the kernel")
CONNECTION_LOST: Final = Row(
    "connection-lost", False, "the request was handed over and the connection ended without an answer"
)
SESSION_OVER: Final = Row("lease-expired", True, "a server refused to resume the session because it is over")

#: The errors that a server answers, by number.
SERVER_ERRORS: Final = {
    -1: Row("system-error", False, "the server failed internally and does not say where"),
    -2: Row("runtime-inconsistency", False, "outside a multi: the server found itself inconsistent"),
    -3: Row("data-inconsistency", False, "the server found its data inconsistent"),
    -4: Row("connection-loss", False, "no present server sends it; a proxy may"),
    -5: Row(
        "marshalling-error", False, "may also answer a transaction that was applied, when its reply could not be built"
    ),
    -6: Row("unimplemented", True, "the server does not know the operation"),
    -7: Row("operation-timeout", False, "a time-out proves nothing"),
    -8: Row("bad-arguments", True, "refused before it was proposed"),
    -13: Row("no-quorum-of-new-config", True, "refused before it was proposed: too few of the new members keep up"),
    -14: Row("reconfig-in-progress", True, "refused before it was proposed"),
    -101: Row("no-node", True, "refused: the znode does not exist"),
    -102: Row("no-auth", True, "refused: the ACL forbids it"),
    -103: Row("bad-version", True, "refused: the version differs"),
    -108: Row("no-children-for-ephemerals", True, "refused: the parent is ephemeral"),
    -110: Row("exists", True, "refused: the znode exists"),
    -111: Row("not-empty", True, "refused: the znode has children"),
    # The leader checks the session before it makes the transaction; a request of an expired session becomes an error
    # transaction. Earlier requests of the session got answers of their own.
    -112: Row("session-expired", True, "refused: the session was over when the leader prepared the request"),
    -113: Row("invalid-callback", True, "refused before it was proposed"),
    -114: Row("invalid-acl", True, "refused before it was proposed"),
    -115: Row("auth-failed", True, "refused before it was proposed"),
    # As a rule the server closes the connection instead.
    -118: Row("session-moved", False, "the session is on another server; earlier requests may still arrive there"),
    -119: Row("not-read-only", True, "refused: the server is in read-only mode"),
    -120: Row("ephemeral-on-local-session", True, "refused before it was proposed"),
    -121: Row("no-watcher", True, "refused: there is no such watch"),
    -122: Row("request-timeout", False, "a time-out proves nothing"),
    -123: Row("reconfig-disabled", True, "refused before it was proposed"),
    -125: Row("quota-exceeded", True, "refused before it was proposed"),
    -127: Row("throttled", False, "it says that it dropped the request from a full queue, but nothing documents that"),
}

NO_NODE: Final = -101
BAD_VERSION: Final = -103
NODE_EXISTS: Final = -110
SESSION_EXPIRED: Final = -112


def raised(row: Row, detail: str = "") -> Definite | Indefinite:
    """The exception of a row: `Definite`, `NotSent` or `Indefinite`."""
    if row is NOT_SENT:
        return NotSent(row.word, detail)
    return Definite(row.word, detail) if row.definite else Indefinite(row.word, detail)


class ServerError(Exception):
    """A reply with an error code that is not translated yet: operations give some codes a meaning of their own."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    def outcome(self) -> Definite | Indefinite:
        """The exception for this code by the table; `Indefinite` for a code that is not in it."""
        row = SERVER_ERRORS.get(self.code)
        if row is None:
            return Indefinite("unknown-code", f"the server answered with error {self.code}")
        return raised(row, f"error {self.code}")
