"""Every name that a person can type, and what stands behind it: literal mappings, loaded when asked for.

The values are "module:attribute", so that listing names imports nothing heavy.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final, cast

from harness.errors import unknown_choice
from harness.fault import Fault
from harness.ground_truth import LogReader
from harness.history import History
from harness.runtime.provider import Provider
from harness.systems.system import System
from harness.verdict import Facts, Verdict

SYSTEMS: Final = {
    "etcd": "harness.systems.etcd:ETCD",
    "kafka-zk": "harness.systems.kafka_zk:KAFKA_ZK",
    "kraft": "harness.systems.kraft:KRAFT",
    "zookeeper": "harness.systems.zookeeper:ZOOKEEPER",
}

#: Systems of which a single node is a cluster.
RUN_ALONE: Final = frozenset({"etcd"})

WORKLOADS: Final = {
    "election": "workloads.election:Election",
    "lease": "workloads.lease:Lease",
    "lock": "workloads.lock:Lock",
    "log": "workloads.log:Log",
    "metadata": "workloads.metadata:MetadataWorkload",
    "producer-ids": "workloads.producer_ids:ProducerIds",
    "register": "workloads.register:Register",
    "set": "workloads.set:Set",
    "watch": "workloads.watch:Watch",
}

NEMESES: Final = {
    "clock-skew": "nemesis.clock_skew:ClockSkew",
    "churn": "nemesis.churn:Churn",
    "damage": "nemesis.damage:DamageFiles",
    "depose": "nemesis.depose:Depose",
    "disk": "nemesis.disk:Disk",
    "flapping": "nemesis.flapping:Flapping",
    "gray": "nemesis.gray:Gray",
    "kill": "nemesis.kill:Kill",
    "link": "nemesis.link:LinkFault",
    "lost-write": "nemesis.lost_write:LostWrite",
    "membership": "nemesis.membership:MembershipChange",
    "partition": "nemesis.partition:Partition",
    "pause": "nemesis.pause:Pause",
    "power-loss": "nemesis.power_loss:PowerLoss",
    "rolling": "nemesis.rolling:Rolling",
    "toxic": "nemesis.toxic:ToxicFault",
}

CHECKERS: Final = {
    "coverage": "checkers.coverage:check",
    "election": "checkers.elections:check",
    "freshness": "checkers.freshness:check",
    "ground-truth": "checkers.ground_truth:check",
    "leadership": "checkers.leadership:check",
    "lease": "checkers.leases:check",
    "linearizable": "checkers.linearizable:check",
    "lock": "checkers.locks:check",
    "log": "checkers.log:check",
    "metadata": "checkers.metadata:check",
    "producer-ids": "checkers.producer_ids:check",
    "rejoin": "checkers.rejoin:check",
    "session-order": "checkers.sessions:check",
    "set": "checkers.sets:check",
    "topic-names": "checkers.topic_names:check",
    "watch": "checkers.watches:check",
    "zombie-brokers": "checkers.zombie_brokers:check",
    "zombie-controllers": "checkers.zombie_controllers:check",
}

#: Checkers of histories that stand alone; no run of ours has such operations, and no report shows their figures.
FILE_CHECKERS: Final = {
    "append-log": "checkers.objects.append_log:check",
    "bank": "checkers.objects.bank:check",
    "counter": "checkers.objects.counter:check",
    "etcd-kv": "checkers.kv.etcd:check",
    "fenced-mutex": "checkers.objects.mutexes:check_fenced_mutex",
    "kafka-log": "checkers.kafka_history:check",
    "linearizable-set": "checkers.objects.sets:check",
    "list-append": "checkers.transaction_history:check_lists",
    "multi-register": "checkers.objects.multi_register:check",
    "mutex": "checkers.objects.mutexes:check_mutex",
    "owner-mutex": "checkers.objects.mutexes:check_owner_mutex",
    "queue": "checkers.objects.queue:check",
    "rw-register": "checkers.transaction_history:check_registers",
    "semaphore": "checkers.objects.mutexes:check_semaphore",
    "user-model": "checkers.user_objects:check",
    "zookeeper-kv": "checkers.kv.zookeeper:check",
}

#: Systems whose replicated log can be read off their disks after a run.
LOG_READERS: Final = {
    "kafka-zk": "harness.systems.kafka_zk.transaction_log:read_archive",
    "kraft": "harness.systems.kafka.metadata_log:read_archive",
}

RUNTIMES: Final = {
    "containers": "harness.runtime.containers:CONTAINERS",
    "lab": "harness.runtime.lab_provider:LAB",
}

Checker = Callable[[History, Facts], list[Verdict]]


def system(name: str) -> System:
    """The system under test of this name; raises UsageError."""
    return cast(System, _load("system", name, SYSTEMS))


def workload(name: str) -> Any:
    """The workload of this name, made new; raises UsageError."""
    return _load("workload", name, WORKLOADS)()


def runtime(name: str) -> Provider:
    """The runtime of this name; raises UsageError."""
    return cast(Provider, _load("runtime", name, RUNTIMES))


def faults() -> dict[str, Fault]:
    """Every fault by name."""
    return {name: cast(Fault, _load("fault", name, NEMESES)()) for name in NEMESES}


def checker(name: str) -> Checker:
    """The checker of this registry key; raises UsageError."""
    return cast(Checker, _load("checker", name, CHECKERS | FILE_CHECKERS))


def log_reader(system_name: str) -> LogReader | None:
    """What reads this system's replicated log from kept data; None where nothing does."""
    if system_name not in LOG_READERS:
        return None
    return cast(LogReader, _load("log reader", system_name, LOG_READERS))


def _load(kind: str, name: str, entries: dict[str, str]) -> Any:
    if name not in entries:
        raise unknown_choice(kind, name, list(entries))
    module, _, attribute = entries[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
