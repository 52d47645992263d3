"""What Consul promises, what people rely on beyond it, and where each is written.

The three modes of reading have one guarantee each: `consistent` is promised to be linearizable, `default` is only said
to be so "in almost all cases", and `stale` is disclaimed.
"""

from typing import Final

from fencepost.harness.contract.election_guarantees import MEASURED_ELECTIONS
from fencepost.harness.contract.membership_guarantees import Source, membership_guarantees
from fencepost.harness.contract.storage_guarantees import storage_guarantees
from fencepost.harness.history import Clock, Effects, Stops
from fencepost.harness.verdict import Guarantee, KnownIssue, LeadershipBound, LeaseBound, Standing
from fencepost.systems.consul.options import ELECTION, LEASE, ConsulOptions, MembersBy

_DOCS: Final = "developer.hashicorp.com/consul"
_MODES: Final = f"{_DOCS}/api-docs/features/consistency"
_CONSENSUS: Final = f"{_DOCS}/docs/architecture/consensus"
_SESSIONS: Final = f"{_DOCS}/docs/dynamic-app-config/sessions"
_TRANSACTIONS: Final = f'{_DOCS}/api-docs/txn: "a single, atomic transaction"'
_INDEX: Final = f"{_DOCS}/api-docs/kv: ModifyIndex is the index of raft's entry that last changed the key"
_RAFT: Final = "Ongaro & Ousterhout, In Search of an Understandable Consensus Algorithm (2014), figure 3"

FROM_LEADER: Final = "fresh-from-leader"
FROM_ANY: Final = "fresh-from-any-node"

GUARANTEES: Final = (
    Guarantee(
        name="linearizable",
        standing=Standing.PROMISED,
        text="Writes, and reads of mode consistent, take effect in one total order that agrees with real time.",
        source=f'{_MODES}: consistent is "strongly consistent without caveats"; {_CONSENSUS}: writes go through raft',
    ),
    Guarantee(
        name=FROM_LEADER,
        standing=Standing.RELIED_UPON,
        text="A read of mode default sees every write that was acknowledged before it was sent.",
        source=f'{_MODES}: default is "strongly consistent in almost all cases"; the leader answers on its lease',
        known_issue="consul#54: an old leader may answer with old values until it notices that it was replaced",
    ),
    Guarantee(
        name=FROM_ANY,
        standing=Standing.MEASURED,
        text="A read of mode stale sees every write that was acknowledged before it was sent.",
        source=f"disclaimed by {_MODES}: any server answers, and the answer may be arbitrarily old",
    ),
    Guarantee(
        name="session-order",
        standing=Standing.MEASURED,
        text="Reads of mode stale on one connection never go back to an older index.",
        source=f"{_MODES} says nothing about the order of stale reads; one server applies entries in order",
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="An acknowledged write is durable.",
        source=f'{_CONSENSUS}: an entry is committed "when it is durably stored on a quorum of nodes"',
    ),
    Guarantee(
        name="write-positions-agree",
        standing=Standing.PROMISED,
        text="Every server reports the same ModifyIndex for the same write.",
        source=_INDEX,
    ),
    Guarantee(
        name="fenced-lock",
        standing=Standing.PROMISED,
        text="Once a lock is lost, a transaction that checks the index of its key writes nothing.",
        source=_TRANSACTIONS,
    ),
    Guarantee(
        name="lock-mutual-exclusion",
        standing=Standing.RELIED_UPON,
        text="At most one client at a time believes that it holds a lock.",
        source=f"{_SESSIONS}: the lock-delay is there for holders that still believe in a lost lock",
        known_issue=f'{_SESSIONS}: locks are advisory, and the lock-delay is "not a bulletproof method"',
    ),
    Guarantee(
        name="one-acting-leader",
        standing=Standing.PROMISED,
        text="An act of a leader, made in a transaction that checks the index of the leader's key, takes effect only"
        " during the leader's term.",
        source=_TRANSACTIONS,
    ),
    Guarantee(
        name="terms-grow",
        standing=Standing.PROMISED,
        text="Each leader's key is locked at a higher index than the keys of all earlier leaders.",
        source=_INDEX,
    ),
    Guarantee(
        name="resign-ends-own-term",
        standing=Standing.PROMISED,
        text="A leader whose term is over is refused when it resigns, and ends nobody else's term.",
        source=_TRANSACTIONS,
    ),
    Guarantee(
        name="one-believed-leader",
        standing=Standing.RELIED_UPON,
        text="At most one candidate at a time believes that it leads.",
        source=f"{_DOCS}/tutorials/developer-configuration/application-leader-elections",
        known_issue="a leader that stalls for longer than its session and the lock-delay still believes that it leads",
    ),
    *MEASURED_ELECTIONS,
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.PROMISED,
        text="A server that is cut off from every majority stops claiming to lead within a bounded time.",
        source="hashicorp/raft config.go: LeaderLeaseTimeout is how long a leader may go without contact to a quorum"
        " before it steps down",
    ),
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="At most one server leads in a term.",
        source=f"{_RAFT}, Election Safety",
    ),
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="A leader whose term is over acknowledges no write and answers no consistent read from its old state.",
        source=f'{_MODES}: the race of two leaders "only applies to reads, not writes"; consistent reads ask a quorum',
    ),
)

LEASE_GUARANTEES: Final = (
    Guarantee(
        name="live-lease-lives",
        standing=Standing.PROMISED,
        text="After an answered renewal, no server ends the session before its time to live has passed: its keys stay"
        " unless somebody deletes them or destroys the session.",
        source=f'{_SESSIONS}: the TTL "represents a lower bound for invalidation"',
    ),
    Guarantee(
        name="answered-keep-alive-counts",
        standing=Standing.RELIED_UPON,
        text="An answered renewal counts in the whole cluster, even when a superseded leader answered it.",
        source=f"{_SESSIONS}: the TTL is renewed by a renewal and by a leader failover; the leader that answers a"
        " renewal asks no quorum (Session.Renew)",
    ),
    Guarantee(
        name="expired-lease-ends",
        standing=Standing.RELIED_UPON,
        text="While nothing disturbs the cluster, a session that nobody renews ends soon after twice its time to live.",
        source=f'{_SESSIONS}: Consul "is allowed to delay the expiration past the TTL" and does not say for how long;'
        " SessionTTLMultiplier is 2",
    ),
    Guarantee(
        name="ended-lease-stays-ended",
        standing=Standing.PROMISED,
        text="After a session was destroyed, or a read found its key absent, no consistent read returns the key.",
        source=f"{_MODES}: consistent; {_SESSIONS}: the behaviour delete removes the keys with the session",
    ),
    Guarantee(
        name="no-keep-alive-of-the-dead",
        standing=Standing.RELIED_UPON,
        text="After a session was destroyed, or a read found its key absent, no renewal of it is answered.",
        source="clients take the answer as proof that they hold the session; renewals do not go through raft",
        known_issue="an old leader looks for the session in its own state, which may be behind (Session.Renew)",
    ),
)

PUT_GUARANTEES: Final = storage_guarantees(
    puts=Source(Standing.PROMISED, f"{_DOCS}/api-docs/txn: all operations of a transaction take effect or none")
)

GROUP_GUARANTEES: Final = membership_guarantees(
    {
        "one-member-per-id": Source(Standing.PROMISED, _TRANSACTIONS),
        "joined-member-listed": Source(Standing.PROMISED, f"{_MODES}: consistent"),
        "leave-ends-own-membership": Source(
            Standing.PROMISED, f"{_SESSIONS}: the behaviour delete removes the keys that the session holds"
        ),
        "renewing-member-stays": Source(
            Standing.PROMISED, f'{_SESSIONS}: the TTL "represents a lower bound for invalidation"'
        ),
        "silent-member-goes": Source(
            Standing.RELIED_UPON,
            f'{_SESSIONS}: Consul "is allowed to delay the expiration past the TTL"; SessionTTLMultiplier is 2',
        ),
        "member-data-belongs": Source(
            Standing.PROMISED,
            f"{_DOCS}/api-docs/kv: a recursive read is of one index; {_DOCS}/api-docs/agent/service: an instance is"
            " registered with its data",
        ),
        "member-lists-in-order": Source(
            Standing.RELIED_UPON,
            f"{_MODES} says nothing about the order of stale reads; one server applies in order",
            (
                KnownIssue(
                    text="a server that was killed reads its log again, and answers stale reads from its past"
                    " meanwhile",
                    needs=Effects(stops=Stops.POSSIBLE),
                ),
            ),
        ),
        "group-listener-converges": Source(
            Standing.RELIED_UPON,
            f"{_DOCS}/api-docs/features/blocking: a query with an index waits for any change after it",
        ),
    }
)

_BLOCKING: Final = f"{_DOCS}/api-docs/features/blocking"
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

WATCH_GUARANTEES: Final = (
    Guarantee(
        name="watch-reliable",
        standing=Standing.PROMISED,
        text="The answers to blocking queries have told the newest change of every key up to the index that they name;"
        " changes before it may be left out.",
        source=f"{_BLOCKING}: the index stands for the current state, and a query with it waits for any change after"
        " it",
    ),
    Guarantee(
        name="watch-ordered",
        standing=Standing.RELIED_UPON,
        text="A later answer to the queries of one client never tells an older state of a key.",
        source=f"{_BLOCKING}: indexes are monotonically increasing in general",
        known_issue=f"{_BLOCKING}: an index may go back, and a client must then begin again; queries of mode default"
        " may be answered by an old leader (consul#54)",
    ),
    Guarantee(
        name="watch-truthful",
        standing=Standing.PROMISED,
        text="Every answer tells values that were really written, each with the index of its write.",
        source=_INDEX,
    ),
)


def promises() -> tuple[Guarantee, ...]:
    """The guarantees that every release is held to."""
    return (*GUARANTEES, *LEASE_GUARANTEES, *GROUP_GUARANTEES, *PUT_GUARANTEES, *WATCH_GUARANTEES)


def unpromised(options: ConsulOptions) -> dict[str, str]:
    """The guarantees that Consul does not give with these options, with the reason (`QualifiesPromises`)."""
    if options.members is MembersBy.SESSION_KEY:
        return {}
    return {name: f"-O members={options.members}: {why}" for name, why in _CATALOG_LACKS.items()}


def leadership_bound(options: ConsulOptions) -> LeadershipBound:
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
        clocks=(Clock.MONOTONIC,),
    )
