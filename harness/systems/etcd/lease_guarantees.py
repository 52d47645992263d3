"""What etcd promises of leases, what people rely on beyond it, and how long a lease may outlive its time to live."""

from typing import Final

from fencepost.harness.history import Clock
from fencepost.harness.systems.etcd.options import EtcdOptions
from fencepost.harness.verdict import Guarantee, LeaseBound, Standing

_API: Final = "etcd.io/docs/v3.5/learning/api_guarantees"
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
