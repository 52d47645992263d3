"""How long a leader of etcd that is cut off may claim to lead, how long a lease may last, and what settings take away.

What etcd promises stands in `guarantees.toml`.
"""

from pathlib import Path
from typing import Final

from fencepost.harness.contract.guarantees import source_of
from fencepost.harness.contract.server_settings import Settings, value_of
from fencepost.harness.history import Clock
from fencepost.harness.verdict import LeadershipBound, LeaseBound, ResumeBound, Standing
from fencepost.systems.etcd.options import EtcdOptions

GUARANTEES: Final = Path(__file__).with_name("guarantees.toml")


def leadership_bound(options: EtcdOptions, version: str = "") -> LeadershipBound:
    """The longest time for which a cut-off leader may claim to lead: 2 election time-outs and a tick.

    Source: raft's CheckQuorum, as for the guarantee leader-self-fencing.
    """
    return LeadershipBound(
        bound_ns=2 * options.election + options.heartbeat,
        source=source_of(GUARANTEES, "leader-self-fencing"),
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


def unpromised(settings: Settings, options: object) -> dict[str, str]:
    """The guarantees that etcd does not give with these settings, with the reason."""
    if value_of(settings, "unsafe-no-fsync") != "true":
        return {}
    reason = "unsafe-no-fsync=true acknowledges writes that are on no disk (etcd --help: unsafe, will cause data loss)"
    return dict.fromkeys(("linearizable", "no-lost-acknowledged-writes", "log-agrees"), reason)


def resume_bound(options: EtcdOptions) -> ResumeBound:
    """By when a cluster serves again once no fault is left; nobody promises it."""
    return ResumeBound(
        bound_ns=6 * options.election,
        source="raft.Config.ElectionTick: a member stands after one to two election time-outs without a leader; "
        "three attempts",
    )
