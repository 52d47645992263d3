"""The options of Cassandra that a plan can set."""

from enum import StrEnum
from typing import Annotated, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.profile import SystemOptions


class Writes(StrEnum):
    """How an unconditional write is made. A compare-and-set is a lightweight transaction in either case."""

    LIGHTWEIGHT = "lightweight"
    QUORUM = "quorum"


class ListsBy(StrEnum):
    """Which protocol makes the transactions of the rows that clients read and write."""

    PAXOS = "paxos"
    ACCORD = "accord"


class AfterCrash(StrEnum):
    """`accord.journal.stop_marker_failure_policy`: the journal of a server that crashed may lack its last votes."""

    EXIT = "exit"
    UNSAFE = "unsafe"
    REBOOTSTRAP = "rebootstrap"


class CassandraOptions(SystemOptions, frozen=True, kw_only=True):
    writes: Annotated[
        Writes,
        about("how a write is made: as a lightweight transaction, or plain to a quorum, stamped by its coordinator"),
    ] = Writes.LIGHTWEIGHT
    transactions: Annotated[
        ListsBy,
        about(
            "what orders pairs and sets: Paxos for lightweight transactions only, or Accord for everything (from 6.0)"
        ),
    ] = ListsBy.PAXOS
    after_crash: Annotated[
        AfterCrash,
        about("what a server with Accord does when it starts after a crash: end, as by default, go on, or copy again"),
    ] = AfterCrash.EXIT
    paxos_variant: Annotated[
        Literal["v1", "v2", "v1_without_linearizable_reads_or_rejected_writes"],
        about(
            "how lightweight transactions are made; the last one is how it was before CASSANDRA-12126",
            sets=("paxos_variant",),
        ),
    ] = "v1"
    # Cassandra's own defaults of 2 to 10 s are longer than the clients' time-outs.
    timeout: Annotated[
        Duration,
        about(
            "how long a coordinator waits for replicas, at reads and writes",
            least=seconds(0.01),
            sets=("read_request_timeout", "write_request_timeout"),
        ),
    ] = seconds(1)
    contention_timeout: Annotated[
        Duration,
        about(
            "how long a lightweight transaction competes with others before it gives up",
            least=seconds(0.01),
            sets=("cas_contention_timeout",),
        ),
    ] = seconds(1)
    commitlog_sync: Annotated[
        Literal["periodic", "batch"],
        about("whether a replica answers before its disk has a write, or after", sets=("commitlog_sync",)),
    ] = "periodic"
    commitlog_period: Annotated[
        Duration,
        about(
            "pause between two fsyncs of a periodic commit log",
            least=seconds(0.001),
            sets=("commitlog_sync_period",),
        ),
    ] = seconds(10)
    lock_ttl: Annotated[
        Duration, about("time to live of the row that says who leads, in whole seconds", least=seconds(1))
    ] = seconds(2)
    heap_mib: Annotated[int, about("heap of one server, in MiB", least=128)] = 192
    data_limit_mib: Annotated[int, about("room for the data of one server, in MiB", least=128)] = 512

    def refuse(self) -> Refusal | None:
        wrong = super().refuse()
        if wrong is not None:
            return wrong
        if self.lock_ttl % seconds(1):
            return Refusal(
                f"lock_ttl={self.lock_ttl} is not a whole number of seconds",
                "Cassandra counts whole seconds",
            )
        if self.after_crash is not AfterCrash.EXIT and self.transactions is not ListsBy.ACCORD:
            return Refusal(f"after_crash={self.after_crash} is about Accord, which is off", "-O transactions=accord")
        return None
