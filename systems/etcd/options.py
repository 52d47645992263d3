"""The options of etcd that a plan can set, within etcd's own limits."""

from typing import Annotated

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.profile import SystemOptions


class EtcdOptions(SystemOptions, frozen=True, kw_only=True):
    heartbeat: Annotated[
        Duration,
        about("pause between two heartbeats of the leader", least=seconds(0.001), sets=("heartbeat-interval",)),
    ] = seconds(0.1)
    election: Annotated[
        Duration,
        about(
            "silence of the leader before a follower stands",
            least=seconds(0.001),
            most=seconds(50),
            sets=("election-timeout",),
        ),
    ] = seconds(1)
    # With etcd's own default of 100,000 a run of half a minute takes no snapshot.
    snapshot_count: Annotated[int, about("entries between two snapshots", least=1)] = 10_000
    lock_ttl: Annotated[
        Duration, about("lease that a lock is bound to, in whole seconds; 1.5 x election or more", least=seconds(1))
    ] = seconds(2)

    def refuse(self) -> Refusal | None:
        wrong = super().refuse()
        if wrong is not None:
            return wrong
        if self.election < 5 * self.heartbeat:
            return Refusal(
                f"election={self.election} is less than 5 x heartbeat ({self.heartbeat})",
                "etcd refuses to start below that; raise election or lower heartbeat",
            )
        if self.lock_ttl % seconds(1):
            return Refusal(
                f"lock_ttl={self.lock_ttl} is not a whole number of seconds", "etcd grants leases in whole seconds"
            )
        return None
