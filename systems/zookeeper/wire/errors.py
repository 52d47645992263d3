"""The table from ZooKeeper's errors to outcomes: which errors prove that nothing happened.

A server refuses a write before it is proposed, or proposes an *error transaction* instead of it (PrepRequestProcessor).
In both cases the code in the reply proves that the request changed nothing and never will: definite. Codes that a
server may also send after the transaction was applied, or that promise nothing, are indefinite. So is every code that
is not in the table. Events of the connection are in the table too, under fencepost's own words.

Source: KeeperException.Code, PrepRequestProcessor and FinalRequestProcessor of Apache ZooKeeper 3.9.5.
"""

from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.coordination.session import Row, outcome

#: Events of the connection.
NOT_CONNECTED: Final = Row("not-connected", Definite, "no session was opened, so nothing was sent")
NOT_SERVING: Final = Row("not-serving", Definite, "the server closed the connection instead of opening a session")
NOT_SENT: Final = Row("not-sent", NotSent, "the connection was known to be closed: no byte was handed to the kernel")
CONNECTION_LOST: Final = Row(
    "connection-lost", Indefinite, "the request was handed over and the connection ended without an answer"
)
SESSION_OVER: Final = Row("lease-expired", Definite, "a server refused to resume the session because it is over")

#: The errors that a server answers, by number.
SERVER_ERRORS: Final = {
    -1: Row("system-error", Indefinite, "the server failed internally and does not say where"),
    -2: Row("runtime-inconsistency", Indefinite, "outside a multi: the server found itself inconsistent"),
    -3: Row("data-inconsistency", Indefinite, "the server found its data inconsistent"),
    -4: Row("connection-loss", Indefinite, "no present server sends it; a proxy may"),
    -5: Row(
        "marshalling-error",
        Indefinite,
        "may also answer a transaction that was applied, when its reply could not be built",
    ),
    -6: Row("unimplemented", Definite, "the server does not know the operation"),
    -7: Row("operation-timeout", Indefinite, "a time-out proves nothing"),
    -8: Row("bad-arguments", Definite, "refused before it was proposed"),
    -13: Row("no-quorum-of-new-config", Definite, "refused before it was proposed: too few of the new members keep up"),
    -14: Row("reconfig-in-progress", Definite, "refused before it was proposed"),
    -101: Row("no-node", Definite, "refused: the znode does not exist"),
    -102: Row("no-auth", Definite, "refused: the ACL forbids it"),
    -103: Row("bad-version", Definite, "refused: the version differs"),
    -108: Row("no-children-for-ephemerals", Definite, "refused: the parent is ephemeral"),
    -110: Row("exists", Definite, "refused: the znode exists"),
    -111: Row("not-empty", Definite, "refused: the znode has children"),
    # The leader checks the session before it makes the transaction; a request of an expired session becomes an error
    # transaction. Earlier requests of the session got answers of their own.
    -112: Row("session-expired", Definite, "refused: the session was over when the leader prepared the request"),
    -113: Row("invalid-callback", Definite, "refused before it was proposed"),
    -114: Row("invalid-acl", Definite, "refused before it was proposed"),
    -115: Row("auth-failed", Definite, "refused before it was proposed"),
    # As a rule the server closes the connection instead.
    -118: Row("session-moved", Indefinite, "the session is on another server; earlier requests may still arrive there"),
    -119: Row("not-read-only", Definite, "refused: the server is in read-only mode"),
    -120: Row("ephemeral-on-local-session", Definite, "refused before it was proposed"),
    -121: Row("no-watcher", Definite, "refused: there is no such watch"),
    -122: Row("request-timeout", Indefinite, "a time-out proves nothing"),
    -123: Row("reconfig-disabled", Definite, "refused before it was proposed"),
    -125: Row("quota-exceeded", Definite, "refused before it was proposed"),
    -127: Row(
        "throttled", Indefinite, "it says that it dropped the request from a full queue, but nothing documents that"
    ),
}

NO_NODE: Final = -101
BAD_VERSION: Final = -103
NODE_EXISTS: Final = -110
SESSION_EXPIRED: Final = -112


class ZooKeeperError(Exception):
    """A reply with an error code that is not translated yet: operations give some codes a meaning of their own."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    def outcome(self) -> Definite | Indefinite:
        """The exception for this code by the table; `Indefinite` for a code that is not in it."""
        row = SERVER_ERRORS.get(self.code)
        return outcome(
            row, "unknown-code", f"error {self.code}" if row else f"the server answered with error {self.code}"
        )
