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

from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, session
from fencepost.harness.coordination.session import Row
from fencepost.harness.history import CAS_MISMATCH as CAS_MISMATCH
from fencepost.harness.history.operation import GaveUp
from fencepost.systems.cassandra.wire.frames import CassandraError, Consistency

#: Outcomes that the client itself decides, without an answer or from what an answer says.
NOT_CONNECTED: Final = "not-connected"
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


UNAVAILABLE: Final = Row(
    "unavailable", Definite, "the coordinator counts too few live replicas, before it sends the request to any"
)
UNAVAILABLE_AT_COMMIT: Final = Row(
    "unavailable-at-commit",
    Indefinite,
    "a lightweight transaction was decided, and then too few replicas were alive to commit it",
)

TABLE: Final = {
    0x1000: UNAVAILABLE,
    0x0000: Row("server-error", Indefinite, "an exception anywhere in the server"),
    0x000A: Row("protocol-error", Definite, "the frame was not understood"),
    0x0100: Row("bad-credentials", Definite, "the connection is not authenticated"),
    0x1001: Row(
        "overloaded",
        Indefinite,
        "too many hints or requests under way; replicas may have been sent the write before that was seen",
    ),
    0x1002: Row("bootstrapping", Definite, "the node does not serve reads yet"),
    0x1100: Row(
        GaveUp.WRITE_TIMEOUT,
        Indefinite,
        "too few replicas answered in time; those that have the write or the proposal keep it",
    ),
    0x1200: Row(
        GaveUp.READ_TIMEOUT,
        Indefinite,
        "too few replicas answered a read in time; it may be the read within a lightweight transaction",
    ),
    0x1300: Row("read-failure", Indefinite, "a replica failed at a read; as with read-timeout"),
    0x1400: Row("function-failure", Indefinite, "a function of the statement failed"),
    0x1500: Row("write-failure", Indefinite, "a replica failed; others may have the write"),
    0x1700: Row(
        GaveUp.CAS_UNKNOWN,
        Indefinite,
        "the proposal was accepted by some replicas, and a later transaction may carry it out",
    ),
    0x2000: Row("syntax-error", Definite, "refused before it is executed"),
    0x2100: Row("unauthorized", Definite, "refused before it is executed"),
    0x2200: Row("invalid", Definite, "refused before it is executed"),
    0x2300: Row("config-error", Definite, "refused before it is executed"),
    0x2400: Row("already-exists", Definite, "the keyspace or table exists; nothing was changed"),
}

_OF_PAXOS: Final = (Consistency.SERIAL, Consistency.LOCAL_SERIAL)


def outcome(error: CassandraError, *, conditional: bool) -> Definite | Indefinite:
    """The exception to raise; `conditional`: the error answers a lightweight transaction."""
    row = TABLE.get(error.code)
    if row is UNAVAILABLE and conditional and error.consistency not in _OF_PAXOS:
        row = UNAVAILABLE_AT_COMMIT
    return session.outcome(row, f"cql-{error.code:04x}", error.text)
