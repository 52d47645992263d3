"""The table from Kafka's error codes to outcomes: which codes prove that nothing happened, by kind of request.

What a code proves depends on the request and on the node that answers:

- `READ` and `VALIDATE` change nothing, so every known code is definite for them.
- `CHANGE`, sent to a KRaft controller: the controller refuses before it appends a record, so most codes are definite.
  NOT_CONTROLLER (41) is not. A controller that resigns answers all open requests with it, including those whose records
  it has appended, and the next leader may still commit these (QuorumController.renounce).
- `FORWARDED`, sent to a KRaft broker: the broker forwards the request to the controller, and forwards it *again* when
  that connection is lost or the answer is NOT_CONTROLLER (NodeToControllerRequestThread). "Already exists" may then be
  the result of the first attempt. So only codes that do not depend on the state are definite.
- `ZOOKEEPER`, sent to a broker in ZooKeeper mode: the broker checks first whether it is the controller, so 41 is
  definite. But its ZooKeeper client repeats a create after a lost connection
  (KafkaZkClient.retryRequestUntilConnected) and may then find its own znode, so "already exists" is not definite.
- `ALLOCATE` (InitProducerId): definite when no id was given.
- `TRANSACTION` (InitProducerId with a transactional id, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn),
  sent to the coordinator: it checks producer and state before it appends to its own log. 14, 15 and 16 are not
  definite, since they also report failures of that append and failures after it
  (TransactionStateManager.appendTransactionToLog).
- `GROUP` (OffsetCommit, LeaveGroup), sent to the coordinator: it checks member and generation before it appends to its
  own log. As with transactions, 14, 15 and 16 also report failures of that append.
- `VOTERS` (AddRaftVoter, RemoveRaftVoter), sent to a controller: NOT_LEADER_OR_FOLLOWER (6) and REQUEST_TIMED_OUT (7)
  are not definite. They also answer a change that the leader has appended, when it resigns or does not see it
  committed.
- `PRODUCE`: definite when the code comes from a check before the append. NOT_LEADER_OR_FOLLOWER (6) and
  UNKNOWN_TOPIC_OR_PARTITION (3) are not definite. They also answer an append that waited for followers when leadership
  was lost (DelayedProduce.tryComplete).

A code that is not in the table, or is not definite there for this kind of request, is indefinite. The table also holds
events of the connection, under fencepost's own names.

Source: org.apache.kafka.common.protocol.Errors (names and numbers); KafkaApis, ControllerApis, QuorumController,
ReplicationControlManager, ReplicaManager, Partition, UnifiedLog, ProducerAppendInfo, TransactionCoordinator of Kafka
3.6 to 4.3; of ZooKeeper mode ZkAdminManager and KafkaZkClient of 3.9.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.coordination.session import Row
from fencepost.harness.history.operation import NOT_ENOUGH_REPLICAS

T = TypeVar("T")


class RequestKind(StrEnum):
    """The kinds of requests for which an error can mean different things."""

    READ = "read"
    VALIDATE = "validate"
    CHANGE = "change"
    FORWARDED = "forwarded"
    ZOOKEEPER = "zookeeper"
    ALLOCATE = "allocate"
    PRODUCE = "produce"
    TRANSACTION = "transaction"
    GROUP = "group"
    VOTERS = "voters"


NOT_CONNECTED: Final = Row("not-connected", Definite, "the connection was not opened, so nothing was sent")
NOT_SENT: Final = Row("not-sent", NotSent, "the connection was known to be closed: no byte was handed to the kernel")
NOT_TAKEN: Final = Row(
    "not-taken", Definite, "the kernel had not accepted the request before, so no byte of this one was handed over"
)
UNSUPPORTED_API: Final = Row("unsupported-api", Definite, "the node does not offer this API, so nothing was sent")
CONNECTION_LOST: Final = Row(
    "connection-lost",
    Indefinite,
    "the request was handed over, and the connection ended or broke the protocol before the answer",
)
NO_ACKNOWLEDGEMENT: Final = Row("no-acknowledgement", Indefinite, "produce with acks=0 is never answered")
INCOMPLETE_ANSWER: Final = Row("incomplete-answer", Indefinite, "the answer does not contain what was requested")
UNREADABLE_RECORDS: Final = Row(
    "unreadable-records", Definite, "the records of the answer have a wrong checksum or length"
)


class Code(NamedTuple):
    """One error code: its word in histories, the kinds beside READ and VALIDATE for which it is definite, and why."""

    word: str
    definite: frozenset[RequestKind]
    why: str


_CHANGES: Final = frozenset({RequestKind.CHANGE, RequestKind.FORWARDED, RequestKind.ZOOKEEPER})
_ALL: Final = frozenset(RequestKind)
_NONE: Final[frozenset[RequestKind]] = frozenset()
_PRODUCE: Final = frozenset({RequestKind.PRODUCE})
_ALLOCATE: Final = frozenset({RequestKind.ALLOCATE})
_TRANSACTION: Final = frozenset({RequestKind.TRANSACTION})
_GROUP: Final = frozenset({RequestKind.GROUP})
_VOTERS: Final = frozenset({RequestKind.VOTERS})
#: Refused because of the cluster's state, as the answering node knows it, before any change.
_BY_STATE: Final = frozenset({RequestKind.CHANGE, RequestKind.ZOOKEEPER})

UNKNOWN_TOPIC_OR_PARTITION: Final = 3
NOT_LEADER_OR_FOLLOWER: Final = 6
ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_REPLICATION_FACTOR: Final = 38
NOT_CONTROLLER: Final = 41
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49
CONCURRENT_TRANSACTIONS: Final = 51
UNSTABLE_OFFSET_COMMIT: Final = 88
PRODUCER_FENCED: Final = 90
RESOURCE_NOT_FOUND: Final = 91
TRANSACTIONAL_ID_NOT_FOUND: Final = 105

#: The errors that a node answers, by number.
CODES: Final = {
    -1: Code("unknown-server-error", _NONE, "the server failed internally and does not say where"),
    1: Code("offset-out-of-range", _NONE, "answers reads only"),
    2: Code("corrupt-message", _PRODUCE, "the batch is checked before it is appended"),
    3: Code(
        "unknown-topic-or-partition",
        _BY_STATE,
        "no such topic; but a produce may wait for followers while its topic is deleted, and a deletion that a broker "
        "forwards twice may find that the first one succeeded",
    ),
    5: Code("leader-not-available", _NONE, "answers reads only"),
    6: Code("not-leader-or-follower", _NONE, "also answers a produce that was appended before leadership was lost"),
    7: Code("request-timed-out", _NONE, "a time-out proves nothing"),
    9: Code("replica-not-available", _NONE, "answers reads only"),
    10: Code("message-too-large", _PRODUCE, "sizes are checked before the append"),
    # The broker had no block of ids, so InitProducerId gave none.
    14: Code("coordinator-load-in-progress", _ALLOCATE, "no id was given"),
    15: Code("coordinator-not-available", _ALLOCATE, "no id was given"),
    16: Code("not-coordinator", _ALLOCATE, "no id was given"),
    17: Code("invalid-topic", _CHANGES | _PRODUCE, "the name is checked before anything is changed"),
    18: Code("record-list-too-large", _PRODUCE, "sizes are checked before the append"),
    19: Code(NOT_ENOUGH_REPLICAS, _PRODUCE, "refused before the append: too few replicas are in sync"),
    20: Code("not-enough-replicas-after-append", _NONE, "it was appended, as the name says"),
    21: Code("invalid-required-acks", _PRODUCE, "checked before the append"),
    22: Code("illegal-generation", _GROUP, "generations are checked before the append"),
    23: Code("inconsistent-group-protocol", _NONE, "answers JoinGroup only"),
    24: Code("invalid-group-id", _GROUP, "the request itself is wrong"),
    25: Code("unknown-member-id", _GROUP, "members are checked before the append"),
    26: Code("invalid-session-timeout", _NONE, "answers JoinGroup only"),
    27: Code("rebalance-in-progress", _GROUP, "the generation is not shared out yet; checked before the append"),
    29: Code("topic-authorization-failed", _ALL, "permissions are checked first"),
    31: Code("cluster-authorization-failed", _ALL, "permissions are checked first"),
    32: Code("invalid-timestamp", _PRODUCE, "checked before the append"),
    33: Code("unsupported-sasl-mechanism", _NONE, "answers authentication only"),
    34: Code("illegal-sasl-state", _NONE, "answers authentication only"),
    35: Code("unsupported-version", _ALL, "the request was not read"),
    36: Code(
        "topic-already-exists", frozenset({RequestKind.CHANGE}), "refused by the controller; for other kinds see above"
    ),
    37: Code(
        "invalid-partitions",
        _BY_STATE,
        "checked before anything is made; but partitions that a broker adds twice may be there from the first time",
    ),
    38: Code("invalid-replication-factor", _BY_STATE, "too few brokers; checked before anything is made"),
    39: Code("invalid-replica-assignment", _BY_STATE, "checked before anything is made"),
    40: Code("invalid-config", _CHANGES, "checked before anything is made"),
    41: Code(
        "not-controller",
        frozenset({RequestKind.ZOOKEEPER}),
        "also answers a change that was appended before the controller resigned",
    ),
    42: Code("invalid-request", _ALL, "the request itself is wrong"),
    43: Code("unsupported-for-message-format", _PRODUCE, "checked before the append"),
    44: Code("policy-violation", _CHANGES, "checked before anything is made"),
    45: Code("out-of-order-sequence-number", _PRODUCE, "sequences are checked before the append"),
    # The broker has seen these sequence numbers, and does not say in which request.
    46: Code("duplicate-sequence-number", _NONE, "a batch with these numbers is or was in the log"),
    47: Code("invalid-producer-epoch", _PRODUCE | _ALLOCATE | _TRANSACTION, "epochs are checked before the append"),
    48: Code("invalid-txn-state", _PRODUCE | _ALLOCATE | _TRANSACTION, "checked before the append"),
    49: Code("invalid-producer-id-mapping", _PRODUCE | _TRANSACTION, "producers are checked before the append"),
    50: Code("invalid-transaction-timeout", _TRANSACTION, "the request itself is wrong"),
    51: Code(
        "concurrent-transactions", _PRODUCE | _TRANSACTION, "the transaction before has not ended, so nothing was done"
    ),
    53: Code("transactional-id-authorization-failed", _ALL, "permissions are checked first"),
    54: Code("security-disabled", _ALL, "there is no authorizer, so there are no ACLs"),
    56: Code("kafka-storage-error", _NONE, "the disk failed; the record may still be on it"),
    58: Code("sasl-authentication-failed", _NONE, "answers authentication only"),
    59: Code("unknown-producer-id", _PRODUCE, "sequences are checked before the append"),
    70: Code("fetch-session-id-not-found", _NONE, "answers reads only"),
    71: Code("invalid-fetch-session-epoch", _NONE, "answers reads only"),
    73: Code("topic-deletion-disabled", _CHANGES, "checked before anything is deleted"),
    74: Code("fenced-leader-epoch", _NONE, "answers reads only"),
    75: Code("unknown-leader-epoch", _NONE, "answers reads only"),
    76: Code("unsupported-compression-type", _PRODUCE, "checked before the append"),
    77: Code("stale-broker-epoch", _ALLOCATE, "refused before a block is taken"),
    78: Code("offset-not-available", _NONE, "answers reads only"),
    80: Code("preferred-leader-not-available", _NONE, "the order of the replicas is changed all the same"),
    87: Code("invalid-record", _PRODUCE, "checked before the append"),
    88: Code("unstable-offset-commit", _NONE, "answers reads only"),
    89: Code("throttling-quota-exceeded", _BY_STATE, "refused before anything is made"),
    90: Code("producer-fenced", _PRODUCE | _ALLOCATE | _TRANSACTION, "epochs are checked before the append"),
    91: Code("resource-not-found", _BY_STATE, "no such credential; a removal that is forwarded twice may find its own"),
    92: Code("duplicate-resource", _CHANGES, "the request names a credential twice: checked first"),
    93: Code("unacceptable-credential", _CHANGES, "checked before anything is changed"),
    100: Code("unknown-topic-id", _NONE, "answers reads only"),
    102: Code("broker-id-not-registered", _ALLOCATE, "refused before a block is taken"),
    103: Code("inconsistent-topic-id", _NONE, "answers reads only"),
    105: Code("transactional-id-not-found", _NONE, "answers reads only"),
    120: Code("transaction-abortable", _PRODUCE | _TRANSACTION, "the transaction is checked before the append"),
    125: Code("invalid-voter-key", _VOTERS, "refused by the leader before it appends"),
    126: Code("duplicate-voter", _VOTERS, "refused by the leader before it appends: the node votes already"),
    127: Code("voter-not-found", _VOTERS, "refused by the leader before it appends: the node does not vote"),
}

UNKNOWN_CODE: Final = "unknown-code"
_CHANGES_NOTHING: Final = frozenset({RequestKind.READ, RequestKind.VALIDATE})


#: The exception for an event of the connection: of its row, and with a detail.
refused: Final = Row.outcome


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


def answered(kind: RequestKind, number: int, message: str | None = None) -> ServerRefusal | ServerDoubt:
    """Decide what an error code means.

    Args:
        kind: the kind of request that got the code.
        number: Kafka's code, not 0.
        message: the node's own text, if any.

    Returns:
        The exception to raise: `ServerRefusal` where the table proves that nothing happened, else `ServerDoubt`.
    """
    detail = f"error {number}" + (f": {message}" if message else "")
    row = CODES.get(number)
    if row is None:
        return ServerDoubt(number, UNKNOWN_CODE, detail)
    definite = kind in _CHANGES_NOTHING or kind in row.definite
    return (ServerRefusal if definite else ServerDoubt)(number, row.word, detail)


def raise_error(kind: RequestKind, number: int, message: str | None = None) -> None:
    """Raise what an error code of an answer to a request of this kind means; 0 is no error."""
    if number != 0:
        raise answered(kind, number, message)


def only_item(items: Sequence[T]) -> T:
    """Return the one item that a request asked for; raise `Indefinite("incomplete-answer")` for another number."""
    if len(items) != 1:
        raise refused(INCOMPLETE_ANSWER, f"{len(items)} items where one was asked for")
    return items[0]
