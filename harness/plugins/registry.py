"""Every name that a person can type, and what stands behind it: literal mappings, loaded when asked for.

The values are "module:attribute", so that listing names imports nothing heavy.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.faults.kind import FaultKind
from fencepost.harness.history import History
from fencepost.harness.runtime.provider import Provider
from fencepost.harness.systems.contract.system import System
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.tables import OpensTable

SYSTEMS: Final = {
    "etcd": "fencepost.harness.systems.etcd:ETCD",
    "example": "fencepost.harness.systems.example.system:EXAMPLE",
    "kafka-zk": "fencepost.harness.systems.kafka.zookeeper_mode:KAFKA_ZK",
    "kraft": "fencepost.harness.systems.kafka.kraft:KRAFT",
    "nats": "fencepost.harness.systems.nats:NATS",
    "zookeeper": "fencepost.harness.systems.zookeeper:ZOOKEEPER",
}

WORKLOADS: Final = {
    "election": "fencepost.workloads.election:Election",
    "lease": "fencepost.workloads.lease:Lease",
    "lock": "fencepost.workloads.lock:Lock",
    "log": "fencepost.workloads.log:Log",
    "metadata": "fencepost.workloads.metadata:MetadataWorkload",
    "partition-states": "fencepost.workloads.partition_states:PartitionStatesWorkload",
    "producer-ids": "fencepost.workloads.producer_ids:ProducerIds",
    "register": "fencepost.workloads.register:Register",
    "set": "fencepost.workloads.set:Set",
    "watch": "fencepost.workloads.watch:Watch",
}

NEMESES: Final = {
    "clock-skew": "fencepost.nemesis.clock.clock_skew:ClockSkew",
    "churn": "fencepost.nemesis.leadership.churn:Churn",
    "damage": "fencepost.nemesis.disk.damage:DamageFiles",
    "depose": "fencepost.nemesis.leadership.depose:Depose",
    "disk": "fencepost.nemesis.disk.disk:Disk",
    "flapping": "fencepost.nemesis.network.flapping:Flapping",
    "gray": "fencepost.nemesis.process.gray:Gray",
    "kill": "fencepost.nemesis.process.kill:Kill",
    "link": "fencepost.nemesis.network.link:LinkFault",
    "lost-write": "fencepost.nemesis.disk.lost_write:LostWrite",
    "membership": "fencepost.nemesis.members.membership:MembershipChange",
    "partition": "fencepost.nemesis.network.partition:Partition",
    "pause": "fencepost.nemesis.process.pause:Pause",
    "power-loss": "fencepost.nemesis.disk.power_loss:PowerLoss",
    "rolling": "fencepost.nemesis.upgrade.rolling:Rolling",
    "stagger": "fencepost.nemesis.process.stagger:Stagger",
    "toxic": "fencepost.nemesis.network.toxic:ToxicFault",
}

CHECKERS: Final = {
    "brokers": "fencepost.checkers.brokers:check",
    "coverage": "fencepost.checkers.coverage:check",
    "election": "fencepost.checkers.elections.elections:check",
    "freshness": "fencepost.checkers.leadership.freshness:check",
    "ground-truth": "fencepost.checkers.metadata.ground_truth:check",
    "leadership": "fencepost.checkers.leadership:check",
    "lease": "fencepost.checkers.leases:check",
    "linearizable": "fencepost.checkers.storage.registers:check",
    "lock": "fencepost.checkers.elections.locks:check",
    "log": "fencepost.checkers.log:check",
    "metadata": "fencepost.checkers.metadata:check",
    "partition-states": "fencepost.checkers.metadata.partition_states:check",
    "producer-ids": "fencepost.checkers.elections.producer_ids:check",
    "rejoin": "fencepost.checkers.metadata.rejoin:check",
    "session-order": "fencepost.checkers.storage.sessions:check",
    "set": "fencepost.checkers.storage.sets:check",
    "snapshots": "fencepost.checkers.metadata.snapshots:check",
    "topic-names": "fencepost.checkers.metadata.topic_names:check",
    "watch": "fencepost.checkers.watches:check",
    "zombie-brokers": "fencepost.checkers.log.zombie_brokers:check",
    "zombie-controllers": "fencepost.checkers.metadata.zombie_controllers:check",
}

#: Checkers of histories that stand alone; no run of ours has such operations, and no report shows their figures.
FILE_CHECKERS: Final = {
    "append-log": "fencepost.checkers.objects.append_log:check",
    "bank": "fencepost.checkers.objects.bank:check",
    "counter": "fencepost.checkers.objects.counter:check",
    "etcd-kv": "fencepost.checkers.storage.kv.etcd:check",
    "fenced-mutex": "fencepost.checkers.objects.mutexes:check_fenced_mutex",
    "kafka-log": "fencepost.checkers.log.kafka_history:check",
    "linearizable-set": "fencepost.checkers.objects.sets:check",
    "list-append": "fencepost.checkers.transactions.history:check_lists",
    "multi-register": "fencepost.checkers.objects.multi_register:check",
    "mutex": "fencepost.checkers.objects.mutexes:check_mutex",
    "owner-mutex": "fencepost.checkers.objects.mutexes:check_owner_mutex",
    "queue": "fencepost.checkers.objects.queue:check",
    "rw-register": "fencepost.checkers.transactions.history:check_registers",
    "semaphore": "fencepost.checkers.objects.mutexes:check_semaphore",
    "user-model": "fencepost.checkers.objects.user_objects:check",
    "zookeeper-kv": "fencepost.checkers.storage.kv.zookeeper:check",
}

#: Lays the facts of a history out as tables.
DERIVE: Final = "fencepost.checkers.derive:derive"

#: Tables that are too large to be events, by what they hold, as this machine judges and shows them.
TABLES: Final = {
    "operations": "fencepost.checkers.tables.judged:Operations",
    "transactions": "fencepost.checkers.tables.judged:Transactions",
}

#: The same judged through Spark; a history of registers becomes a table of operations there.
TABLE_JUDGES: Final = {
    "history": "fencepost.checkers.spark.register_histories:check",
    "operations": "fencepost.checkers.spark.registers:check",
    "transactions": "fencepost.checkers.spark.transactions:check",
}

#: Checks the proofs of a verdict by the history alone.
CONFIRM: Final = "fencepost.checkers.confirm:confirm"

#: What else the native core does.
NATIVE: Final = {
    "build-info": "fencepost.checkers._core:build_info",
    "edn": "fencepost.checkers._core:read_edn",
    "edn-form": "fencepost.checkers._core:Edn",
}

RUNTIMES: Final = {
    "containers": "fencepost.harness.runtime.containers.provider:CONTAINERS",
    "lab": "fencepost.harness.runtime.lab.provider:LAB",
}

Checker = Callable[[History, Facts], list[Verdict]]
#: Gives Arrow tables by name (`harness.verdict.fact_tables`).
Deriver = Callable[[History, Facts], Mapping[str, Any]]
#: Takes a Spark session, the table's URI, the facts and, of transactions, the model that was asked for.
TableJudge = Callable[..., Verdict]


def system(name: str) -> System:
    """The system under test of this name; raises UsageError."""
    return cast(System, _load("system", name, SYSTEMS))


def workload(name: str) -> Any:
    """The workload of this name, made new; raises UsageError."""
    return _load("workload", name, WORKLOADS)()


def runtime(name: str) -> Provider:
    """The runtime of this name; raises UsageError."""
    return cast(Provider, _load("runtime", name, RUNTIMES))


def faults() -> dict[str, FaultKind]:
    """Every fault by name."""
    return {name: cast(FaultKind, _load("fault", name, NEMESES)()) for name in NEMESES}


def checker(name: str) -> Checker:
    """The checker of this registry key; raises UsageError."""
    return cast(Checker, _load("checker", name, CHECKERS | FILE_CHECKERS))


def derive() -> Deriver:
    """What derives the facts of a history; every run and the warehouse use it."""
    return cast(Deriver, _load("derivation", "facts", {"facts": DERIVE}))


def table(holds: str) -> OpensTable:
    """What opens tables of this kind."""
    return cast(OpensTable, _load("kind of table", holds, TABLES))


def table_judge(holds: str) -> TableJudge:
    """What judges tables of this kind through Spark."""
    return cast(TableJudge, _load("kind of table", holds, TABLE_JUDGES))


def confirmed(history: History, verdict: Verdict) -> bool:
    """Whether the verdict bears proofs, and each of them holds by the history alone."""
    try:
        return bool(_loaded(CONFIRM)(history, msgspec.to_builtins(verdict)))
    except UsageError:
        return False


def native(name: str) -> Any:
    """What the native core offers by this name."""
    return _load("native function", name, NATIVE)


def _load(kind: str, name: str, entries: dict[str, str]) -> Any:
    if name not in entries:
        raise unknown_choice(kind, name, list(entries))
    return _loaded(entries[name])


def _loaded(entry: str) -> Any:
    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)
