"""What Kafka promises of transactional producers, read as an election: the same in KRaft and in ZooKeeper mode.

"Exactly one active producer with a given TransactionalId" (KIP-98). The promise is about transactions: what a
superseded producer appends is not committed. It is not about the log itself: a partition that was in no open
transaction when the next producer began has not been told of it, and releases before 3.6 take a late batch of the old
one there, which then hangs or becomes part of the next transaction (KIP-890).
"""

from typing import Final

from fencepost.harness.verdict import Guarantee, Standing

_KIP: Final = "KIP-98, 'Transactional Guarantees' and 2.1: InitPidRequest"

ELECTION_GUARANTEES: Final = (
    Guarantee(
        name="one-acting-leader",
        standing=Standing.PROMISED,
        text="once a producer of a transactional id has begun (InitProducerId), no transaction of an earlier epoch is"
        " committed any more, and none of its records stands among or behind those of the later one",
        source=f"{_KIP} bumps the epoch, 'so that any previous zombie instance of the producer is fenced off and cannot"
        " move forward with its transaction'",
        known_issue="before 3.6.0 a batch that comes late may become part of the next transaction (KIP-890)",
    ),
    Guarantee(
        name="terms-grow",
        standing=Standing.PROMISED,
        text="a producer that begins after another one of its transactional id has a greater epoch; no two share one",
        source=f"{_KIP} increments the epoch; TransactionMetadata.prepareIncrementProducerEpoch",
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="a transaction whose commit was acknowledged is committed for ever (three replicas, two of them in sync)",
        source="KIP-98, 5.1: the commit is decided once it is in the replicated transaction log; 4.7 of the"
        " documentation's design for both logs",
    ),
    Guarantee(
        name="one-believed-leader",
        standing=Standing.RELIED_UPON,
        text="At most one candidate at a time believes that it leads.",
        source="elections by transactional id are used so; a producer that was fenced learns of it only when it asks",
        known_issue="whoever begins is not held up by a producer that lives, and does not tell it",
    ),
    Guarantee(
        name="session-order",
        standing=Standing.MEASURED,
        text="a client that asks, by way of its node, who the producer is (DescribeTransactions) is not taken back",
        source="nobody promises it: a coordinator answers from memory, and shows an epoch that it has not written yet",
    ),
)
