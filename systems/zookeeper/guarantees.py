"""How long a leader that is cut off may claim to lead, how long a session may last, and what settings take away.

What ZooKeeper promises stands in `guarantees.toml`.
"""

from fencepost.harness.contract.server_settings import Settings, value_of
from fencepost.harness.history import Clock
from fencepost.harness.verdict import LeadershipBound, LeaseBound, ResumeBound, Standing
from fencepost.systems.zookeeper.options import ZooKeeperOptions


def leadership_bound(options: ZooKeeperOptions, version: str = "") -> LeadershipBound:
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


def unpromised(settings: Settings, options: object) -> dict[str, str]:
    """The guarantees that ZooKeeper does not give with these settings, with the reason."""
    if value_of(settings, "forceSync", "zookeeper.forceSync") != "no":
        return {}
    reason = "forceSync=no acknowledges writes that are on no disk (Administrator's Guide, Unsafe Options)"
    return dict.fromkeys(("linearizable", "no-lost-acknowledged-writes", "session-order", "log-agrees"), reason)


def resume_bound(options: ZooKeeperOptions) -> ResumeBound:
    """By when a cluster serves again once no fault is left; nobody promises it."""
    return ResumeBound(
        bound_ns=(2 * options.sync_limit + options.init_limit) * options.tick,
        source="Learner and Leader.lead: a lost leader is given up after syncLimit ticks, a new one is followed "
        "within initLimit ticks; syncLimit ticks more for an attempt that fails",
    )
