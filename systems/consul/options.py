"""The options of Consul that a plan can set, within Consul's own limits."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.profile import SystemOptions
from fencepost.harness.coordination import Interface

#: raft's own times, which `raft_multiplier` multiplies (agent/consul/config.go, raft.DefaultConfig).
ELECTION: Final = seconds(1)
LEASE: Final = seconds(0.5)
#: `session_ttl_min`; Consul's own default is 10 s, with which a run of half a minute would see few sessions end.
SESSION_TTL_MIN: Final = seconds(1)


class MembersBy(StrEnum):
    """The recipe for members of groups, by its name in KIP-30's table."""

    SESSION_KEY = "session-key"
    CATALOG_TTL = "catalog-ttl"


class ConsulOptions(SystemOptions, frozen=True, kw_only=True):
    log_store: Annotated[
        Literal["boltdb", "wal"],
        about("where raft keeps its log; the write-ahead log came with release 1.15", sets=("raft_logstore.backend",)),
    ] = "boltdb"
    raft_multiplier: Annotated[
        int,
        about(
            "multiplies raft's times: 1 s of silence before an election, a lease of 0.5 s for the leader",
            least=1,
            most=10,
            sets=("performance.raft_multiplier",),
        ),
    ] = 1
    # Consul's own default of 7 s is longer than the clients' time-outs.
    hold: Annotated[
        Duration,
        about(
            "how long a server without a leader holds a request (rpc_hold_timeout)",
            least=seconds(0.1),
            sets=("performance.rpc_hold_timeout",),
        ),
    ] = seconds(1)
    session_ttl: Annotated[
        Duration,
        about(
            "time to live of the session of a lock; Consul ends it after twice that time",
            least=SESSION_TTL_MIN,
            most=seconds(86_400),
        ),
    ] = SESSION_TTL_MIN
    # Consul's own default of 15 s would keep a lost lock from its next holder for half of a run.
    lock_delay: Annotated[
        Duration, about("how long nobody gets a lock whose session was ended by the servers", most=seconds(60))
    ] = seconds(1)
    members: Annotated[
        MembersBy,
        about("what a member of a group is: a key that a session locks, or a service in the catalog with a TTL check"),
    ] = MembersBy.SESSION_KEY

    def refuse_for(self, interface: str) -> Refusal | None:
        if self.members is MembersBy.CATALOG_TTL and interface != Interface.MEMBERSHIP:
            return Refusal(
                f"members={self.members} is about members of groups, and this workload has none",
                "choose --workload group-membership, or leave it out",
            )
        return None
