"""How long a leader that is cut off may claim to lead, how long a session may last, and what options take away.

What Consul promises stands in `guarantees.toml`.
"""

from typing import Final

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.history import Clock
from fencepost.harness.verdict import LeadershipBound, LeaseBound, ResumeBound, Standing
from fencepost.systems.consul.options import ELECTION, LEASE, ConsulOptions, MembersBy

_DOCS: Final = "developer.hashicorp.com/consul"
_ANTI_ENTROPY: Final = f"{_DOCS}/docs/architecture/anti-entropy"
_AGENT_ALONE: Final = (
    "agent_endpoint.go, syncChanges: an agent that reaches no server answers all the same, and tries again later"
    f" ({_ANTI_ENTROPY}; consul#6119)"
)

#: What the catalog does not give that sessions do, by guarantee (`catalog`).
_CATALOG_LACKS: Final = {
    "one-member-per-id": f"{_DOCS}/api-docs/agent/service: no registration fails because its ID is taken; it overwrites"
    " on one agent, and is a second instance on another",
    "joined-member-listed": f"a registration is answered by the agent alone; {_AGENT_ALONE}",
    "leave-ends-own-membership": "Consul knows instances of a service and no members; that each join has an instance ID"
    " of its own is the recipe's doing",
    "renewing-member-stays": "a renewal is answered by the agent alone, and an agent that gossip declares failed takes"
    f" its instances with it, renewed or not ({_DOCS}/api-docs/health: passing covers the node's checks)",
    "silent-member-goes": f"the agent counts the time to live; {_AGENT_ALONE}",
    "member-lists-in-order": "an instance whose check fails stays registered, and is listed again when the check passes"
    " or its agent is heard of",
}


def unpromised(settings: Settings, options: ConsulOptions) -> dict[str, str]:
    """The guarantees that Consul does not give with these options, with the reason."""
    if options.members is MembersBy.SESSION_KEY:
        return {}
    return {name: f"-O members={options.members}: {why}" for name, why in _CATALOG_LACKS.items()}


def leadership_bound(options: ConsulOptions, version: str = "") -> LeadershipBound:
    """The longest time for which a cut-off leader may claim to lead: its lease, looked at every 10 ms at the end."""
    lease = options.raft_multiplier * LEASE
    return LeadershipBound(
        bound_ns=lease + 10_000_000,
        source="hashicorp/raft raft.go, leaderLoop and checkLeaderLease: without contact to a quorum for"
        f" LeaderLeaseTimeout ({options.raft_multiplier} x {LEASE}) a leader steps down; it looks at least every 10 ms"
        " when the lease runs out (minCheckInterval)",
        standing=Standing.PROMISED,
        # An answer reads role and term at two moments: see `agent`.
        one_leader_per_epoch=False,
        # time.Now of Go carries the monotonic clock.
        clocks=(Clock.MONOTONIC,),
        superseded_acknowledges_nothing=True,
    )


def lease_bound(options: ConsulOptions) -> LeaseBound:
    """A session ends after twice its time to live; a new leader counts from its election on."""
    if options.members is MembersBy.CATALOG_TTL:
        return LeaseBound(
            extra_ns=1_000_000_000,
            source="agent/checks/check.go, CheckTTL: the agent counts from each renewal; plus 1 s to tell the servers",
            clocks=(Clock.MONOTONIC,),
        )
    return LeaseBound(
        extra_ns=options.raft_multiplier * ELECTION + 1_000_000_000,
        ttls=2,
        source="session_ttl.go: SessionTTLMultiplier is 2, initializeSessionTimers at each election; plus 1 s to commit"
        " the end",
        # A leader that does not know a node of the catalog, since it started while that was away, deregisters it.
        ends_with_node=True,
        clocks=(Clock.MONOTONIC,),
    )


def resume_bound(options: ConsulOptions) -> ResumeBound:
    """By when a cluster serves again once no fault is left; nobody promises it."""
    return ResumeBound(
        bound_ns=6 * options.raft_multiplier * ELECTION,
        source="hashicorp/raft: a server stands after one to two HeartbeatTimeouts without a leader; three attempts",
    )
