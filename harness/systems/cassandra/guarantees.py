"""What Cassandra promises, what people rely on beyond it, and where each is written.

Its own word for strong is a lightweight transaction. Plain reads and writes at level QUORUM overlap, and people rely on
that for current reads; which of two writes a reader sees is decided by their timestamps alone.
"""

from typing import Final

from fencepost.harness.systems.cassandra.options import CassandraOptions, Writes
from fencepost.harness.verdict import Guarantee, Standing

BY_QUORUM: Final = "fresh-by-quorum"
FROM_ANY: Final = "fresh-from-any-node"

_DOCS: Final = "cassandra.apache.org/doc/5.0"
_GUARANTEES: Final = f"{_DOCS}, Guarantees"
_DYNAMO: Final = f"{_DOCS}, Dynamo"
_UNSYNCED: Final = (
    f"{_DOCS}, cassandra.yaml: with commitlog_sync periodic a replica answers before its disk has a write or a promise;"
    " -O commitlog_sync=batch waits"
)

GUARANTEES: Final = (
    Guarantee(
        name="linearizable",
        standing=Standing.PROMISED,
        text="Lightweight transactions, and reads at level SERIAL (or LOCAL_SERIAL, in one data centre), take effect in"
        " one total order that agrees with real time.",
        source=f'{_GUARANTEES}: "Lightweight transactions with linearizable consistency"',
        known_issue=_UNSYNCED,
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
        known_issue=_UNSYNCED,
    ),
)


def unpromised(options: CassandraOptions) -> dict[str, str]:
    """The guarantees that Cassandra does not give with these options, with the reason (`QualifiesPromises`)."""
    if options.writes is Writes.QUORUM:
        return {
            "linearizable": "-O writes=quorum mixes plain writes with lightweight transactions, whose order is another"
            " one (apache/cassandra, Paxos.md: they must not be mixed)"
        }
    if options.paxos_variant not in ("v1", "v2"):
        return {"linearizable": f"-O paxos_variant={options.paxos_variant} is how it was before CASSANDRA-12126"}
    return {}
