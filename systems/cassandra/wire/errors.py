"""The table from Cassandra's errors to outcomes.

A row is *definite* only where the coordinator refuses a request before it sends it to a replica, or where nothing that
was sent can take effect. In doubt a row is indefinite. A time-out of a lightweight transaction says nothing, whatever
its kind: one that ended as a time-out of its read phase may have been proposed by an earlier try of the coordinator.

A lightweight transaction needs enough replicas twice, for Paxos (SERIAL) and to commit (QUORUM). "Unavailable" names
the level that was missed. Where that is Paxos' level nothing was accepted; where it is the commit's, the decision
stands, and any later transaction carries it out (StorageProxy.commitPaxos).

Sources: doc/native_protocol_v4.spec, section 9; Cassandra 5.0, StorageProxy (doPaxos, commitPaxos, performWrite),
service/paxos/Paxos.java.
"""

from dataclasses import dataclass
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history.operation import GaveUp
from fencepost.systems.cassandra.wire.frames import Consistency, ServerError

#: Outcomes that the client itself decides, without an answer or from what an answer says.
NOT_CONNECTED: Final = "not-connected"
CAS_MISMATCH: Final = "cas-mismatch"
EXISTS: Final = "exists"
ABSENT: Final = "absent"
HELD: Final = "held"
NOT_HELD: Final = "not-held"
FENCED: Final = "fenced"
LEASE_EXPIRED: Final = "lease-expired"
NOT_WATCHING: Final = "not-watching"
#: The connection ended after the request was handed to the kernel: indefinite.
CONNECTION_LOST: Final = "connection-lost"

#: Definite by what the client itself knows: code and reason.
OWN_DEFINITE: Final = {
    NOT_CONNECTED: "the connection was not open when the request was made, so no byte of it was sent",
    CAS_MISMATCH: "the answer says that the condition did not hold ([applied] is false): nothing was proposed",
    EXISTS: "the answer says that the row existed ([applied] is false): nothing was proposed",
    ABSENT: "the answer says that there is no such row ([applied] is false): nothing was proposed",
    HELD: "a row says that somebody leads, or the answer says so ([applied] is false): nothing was proposed",
    NOT_HELD: "the answer says that the row is not the caller's ([applied] is false): nothing was proposed",
    FENCED: "the answer says that the term's row has ended ([applied] is false): nothing was proposed",
    LEASE_EXPIRED: "the answer says that the row has ended ([applied] is false), or no row was ever noted",
    NOT_WATCHING: "the client watches no group, so nothing was sent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of error, by the number that Cassandra gives it."""

    code: str
    number: int
    definite: bool
    why: str


UNAVAILABLE: Final = Row(
    code="unavailable",
    number=0x1000,
    definite=True,
    why="the coordinator counts too few live replicas, before it sends the request to any",
)
UNAVAILABLE_AT_COMMIT: Final = Row(
    code="unavailable-at-commit",
    number=0x1000,
    definite=False,
    why="a lightweight transaction was decided, and then too few replicas were alive to commit it",
)

TABLE: Final = (
    UNAVAILABLE,
    Row(code="server-error", number=0x0000, definite=False, why="an exception anywhere in the server"),
    Row(code="protocol-error", number=0x000A, definite=True, why="the frame was not understood"),
    Row(code="bad-credentials", number=0x0100, definite=True, why="the connection is not authenticated"),
    Row(
        code="overloaded",
        number=0x1001,
        definite=False,
        why="too many hints or requests under way; replicas may have been sent the write before that was seen",
    ),
    Row(code="bootstrapping", number=0x1002, definite=True, why="the node does not serve reads yet"),
    Row(
        code=GaveUp.WRITE_TIMEOUT,
        number=0x1100,
        definite=False,
        why="too few replicas answered in time; those that have the write or the proposal keep it",
    ),
    Row(
        code=GaveUp.READ_TIMEOUT,
        number=0x1200,
        definite=False,
        why="too few replicas answered a read in time; it may be the read within a lightweight transaction",
    ),
    Row(code="read-failure", number=0x1300, definite=False, why="a replica failed at a read; as with read-timeout"),
    Row(code="function-failure", number=0x1400, definite=False, why="a function of the statement failed"),
    Row(code="write-failure", number=0x1500, definite=False, why="a replica failed; others may have the write"),
    Row(
        code=GaveUp.CAS_UNKNOWN,
        number=0x1700,
        definite=False,
        why="the proposal was accepted by some replicas, and a later transaction may carry it out",
    ),
    Row(code="syntax-error", number=0x2000, definite=True, why="refused before it is executed"),
    Row(code="unauthorized", number=0x2100, definite=True, why="refused before it is executed"),
    Row(code="invalid", number=0x2200, definite=True, why="refused before it is executed"),
    Row(code="config-error", number=0x2300, definite=True, why="refused before it is executed"),
    Row(code="already-exists", number=0x2400, definite=True, why="the keyspace or table exists; nothing was changed"),
)

_BY_NUMBER: Final = {row.number: row for row in TABLE}
_OF_PAXOS: Final = (Consistency.SERIAL, Consistency.LOCAL_SERIAL)


def row_of(error: ServerError, *, conditional: bool) -> Row | None:
    """The row of an error; None where the table has none. `conditional`: to a lightweight transaction."""
    if error.code == UNAVAILABLE.number and conditional and error.consistency not in _OF_PAXOS:
        return UNAVAILABLE_AT_COMMIT
    return _BY_NUMBER.get(error.code)


def outcome(error: ServerError, *, conditional: bool) -> Definite | Indefinite:
    """The exception to raise: `Definite` where the table proves that nothing happened, else `Indefinite`."""
    row = row_of(error, conditional=conditional)
    if row is None:
        return Indefinite(f"cql-{error.code:04x}", error.text)
    return (Definite if row.definite else Indefinite)(row.code, error.text)
