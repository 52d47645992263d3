"""What a KRaft cluster promises, what users rely on beyond that, and how long a cut-off leader may believe in itself.

Sources: [595] KIP-595, "A Raft Protocol for the Metadata Quorum"; [631] KIP-631, "The Quorum-based Kafka Controller";
[500] KIP-500; [D] the documentation of the release, "Replication" and "KRaft".

From 3.7.0 on a leader that is cut off from its voters resigns (KAFKA-15489: after 1.5 fetch time-outs without a fetch
from a majority). Earlier releases promise nothing; there the same bound is applied as policy, since users rely on it.
"""

from typing import Final

from fencepost.harness.base.options import Duration
from fencepost.harness.contract.releases import is_before
from fencepost.harness.history import Effects, Stops
from fencepost.harness.verdict import Guarantee, KnownIssue, LeadershipBound, Standing
from fencepost.systems.kafka.guarantees import (
    BROKER_GUARANTEES,
    KEPT_BY_BROKERS,
    PARTITION_STATE_GUARANTEES,
    PRODUCER_ID_GUARANTEES,
)

#: The first release whose leader checks whether a majority of voters still fetches from it.
CHECKS_QUORUM_SINCE: Final = (3, 7)
_ISSUE: Final = "KAFKA-15489"
#: A leader of 3.6.0 still claimed to lead 5 s after the heal of the cut by which it was superseded (measured).
WATCH_NS: Final = 30_000_000_000

_FOR_EVERY_RELEASE: Final = (
    Guarantee(
        name="metadata-durable",
        standing=Standing.PROMISED,
        text="An acknowledged change of metadata is never lost, and no other acknowledged change contradicts it.",
        source="KIP-595: records that a majority of voters holds below the high watermark are never truncated; KIP-631:"
        " a controller answers once its records are committed",
    ),
    Guarantee(
        name="metadata-forward",
        standing=Standing.PROMISED,
        text="While a node lives, its view of the metadata only moves forward.",
        source="KIP-500: each node applies the one metadata log in order, and only what is committed",
    ),
    Guarantee(
        name="metadata-converges",
        standing=Standing.PROMISED,
        text="After the faults are healed, every node reaches the same metadata; no two nodes differ at the same"
        " offset.",
        source="KIP-500: metadata as an event log that every node replays",
    ),
    Guarantee(
        name="topic-names-linearizable",
        standing=Standing.MEASURED,
        text="Answers of the controller's queue about whether a topic name is taken are linearizable with creations.",
        source="nobody promises it for requests that change nothing; a superseded controller may answer them",
        known_issue="a controller that has resigned in the raft layer still answers for some tenths of a second",
    ),
    Guarantee(
        name="epochs-never-go-back",
        standing=Standing.PROMISED,
        text="No node takes part in an older epoch of the metadata quorum than one it has already seen.",
        source="KIP-595: a voter keeps its epoch on disk and ignores older ones",
    ),
    Guarantee(
        name="metadata-log-agrees",
        standing=Standing.PROMISED,
        text="Below the high watermark no two voters' disks hold different records or epochs at the same offset, and"
        " every acknowledged change is among the records.",
        source="KIP-595: log matching; a record is committed once a majority has it",
    ),
    Guarantee(
        name="no-disruptive-rejoin",
        standing=Standing.MEASURED,
        text="A voter that comes back does not depose a leader that a majority follows.",
        source="KIP-996 (pre-vote), released with 4.0.0; nobody promises it for earlier releases",
        known_issue="KAFKA-16164",
    ),
    Guarantee(
        name="snapshots-are-loaded",
        standing=Standing.MEASURED,
        text="A server that has saved a snapshot of the metadata begins from one when it is started again.",
        source="KIP-630 (snapshots, so that a replica need not replay the whole log); nobody promises it",
        issues=(
            KnownIssue(text="KAFKA-15076: 3.5.0 reads the log from its beginning", since="3.5.0", before=("3.6.0",)),
        ),
    ),
    Guarantee(
        name="snapshots-match-log",
        standing=Standing.PROMISED,
        text="A node's snapshot of the metadata holds what a replay of the whole log makes up to the same offset,"
        " whether the node had replayed the log itself or begun from a snapshot.",
        source="KIP-630: a snapshot is the state of all records below its end offset, and stands for them",
    ),
    Guarantee(
        name="metadata-listener-order",
        standing=Standing.PROMISED,
        text="Whoever fetches the metadata log is told of each entry once, in the order of offsets, and what a leader"
        " named as committed is in every later leader's log.",
        source="KIP-595: records below the high watermark are never truncated, and a leader answers a fetch whose last"
        " epoch it does not have with the place where the logs part",
    ),
    Guarantee(
        name="metadata-listener-complete",
        standing=Standing.PROMISED,
        text="Whoever fetches the metadata log is told of every acknowledged change before any later one.",
        source="KIP-595: a replica reads the log by offset, without gaps; KIP-630: a snapshot stands for what was cut"
        " off",
    ),
    *PARTITION_STATE_GUARANTEES,
    Guarantee(
        name="partition-states-forward",
        standing=Standing.PROMISED,
        text="While a broker lives, it names no earlier leader epoch of a partition than it has named before.",
        source="KIP-500: each broker applies the one metadata log in order",
    ),
    Guarantee(
        name="stale-broker-is-fenced",
        standing=Standing.MEASURED,
        text="A broker that gets no metadata from the controller does not count as alive.",
        source="KIP-631 promises it of a broker whose heartbeats do not arrive, as those of a broker that is cut off"
        " from the controller; of one that lags for another reason nobody promises it",
    ),
    *BROKER_GUARANTEES,
    Guarantee(
        name="broker-fenced-in-time",
        standing=Standing.PROMISED,
        text="A broker whose heartbeats do not reach the controller is fenced within 1.5 of its sessions and a second.",
        source="KIP-631, 'Broker lease' and broker.session.timeout.ms; a new controller begins each session again",
        issues=(
            KnownIssue(
                text="KAFKA-18138: a broker that dies while the controller changes", needs=Effects(stops=Stops.POSSIBLE)
            ),
        ),
    ),
    Guarantee(
        name="broker-states",
        standing=Standing.PROMISED,
        text="No broker that is fenced or in its controlled shutdown is elected as a leader or becomes an in-sync"
        " replica.",
        source="KIP-631, 'Broker states'; KIP-841 (fenced brokers and in-sync replicas), released with 3.3.0",
    ),
    Guarantee(
        name="leaders-are-eligible",
        standing=Standing.PROMISED,
        text="While unclean election is off, no partition gets a leader that was neither in sync nor an eligible leader"
        " replica, nor, where there was neither, the last known leader.",
        source="[D], 'Unclean leader election'; KIP-966 (eligible leader replicas, from 4.1 on)",
    ),
    Guarantee(
        name="broker-epochs",
        standing=Standing.PROMISED,
        text="Each registration of a broker's id has a higher broker epoch, and only the newest changes its state.",
        source="KIP-631: the broker epoch is the offset of the registration; STALE_BROKER_EPOCH",
    ),
    Guarantee(
        name="one-broker-per-id",
        standing=Standing.PROMISED,
        text="While a broker's session lives, no other process is registered under its id.",
        source="KIP-631: DUPLICATE_BROKER_REGISTRATION",
    ),
    *PRODUCER_ID_GUARANTEES,
    *KEPT_BY_BROKERS,
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="At most one controller leads in an epoch of the metadata quorum.",
        source="KIP-595: a voter grants one vote in an epoch",
    ),
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="Once a later epoch has begun, no change takes effect in an earlier epoch, and no change that the earlier"
        " leader acknowledges is lost.",
        source="KIP-595: a record is committed by a majority that has not moved to a later epoch",
    ),
)
#: The subject of claims to be the active controller, the layer above raft.
ACTIVE_CONTROLLER: Final = "controller"
#: The first release whose new clusters have eligible leader replicas.
_ELIGIBLE_SINCE: Final = (4, 1)
_ELIGIBLE: Final = Guarantee(
    name="eligible-replicas-kept",
    standing=Standing.PROMISED,
    text="A replica that leaves the in-sync ones when fewer remain than min.insync.replicas stays eligible as a leader,"
    " unless its broker ended uncleanly.",
    source="KIP-966: eligible leader replicas have every committed record; PartitionChangeBuilder.populateTargetElr",
)
_NO_ELIGIBLE: Final = Guarantee(
    name=_ELIGIBLE.name,
    standing=Standing.MEASURED,
    text=_ELIGIBLE.text,
    source="nobody promises it: new clusters have eligible leader replicas from 4.1 on (KIP-966)",
    known_issue="KAFKA-14139",
)
_SELF_FENCING: Final = "A leader that is cut off from every majority stops claiming to lead within 1.5 fetch time-outs."
_PROMISED_FENCING: Final = Guarantee(
    name="leader-self-fencing",
    standing=Standing.PROMISED,
    text=_SELF_FENCING,
    source="KAFKA-15489, released with 3.7.0: LeaderState.timeUntilCheckQuorumExpires, CHECK_QUORUM_TIMEOUT_FACTOR 1.5",
)
_RELIED_UPON_FENCING: Final = Guarantee(
    name="leader-self-fencing",
    standing=Standing.RELIED_UPON,
    text=f"{_SELF_FENCING} Releases before 3.7.0 promise nothing: the bound of 3.7.0 is applied as policy.",
    source="users assume that there is one active controller; KIP-595 left the resigning of leaders for later",
    known_issue=_ISSUE,
)


def checks_quorum(version: str) -> bool:
    """Whether a leader resigns when no majority fetches from it (KAFKA-15489); what has no number counts as new."""
    return not is_before(version, CHECKS_QUORUM_SINCE)


def promises(version: str) -> tuple[Guarantee, ...]:
    """The guarantees that this release is held to."""
    fencing = _PROMISED_FENCING if checks_quorum(version) else _RELIED_UPON_FENCING
    eligible = _NO_ELIGIBLE if is_before(version, _ELIGIBLE_SINCE) else _ELIGIBLE
    return (*_FOR_EVERY_RELEASE, eligible, fencing)


def leadership_bound(version: str, fetch: Duration, election: Duration) -> LeadershipBound:
    """The longest time for which a cut-off leader may claim to lead: 1.5 fetch time-outs.

    The controller above the raft layer hears of the end only when the time of ResignedState is over, which is drawn
    between one and two election time-outs.

    Args:
        version: the release; before 3.7.0 the bound is policy (`relied-upon`), from 3.7.0 on it is promised.
        fetch: controller.quorum.fetch.timeout.ms.
        election: controller.quorum.election.timeout.ms.

    Source: LeaderState.timeUntilCheckQuorumExpires, CHECK_QUORUM_TIMEOUT_FACTOR 1.5 (KAFKA-15489);
    KafkaRaftClient.pollResigned.
    """
    rule = f"1.5 x controller.quorum.fetch.timeout.ms {fetch}"
    if checks_quorum(version):
        source, standing = f"LeaderState of 3.7.0 and later: {rule} without a fetch of a majority", Standing.PROMISED
    else:
        source = f"policy: Kafka {version} promises nothing ({_ISSUE}); the rule of 3.7.0 is applied: {rule}"
        standing = Standing.RELIED_UPON
    return LeadershipBound(
        bound_ns=fetch * 3 // 2,
        source=source,
        standing=standing,
        one_leader_per_epoch=True,
        watch_ns=WATCH_NS,
        layers_ns={ACTIVE_CONTROLLER: fetch * 3 // 2 + 2 * election},
    )
