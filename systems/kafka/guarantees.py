"""What Kafka promises in either mode: about logs, producer ids, and transactional producers used as an election.

An acknowledged record stays when it is on enough nodes: `acks=all` and `min.insync.replicas` of 2 or more, with unclean
leader election off (the default). With weaker settings the same is measured under names that end in "-unreplicated".
Kafka's durability comes from replication, not from the disk: a kill keeps the page cache. A loss of power does not, so
the promises hold only while at most one broker loses what it had not flushed (`_CONDITIONS`).

Elections: "Exactly one active producer with a given TransactionalId" (KIP-98). The promise is about transactions: what
a superseded producer appends is not committed. It is not about the log itself. A partition that was in no open
transaction when the next producer began does not know of that producer. Releases before 3.6 accept a late batch of the
old producer there; it then ends up in a transaction that never ends, or in the next transaction (KIP-890).
"""

from collections.abc import Sequence
from typing import Final

from fencepost.harness.contract.conditions import value_of
from fencepost.harness.contract.election_guarantees import MEASURED_ELECTIONS
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.history import Disk, Effects
from fencepost.harness.runtime.node import Member
from fencepost.harness.verdict import Choice, Condition, Guarantee, KnownIssue, Standing, under

_DESIGN: Final = "Kafka documentation, Design, 4.7 Replication: availability and durability guarantees; acks, min.isr"
_WEAK: Final = "acks=1 or min.insync.replicas=1"

_PROMISES: Final = (
    (
        "log-durable",
        "An acknowledged append stays in the log for ever, whoever leads",
        _DESIGN,
    ),
    (
        "log-offsets-stable",
        "An offset that was acknowledged or read holds the same value for ever",
        _DESIGN + "; KIP-101 (truncation by leader epoch)",
    ),
    (
        "log-order",
        "A producer's appends keep their order; a read returns every record from its offset on, in ascending order",
        "Kafka documentation, Introduction: guarantees",
    ),
    (
        "log-committed-reads",
        "A record that a consumer read was appended and stays: nothing above the high watermark is shown",
        _DESIGN + " (only committed messages are given out to the consumer)",
    ),
    (
        "log-leader-epochs",
        "No append is acknowledged in an epoch after a later one began; epochs never decrease along the log",
        "KIP-101 and KIP-279 (leader epochs), KIP-497 (a leader's changes of the in-sync set are fenced by its epoch)",
    ),
    (
        "zombie-broker-does-not-act",
        "A superseded partition leader acknowledges no record that is lost and shows none that later vanishes",
        _DESIGN + "; KIP-497",
    ),
)


#: The guarantees that an unclean election may break. A leader that no controller reaches goes on with its followers,
#: beside the one that was elected so. What is known of groups and transactional ids is in logs as well.
_COMMITTED: Final = frozenset(
    {
        "log-durable",
        "log-offsets-stable",
        "log-order",
        "log-committed-reads",
        "log-leader-epochs",
        "zombie-broker-does-not-act",
        "leaders-are-eligible",
        "topics-keep-records",
        "group-commits-durable",
        "group-generations-fence",
        "group-one-owner",
        "transactions-durable",
        "transactions-atomic",
        "aborted-transactions-hidden",
        "transactional-producers-fenced",
        "no-hanging-transactions",
        "transforms-exactly-once",
        "one-acting-leader",
        "terms-grow",
        "no-lost-acknowledged-writes",
        "resign-ends-own-term",
    }
)


def unpromised(settings: Settings) -> dict[str, str]:
    """The guarantees that Kafka does not give with these settings, in either mode, with the reason."""
    if value_of(settings, "unclean.leader.election.enable") != "true":
        return {}
    reason = "unclean.leader.election.enable=true lets a replica without all committed records lead (KIP-106)"
    return dict.fromkeys(_COMMITTED, reason)


def broker_numbers(members: Sequence[Member]) -> dict[str, int]:
    """The brokers among the members with their ids: nodes are numbered in the order of members."""
    return {member.name: number for number, member in enumerate(members, 1) if "broker" in member.roles}


#: KIP-966: new clusters of 4.1 and later have eligible leader replicas.
_KNOWN_ISSUES: Final = {
    "log-durable": (
        KnownIssue(
            text="KAFKA-14139: before 4.1 the last replica in sync leads again after a power loss",
            before=("4.1",),
            needs=Effects(disk=Disk.UNSYNCED),
        ),
    )
}
#: An acknowledged record is on two brokers at least (min.insync.replicas), and by default on no disk.
_CONDITIONS: Final = (
    Condition(loss=Disk.DAMAGED, role="broker", most=1),
    Condition(
        loss=Disk.UNSYNCED,
        role="broker",
        most=1,
        unless=Choice(name="log.flush.interval.messages", values=("1",), setting=True),
    ),
)


def _promised(name: str, text: str, source: str) -> Guarantee:
    known = _KNOWN_ISSUES.get(name, ())
    return Guarantee(name=name, standing=Standing.PROMISED, text=text, source=source, issues=known)


def _measured(name: str, text: str, source: str) -> Guarantee:
    return Guarantee(name=name, standing=Standing.MEASURED, text=text, source=source)


LOG_GUARANTEES: Final = (
    *(_promised(name, f"{text} (acks=all, min.insync.replicas >= 2)", source) for name, text, source in _PROMISES),
    _promised(
        "log-no-duplicates",
        "An append of an idempotent producer is in the log once",
        "KIP-98; producer configuration enable.idempotence",
    ),
    *(_measured(f"{name}-unreplicated", f"{text}, with {_WEAK}", "not promised") for name, text, _ in _PROMISES),
    _measured(
        "log-no-duplicates-without-idempotence", "An append is in the log once, without idempotence", "not promised"
    ),
)

PRODUCER_ID_GUARANTEES: Final = (
    _promised(
        "unique-producer-ids",
        "No producer id is given out twice, whichever broker gives it and whoever leads",
        "KIP-98 (producer ids), KIP-730 (the controller hands out blocks; in ZooKeeper mode a znode guards them)",
    ),
)

TOPIC_GUARANTEES: Final = (
    _promised(
        "topics-stay-dropped",
        "A topic whose deletion was acknowledged does not come back, and its records are not shown in a later topic of"
        " its name",
        "KIP-516: a topic's id tells it from an earlier one of the same name, and a broker deletes the log of a topic"
        " whose id it does not expect",
    ),
    _promised(
        "topics-keep-records",
        "A topic whose creation was acknowledged stays until it is deleted, with every acknowledged record (acks=all,"
        " min.insync.replicas of 2)",
        _DESIGN,
    ),
)

#: Beside these each mode says what it promises of one broker's view: that it moves forward, and who is fenced.
PARTITION_STATE_GUARANTEES: Final = (
    _promised(
        "partition-states-agree",
        "Of one partition and leader epoch all brokers name the same leader, whoever is asked and whenever",
        "KIP-101 and KIP-320: the controller raises the leader epoch with each leader that it elects",
    ),
    _promised(
        "partition-states-converge",
        "After the faults are healed, all brokers name the same leaders, epochs, in-sync replicas and live brokers",
        "KIP-500: brokers replay one metadata log; in ZooKeeper mode the controller repeats a request to a broker"
        " until it is answered (RequestSendThread)",
    ),
    _measured(
        "partition-states-fresh",
        "A broker does not name a leader whose successor another broker has long named",
        "nobody promises it: a broker answers from its own copy of the metadata",
    ),
)

#: Beside these each mode says whether it promises that silent brokers are fenced, and what its log shows of them.
BROKER_GUARANTEES: Final = (
    _measured(
        "broker-self-fencing",
        "A broker that reaches no controller stops serving clients within 1.5 of its sessions and a second",
        "nobody promises it: a fenced broker learns that from the controller (KIP-631, 'Broker lease')",
    ),
    _measured(
        "fencing-is-told",
        "Two seconds after a controller has fenced a broker, the others that reach a controller leave it out of the"
        " live brokers that they name to clients",
        "nobody promises a bound: brokers hear of it by the metadata (KIP-500, 'Broker states'), or in ZooKeeper mode"
        " by UpdateMetadata",
    ),
    _promised(
        "in-sync-changes-are-kept",
        "What a controller tells a partition's leader of its in-sync replicas stands in the metadata log, or in"
        " ZooKeeper, under the version that it names",
        "KIP-497: the controller writes a change of in-sync replicas before the leader takes it up",
    ),
    _promised(
        "appends-need-replicas",
        "A leader with fewer in-sync replicas than min.insync.replicas acknowledges no append (acks=all)",
        "Kafka documentation, min.insync.replicas: 'If this minimum cannot be met, then the producer will raise an"
        " exception'",
    ),
    _promised(
        "controlled-shutdown",
        "A broker that is told to end does so when a controller has let it, unless another server is under a fault,"
        " and leads no partition then that another replica could lead",
        "Kafka documentation, Operations: graceful shutdown; KIP-631, 'Controlled shutdown'",
    ),
    _measured(
        "controlled-shutdown-unnoticed",
        "While a broker is in its controlled shutdown, no partition is without an append for more than a second",
        "Kafka documentation, Operations: graceful shutdown: 'unavailable to a few milliseconds'; no bound is promised",
    ),
    _measured(
        "orderly-restart-unnoticed",
        "From a broker's controlled shutdown until it serves again no partition is without an append for more than a"
        " second",
        "Kafka documentation, Upgrading: brokers are restarted one at a time, without downtime; no bound is promised",
    ),
)

_GROUPS: Final = "Kafka documentation, Design, 4.9 Consumer offset tracking"
_GENERATIONS: Final = "Kafka's protocol guide, Group Membership API: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID"

GROUP_GUARANTEES: Final = (
    _promised(
        "group-commits-durable",
        "An offset whose commit was acknowledged is never replaced by an earlier one, nor by one that was refused",
        f"{_GROUPS}: 'sends a successful offset commit response only after all the replicas of the offsets topic"
        " receive the offsets'",
    ),
    _promised(
        "group-generations-fence",
        "Once a later generation of a group has been shared out, no commit by a member of an earlier one is accepted",
        _GENERATIONS,
    ),
    _promised(
        "group-one-owner",
        "Generations of a group only grow, and within one no two members have the same share",
        f"{_GENERATIONS}; KIP-62",
    ),
    _measured(
        "group-offsets-fresh",
        "A read of a group's offset shows the last commit that was acknowledged before it, or a later one",
        "nobody promises it: a coordinator answers from memory, also one that was replaced and does not know it yet",
    ),
)

_TRANSACTIONS: Final = "KIP-98, 'Transactional Guarantees'"
#: From 3.6 on a partition's leader asks the coordinator before it takes the first record of a transaction.
_LATE: Final = KnownIssue(
    text="before 3.6.0 a late record may hang, or become part of the next transaction (KIP-890)", before=("3.6.0",)
)

TRANSACTION_GUARANTEES: Final = (
    _promised(
        "transactions-atomic",
        "Readers in read_committed see a transaction's records in all of its partitions, once each, or in none",
        f"{_TRANSACTIONS}: 'all messages in that transaction will be visible or none of them will'",
    ),
    _promised(
        "transactions-durable",
        "The records of a transaction whose commit was acknowledged, or that a reader in read_committed saw, stay"
        " (three replicas, two of them in sync)",
        "KIP-98, 5.1: the commit is decided once it is in the replicated transaction log; markers are written until"
        " every partition has them",
    ),
    Guarantee(
        name="aborted-transactions-hidden",
        standing=Standing.PROMISED,
        text="No reader in read_committed sees a record of a transaction that was aborted, or whose commit was refused",
        source=f"{_TRANSACTIONS}: consumers in read_committed are given committed transactions only",
        issues=(_LATE,),
    ),
    _promised(
        "transactional-producers-fenced",
        "Once a producer of a transactional id has begun, no commit that an earlier one asks for is accepted",
        "KIP-98, 2.1: InitPidRequest bumps the epoch, so that an earlier producer 'cannot move forward with its"
        " transaction'",
    ),
    Guarantee(
        name="no-hanging-transactions",
        standing=Standing.PROMISED,
        text="Some time after the last transaction began, the last stable offset of every partition is at its end:"
        " whatever was left open has been aborted",
        source="KIP-98, transaction.timeout.ms: the coordinator aborts what is not ended in time; KIP-890 (late"
        " records)",
        issues=(_LATE,),
    ),
    _promised(
        "transforms-exactly-once",
        "What a transaction reads counts as read if and only if it is committed: each record is transformed once",
        "KIP-98, 'atomic consume-transform-produce' (AddOffsetsToTxn, TxnOffsetCommit); KIP-447",
    ),
)

_KIP: Final = "KIP-98, 'Transactional Guarantees' and 2.1: InitPidRequest"

ELECTION_GUARANTEES: Final = (
    Guarantee(
        name="one-acting-leader",
        standing=Standing.PROMISED,
        text="Once a producer of a transactional id has begun (InitProducerId), no transaction of an earlier epoch"
        " commits, and no record of an earlier epoch stands among or after the records of the later one",
        source=f"{_KIP} bumps the epoch, 'so that any previous zombie instance of the producer is fenced off and cannot"
        " move forward with its transaction'",
        issues=(
            KnownIssue(
                text="before 3.6.0 a late batch may become part of the next transaction (KIP-890)",
                before=("3.6.0",),
            ),
        ),
    ),
    Guarantee(
        name="terms-grow",
        standing=Standing.PROMISED,
        text="Of two producers with the same transactional id the later one has the higher epoch; no two share an"
        " epoch",
        source=f"{_KIP} increments the epoch; TransactionMetadata.prepareIncrementProducerEpoch",
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="A transaction whose commit was acknowledged stays committed (with three replicas, two of them in sync)",
        source="KIP-98, 5.1: the commit is decided once it is in the replicated transaction log; 4.7 of the"
        " documentation's design for both logs",
    ),
    Guarantee(
        name="resign-ends-own-term",
        standing=Standing.PROMISED,
        text="A leader whose term is over is refused when it resigns, and ends nobody else's term.",
        source=f"{_KIP}: a producer with an older epoch is fenced",
    ),
    Guarantee(
        name="one-believed-leader",
        standing=Standing.RELIED_UPON,
        text="At most one candidate at a time believes that it leads.",
        source="users of transactional ids rely on it; a fenced producer learns that only when it sends a request",
        known_issue="a producer that begins does not wait for a living one, and does not tell it",
    ),
    *MEASURED_ELECTIONS,
    Guarantee(
        name="session-order",
        standing=Standing.MEASURED,
        text="A client that asks through its node who the producer is (DescribeTransactions) never sees an earlier"
        " epoch again",
        source="nobody promises it: a coordinator answers from memory, and may show an epoch that it has not written"
        " yet",
    ),
)

#: What brokers keep on their disks. Beside these each mode says what it promises of the metadata.
KEPT_BY_BROKERS: Final = under(
    (*LOG_GUARANTEES, *TOPIC_GUARANTEES, *ELECTION_GUARANTEES, *GROUP_GUARANTEES, *TRANSACTION_GUARANTEES),
    *_CONDITIONS,
)
