"""What etcd promises, what people rely on beyond it, and where each is written.

Of a watch's delay it promises nothing: "there is no limit and events in unhealthy clusters might never arrive" (the
page on API guarantees). So an event that has not come is late; only one that a later event passed over is lost.

Bookmarks that are asked for hold since 3.4.25 and 3.5.8. Earlier releases answer the question beside the stream of
events, with the store's revision, whatever still waits to be sent (etcd#15220); the page that promises otherwise is
younger than they are. Users build on it (Kubernetes reads from its cache by it), so there it is relied upon.
"""

import re
from typing import Final

import msgspec

from fencepost.harness.history import Clock
from fencepost.harness.systems.contract.conditions import value_of
from fencepost.harness.systems.contract.server_settings import Settings
from fencepost.harness.systems.etcd.options import EtcdOptions
from fencepost.harness.verdict import Guarantee, LeadershipBound, LeaseBound, Standing

_API: Final = "etcd.io/docs/v3.5/learning/api_guarantees"
_JEPSEN: Final = "Jepsen found that such locks do not exclude: etcd 3.4.3 (2020), jepsen.io/analyses/etcd-3.4.3"
_RAFT: Final = "Ongaro & Ousterhout, In Search of an Understandable Consensus Algorithm (2014), figure 3"

CHECK_QUORUM: Final = (
    "etcd raft CheckQuorum (raft.Config.CheckQuorum, set by etcdserver): a leader looks once per election time-out"
    " whether a quorum was heard since its last look, and steps down if not; so it may claim for just under 2 election"
    " time-outs and a tick after it is cut off"
)

GUARANTEES: Final = (
    Guarantee(
        name="linearizable",
        standing=Standing.PROMISED,
        text="Key-value operations take effect in one total order that agrees with real time.",
        source=f"{_API}, section Strict serializability",
        known_issue="etcd#13766: 3.5.0 to 3.5.2 may lose applied entries when a member is killed under load",
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="A write that was acknowledged is durable.",
        source=f"{_API}, section Durability",
        known_issue="etcd#13766: 3.5.0 to 3.5.2 may lose applied entries when a member is killed under load",
    ),
    Guarantee(
        name="fenced-lock",
        standing=Standing.PROMISED,
        text="A write in a transaction that compares the lock key's create revision is refused once the lock is lost.",
        source=f"{_API}, section Strict serializability: transactions are atomic",
    ),
    Guarantee(
        name="lock-mutual-exclusion",
        standing=Standing.RELIED_UPON,
        text="At most one client at a time believes that it holds a lock bound to a lease.",
        source=f"{_API}, section Lease APIs; etcd.io/docs/v3.5/learning/why, notes on the usage of lock and lease",
        known_issue=f"a holder that is paused past its lease goes on believing; {_JEPSEN}",
    ),
    Guarantee(
        name="one-acting-leader",
        standing=Standing.PROMISED,
        text="What a leader does in transactions that compare its key's create revision takes effect in its term only.",
        source=f"{_API}, section Strict serializability: transactions are atomic, in one order of revisions",
    ),
    Guarantee(
        name="terms-grow",
        standing=Standing.PROMISED,
        text="Each leader's key is created at a revision above those of all leaders before it.",
        source=f"{_API}, section Revision: every change of the store has a greater revision than the one before",
    ),
    Guarantee(
        name="one-believed-leader",
        standing=Standing.RELIED_UPON,
        text="At most one candidate at a time believes that it leads.",
        source="etcd.io/docs/v3.5/learning/why, notes on the usage of lock and lease",
        known_issue=f"a leader that stalls past its lease goes on believing; {_JEPSEN}",
    ),
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.PROMISED,
        text="A leader that is cut off from every majority stops claiming to lead within a bound.",
        source=CHECK_QUORUM,
    ),
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="At most one member leads in a term.",
        source=f"{_RAFT}, Election Safety",
    ),
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="A leader whose term is over acknowledges no write and answers no linearizable read from its old state.",
        source=f"{_API}, section Strict serializability; reads confirm leadership as in Ongaro's thesis (2014), 6.4",
    ),
    Guarantee(
        name="write-positions-agree",
        standing=Standing.PROMISED,
        text="A write has one revision, the same for every member that tells of it.",
        source=f"{_API}, section Revision: every change of the store has a revision of its own, in one order",
    ),
    Guarantee(
        name="session-order",
        standing=Standing.MEASURED,
        text="Serializable reads of one connection never go back to an older revision.",
        source=f"{_API}: serializable reads may be stale; nothing is said of their order",
    ),
)

_RPC: Final = "api/etcdserverpb/rpc.proto, service Lease"
_ZOMBIE: Final = (
    "etcd#15247 (to 3.4.30 and 3.5.12): a leader whose disk stalls takes itself for the leader after others have"
    " elected a new one"
)

LEASE_GUARANTEES: Final = (
    Guarantee(
        name="live-lease-lives",
        standing=Standing.PROMISED,
        text="For its time to live after the last keep-alive that was answered, no member ends a lease by itself: its"
        " keys stay unless somebody deletes them or revokes it.",
        source=f'{_RPC}: a lease "expires if the server does not receive a keepAlive within a given time to live'
        ' period"; lease.Lessor.Grant: it "expires at least after TTL seconds"',
        known_issue=f"{_ZOMBIE}, and revokes what is kept alive through that one",
    ),
    Guarantee(
        name="answered-keep-alive-counts",
        standing=Standing.PROMISED,
        text="A keep-alive that was answered counts for the cluster, also one that a superseded leader answered.",
        source=f'{_RPC}: LeaseKeepAliveResponse.TTL "is the new time-to-live for the lease"; a new leader counts all'
        " leases again and adds an election time-out (lease.Lessor.Promote), as long as an old one may answer",
        known_issue=f"{_ZOMBIE}, and answers keep-alives of which that one does not hear",
    ),
    Guarantee(
        name="expired-lease-ends",
        standing=Standing.RELIED_UPON,
        text="A lease that nobody keeps alive is gone soon after its time to live, while nothing disturbs the cluster.",
        source=f'{_API}, Granting, attaching and revoking leases: it "will be expired by the wall clock time to live'
        ' (TTL)"; by when is not said',
    ),
    Guarantee(
        name="ended-lease-stays-ended",
        standing=Standing.PROMISED,
        text="Once a lease was revoked, or its key was seen gone, no current read shows the key again.",
        source=f"{_API}, section Strict serializability; {_RPC}: with the lease all its keys are deleted",
    ),
    Guarantee(
        name="no-keep-alive-of-the-dead",
        standing=Standing.RELIED_UPON,
        text="Once a lease was revoked, or its key was seen gone, no keep-alive of it is answered with a time to live.",
        source="clients take the answer for proof that they hold the lease; keep-alives do not go through the log",
        known_issue="etcd#20590 (to 3.4.37, 3.5.22 and 3.6.4) and etcd#14758: a keep-alive that races with the end of"
        " its lease, or that the leader hears before it has applied that end, may be answered all the same",
    ),
)

_WATCH_API: Final = f"{_API}, section Watch APIs"

_BOOKMARKS: Final = Guarantee(
    name="watch-bookmarkable",
    standing=Standing.PROMISED,
    text="Progress notification events guarantee that all events up to a revision have been already delivered.",
    source=f"{_WATCH_API}: Bookmarkable",
)
_BOOKMARKS_BEFORE: Final = msgspec.structs.replace(
    _BOOKMARKS,
    standing=Standing.RELIED_UPON,
    source=f"{_BOOKMARKS.source}; that page is younger than this release",
    known_issue="etcd#15220: before 3.4.25 and 3.5.8 a progress notification that is asked for overtakes events",
)

WATCH_GUARANTEES: Final = (
    Guarantee(
        name="watch-ordered",
        standing=Standing.PROMISED,
        text="Events are ordered by revision; an event never appears on a watch if it precedes one that was posted, or"
        " the watch's start.",
        source=f"{_WATCH_API}: Ordered; etcd.io/docs/v3.5/learning/api, section Watch streams: start_revision",
        known_issue="etcd#20221: a watch that starts at a revision its member has not reached may get older events",
    ),
    Guarantee(
        name="watch-unique",
        standing=Standing.PROMISED,
        text="An event never appears on a watch twice.",
        source=f"{_WATCH_API}: Unique",
    ),
    Guarantee(
        name="watch-reliable",
        standing=Standing.PROMISED,
        text="A sequence of events never drops a part of itself: a watch that gets a and c, with a < b < c, gets b.",
        source=f"{_WATCH_API}: Reliable",
        known_issue="etcd#17529, etcd#19179: events may be lost when history is compacted",
    ),
    Guarantee(
        name="watch-atomic",
        standing=Standing.PROMISED,
        text="A list of events holds complete revisions: what one transaction changed is not split over several lists.",
        source=f"{_WATCH_API}: Atomic",
    ),
    Guarantee(
        name="watch-resumable",
        standing=Standing.PROMISED,
        text="A broken watch can be resumed by a new one that starts after the last revision received, as long as that"
        " is in the history window; nothing in between is lost.",
        source=f"{_WATCH_API}: Resumable",
        known_issue="etcd#18089: before 3.4.34 and 3.5.16 a deletion is lost when history is compacted at its revision",
    ),
    _BOOKMARKS,
    Guarantee(
        name="watch-truthful",
        standing=Standing.PROMISED,
        text="An event tells of a change that was made, with its key, its value and its revision.",
        source="etcd.io/docs/v3.5/learning/api, section Events: a put carries the current key-value pair, a delete the"
        " deleted key with its modification revision",
    ),
)

_FIXED: Final = {(3, 4): 25, (3, 5): 8}


def promises(version: str) -> tuple[Guarantee, ...]:
    """What this release is held to."""
    return (*GUARANTEES, *LEASE_GUARANTEES, *watch_guarantees(version))


def watch_guarantees(version: str) -> tuple[Guarantee, ...]:
    """As this release is held to them."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        return WATCH_GUARANTEES
    major, minor, patch = (int(number) for number in found.groups())
    if patch >= _FIXED.get((major, minor), 0 if (major, minor) > (3, 5) else 1 << 30):
        return WATCH_GUARANTEES
    return tuple(_BOOKMARKS_BEFORE if one is _BOOKMARKS else one for one in WATCH_GUARANTEES)


def leadership_bound(options: EtcdOptions) -> LeadershipBound:
    """2 election time-outs and a tick, by CheckQuorum."""
    return LeadershipBound(
        bound_ns=2 * options.election + options.heartbeat,
        source=CHECK_QUORUM,
        standing=Standing.PROMISED,
        # Status reads leader and term apart: see `question`.
        one_leader_per_epoch=False,
        # raft counts ticks of a time.Ticker, which Go drives by the monotonic clock.
        clocks=(Clock.MONOTONIC,),
        superseded_acknowledges_nothing=True,
    )


def lease_bound(options: EtcdOptions) -> LeaseBound:
    """The leader looks every 500 ms, asks again after 3 s for a revoke that failed; a second for the log and the disks.

    A new leader counts every lease again, an election time-out longer than its time to live.
    """
    return LeaseBound(
        extra_ns=options.election + (500 + 3000 + 1000) * 1_000_000,
        source=f"lease.Lessor: Promote adds the election time-out ({options.election}), runLoop looks every"
        " 500 ms, expiredLeaseRetryInterval is 3 s; and 1 s to commit the revoke",
        # time.Now of Go carries the monotonic clock, and expiries are compared by it.
        clocks=(Clock.MONOTONIC,),
    )


def unpromised(settings: Settings) -> dict[str, str]:
    """`harness.systems.contract.conditions.QualifiesPromises`."""
    if value_of(settings, "unsafe-no-fsync") != "true":
        return {}
    reason = "unsafe-no-fsync=true acknowledges what no disk has (etcd --help: unsafe, will cause data loss)"
    return dict.fromkeys(("linearizable", "no-lost-acknowledged-writes"), reason)
