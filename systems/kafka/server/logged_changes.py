"""Changes of which the logs of Kafka's nodes tell, in all releases from 2.8 to 4.3.

A KRaft controller logs every record about a broker as it replays it, a broker in ZooKeeper mode that is the controller
logs who came and went, and the leader of a partition logs its in-sync replicas.

Source: lines of real servers of 3.9.2 and 4.3.1 (in the tests), found in ClusterControlManager.replay,
BrokerLifecycleManager, KafkaController.processBrokerChange, Partition.tryUpdateIsr and Partition.makeLeader.
"""

import re
from collections.abc import Mapping
from typing import Final

from fencepost.harness.contract.servers import LoggedChange
from fencepost.harness.history import Logged
from fencepost.systems.kafka.server.log_lines import Layer, read_role_change

_REGISTERED: Final = re.compile(r"Replayed (?:\w+ )?RegisterBrokerRecord .*?broker (\d+):.*?\bbrokerEpoch=(\d+)")
_REGISTRATION: Final = re.compile(
    r"Replayed BrokerRegistrationChangeRecord .*?\bbrokerId=(\d+), brokerEpoch=(\d+), fenced=(-?\d+)"
    r"(?:, inControlledShutdown=(\d+))?"
)
#: The first thing that a new controller in ZooKeeper mode says of brokers.
_ACTIVE: Final = re.compile(r"Currently active brokers in the cluster: \w+\(([\d, ]*)\)")
_CAME_AND_WENT: Final = re.compile(r"Newly added brokers: ([\d,]*), deleted brokers: ([\d,]*), bounced brokers: ")
_IN_SYNC: Final = re.compile(
    r"\[Partition (\S+-\d+) broker=\d+\] ISR updated to ([\d,]+)(?:.* version updated to \[?(\d+))?"
)
_LEADS: Final = re.compile(
    r"\bLeader (\S+-\d+) (?:with topic id Some\(([\w-]+)\) )?.*?starts at leader epoch (\d+) .*?\bISR \[([\d,]+)\]"
)
_MAY_STOP: Final = (
    "The controller has asked us to exit controlled shutdown",
    "Controlled shutdown request returned successfully",
)
_STOPPING: Final = ("Beginning controlled shutdown", "Starting controlled shutdown")
#: By the controller that refused; the line names no broker.
_REFUSED: Final = re.compile(r"(\w+): event failed with (DuplicateBrokerRegistration|StaleBrokerEpoch)Exception")
_REFUSALS: Final = {
    "DuplicateBrokerRegistration": Logged.DUPLICATE_ID,
    "StaleBrokerEpoch": Logged.STALE_BROKER_EPOCH,
}
#: `fenced` in the record: it changes nothing, or fences, or ends the fencing.
_FENCED: Final = {1: Logged.FENCED, -1: Logged.UNFENCED}


def read_changes(line: str, subjects: Mapping[Layer, str]) -> tuple[LoggedChange, ...]:
    """Read the changes from a log line; `subjects` are the names of the layers whose leaders matter."""
    role = read_role_change(line)
    if role is not None:
        subject = subjects.get(role.layer)
        if role.leads or subject is None:
            return ()
        return (LoggedChange(Logged.RESIGNED, subject=subject, epoch=role.epoch, position=role.reverted_to),)
    if match := _CAME_AND_WENT.search(line):
        added, deleted = match.groups()
        return (*_of_each(Logged.FENCED, deleted), *_of_each(Logged.UNFENCED, added))
    if match := _ACTIVE.search(line):
        return _of_each(Logged.UNFENCED, match.group(1))
    change = _one(line)
    return () if change is None else (change,)


def _of_each(change: Logged, brokers: str) -> tuple[LoggedChange, ...]:
    return tuple(LoggedChange(change, number=int(number)) for number in re.findall(r"\d+", brokers))


def _one(line: str) -> LoggedChange | None:
    if "Replayed " in line:
        return _replayed(line)
    if "ISR" in line:
        return _in_sync(line)
    if "controlled shutdown" in line.lower():
        return _stops(line)
    if "event failed with " in line and (match := _REFUSED.search(line)):
        return LoggedChange(_REFUSALS[match.group(2)], detail=match.group(1))
    return None


def _replayed(line: str) -> LoggedChange | None:
    if match := _REGISTERED.search(line):
        broker, epoch = match.groups()
        return LoggedChange(Logged.REGISTERED, number=int(broker), position=int(epoch))
    if match := _REGISTRATION.search(line):
        broker, epoch, fenced, stops = match.groups()
        change = _FENCED.get(int(fenced), Logged.STOPPING if stops == "1" else None)
        return None if change is None else LoggedChange(change, number=int(broker), position=int(epoch))
    return None


def _in_sync(line: str) -> LoggedChange | None:
    """A leader that begins names its epoch; a later change has none, but the version of the partition's state."""
    if match := _LEADS.search(line):
        key, topic, epoch, replicas = match.groups()
        return LoggedChange(Logged.IN_SYNC, key=key, epoch=int(epoch), detail=replicas, topic=topic)
    if match := _IN_SYNC.search(line):
        key, replicas, version = match.groups()
        position = None if version is None else int(version)
        return LoggedChange(Logged.IN_SYNC, key=key, detail=replicas, position=position)
    return None


def _stops(line: str) -> LoggedChange | None:
    if any(phrase in line for phrase in _MAY_STOP):
        return LoggedChange(Logged.MAY_STOP)
    return LoggedChange(Logged.STOPPING) if any(phrase in line for phrase in _STOPPING) else None
