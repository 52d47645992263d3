"""What ZooKeeper promises of sessions as leases, and how long one may outlive its time-out.

Source: the Programmer's Guide, "ZooKeeper Sessions" and "Ephemeral Nodes"; SessionTrackerImpl and ExpiryQueue of 3.9.
"""

from typing import Final

from fencepost.harness.history import Clock
from fencepost.harness.systems.zookeeper.options import ZooKeeperOptions
from fencepost.harness.verdict import Guarantee, LeaseBound, Standing

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
