"""How long a lease of Cassandra may last, by when it serves again, and what options take away.

What it promises stands in `guarantees.toml`.
"""

from typing import Final

from fencepost.harness.base.options import seconds
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.history import Clock
from fencepost.harness.verdict import LeaseBound, ResumeBound
from fencepost.systems.cassandra.options import CassandraOptions, ListsBy, Writes

SETTLED: Final = "serial-reads-settle"
STRICT: Final = "strict-serializable"


def lease_bound(options: CassandraOptions) -> LeaseBound:
    """A row ends when a coordinator's clock says so, in whole seconds; no leader has to notice it first."""
    return LeaseBound(
        extra_ns=seconds(2),
        ttls=1,
        source="apache/cassandra, ExpiringCell: it is live before nowInSec + ttl, and the row has 1 s more than it is"
        " granted for; plus 1 s for the read",
        clocks=(Clock.WALL,),
    )


def resume_bound(options: CassandraOptions) -> ResumeBound:
    """By when a cluster serves again once no fault is left; nobody promises it."""
    return ResumeBound(
        bound_ns=seconds(25) + options.contention_timeout + options.timeout,
        source="measured on two busy cores: at most 2.4 s after cuts and pauses, 27 s after all servers were killed",
    )


def unpromised(settings: Settings, options: CassandraOptions) -> dict[str, str]:
    """The guarantees that Cassandra does not give with these options, with the reason."""
    if options.transactions is ListsBy.ACCORD:
        # It orders plain reads and writes as well.
        return {
            "replicas-agree": "with -O transactions=accord a read at level ALL is a transaction, and repairs no row"
        }
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
