"""What Kafka promises in either mode: of a log, of producer ids, of transactional producers read as an election.

An acknowledged record stays when it is on enough nodes: `acks=all` and `min.insync.replicas` of 2 or more, with unclean
leader election off (the default). With less, the same is measured under names that end in "-unreplicated". Kafka's
durability is replication, not the disk: a kill keeps the page cache, so nothing here asks for what was flushed.

Elections: "Exactly one active producer with a given TransactionalId" (KIP-98). The promise is about transactions:
what a superseded producer appends is not committed. It is not about the log itself: a partition that was in no open
transaction when the next producer began has not been told of it, and releases before 3.6 take a late batch of the old
one there, which then hangs or becomes part of the next transaction (KIP-890).
"""

from typing import Final

from fencepost.harness.systems.contract.conditions import value_of
from fencepost.harness.systems.contract.server_settings import Settings
from fencepost.harness.verdict import Guarantee, Standing

_DESIGN: Final = "Kafka documentation, Design, 4.7 Replication: availability and durability guarantees; acks, min.isr"
_WEAK: Final = "acks=1 or min.insync.replicas=1"

_PROMISES: Final = (
    (
        "log-durable",
        "an acknowledged append is in the log for ever, whoever leads",
        _DESIGN,
    ),
    (
        "log-offsets-stable",
        "an offset that was acknowledged or read holds one value for ever",
        _DESIGN + "; KIP-101 (truncation by leader epoch)",
    ),
    (
        "log-order",
        "a producer's appends keep their order; a read returns every record from the offset asked for, ascending",
        "Kafka documentation, Introduction: guarantees",
    ),
    (
        "log-committed-reads",
        "what a consumer was shown had been appended, and stays: nothing above the high watermark is shown",
        _DESIGN + " (only committed messages are given out to the consumer)",
    ),
    (
        "log-leader-epochs",
        "no append is acknowledged in an epoch after a higher one began; epochs never go back along the log",
        "KIP-101 and KIP-279 (leader epochs), KIP-497 (a leader's changes of the in-sync set are fenced by its epoch)",
    ),
    (
        "zombie-broker-does-not-act",
        "a partition leader that was superseded acknowledges nothing that is lost and shows nothing that vanishes",
        _DESIGN + "; KIP-497",
    ),
)


#: What an unclean election may take away.
_COMMITTED: Final = frozenset(
    {"log-durable", "log-offsets-stable", "log-order", "log-committed-reads", "zombie-broker-does-not-act"}
)


def unpromised(settings: Settings) -> dict[str, str]:
    """`harness.systems.contract.conditions.QualifiesPromises`, in either mode."""
    if value_of(settings, "unclean.leader.election.enable") != "true":
        return {}
    reason = "unclean.leader.election.enable=true lets a replica lead that lacks committed records (KIP-106)"
    return dict.fromkeys(_COMMITTED, reason)


def _promised(name: str, text: str, source: str) -> Guarantee:
    return Guarantee(name=name, standing=Standing.PROMISED, text=text, source=source)


def _measured(name: str, text: str, source: str) -> Guarantee:
    return Guarantee(name=name, standing=Standing.MEASURED, text=text, source=source)


LOG_GUARANTEES: Final = (
    *(_promised(name, f"{text} (acks=all, min.insync.replicas >= 2)", source) for name, text, source in _PROMISES),
    _promised(
        "log-no-duplicates",
        "an idempotent producer's append is in the log once",
        "KIP-98; producer configuration enable.idempotence",
    ),
    *(_measured(f"{name}-unreplicated", f"{text}, with {_WEAK}", "not promised") for name, text, _ in _PROMISES),
    _measured(
        "log-no-duplicates-without-idempotence", "an append is in the log once, without idempotence", "not promised"
    ),
)

PRODUCER_ID_GUARANTEES: Final = (
    _promised(
        "unique-producer-ids",
        "no producer id is given out twice, whichever broker gives it and whoever leads",
        "KIP-98 (producer ids), KIP-730 (the controller allots blocks; in ZooKeeper mode a znode guards them)",
    ),
)

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
