"""What a KRaft cluster promises, what users rely on beyond that, and how long a cut-off leader may believe in itself.

Sources: [595] KIP-595, "A Raft Protocol for the Metadata Quorum"; [631] KIP-631, "The Quorum-based Kafka Controller";
[500] KIP-500; [D] the documentation of the release, "Replication" and "KRaft".

A leader that is cut off from its voters resigns only from 3.7.0 on (KAFKA-15489: after 1.5 fetch time-outs without a
fetch from a majority). Before, nothing is promised, so there the same bound is policy: users rely on it.
"""

from typing import Final

from fencepost.harness.base.options import Duration
from fencepost.harness.systems.kafka.guarantees import ELECTION_GUARANTEES, LOG_GUARANTEES, PRODUCER_ID_GUARANTEES
from fencepost.harness.systems.kafka.server.versions import numbers
from fencepost.harness.verdict import Guarantee, LeadershipBound, Standing

#: The first release whose leader looks whether a majority of voters still fetches from it.
CHECKS_QUORUM_SINCE: Final = (3, 7)
_ISSUE: Final = "KAFKA-15489"
#: A leader of 3.6.0 was still seen to claim 5 s after the cut that superseded it was healed.
WATCH_NS: Final = 30_000_000_000

_FOR_EVERY_RELEASE: Final = (
    Guarantee(
        name="metadata-durable",
        standing=Standing.PROMISED,
        text="A change of metadata that was acknowledged is never lost and never contradicted by another one.",
        source="KIP-595: what a majority of voters has appended below the high watermark is never truncated; KIP-631:"
        " a controller answers once its records are committed",
    ),
    Guarantee(
        name="metadata-forward",
        standing=Standing.PROMISED,
        text="While a node lives, its view of the metadata only moves forward.",
        source="KIP-500: each node applies the one metadata log in order, and no more than is committed",
    ),
    Guarantee(
        name="metadata-converges",
        standing=Standing.PROMISED,
        text="Once faults are healed, every node reaches the same metadata; two nodes never differ at one offset.",
        source="KIP-500: metadata as an event log that every node replays",
    ),
    Guarantee(
        name="topic-names-linearizable",
        standing=Standing.MEASURED,
        text="Whether a topic's name is taken, asked through the controller's queue, is linearizable with creations.",
        source="nobody promises it of requests that change nothing; a superseded controller may answer them",
        known_issue="a controller that resigned in the raft layer answers for some tenths of a second more",
    ),
    Guarantee(
        name="epochs-never-go-back",
        standing=Standing.PROMISED,
        text="No node takes part in an epoch of the metadata quorum that is older than one it has seen.",
        source="KIP-595: a voter keeps its epoch on disk and ignores older ones",
    ),
    Guarantee(
        name="metadata-log-agrees",
        standing=Standing.PROMISED,
        text="Below the high watermark the voters' disks hold the same records at the same offsets in the same epochs,"
        " and among them every acknowledged change.",
        source="KIP-595: log matching; a record is committed once a majority has it",
    ),
    Guarantee(
        name="no-disruptive-rejoin",
        standing=Standing.MEASURED,
        text="A voter that comes back does not depose a leader that a majority follows.",
        source="KIP-996 (pre-vote), released with 4.0.0; before, nobody promises it",
        known_issue="KAFKA-16164",
    ),
    *PRODUCER_ID_GUARANTEES,
    *LOG_GUARANTEES,
    *ELECTION_GUARANTEES,
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="Of one epoch of the metadata quorum there is at most one leader.",
        source="KIP-595: a voter grants one vote in an epoch",
    ),
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="Once a later epoch has begun, nothing takes effect under an earlier one, and nothing that the leader of"
        " an earlier one acknowledges is lost.",
        source="KIP-595: a record is committed by a majority that has not gone on to a later epoch",
    ),
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
    source="users take it that there is one active controller; KIP-595 left the leader's resigning for later",
    known_issue=_ISSUE,
)


def checks_quorum(version: str) -> bool:
    return numbers(version)[:2] >= CHECKS_QUORUM_SINCE


def promises(version: str) -> tuple[Guarantee, ...]:
    """What this release promises."""
    return (*_FOR_EVERY_RELEASE, _PROMISED_FENCING if checks_quorum(version) else _RELIED_UPON_FENCING)


def leadership_bound(version: str, fetch: Duration) -> LeadershipBound:
    """1.5 fetch time-outs: so long a leader waits for fetches of a majority before it resigns (3.7.0 and later)."""
    rule = f"1.5 x controller.quorum.fetch.timeout.ms {fetch}"
    if checks_quorum(version):
        source, standing = f"LeaderState of 3.7.0 and later: {rule} without a majority's fetch", Standing.PROMISED
    else:
        source = f"policy: Kafka {version} promises nothing ({_ISSUE}), so the rule of 3.7.0 is applied: {rule}"
        standing = Standing.RELIED_UPON
    return LeadershipBound(
        bound_ns=fetch * 3 // 2,
        source=source,
        standing=standing,
        one_leader_per_epoch=True,
        watch_ns=WATCH_NS,
    )
