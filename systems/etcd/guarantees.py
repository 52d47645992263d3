"""What etcd promises, what people rely on beyond it, and where each is written.

etcd promises nothing about the delay of watch events: "there is no limit and events in unhealthy clusters might never
arrive" (the page on API guarantees). So an event that has not come yet is late. It is lost only when a later event
arrived before it.

Bookmarks that a client asks for can be relied on since 3.4.25 and 3.5.8. Earlier releases answer outside the stream of
events, with the store's revision, even when events still wait to be sent (etcd#15220). The page that promises more is
younger than those releases. Users build on such bookmarks (Kubernetes reads from its cache by them), so for earlier
releases the guarantee is relied upon.
"""

import re
from typing import Final

import msgspec

from fencepost.harness.contract.conditions import value_of
from fencepost.harness.contract.election_guarantees import MEASURED_ELECTIONS
from fencepost.harness.contract.membership_guarantees import Source, membership_guarantees
from fencepost.harness.contract.metastore_guarantees import metastore_guarantees
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.storage_guarantees import storage_guarantees
from fencepost.harness.history import Clock, Effects, Stops
from fencepost.harness.verdict import Guarantee, KnownIssue, LeadershipBound, LeaseBound, Standing
from fencepost.systems.etcd.options import EtcdOptions

_API: Final = "etcd.io/docs/v3.5/learning/api_guarantees"
_JEPSEN: Final = "Jepsen found that such locks do not exclude: etcd 3.4.3 (2020), jepsen.io/analyses/etcd-3.4.3"
_RAFT: Final = "Ongaro & Ousterhout, In Search of an Understandable Consensus Algorithm (2014), figure 3"

CHECK_QUORUM: Final = (
    "etcd raft CheckQuorum (raft.Config.CheckQuorum, set by etcdserver): once per election time-out a leader checks"
    " whether it heard from a quorum since the last check, and steps down if not; so a leader that is cut off may claim"
    " to lead for almost 2 election time-outs and a tick"
)
_LOST_ENTRIES: Final = KnownIssue(
    text="etcd#13766: 3.5.0 to 3.5.2 may lose applied entries when a member is killed under load",
    since="3.5.0",
    before=("3.5.3",),
    needs=Effects(stops=Stops.POSSIBLE),
)

GUARANTEES: Final = (
    Guarantee(
        name="linearizable",
        standing=Standing.PROMISED,
        text="Key-value operations take effect in one total order that agrees with real time.",
        source=f"{_API}, section Strict serializability",
        issues=(_LOST_ENTRIES,),
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="An acknowledged write is durable.",
        source=f"{_API}, section Durability",
        issues=(_LOST_ENTRIES,),
    ),
    Guarantee(
        name="strict-serializable",
        standing=Standing.PROMISED,
        text="Transactions over several keys behave as in one order, which agrees with real time.",
        source=f"{_API}, section Strict serializability",
        issues=(_LOST_ENTRIES,),
    ),
    Guarantee(
        name="fenced-lock",
        standing=Standing.PROMISED,
        text="Once a lock is lost, a transaction that compares the lock key's create revision writes nothing.",
        source=f"{_API}, section Strict serializability: transactions are atomic",
    ),
    Guarantee(
        name="lock-mutual-exclusion",
        standing=Standing.RELIED_UPON,
        text="At most one client at a time believes that it holds a lock that is bound to a lease.",
        source=f"{_API}, section Lease APIs; etcd.io/docs/v3.5/learning/why, notes on the usage of lock and lease",
        known_issue="a holder that is paused for longer than its lease still believes that it holds the lock;"
        f" {_JEPSEN}",
    ),
    Guarantee(
        name="one-acting-leader",
        standing=Standing.PROMISED,
        text="An act of a leader, made in a transaction that compares the create revision of the leader's key, takes"
        " effect only during the leader's term.",
        source=f"{_API}, section Strict serializability: transactions are atomic, in one order of revisions",
    ),
    Guarantee(
        name="terms-grow",
        standing=Standing.PROMISED,
        text="Each leader's key is created at a higher revision than the keys of all earlier leaders.",
        source=f"{_API}, section Revision: every change of the store has a greater revision than the one before",
    ),
    Guarantee(
        name="resign-ends-own-term",
        standing=Standing.PROMISED,
        text="A leader whose term is over is refused when it resigns, and ends nobody else's term.",
        source=f"{_API}, section Strict serializability: transactions are atomic (create_revision of the leader's key)",
    ),
    Guarantee(
        name="one-believed-leader",
        standing=Standing.RELIED_UPON,
        text="At most one candidate at a time believes that it leads.",
        source="etcd.io/docs/v3.5/learning/why, notes on the usage of lock and lease",
        known_issue=f"a leader that stalls for longer than its lease still believes that it leads; {_JEPSEN}",
    ),
    *MEASURED_ELECTIONS,
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.PROMISED,
        text="A leader that is cut off from every majority stops claiming to lead within a bounded time.",
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
        text="Every member reports the same revision for the same write.",
        source=f"{_API}, section Revision: every change of the store has a revision of its own, in one order",
    ),
    Guarantee(
        name="session-order",
        standing=Standing.MEASURED,
        text="Serializable reads on one connection never go back to an older revision.",
        source=f"{_API}: serializable reads may be stale; the page says nothing about their order",
    ),
)

_RPC: Final = "api/etcdserverpb/rpc.proto, service Lease"


def _zombie(then: str) -> KnownIssue:
    return KnownIssue(
        text="etcd#15247 (up to 3.4.30 and 3.5.12): a leader whose disk stalls still believes that it leads after the"
        f" others have elected a new leader; {then}",
        before=("3.4.31", "3.5.13"),
    )


LEASE_GUARANTEES: Final = (
    Guarantee(
        name="live-lease-lives",
        standing=Standing.PROMISED,
        text="After an answered keep-alive, no member ends the lease before its time to live has passed: the keys stay"
        " unless somebody deletes them or revokes the lease.",
        source=f'{_RPC}: a lease "expires if the server does not receive a keepAlive within a given time to live'
        ' period"; lease.Lessor.Grant: it "expires at least after TTL seconds"',
        issues=(_zombie("it then revokes leases that clients keep alive through the new one"),),
    ),
    Guarantee(
        name="answered-keep-alive-counts",
        standing=Standing.PROMISED,
        text="An answered keep-alive counts in the whole cluster, even when a superseded leader answered it.",
        source=f'{_RPC}: LeaseKeepAliveResponse.TTL "is the new time-to-live for the lease"; a new leader starts every'
        " lease's time again and adds an election time-out, for which the old leader may still answer"
        " (lease.Lessor.Promote)",
        issues=(_zombie("it then answers keep-alives that the new leader does not learn of"),),
    ),
    Guarantee(
        name="expired-lease-ends",
        standing=Standing.RELIED_UPON,
        text="While nothing disturbs the cluster, a lease that nobody keeps alive ends soon after its time to live.",
        source=f'{_API}, Granting, attaching and revoking leases: it "will be expired by the wall clock time to live'
        ' (TTL)"; the page does not say how soon',
    ),
    Guarantee(
        name="ended-lease-stays-ended",
        standing=Standing.PROMISED,
        text="After a lease was revoked, or a read found its key absent, no current read returns the key.",
        source=f"{_API}, section Strict serializability; {_RPC}: all keys of a lease are deleted with it",
    ),
    Guarantee(
        name="no-keep-alive-of-the-dead",
        standing=Standing.RELIED_UPON,
        text="After a lease was revoked, or a read found its key absent, no keep-alive of it is answered with a time to"
        " live.",
        source="clients take the answer as proof that they hold the lease; keep-alives do not go through the log",
        known_issue="etcd#14758: a keep-alive may still be answered when it races with the end of its lease, or reaches"
        " the leader before the leader has applied that end",
        issues=(
            KnownIssue(
                text="etcd#20590 (up to 3.4.37, 3.5.22 and 3.6.4): the same", before=("3.4.38", "3.5.23", "3.6.5")
            ),
        ),
    ),
)

_TRANSACTION: Final = f"{_API}, section Strict serializability: transactions are atomic"
GROUP_GUARANTEES: Final = membership_guarantees(
    {
        "one-member-per-id": Source(Standing.PROMISED, _TRANSACTION),
        "joined-member-listed": Source(Standing.PROMISED, f"{_API}, section Strict serializability"),
        "leave-ends-own-membership": Source(Standing.PROMISED, f"{_RPC}: LeaseRevoke deletes the keys of its lease"),
        "renewing-member-stays": Source(
            Standing.PROMISED,
            f'{_RPC}: a lease "expires if the server does not receive a keepAlive within a given time to live period"',
            (_zombie("it then revokes leases that clients keep alive through the new one"),),
        ),
        "silent-member-goes": Source(
            Standing.RELIED_UPON,
            f"{_API}, Granting, attaching and revoking leases: the page does not say how soon an expired lease ends",
        ),
        "member-data-belongs": Source(Standing.PROMISED, f"{_API}: a range is of one revision"),
        "member-lists-in-order": Source(
            Standing.PROMISED, f"{_API}, section Strict serializability; one member applies revisions in order"
        ),
        "group-listener-converges": Source(Standing.PROMISED, f"{_API}, section Watch APIs: Reliable, Resumable"),
    }
)

_KIP_273: Final = 'only KIP-273 says so ("etcd can provide the same semantics as Zookeeper")'
_ATOMIC: Final = Source(Standing.PROMISED, f"{_API}, section Strict serializability: transactions are atomic")
PUT_GUARANTEES: Final = storage_guarantees(puts=_ATOMIC, updates=_ATOMIC)

METASTORE_GUARANTEES: Final = metastore_guarantees(
    {
        "session-requests-in-order": Source(
            Standing.MEASURED, f"{_KIP_273}; unary calls on one connection have no order (grpc.io, core concepts)"
        ),
        "batches-go-on": Source(Standing.MEASURED, "calls are independent of each other"),
        "versions-count-writes": Source(Standing.PROMISED, "api/mvccpb/kv.proto: version counts from the creation on"),
        "ephemerals-belong-to-sessions": Source(Standing.MEASURED, f"{_KIP_273}; keys are flat"),
        "no-orphan-children": Source(Standing.MEASURED, f"{_KIP_273}; keys are flat"),
        "ended-session-is-refused": Source(Standing.MEASURED, f"{_KIP_273}; a lease is bound to keys, not to a client"),
        "events-before-answers": Source(Standing.MEASURED, f"{_KIP_273}; watch and range are streams of their own"),
    }
)

_WATCH_API: Final = f"{_API}, section Watch APIs"

_BOOKMARKS: Final = Guarantee(
    name="watch-bookmarkable",
    standing=Standing.PROMISED,
    text="After a progress notification for a revision, all events up to that revision have been delivered.",
    source=f"{_WATCH_API}: Bookmarkable",
)
_BOOKMARKS_BEFORE: Final = msgspec.structs.replace(
    _BOOKMARKS,
    standing=Standing.RELIED_UPON,
    source=f"{_BOOKMARKS.source}; that page is younger than this release",
    known_issue="etcd#15220: before 3.4.25 and 3.5.8 a requested progress notification may overtake events",
)

WATCH_GUARANTEES: Final = (
    Guarantee(
        name="watch-ordered",
        standing=Standing.PROMISED,
        text="Events arrive in the order of their revisions; an event never arrives after a later one, and none"
        " precedes the watch's start.",
        source=f"{_WATCH_API}: Ordered; etcd.io/docs/v3.5/learning/api, section Watch streams: start_revision",
        known_issue="etcd#20221: a watch that starts at a revision its member has not reached may get earlier events",
    ),
    Guarantee(
        name="watch-unique",
        standing=Standing.PROMISED,
        text="An event never arrives twice on one watch.",
        source=f"{_WATCH_API}: Unique",
    ),
    Guarantee(
        name="watch-reliable",
        standing=Standing.PROMISED,
        text="No event is left out between two others: a watch that gets a and c, with a < b < c, also gets b.",
        source=f"{_WATCH_API}: Reliable",
        issues=(
            KnownIssue(
                text="etcd#17529 (up to 3.4.30 and 3.5.12): events may be lost when history is compacted",
                before=("3.4.31", "3.5.13"),
            ),
            KnownIssue(
                text="etcd#19179 (up to 3.4.35 and 3.5.17): events may be lost when history is compacted",
                before=("3.4.36", "3.5.18"),
            ),
        ),
    ),
    Guarantee(
        name="watch-atomic",
        standing=Standing.PROMISED,
        text="A list of events holds complete revisions: the changes of one transaction are never split over two"
        " lists.",
        source=f"{_WATCH_API}: Atomic",
    ),
    Guarantee(
        name="watch-resumable",
        standing=Standing.PROMISED,
        text="A new watch that starts after the last revision received continues a broken watch without losing an"
        " event, as long as that revision has not been compacted.",
        source=f"{_WATCH_API}: Resumable",
        issues=(
            KnownIssue(
                text="etcd#18089: before 3.4.34 and 3.5.16 a deletion is lost when history is compacted at its"
                " revision",
                before=("3.4.34", "3.5.16"),
            ),
        ),
    ),
    _BOOKMARKS,
    Guarantee(
        name="watch-truthful",
        standing=Standing.PROMISED,
        text="Every event reports a change that was really made, with the right key, value and revision.",
        source="etcd.io/docs/v3.5/learning/api, section Events: a put carries the current key-value pair, a delete the"
        " deleted key with its modification revision",
    ),
)

_FIXED: Final = {(3, 4): 25, (3, 5): 8}


def promises(version: str) -> tuple[Guarantee, ...]:
    """The guarantees that this release is held to."""
    of_keys = (*GUARANTEES, *PUT_GUARANTEES, *METASTORE_GUARANTEES)
    return (*of_keys, *LEASE_GUARANTEES, *GROUP_GUARANTEES, *watch_guarantees(version))


def watch_guarantees(version: str) -> tuple[Guarantee, ...]:
    """The guarantees about watches, with the standing of bookmarks in this release.

    Args:
        version: a release such as "3.5.1"; for anything else (the path of a build) the newest standing is used.
    """
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if numbers is None:
        return WATCH_GUARANTEES
    major, minor, patch = (int(number) for number in numbers.groups())
    if patch >= _FIXED.get((major, minor), 0 if (major, minor) > (3, 5) else 1 << 30):
        return WATCH_GUARANTEES
    return tuple(_BOOKMARKS_BEFORE if one is _BOOKMARKS else one for one in WATCH_GUARANTEES)


def leadership_bound(options: EtcdOptions) -> LeadershipBound:
    """The longest time for which a cut-off leader may claim to lead: 2 election time-outs and a tick.

    Source: raft's CheckQuorum (see `CHECK_QUORUM`).
    """
    return LeadershipBound(
        bound_ns=2 * options.election + options.heartbeat,
        source=CHECK_QUORUM,
        standing=Standing.PROMISED,
        # Status reads leader and term at two moments: see `question`.
        one_leader_per_epoch=False,
        # raft counts ticks of a time.Ticker, which Go drives by the monotonic clock.
        clocks=(Clock.MONOTONIC,),
        superseded_acknowledges_nothing=True,
    )


def lease_bound(options: EtcdOptions) -> LeaseBound:
    """How much longer than its time to live a lease may last.

    The leader looks for expired leases every 500 ms and repeats a failed revoke after 3 s; one more second is for the
    log and the disks. A new leader starts the time of every lease again and adds an election time-out.

    Source: lease.Lessor (Promote, runLoop, expiredLeaseRetryInterval) of etcd 3.5.
    """
    return LeaseBound(
        extra_ns=options.election + (500 + 3000 + 1000) * 1_000_000,
        source=f"lease.Lessor: Promote adds the election time-out ({options.election}), runLoop looks for expired"
        " leases every 500 ms, expiredLeaseRetryInterval is 3 s; plus 1 s to commit the revoke",
        # time.Now of Go carries the monotonic clock, and expiries are compared by it.
        clocks=(Clock.MONOTONIC,),
    )


def unpromised(settings: Settings) -> dict[str, str]:
    """The guarantees that etcd does not give with these settings, with the reason (`QualifiesPromises`)."""
    if value_of(settings, "unsafe-no-fsync") != "true":
        return {}
    reason = "unsafe-no-fsync=true acknowledges writes that are on no disk (etcd --help: unsafe, will cause data loss)"
    return dict.fromkeys(("linearizable", "no-lost-acknowledged-writes"), reason)
