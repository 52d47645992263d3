"""The table from Kafka's error codes to outcomes: which ones prove that nothing happened, for which kind of request.

The same code proves different things, by what was asked and of whom:

- `READ` and `VALIDATE` change nothing, so every code that we know of is definite for them.
- `CHANGE`, asked of a KRaft controller: the controller refuses before it appends a record, so most codes are definite.
  NOT_CONTROLLER (41) is not: a controller that resigns fails everything it has not answered yet with it, also what it
  had appended, and the next leader may still commit that (QuorumController.renounce).
- `FORWARDED`, asked of a KRaft broker: the broker hands the request to the controller, and hands it over *again* when
  that connection is lost or the answer is NOT_CONTROLLER (NodeToControllerRequestThread). "Exists already" may then be
  the work of the first time. So only codes that do not depend on the state are definite.
- `ZOOKEEPER`, asked of a broker in ZooKeeper mode: it looks first whether it is the controller, so 41 is definite. But
  its ZooKeeper client repeats a create after a lost connection (KafkaZkClient.retryRequestUntilConnected), and finds
  its own znode then: "exists already" is not.
- `ALLOCATE` (InitProducerId, AllocateProducerIds): definite when no id was given.
- `TRANSACTION` (InitProducerId with a transactional id, AddPartitionsToTxn, EndTxn), asked of its coordinator: producer
  and state are checked before the coordinator appends to its own log. 14, 15 and 16 are not definite: failures of
  that append, one after the append included, are told by them (TransactionStateManager.appendTransactionToLog).
- `VOTERS` (AddRaftVoter, RemoveRaftVoter), asked of a controller: NOT_LEADER_OR_FOLLOWER (6) and REQUEST_TIMED_OUT (7)
  also answer a change that the leader had appended, when it resigned or did not see it committed: not definite.
- `PRODUCE`: definite when the code comes from a check before the append. NOT_LEADER_OR_FOLLOWER (6) and
  UNKNOWN_TOPIC_OR_PARTITION (3) also answer an append that waited for its followers when leadership went
  (DelayedProduce.tryComplete): not definite.

A code that is not in the table, or stands there without the kind asked, is indefinite. What the connection does is in
the table too, under words of our own.

Source: org.apache.kafka.common.protocol.Errors (names and numbers); KafkaApis, ControllerApis, QuorumController,
ReplicationControlManager, ReplicaManager, Partition, UnifiedLog, ProducerAppendInfo, TransactionCoordinator of Kafka
3.6 to 4.3; of ZooKeeper mode ZkAdminManager and KafkaZkClient of 3.9.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from fencepost.harness.coordination import Definite, Indefinite, NotSent


class Kind(StrEnum):
    """What was asked, and of whom, as far as the meaning of an error depends on it."""

    READ = "read"
    VALIDATE = "validate"
    CHANGE = "change"
    FORWARDED = "forwarded"
    ZOOKEEPER = "zookeeper"
    ALLOCATE = "allocate"
    PRODUCE = "produce"
    TRANSACTION = "transaction"
    VOTERS = "voters"


class Own(NamedTuple):
    """What the connection does: its word in histories, whether it is definite, and why."""

    word: str
    definite: bool
    why: str


NOT_CONNECTED: Final = Own("not-connected", True, "the connection was not opened, so nothing was asked")
NOT_SENT: Final = Own("not-sent", True, "the connection was known to be closed: no byte was handed to the kernel")
NOT_TAKEN: Final = Own(
    "not-taken", True, "the kernel had not taken the request before: no byte of this was handed over"
)
UNSUPPORTED_API: Final = Own("unsupported-api", True, "the node does not offer what would be asked: nothing was sent")
CONNECTION_LOST: Final = Own(
    "connection-lost", False, "the request was handed over and the connection ended unanswered, or broke the protocol"
)
NO_ACKNOWLEDGEMENT: Final = Own("no-acknowledgement", False, "produce with acks=0 is never answered")
INCOMPLETE_ANSWER: Final = Own("incomplete-answer", False, "the answer does not name what was asked for")
UNREADABLE_RECORDS: Final = Own("unreadable-records", True, "the answer's records fail their checksum or lengths")


class Row(NamedTuple):
    """One error code: its word in histories, for which kinds it is definite beside READ and VALIDATE, and why."""

    word: str
    definite: frozenset[Kind]
    why: str


_CHANGES: Final = frozenset({Kind.CHANGE, Kind.FORWARDED, Kind.ZOOKEEPER})
_ALL: Final = frozenset(Kind)
_NONE: Final[frozenset[Kind]] = frozenset()
_PRODUCE: Final = frozenset({Kind.PRODUCE})
_ALLOCATE: Final = frozenset({Kind.ALLOCATE})
_TRANSACTION: Final = frozenset({Kind.TRANSACTION})
_VOTERS: Final = frozenset({Kind.VOTERS})
#: Refused by the state of the cluster as the node that answers knows it, before anything was changed.
_BY_STATE: Final = frozenset({Kind.CHANGE, Kind.ZOOKEEPER})

UNKNOWN_TOPIC_OR_PARTITION: Final = 3
NOT_LEADER_OR_FOLLOWER: Final = 6
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_REPLICATION_FACTOR: Final = 38
NOT_CONTROLLER: Final = 41
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49
CONCURRENT_TRANSACTIONS: Final = 51
PRODUCER_FENCED: Final = 90
TRANSACTIONAL_ID_NOT_FOUND: Final = 105

#: What a node answers, by its number.
CODES: Final = {
    -1: Row("unknown-server-error", _NONE, "the server failed inside; it does not say where"),
    1: Row("offset-out-of-range", _NONE, "answers reads only"),
    2: Row("corrupt-message", _PRODUCE, "the batch is checked before it is appended"),
    3: Row(
        "unknown-topic-or-partition",
        _BY_STATE,
        "no such topic; but a produce may wait for followers when its topic is deleted, and a deletion that the broker "
        "forwards twice finds its own work",
    ),
    5: Row("leader-not-available", _NONE, "answers reads only"),
    6: Row("not-leader-or-follower", _NONE, "also answers a produce that was appended before leadership went"),
    7: Row("request-timed-out", _NONE, "a time-out proves nothing"),
    9: Row("replica-not-available", _NONE, "answers reads only"),
    10: Row("message-too-large", _PRODUCE, "sizes are checked before the append"),
    # No id at hand: InitProducerId had no block of ids to give from, and gave none.
    14: Row("coordinator-load-in-progress", _ALLOCATE, "no id was given"),
    15: Row("coordinator-not-available", _ALLOCATE, "no id was given"),
    16: Row("not-coordinator", _ALLOCATE, "no id was given"),
    17: Row("invalid-topic", _CHANGES | _PRODUCE, "the name is checked first"),
    18: Row("record-list-too-large", _PRODUCE, "sizes are checked before the append"),
    19: Row("not-enough-replicas", _PRODUCE, "refused before the append: the in-sync replicas are too few"),
    20: Row("not-enough-replicas-after-append", _NONE, "it was appended, as the name says"),
    21: Row("invalid-required-acks", _PRODUCE, "checked before the append"),
    29: Row("topic-authorization-failed", _ALL, "permissions are checked first"),
    31: Row("cluster-authorization-failed", _ALL, "permissions are checked first"),
    32: Row("invalid-timestamp", _PRODUCE, "checked before the append"),
    35: Row("unsupported-version", _ALL, "the request was not read"),
    36: Row("topic-already-exists", frozenset({Kind.CHANGE}), "refused by the controller; elsewhere see the kinds"),
    37: Row("invalid-partitions", _CHANGES, "checked before anything is made"),
    38: Row("invalid-replication-factor", _BY_STATE, "too few brokers; checked before anything is made"),
    39: Row("invalid-replica-assignment", _BY_STATE, "checked before anything is made"),
    40: Row("invalid-config", _CHANGES, "checked before anything is made"),
    41: Row("not-controller", frozenset({Kind.ZOOKEEPER}), "also answers what was appended before the node resigned"),
    42: Row("invalid-request", _ALL, "the request is wrong in itself"),
    43: Row("unsupported-for-message-format", _PRODUCE, "checked before the append"),
    44: Row("policy-violation", _CHANGES, "checked before anything is made"),
    45: Row("out-of-order-sequence-number", _PRODUCE, "sequences are checked before the append"),
    # The broker has seen these sequences; it does not say whether in this request.
    46: Row("duplicate-sequence-number", _NONE, "a batch with these numbers is in the log, or was"),
    47: Row("invalid-producer-epoch", _PRODUCE | _ALLOCATE | _TRANSACTION, "epochs are checked before the append"),
    48: Row("invalid-txn-state", _PRODUCE | _ALLOCATE | _TRANSACTION, "checked before the append"),
    49: Row("invalid-producer-id-mapping", _PRODUCE | _TRANSACTION, "producers are checked before the append"),
    50: Row("invalid-transaction-timeout", _TRANSACTION, "the request is wrong in itself"),
    51: Row("concurrent-transactions", _TRANSACTION, "the one before has not ended: nothing was done for this one"),
    53: Row("transactional-id-authorization-failed", _ALL, "permissions are checked first"),
    56: Row("kafka-storage-error", _NONE, "the disk failed; it may hold the record all the same"),
    59: Row("unknown-producer-id", _PRODUCE, "sequences are checked before the append"),
    70: Row("fetch-session-id-not-found", _NONE, "answers reads only"),
    71: Row("invalid-fetch-session-epoch", _NONE, "answers reads only"),
    73: Row("topic-deletion-disabled", _CHANGES, "checked before anything is deleted"),
    74: Row("fenced-leader-epoch", _NONE, "answers reads only"),
    75: Row("unknown-leader-epoch", _NONE, "answers reads only"),
    76: Row("unsupported-compression-type", _PRODUCE, "checked before the append"),
    77: Row("stale-broker-epoch", _ALLOCATE, "refused before a block is taken"),
    78: Row("offset-not-available", _NONE, "answers reads only"),
    87: Row("invalid-record", _PRODUCE, "checked before the append"),
    89: Row("throttling-quota-exceeded", _BY_STATE, "refused before anything is made"),
    90: Row("producer-fenced", _PRODUCE | _ALLOCATE | _TRANSACTION, "epochs are checked before the append"),
    100: Row("unknown-topic-id", _NONE, "answers reads only"),
    102: Row("broker-id-not-registered", _ALLOCATE, "refused before a block is taken"),
    103: Row("inconsistent-topic-id", _NONE, "answers reads only"),
    105: Row("transactional-id-not-found", _NONE, "answers reads only"),
    125: Row("invalid-voter-key", _VOTERS, "refused by the leader before it appends"),
    126: Row("duplicate-voter", _VOTERS, "refused by the leader before it appends: it votes already"),
    127: Row("voter-not-found", _VOTERS, "refused by the leader before it appends: it does not vote"),
}

UNKNOWN_CODE: Final = "unknown-code"
_CHANGES_NOTHING: Final = frozenset({Kind.READ, Kind.VALIDATE})


def refused(row: Own, detail: str = "") -> Definite | Indefinite:
    """The exception of a row of our own."""
    if row is NOT_SENT:
        return NotSent(row.word, detail)
    return Definite(row.word, detail) if row.definite else Indefinite(row.word, detail)


class ServerRefusal(Definite):
    """A node answered with an error that proves that nothing happened; `number` is Kafka's."""

    def __init__(self, number: int, word: str, detail: str) -> None:
        super().__init__(word, detail)
        self.number = number


class ServerDoubt(Indefinite):
    """A node answered with an error that proves nothing; `number` is Kafka's."""

    def __init__(self, number: int, word: str, detail: str) -> None:
        super().__init__(word, detail)
        self.number = number


def answered(kind: Kind, number: int, message: str | None = None) -> ServerRefusal | ServerDoubt:
    """The exception for an error code that a node answered a request of this kind with."""
    detail = f"error {number}" + (f": {message}" if message else "")
    row = CODES.get(number)
    if row is None:
        return ServerDoubt(number, UNKNOWN_CODE, detail)
    definite = kind in _CHANGES_NOTHING or kind in row.definite
    return (ServerRefusal if definite else ServerDoubt)(number, row.word, detail)
