"""What Cassandra promises, what people rely on beyond it, and where each is written.

Its own word for strong is a lightweight transaction. Plain reads and writes at level QUORUM overlap, and people rely on
that for current reads; which of two writes a reader sees is decided by their timestamps alone.
"""

from typing import Final

from fencepost.harness.base.options import seconds
from fencepost.harness.contract.election_guarantees import MEASURED_ELECTIONS
from fencepost.harness.contract.membership_guarantees import Source, membership_guarantees
from fencepost.harness.contract.storage_guarantees import storage_guarantees
from fencepost.harness.history import Clock, Disk, Effects, Stops
from fencepost.harness.verdict import Choice, Condition, Guarantee, KnownIssue, LeaseBound, Standing, under
from fencepost.systems.cassandra.options import CassandraOptions, Transactions, Writes

BY_QUORUM: Final = "fresh-by-quorum"
FROM_ANY: Final = "fresh-from-any-node"
SETTLED: Final = "serial-reads-settle"
STRICT: Final = "strict-serializable"

_DOCS: Final = "cassandra.apache.org/doc/5.0"
_GUARANTEES: Final = f"{_DOCS}, Guarantees"
_DYNAMO: Final = f"{_DOCS}, Dynamo"
_SYNCED: Final = Choice(name="commitlog_sync", values=("batch",))
#: A server that is killed may lose as much: what is replayed ends at the last mark of the commit log.
_UNSYNCED: Final = KnownIssue(
    text=f"{_DOCS}, cassandra.yaml: with commitlog_sync periodic a replica answers before its disk has a write or a"
    " promise; -O commitlog_sync=batch waits",
    unless=_SYNCED,
    needs=Effects(stops=Stops.POSSIBLE),
)

GUARANTEES: Final = (
    Guarantee(
        name="linearizable",
        standing=Standing.PROMISED,
        text="Lightweight transactions, and reads at level SERIAL (or LOCAL_SERIAL, in one data centre), take effect in"
        " one total order that agrees with real time.",
        source=f'{_GUARANTEES}: "Lightweight transactions with linearizable consistency"',
        issues=(_UNSYNCED,),
    ),
    Guarantee(
        name=SETTLED,
        standing=Standing.PROMISED,
        text="A lightweight transaction that its coordinator gave up, and that a later read at level SERIAL does not"
        " show, never takes effect.",
        source='apache/cassandra, NEWS.txt, 4.0: "a correctness issue with SERIAL reads, and LWT writes that do not'
        ' apply" is fixed (CASSANDRA-12126)',
        issues=(_UNSYNCED,),
    ),
    Guarantee(
        name=BY_QUORUM,
        standing=Standing.RELIED_UPON,
        text="A read at level QUORUM sees every write that was acknowledged before it was sent, or a later one.",
        source=f'{_DYNAMO}, Tunable Consistency: the quorums overlap, "and the write will be visible to the read"',
        known_issue=f"{_DYNAMO}, Data Versioning: the write with the last timestamp wins, and"
        ' "correctness does depend on these clocks"',
    ),
    Guarantee(
        name=FROM_ANY,
        standing=Standing.MEASURED,
        text="A read at level ONE sees every write that was acknowledged before it was sent.",
        source=f"disclaimed by {_DYNAMO}, Tunable Consistency: one replica answers, which may not have the write",
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="A row that was added with an acknowledgement, and that nobody changes, stays while a quorum of the nodes"
        " keeps its disk.",
        source=f'{_GUARANTEES}: "Durability", by replicas on several nodes',
        issues=(_UNSYNCED,),
    ),
)

LIST_GUARANTEES: Final = (
    Guarantee(
        name=STRICT,
        standing=Standing.PROMISED,
        text="With Accord, transactions over several rows behave as in one order, which agrees with real time.",
        source='CEP-15, General Purpose Transactions: "strict serializable isolation"',
        issues=(
            KnownIssue(
                text="-O after_crash=unsafe: the journal of a server that was killed may lack its last votes",
                unless=Choice(name="after_crash", values=("exit", "rebootstrap")),
                needs=Effects(stops=Stops.POSSIBLE),
            ),
        ),
    ),
)

_PLUGIN: Final = "riptano/kafka-cassandra-plugin, README: a table with default_time_to_live = 2"
_TTL: Final = f"{_DOCS}, Expiring data with TTL: counted in whole seconds of the coordinators' clocks"

ELECTION_GUARANTEES: Final = (
    Guarantee(
        name="one-acting-leader",
        standing=Standing.PROMISED,
        text="An act of a leader, made in a lightweight transaction on condition that the leader's row is still there,"
        " takes effect only during the leader's term.",
        source=f"{_GUARANTEES}: lightweight transactions, in one partition",
    ),
    Guarantee(
        name="terms-grow",
        standing=Standing.PROMISED,
        text="Each leader's term has a greater number than the terms of all earlier leaders.",
        source=f"{_GUARANTEES}: lightweight transactions, in one partition",
    ),
    Guarantee(
        name="resign-ends-own-term",
        standing=Standing.PROMISED,
        text="A leader whose term is over is refused when it resigns, and ends nobody else's term.",
        source=f"{_GUARANTEES}: lightweight transactions (DELETE IF owner =)",
    ),
    Guarantee(
        name="one-believed-leader",
        standing=Standing.RELIED_UPON,
        text="At most one candidate at a time believes that it leads.",
        source=_PLUGIN,
        known_issue="a leader that stalls for longer than its row lives still believes that it leads, and the row may"
        " end a second early, or when a coordinator's clock is ahead",
    ),
    *MEASURED_ELECTIONS,
)

_CONDITIONS: Final = f"{_GUARANTEES}: lightweight transactions"
PUT_GUARANTEES: Final = storage_guarantees(
    puts=Source(Standing.PROMISED, f"{_CONDITIONS} (INSERT IF NOT EXISTS)"),
    updates=Source(Standing.PROMISED, f"{_CONDITIONS} (UPDATE IF EXISTS)"),
)

GROUP_GUARANTEES: Final = membership_guarantees(
    {
        "one-member-per-id": Source(Standing.PROMISED, f"{_GUARANTEES}: lightweight transactions (IF NOT EXISTS)"),
        "joined-member-listed": Source(Standing.PROMISED, f"{_GUARANTEES}: reads of one partition at level SERIAL"),
        "leave-ends-own-membership": Source(Standing.PROMISED, f"{_GUARANTEES}: lightweight transactions (IF pid =)"),
        "renewing-member-stays": Source(
            Standing.RELIED_UPON, f"{_TTL}; a row gets a second more than it is granted for"
        ),
        "silent-member-goes": Source(Standing.RELIED_UPON, _TTL),
        "member-data-belongs": Source(Standing.PROMISED, f"{_GUARANTEES}: a row is written as a whole"),
        "member-lists-in-order": Source(
            Standing.MEASURED, f"disclaimed for reads at level ONE by {_DYNAMO}, Tunable Consistency"
        ),
        "group-listener-converges": Source(Standing.RELIED_UPON, "a listener that reads the group again and again"),
    }
)

EVERY_GUARANTEE: Final = under(
    (*GUARANTEES, *ELECTION_GUARANTEES, *GROUP_GUARANTEES, *PUT_GUARANTEES, *LIST_GUARANTEES),
    Condition(loss=Disk.UNSYNCED, unless=_SYNCED),
)


def lease_bound(options: CassandraOptions) -> LeaseBound:
    """A row ends when a coordinator's clock says so, in whole seconds; no leader has to notice it first."""
    return LeaseBound(
        extra_ns=seconds(2),
        ttls=1,
        source="apache/cassandra, ExpiringCell: it is live before nowInSec + ttl, and the row has 1 s more than it is"
        " granted for; plus 1 s for the read",
        clocks=(Clock.WALL,),
    )


def unpromised(options: CassandraOptions) -> dict[str, str]:
    """The guarantees that Cassandra does not give with these options, with the reason (`QualifiesPromises`)."""
    if options.transactions is Transactions.ACCORD:
        # It orders plain reads and writes as well.
        return {}
    no_accord = {STRICT: f"-O transactions={options.transactions} has no transactions over several rows"}
    if options.writes is Writes.QUORUM:
        mixed = (
            "-O writes=quorum mixes plain writes with lightweight transactions, whose order is another one"
            " (apache/cassandra, Paxos.md: they must not be mixed)"
        )
        return {**no_accord, "linearizable": mixed, SETTLED: mixed}
    if options.paxos_variant not in ("v1", "v2"):
        before = f"-O paxos_variant={options.paxos_variant} is how it was before CASSANDRA-12126"
        return {**no_accord, "linearizable": before, SETTLED: before}
    return no_accord
