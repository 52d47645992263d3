"""What ZooKeeper promises, what its users rely on beyond that, and how long a cut-off leader may believe in itself.

Sources: [G] the Programmer's Guide, "Consistency Guarantees" (zookeeperProgrammers); [I] ZooKeeper Internals,
"Consistency Guarantees" (zookeeperInternals); [Z] Junqueira, Reed, Serafini: "Zab: High-performance broadcast for
primary-backup systems", DSN 2011; [H] Hunt et al.: "ZooKeeper: wait-free coordination", USENIX ATC 2010.
Of sessions as leases: the Programmer's Guide, "ZooKeeper Sessions" and "Ephemeral Nodes"; SessionTrackerImpl and
ExpiryQueue of 3.9.
"""

from typing import Final

from fencepost.harness.history import Clock
from fencepost.harness.systems.contract.conditions import value_of
from fencepost.harness.systems.contract.server_settings import Settings
from fencepost.harness.systems.zookeeper.options import ZooKeeperOptions
from fencepost.harness.verdict import Guarantee, LeadershipBound, LeaseBound, Standing

_SYNC_IS_NO_QUORUM_OPERATION: Final = "ZOOKEEPER-1675"

_GUIDE: Final = "Programmer's Guide"
_ZOMBIE: Final = (
    "a superseded leader that wakes resumes sessions without asking a quorum, for as long as it takes itself for the"
    " leader (as it answers sync: ZOOKEEPER-1675)"
)

LEASE_GUARANTEES: Final = (
    Guarantee(
        name="live-lease-lives",
        standing=Standing.PROMISED,
        text="For its time-out after the last time that the leader was asked about it, a session does not expire: its"
        " ephemerals stay unless somebody deletes them or closes it.",
        source=f'{_GUIDE}, "ZooKeeper Sessions": a session expires "when the cluster does not hear from the client'
        ' within the specified session timeout period"; "Ephemeral Nodes": they exist "as long as the session that'
        ' created the znode is active"',
    ),
    Guarantee(
        name="answered-keep-alive-counts",
        standing=Standing.RELIED_UPON,
        text="A session that a server resumed lives for its time-out, also when a superseded leader confirmed it.",
        source="clients take the answer for proof that the session lives; the leader that confirms it asks no quorum",
        known_issue=_ZOMBIE,
    ),
    Guarantee(
        name="expired-lease-ends",
        standing=Standing.RELIED_UPON,
        text="A session that nobody resumes is gone soon after its time-out, while nothing disturbs the cluster.",
        source=f'{_GUIDE}, "ZooKeeper Sessions": at expiration the cluster deletes all ephemerals of the session; by'
        " when it expires is not said",
    ),
    Guarantee(
        name="ended-lease-stays-ended",
        standing=Standing.PROMISED,
        text="Once a session was closed, or its ephemeral was seen gone, no current read shows the ephemeral again.",
        source=f'{_GUIDE}, "Consistency Guarantees" and "Ephemeral Nodes": with the session its ephemerals are deleted',
    ),
    Guarantee(
        name="no-keep-alive-of-the-dead",
        standing=Standing.RELIED_UPON,
        text="Once a session was closed, or its ephemeral was seen gone, no server resumes it.",
        source=f'{_GUIDE}, "ZooKeeper Sessions": who comes back after the time-out is told that the session expired',
        known_issue=_ZOMBIE,
    ),
)

GUARANTEES: Final = (
    Guarantee(
        name="session-order",
        standing=Standing.PROMISED,
        text="A session's requests take effect in its order, and it never sees the store go back to an older state.",
        source='Programmer\'s Guide, "Consistency Guarantees": sequential consistency, single system image',
    ),
    Guarantee(
        name="write-positions-agree",
        standing=Standing.PROMISED,
        text="A write has one zxid, the same for every server that tells of it.",
        source="ZooKeeper Internals: total order; a zxid names one proposal",
    ),
    Guarantee(
        name="fresh-after-sync",
        standing=Standing.RELIED_UPON,
        text="A read behind a sync of the same session sees every write acknowledged before the sync was sent.",
        source="recipes and applications build on it; ZooKeeper Internals says that it is not strictly guaranteed,"
        " since sync is not a quorum operation: two servers may take themselves for the leader",
        known_issue=_SYNC_IS_NO_QUORUM_OPERATION,
    ),
    Guarantee(
        name="linearizable",
        standing=Standing.PROMISED,
        text="Writes are linearizable, and so is a read behind a write of the same session (a barrier read).",
        source='ZooKeeper Internals, "Consistency Guarantees": "the stronger guarantee of linearizability is provided'
        ' if an actual quorum operation (e.g., a write) is performed before a read"',
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="A write that was acknowledged stays until a client overwrites it.",
        source='Programmer\'s Guide, "Consistency Guarantees": reliability',
    ),
    Guarantee(
        name="fenced-lock",
        standing=Standing.PROMISED,
        text="A multi that checks the lock's grant changes nothing once that grant has ended.",
        source='Programmer\'s Guide, "Consistency Guarantees": atomicity; multi with version checks',
    ),
    Guarantee(
        name="lock-mutual-exclusion",
        standing=Standing.RELIED_UPON,
        text="Between a session's grant of a lock and its end, no other holder acts under that lock.",
        source="the lock recipe is used so; a holder whose session expired learns of it only when it asks",
        known_issue="a session ends at the servers before its client knows: hence fencing",
    ),
    Guarantee(
        name="one-acting-leader",
        standing=Standing.PROMISED,
        text="What a leader does in multis that check its grant takes effect in its term only.",
        source='Programmer\'s Guide, "Consistency Guarantees": atomicity; multi with version checks',
    ),
    Guarantee(
        name="terms-grow",
        standing=Standing.PROMISED,
        text="Each leader is granted its term at a zxid above those of all leaders before it.",
        source='Programmer\'s Guide, "Time in ZooKeeper": every change has a unique zxid, in the order of changes',
    ),
    Guarantee(
        name="one-believed-leader",
        standing=Standing.RELIED_UPON,
        text="At most one candidate at a time believes that it leads.",
        source="the leader election recipe is used so; a leader whose session expired learns of it only when it asks",
        known_issue="a session ends at the servers before its client knows: hence fencing",
    ),
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="Of one epoch there is at most one leader.",
        source="Zab (DSN 2011), primary order: a quorum accepts each epoch from one prospective leader only",
    ),
    # Effects only. A superseded leader's answer that its client takes for current is held against the reads' own
    # guarantee (fresh-after-sync: relied-upon; linearizable: promised).
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="Once a later epoch has begun, nothing takes effect under an earlier one, and nothing that the leader of"
        " an earlier one acknowledges is lost.",
        source="Zab (DSN 2011): a quorum that accepted an epoch acknowledges no proposal of an earlier one",
    ),
    Guarantee(
        name="watch-ordered",
        standing=Standing.PROMISED,
        text="Events come in the order of the changes that they tell of, and none from before the watch was set.",
        source='Programmer\'s Guide, "What ZooKeeper Guarantees about Watches": the order of watch events corresponds'
        " to the order of the updates as seen by the ZooKeeper service",
    ),
    Guarantee(
        name="watch-unique",
        standing=Standing.PROMISED,
        text="A watch is triggered once for a change; a one-shot watch once in all.",
        source='Programmer\'s Guide, "Things to Remember about Watches": only triggered once for a given notification',
    ),
    # Of one connection alone: a session that was lost takes its watches along, and a one-shot watch tells of the first
    # change after it was set, so "you cannot reliably see every change" (the same section).
    Guarantee(
        name="watch-reliable",
        standing=Standing.PROMISED,
        text="On one connection a persistent watch tells of every change, and a one-shot watch of the first one after"
        " it was set.",
        source='Programmer\'s Guide, "ZooKeeper Watches": the client is told when the data changes for which the watch'
        ' was set; "Persistent, Recursive Watches": it does not get removed when triggered',
    ),
    Guarantee(
        name="watch-before-data",
        standing=Standing.PROMISED,
        text="A client sees the event of a change before it sees the new data, or an answer that is newer.",
        source='Programmer\'s Guide, "What ZooKeeper Guarantees about Watches": before seeing the new data; watches are'
        " ordered with respect to other events, other watches, and asynchronous replies",
    ),
    Guarantee(
        name="watch-truthful",
        standing=Standing.PROMISED,
        text="An event tells of a change that was made, with its path, its kind and (3.9 on) its zxid.",
        source='Programmer\'s Guide, "Semantics of Watches": created, deleted and changed events',
    ),
    # Measured: the manual describes syncLimit as a limit on followers and promises nothing of the leader's stepping
    # down; safety never rests on it, since a leader without a quorum commits nothing.
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.MEASURED,
        text="A leader that is cut off from every majority stops claiming to lead within (syncLimit + 2) ticks.",
        source="Leader.lead and LearnerHandler of 3.9: acknowledgements older than syncLimit ticks do not count",
    ),
    *LEASE_GUARANTEES,
)


def leadership_bound(options: ZooKeeperOptions) -> LeadershipBound:
    """(syncLimit + 2) ticks: the last acknowledgement counts for syncLimit of them, the leader looks once in each."""
    return LeadershipBound(
        bound_ns=(options.sync_limit + 2) * options.tick,
        source=f"Leader.lead: (syncLimit {options.sync_limit} + 2) x tickTime {options.tick} of running time; up to"
        f" initLimit {options.init_limit} ticks more just after an election",
        standing=Standing.MEASURED,
        one_leader_per_epoch=True,
        # Time.currentElapsedTime, which is System.nanoTime.
        clocks=(Clock.MONOTONIC,),
        # A change that such a leader acknowledged would be one that took effect under an earlier epoch, or a lost one.
        superseded_acknowledges_nothing=True,
    )


def lease_bound(options: ZooKeeperOptions) -> LeaseBound:
    """Sessions expire in batches, at the tick after their time-out; a tick and a second more for the log and the disks.

    A new leader counts every session again.
    """
    return LeaseBound(
        extra_ns=2 * options.tick + 1500 * 1_000_000,
        source=f"SessionTrackerImpl rounds up to ticks of {options.tick}; one more, and 1.5 s, to commit the end of the"
        " session",
        # Time.currentElapsedTime, which is System.nanoTime.
        clocks=(Clock.MONOTONIC,),
    )


def unpromised(settings: Settings) -> dict[str, str]:
    """`harness.systems.contract.conditions.QualifiesPromises`."""
    if value_of(settings, "forceSync", "zookeeper.forceSync") != "no":
        return {}
    reason = "forceSync=no acknowledges what no disk has (Administrator's Guide, Unsafe Options)"
    return dict.fromkeys(("linearizable", "no-lost-acknowledged-writes", "session-order"), reason)
