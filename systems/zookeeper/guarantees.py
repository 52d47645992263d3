"""What ZooKeeper promises, what its users rely on beyond that, and how long a cut-off leader may believe in itself.

Sources: [G] the Programmer's Guide, "Consistency Guarantees" (zookeeperProgrammers); [I] ZooKeeper Internals,
"Consistency Guarantees" (zookeeperInternals); [Z] Junqueira, Reed, Serafini: "Zab: High-performance broadcast for
primary-backup systems", DSN 2011; [H] Hunt et al.: "ZooKeeper: wait-free coordination", USENIX ATC 2010.
For sessions as leases: the Programmer's Guide, "ZooKeeper Sessions" and "Ephemeral Nodes"; SessionTrackerImpl and
ExpiryQueue of 3.9.
"""

from typing import Final

from fencepost.harness.contract.conditions import value_of
from fencepost.harness.contract.election_guarantees import MEASURED_ELECTIONS
from fencepost.harness.contract.membership_guarantees import Source, membership_guarantees
from fencepost.harness.contract.metastore_guarantees import metastore_guarantees
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.storage_guarantees import storage_guarantees
from fencepost.harness.history import Clock
from fencepost.harness.verdict import Guarantee, LeadershipBound, LeaseBound, Standing
from fencepost.systems.zookeeper.options import ZooKeeperOptions

_SYNC_IS_NO_QUORUM_OPERATION: Final = "ZOOKEEPER-1675"

_GUIDE: Final = "Programmer's Guide"
_ZOMBIE: Final = (
    "a superseded leader that wakes resumes sessions without asking a quorum, for as long as it believes that it leads"
    " (it answers sync in the same way: ZOOKEEPER-1675)"
)

LEASE_GUARANTEES: Final = (
    Guarantee(
        name="live-lease-lives",
        standing=Standing.PROMISED,
        text="A session does not expire before its time-out has passed since the leader last heard of it: its"
        " ephemerals stay unless somebody deletes them or closes the session.",
        source=f'{_GUIDE}, "ZooKeeper Sessions": a session expires "when the cluster does not hear from the client'
        ' within the specified session timeout period"; "Ephemeral Nodes": they exist "as long as the session that'
        ' created the znode is active"',
    ),
    Guarantee(
        name="answered-keep-alive-counts",
        standing=Standing.RELIED_UPON,
        text="A session that a server resumed lives for its time-out, even when a superseded leader confirmed it.",
        source="clients take the answer as proof that the session lives; the leader that confirms it asks no quorum",
        known_issue=_ZOMBIE,
    ),
    Guarantee(
        name="expired-lease-ends",
        standing=Standing.RELIED_UPON,
        text="While nothing disturbs the cluster, a session that nobody resumes ends soon after its time-out.",
        source=f'{_GUIDE}, "ZooKeeper Sessions": at expiration the cluster deletes all ephemerals of the session; the'
        " guide does not say how soon",
    ),
    Guarantee(
        name="ended-lease-stays-ended",
        standing=Standing.PROMISED,
        text="After a session was closed, or a read found its ephemeral absent, no current read returns the ephemeral.",
        source=f'{_GUIDE}, "Consistency Guarantees" and "Ephemeral Nodes": a session\'s ephemerals are deleted with it',
    ),
    Guarantee(
        name="no-keep-alive-of-the-dead",
        standing=Standing.RELIED_UPON,
        text="After a session was closed, or a read found its ephemeral absent, no server resumes the session.",
        source=f'{_GUIDE}, "ZooKeeper Sessions": a client that comes back after the time-out learns that its session'
        " expired",
        known_issue=_ZOMBIE,
    ),
)

_EPHEMERAL: Final = f'{_GUIDE}, "Ephemeral Nodes"'
GROUP_GUARANTEES: Final = membership_guarantees(
    {
        "one-member-per-id": Source(Standing.PROMISED, f'{_GUIDE}, "Consistency Guarantees": a znode is created once'),
        "joined-member-listed": Source(
            Standing.PROMISED,
            'ZooKeeper Internals, "Consistency Guarantees": linearizable after a write of the same session',
        ),
        "leave-ends-own-membership": Source(
            Standing.PROMISED, f"{_EPHEMERAL}: closing a session deletes the znodes of this session"
        ),
        "renewing-member-stays": Source(
            Standing.PROMISED,
            f'{_EPHEMERAL}: they exist "as long as the session that created the znode is active"',
        ),
        "silent-member-goes": Source(
            Standing.RELIED_UPON,
            f'{_GUIDE}, "ZooKeeper Sessions": the guide does not say how soon a session ends after its time-out',
        ),
        "member-data-belongs": Source(Standing.PROMISED, f'{_GUIDE}, "Data Access": data and stat are read atomically'),
        "member-lists-in-order": Source(
            Standing.PROMISED, f'{_GUIDE}, "Consistency Guarantees": single system image, sequential consistency'
        ),
        "group-listener-converges": Source(
            Standing.PROMISED,
            f'{_GUIDE}, "What ZooKeeper Guarantees about Watches": a client sees the event before the new state, so a'
            " read that sets the watch again misses nothing",
        ),
    }
)

_CREATED_ONCE: Final = Source(Standing.PROMISED, "Programmer's Guide, Consistency Guarantees: atomicity")
PUT_GUARANTEES: Final = storage_guarantees(puts=_CREATED_ONCE, updates=_CREATED_ONCE)

METASTORE_GUARANTEES: Final = metastore_guarantees(
    {
        "session-requests-in-order": Source(
            Standing.PROMISED, f'{_GUIDE}, "Consistency Guarantees": updates are applied in the order sent'
        ),
        "batches-go-on": Source(Standing.PROMISED, "each request has its own answer (zookeeper.jute, ReplyHeader)"),
        "versions-count-writes": Source(Standing.PROMISED, f'{_GUIDE}, "ZooKeeper Stat Structure": version'),
        "ephemerals-belong-to-sessions": Source(Standing.PROMISED, f"{_EPHEMERAL}: deleted, and without children"),
        "no-orphan-children": Source(Standing.PROMISED, "KeeperException.NotEmptyException: the node has children"),
        "ended-session-is-refused": Source(Standing.PROMISED, f'{_GUIDE}, "ZooKeeper Sessions": expiration'),
        "events-before-answers": Source(
            Standing.PROMISED,
            f'{_GUIDE}, "What ZooKeeper Guarantees about Watches": a client "will see a watch event for a znode it is'
            ' watching before seeing the new data that corresponds to that znode"',
        ),
    }
)

GUARANTEES: Final = (
    Guarantee(
        name="session-order",
        standing=Standing.PROMISED,
        text="A session's requests take effect in the order sent, and the session never sees an older state again.",
        source='Programmer\'s Guide, "Consistency Guarantees": sequential consistency, single system image',
    ),
    Guarantee(
        name="write-positions-agree",
        standing=Standing.PROMISED,
        text="Every server reports the same zxid for the same write.",
        source="ZooKeeper Internals: total order; a zxid names one proposal",
    ),
    Guarantee(
        name="fresh-after-sync",
        standing=Standing.RELIED_UPON,
        text="A read that follows a sync of the same session sees every write acknowledged before the sync was sent.",
        source="recipes and applications build on it; ZooKeeper Internals says that it is not strictly guaranteed,"
        " because sync is not a quorum operation and two servers may believe that they lead",
        known_issue=_SYNC_IS_NO_QUORUM_OPERATION,
    ),
    Guarantee(
        name="linearizable",
        standing=Standing.PROMISED,
        text="Writes are linearizable, and so is a read that follows a write of the same session (a barrier read).",
        source='ZooKeeper Internals, "Consistency Guarantees": "the stronger guarantee of linearizability is provided'
        ' if an actual quorum operation (e.g., a write) is performed before a read"',
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="An acknowledged write stays until a client overwrites it.",
        source='Programmer\'s Guide, "Consistency Guarantees": reliability',
    ),
    Guarantee(
        name="fenced-lock",
        standing=Standing.PROMISED,
        text="Once a grant of a lock has ended, a multi that checks that grant changes nothing.",
        source='Programmer\'s Guide, "Consistency Guarantees": atomicity; multi with version checks',
    ),
    Guarantee(
        name="lock-mutual-exclusion",
        standing=Standing.RELIED_UPON,
        text="From the moment a session gets a lock until it gives it up, no other holder acts under that lock.",
        source="users of the lock recipe rely on it; a holder whose session expired learns that only when it asks",
        known_issue="the servers end a session before its client knows, which is why fencing is needed",
    ),
    Guarantee(
        name="one-acting-leader",
        standing=Standing.PROMISED,
        text="An act of a leader, made in a multi that checks the leader's grant, takes effect only during its term.",
        source='Programmer\'s Guide, "Consistency Guarantees": atomicity; multi with version checks',
    ),
    Guarantee(
        name="terms-grow",
        standing=Standing.PROMISED,
        text="Each leader gets its term at a higher zxid than all earlier leaders.",
        source='Programmer\'s Guide, "Time in ZooKeeper": every change has a unique zxid, in the order of changes',
    ),
    Guarantee(
        name="resign-ends-own-term",
        standing=Standing.PROMISED,
        text="A leader whose term is over is refused when it resigns, and ends nobody else's term.",
        source='Programmer\'s Guide, "ZooKeeper Access": multi checks the version of the lock before it deletes',
    ),
    Guarantee(
        name="one-believed-leader",
        standing=Standing.RELIED_UPON,
        text="At most one candidate at a time believes that it leads.",
        source="users of the election recipe rely on it; a leader whose session expired learns that only when it asks",
        known_issue="the servers end a session before its client knows, which is why fencing is needed",
    ),
    *MEASURED_ELECTIONS,
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="At most one server leads in an epoch.",
        source="Zab (DSN 2011), primary order: a quorum accepts each epoch from one prospective leader only",
    ),
    # About effects only. A stale answer of a superseded leader breaks the guarantee of the read itself
    # (fresh-after-sync: relied-upon; linearizable: promised).
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="Once a later epoch has begun, no change takes effect in an earlier epoch, and no change that the earlier"
        " leader acknowledges is lost.",
        source="Zab (DSN 2011): a quorum that accepted an epoch acknowledges no proposal of an earlier one",
    ),
    Guarantee(
        name="watch-ordered",
        standing=Standing.PROMISED,
        text="Events arrive in the order of their changes, and none is about a change from before the watch was set.",
        source='Programmer\'s Guide, "What ZooKeeper Guarantees about Watches": the order of watch events corresponds'
        " to the order of the updates as seen by the ZooKeeper service",
    ),
    Guarantee(
        name="watch-unique",
        standing=Standing.PROMISED,
        text="A watch fires once for each change; a one-shot watch fires once in all.",
        source='Programmer\'s Guide, "Things to Remember about Watches": only triggered once for a given notification',
    ),
    # On one connection only: a lost session loses its watches, and a one-shot watch reports only the first change after
    # it was set, so "you cannot reliably see every change" (the same section).
    Guarantee(
        name="watch-reliable",
        standing=Standing.PROMISED,
        text="On one connection a persistent watch reports every change, and a one-shot watch the first change after it"
        " was set.",
        source='Programmer\'s Guide, "ZooKeeper Watches": the client is told when the data changes for which the watch'
        ' was set; "Persistent, Recursive Watches": it does not get removed when triggered',
    ),
    Guarantee(
        name="watch-before-data",
        standing=Standing.PROMISED,
        text="A client sees the event of a change before it sees the new data or any later state.",
        source='Programmer\'s Guide, "What ZooKeeper Guarantees about Watches": before seeing the new data; watches are'
        " ordered with respect to other events, other watches, and asynchronous replies",
    ),
    Guarantee(
        name="watch-truthful",
        standing=Standing.PROMISED,
        text="Every event reports a change that was really made, with the right path, kind and (from 3.9) zxid.",
        source='Programmer\'s Guide, "Semantics of Watches": created, deleted and changed events',
    ),
    # Measured: the manual describes syncLimit as a limit on followers and does not promise that the leader steps down.
    # Safety does not depend on it, since a leader without a quorum commits nothing.
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.MEASURED,
        text="A leader that is cut off from every majority stops claiming to lead within (syncLimit + 2) ticks.",
        source="Leader.lead and LearnerHandler of 3.9: acknowledgements older than syncLimit ticks do not count",
    ),
    *LEASE_GUARANTEES,
    *GROUP_GUARANTEES,
    *PUT_GUARANTEES,
    *METASTORE_GUARANTEES,
)


def leadership_bound(options: ZooKeeperOptions) -> LeadershipBound:
    """The longest time for which a cut-off leader may claim to lead: (syncLimit + 2) ticks of running time.

    The last acknowledgement counts for syncLimit ticks, and the leader checks once in each tick. Just after an election
    it may be initLimit ticks more.

    Source: Leader.lead and LearnerHandler of ZooKeeper 3.9.
    """
    return LeadershipBound(
        bound_ns=(options.sync_limit + 2) * options.tick,
        source=f"Leader.lead: (syncLimit {options.sync_limit} + 2) x tickTime {options.tick} of running time; up to"
        f" initLimit {options.init_limit} ticks more just after an election",
        standing=Standing.MEASURED,
        one_leader_per_epoch=True,
        # Time.currentElapsedTime, which is System.nanoTime.
        clocks=(Clock.MONOTONIC,),
        # A change that a superseded leader acknowledged would have taken effect in an earlier epoch, or be lost.
        superseded_acknowledges_nothing=True,
    )


def lease_bound(options: ZooKeeperOptions) -> LeaseBound:
    """How much longer than its time-out a session may last.

    Sessions expire in batches, at the tick after their time-out; another tick and 1.5 s are for the log and the disks.
    A new leader starts the time of every session again.

    Source: SessionTrackerImpl and ExpiryQueue of ZooKeeper 3.9.
    """
    return LeaseBound(
        extra_ns=2 * options.tick + 1500 * 1_000_000,
        source=f"SessionTrackerImpl rounds up to ticks of {options.tick}; plus one tick and 1.5 s to commit the end of"
        " the session",
        # Time.currentElapsedTime, which is System.nanoTime.
        clocks=(Clock.MONOTONIC,),
    )


def unpromised(settings: Settings) -> dict[str, str]:
    """The guarantees that ZooKeeper does not give with these settings, with the reason (`QualifiesPromises`)."""
    if value_of(settings, "forceSync", "zookeeper.forceSync") != "no":
        return {}
    reason = "forceSync=no acknowledges writes that are on no disk (Administrator's Guide, Unsafe Options)"
    return dict.fromkeys(("linearizable", "no-lost-acknowledged-writes", "session-order"), reason)
