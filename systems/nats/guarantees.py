"""What NATS JetStream promises, what its users rely on beyond that, and where each is written.

Sources: [C] docs.nats.io, JetStream Clustering; [D] docs.nats.io, JetStream (consistency); [8] ADR-8, key-value stores;
[53] ADR-53, read-after-write, and nats-server#7146.
"""

from typing import Final

from fencepost.harness.contract.membership_guarantees import Source
from fencepost.harness.contract.storage_guarantees import storage_guarantees
from fencepost.harness.history import Clock, Disk, Effects, Stops
from fencepost.harness.verdict import Choice, Condition, Guarantee, KnownIssue, LeadershipBound, Standing, under
from fencepost.systems.nats.options import NatsOptions

_CLUSTERING: Final = "docs.nats.io, JetStream Clustering"
_RAFT: Final = "Ongaro & Ousterhout, In Search of an Understandable Consensus Algorithm (2014)"
_OLD_LEADER: Final = "ADR-53 and nats-server#7146: a leader of an earlier term may still answer a get"
_SYNCED: Final = Choice(name="sync_interval", values=("0s",))
#: `copies`: a message is on the stream's replicas only, and nobody here knows on which servers these are.
_CONDITIONS: Final = (
    Condition(loss=Disk.DAMAGED, copies="replicas"),
    Condition(loss=Disk.UNSYNCED, copies="replicas", unless=_SYNCED),
)
_UNSYNCED: Final = KnownIssue(
    text="nats-server#7564: by default a server answers before its disk has the message (`sync_interval` is 2 minutes);"
    " with -O sync_interval=0s it has it first",
    unless=_SYNCED,
    needs=Effects(disk=Disk.UNSYNCED),
)

_SECOND_NS: Final = 1_000_000_000
#: `lostQuorumInterval`, and the pause between two looks (`lostQuorumCheck`).
_LOST_QUORUM_NS: Final = 10 * _SECOND_NS
_LOOK_NS: Final = 10 * _SECOND_NS
_SELF_FENCING: Final = (
    "raft.go: once in 10 s (lostQuorumCheck) a leader looks whether it heard from a quorum within the last 10 s"
    " (lostQuorumInterval), and steps down if not; no document promises a time"
)

STORAGE_GUARANTEES: Final = (
    Guarantee(
        name="linearizable",
        standing=Standing.PROMISED,
        text="Writes with an expected sequence, and reads that are confirmed by such a write of the same value, take"
        " effect in one total order that agrees with real time.",
        source=f"{_CLUSTERING}: a message is stored once a quorum has it; ADR-53: all writes to a stream are in one"
        " order; the leader compares the expected sequence before it stores a message",
    ),
    Guarantee(
        name="fresh-from-leader",
        standing=Standing.RELIED_UPON,
        text="A get that the stream's leader answers shows every write acknowledged before it was sent.",
        source='ADR-8, Consistency Guarantees: with `allow_direct` off "read-after-write consistency is achieved"',
        known_issue=_OLD_LEADER,
    ),
    Guarantee(
        name="fresh-from-any-node",
        standing=Standing.MEASURED,
        text="A direct get, which any replica answers, shows every write acknowledged before it was sent.",
        source='ADR-8, Consistency Guarantees: reads go "directly to any replica, including out of date ones"',
    ),
    Guarantee(
        name="session-order",
        standing=Standing.MEASURED,
        text="Direct gets on one connection never go back to an older message.",
        source='ADR-8, Consistency Guarantees: reads go "directly to any replica, including out of date ones"',
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="An acknowledged message stays in the stream while a quorum of its replicas keeps its disk.",
        source=f"{_CLUSTERING}, The Quorum: enough servers to have the most recent data after a catastrophic failure",
        issues=(_UNSYNCED,),
    ),
    Guarantee(
        name="write-positions-agree",
        standing=Standing.PROMISED,
        text="Every server reports the same sequence for the same message.",
        source="ADR-53, Monotonic writes: all writes to a single stream are ordered by the stream's sequence",
    ),
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="A leader of the stream whose term is over acknowledges no message.",
        source=f"{_RAFT}, Leader Completeness; {_CLUSTERING}: a quorum is needed to store new messages",
    ),
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="At most one server leads a group in a term.",
        source=f"{_RAFT}, Election Safety",
    ),
    Guarantee(
        name="groups-keep-their-size",
        standing=Standing.PROMISED,
        text="While nobody changes its members, every server names the same size of a group, and its majority.",
        source=f"{_RAFT}, section 6: members change by entries of the log alone; {_CLUSTERING}, The Quorum",
        issues=(
            KnownIssue(
                text="nats-server 2.12.4: a server that starts again may take its group for one of itself alone",
                before=("2.12.5",),
                needs=Effects(stops=Stops.POSSIBLE),
            ),
            KnownIssue(
                text="nats-server 2.12.3: a replica that came fourth or fifth takes its group for one of three",
                needs=Effects(changes_members=True),
            ),
        ),
    ),
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.MEASURED,
        text="A leader that is cut off from every majority stops claiming to lead within a bounded time.",
        source=_SELF_FENCING,
    ),
)

_FILES: Final = KnownIssue(
    text="nats-server#7594: before 2.12.3 a pause of more than 30 s may lose messages that were not written yet",
    before=("2.12.3",),
    needs=Effects(stops=Stops.CERTAIN),
)

LOG_GUARANTEES: Final = (
    Guarantee(
        name="log-durable",
        standing=Standing.PROMISED,
        text="An acknowledged message stays in the stream, whoever leads, while a quorum of replicas keeps its disk.",
        source=f"{_CLUSTERING}, The Quorum: enough servers to have the most recent data after a catastrophic failure",
        issues=(_FILES, _UNSYNCED),
    ),
    Guarantee(
        name="log-offsets-stable",
        standing=Standing.PROMISED,
        text="A sequence that was acknowledged or read holds the same message for ever.",
        source="ADR-53, Monotonic writes: all writes to a single stream are ordered by the stream's sequence",
    ),
    Guarantee(
        name="log-order",
        standing=Standing.PROMISED,
        text="The messages of one publisher keep their order; a read returns them in ascending order.",
        source="ADR-53, Monotonic writes: all writes to a single stream are ordered by the stream's sequence",
    ),
    Guarantee(
        name="log-committed-reads",
        standing=Standing.PROMISED,
        text="A message that was read was published and stays: a message is stored once a quorum has it.",
        source=f"{_CLUSTERING}: a quorum is needed to store new messages",
    ),
    Guarantee(
        name="log-no-duplicates",
        standing=Standing.MEASURED,
        text="A message that was published once stands in the stream once.",
        source="docs.nats.io, Message Deduplication: promised for messages with an id; these have none",
    ),
)

_CONSUMERS: Final = "docs.nats.io, Consumers"
_ORDERED: Final = "ADR-17, ordered consumers: messages in the order of the stream; a gap ends the consumer"

WATCH_GUARANTEES: Final = (
    Guarantee(
        name="watch-ordered",
        standing=Standing.PROMISED,
        text="A consumer delivers messages in the order of the stream, from the asked sequence on.",
        source=_ORDERED,
    ),
    Guarantee(
        name="watch-unique",
        standing=Standing.RELIED_UPON,
        text="A message is never delivered twice by one ordered consumer.",
        source=f"{_CONSUMERS}: nothing is delivered again where nothing is acknowledged (ack policy none)",
    ),
    Guarantee(
        name="watch-reliable",
        standing=Standing.PROMISED,
        text="No message is left out between two others that one ordered consumer delivers.",
        source=_ORDERED,
    ),
    Guarantee(
        name="watch-resumable",
        standing=Standing.PROMISED,
        text="A new consumer from the sequence after the last one received continues a broken one without a loss.",
        source=f"{_CONSUMERS}, DeliverPolicy: by start sequence",
    ),
    Guarantee(
        name="watch-bookmarkable",
        standing=Standing.RELIED_UPON,
        text="A heartbeat names a sequence up to which every message was delivered before it.",
        source="ADR-17: Nats-Last-Stream and Nats-Last-Consumer of an idle heartbeat",
    ),
    Guarantee(
        name="watch-truthful",
        standing=Standing.PROMISED,
        text="Every delivered message was published, with the sequence that its acknowledgement named.",
        source="ADR-53, Monotonic writes: all writes to a single stream are ordered by the stream's sequence",
    ),
)

PUT_GUARANTEES: Final = storage_guarantees(
    puts=Source(Standing.PROMISED, "docs.nats.io/nats-concepts/jetstream: Nats-Expected-Last-Subject-Sequence")
)

GUARANTEES: Final = under((*STORAGE_GUARANTEES, *PUT_GUARANTEES, *LOG_GUARANTEES, *WATCH_GUARANTEES), *_CONDITIONS)


def leadership_bound(options: NatsOptions) -> LeadershipBound:
    """The longest time for which a cut-off leader claims to lead, as the server's code has it: 20 s."""
    return LeadershipBound(
        bound_ns=_LOST_QUORUM_NS + _LOOK_NS,
        source=_SELF_FENCING,
        standing=Standing.MEASURED,
        one_leader_per_epoch=True,
        clocks=(Clock.MONOTONIC,),
    )
