"""Changes of which the logs of Kafka's nodes tell, in all releases from 2.8 to 4.3.

A KRaft controller logs every record about a broker as it replays it, a broker in ZooKeeper mode that is the controller
logs who came and went, and the leader of a partition logs its in-sync replicas.

Source: lines of real servers of 3.9.2 and 4.3.1 (in the tests), found in ClusterControlManager.replay,
BrokerLifecycleManager, KafkaController.processBrokerChange, Partition.tryUpdateIsr and Partition.makeLeader.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from fencepost.harness.contract.logs import LoggedChange, Rows
from fencepost.harness.history import Logged
from fencepost.systems.kafka.server.log_lines import Layer, read_role_change

#: A line of a role that ended (`read_role_change`).
_ROLE: Final = r"Completed transition to | active controller at |enouncing|Resigned$"
_REFUSALS: Final = {
    "DuplicateBrokerRegistration": Logged.DUPLICATE_ID,
    "StaleBrokerEpoch": Logged.STALE_BROKER_EPOCH,
}
#: `fenced` in the record: it changes nothing, or fences, or ends the fencing.
_FENCED: Final = {1: Logged.FENCED, -1: Logged.UNFENCED}

_Changes = tuple[LoggedChange, ...]


def changed(subjects: Mapping[Layer, str]) -> Rows[Sequence[LoggedChange]]:
    """The changes of which logs tell; `subjects` are the names of the layers whose leaders matter."""

    def resigned(match: re.Match[str]) -> _Changes:
        role = read_role_change(match.string)
        if role is None or role.leads or role.layer not in subjects:
            return ()
        subject = subjects[role.layer]
        return (LoggedChange(Logged.RESIGNED, subject=subject, epoch=role.epoch, position=role.reverted_to),)

    return {_ROLE: resigned, **_ROWS}


def _of_each(change: Logged, brokers: str) -> _Changes:
    return tuple(LoggedChange(change, number=int(number)) for number in re.findall(r"\d+", brokers))


def _registration(match: re.Match[str]) -> _Changes:
    broker, epoch, fenced, stops = match.groups()
    change = _FENCED.get(int(fenced), Logged.STOPPING if stops == "1" else None)
    return () if change is None else (LoggedChange(change, number=int(broker), position=int(epoch)),)


def _leads(match: re.Match[str]) -> _Changes:
    """The in-sync replicas of a leader that begins, with its epoch."""
    key, topic, epoch, replicas = match.groups()
    return (LoggedChange(Logged.IN_SYNC, key=key, epoch=int(epoch), detail=replicas, topic=topic),)


def _in_sync(match: re.Match[str]) -> _Changes:
    """A later change of them, which has no epoch, but the version of the partition's state."""
    key, replicas, version = match.groups()
    position = None if version is None else int(version)
    return (LoggedChange(Logged.IN_SYNC, key=key, detail=replicas, position=position),)


_ROWS: Final[Rows[Sequence[LoggedChange]]] = {
    r"Newly added brokers: ([\d,]*), deleted brokers: ([\d,]*), bounced brokers: ": (
        lambda match: (*_of_each(Logged.FENCED, match[2]), *_of_each(Logged.UNFENCED, match[1]))
    ),
    # The first thing that a new controller in ZooKeeper mode says of brokers.
    r"Currently active brokers in the cluster: \w+\(([\d, ]*)\)": lambda match: _of_each(Logged.UNFENCED, match[1]),
    r"Replayed (?:\w+ )?RegisterBrokerRecord .*?broker (\d+):.*?\bbrokerEpoch=(\d+)": (
        lambda match: (LoggedChange(Logged.REGISTERED, number=int(match[1]), position=int(match[2])),)
    ),
    r"Replayed BrokerRegistrationChangeRecord .*?\bbrokerId=(\d+), brokerEpoch=(\d+), fenced=(-?\d+)"
    r"(?:, inControlledShutdown=(\d+))?": _registration,
    r"Leader (\S+-\d+) (?:with topic id Some\(([\w-]+)\) )?.*?starts at leader epoch (\d+) "
    r".*?\bISR \[([\d,]+)\]": _leads,
    r"\[Partition (\S+-\d+) broker=\d+\] ISR updated to ([\d,]+)(?:.* version updated to \[?(\d+))?": _in_sync,
    "The controller has asked us to exit controlled shutdown|Controlled shutdown request returned successfully": (
        lambda _: (LoggedChange(Logged.MAY_STOP),)
    ),
    "Beginning controlled shutdown|Starting controlled shutdown": lambda _: (LoggedChange(Logged.STOPPING),),
    # By the controller that refused; the line names no broker.
    r"(\w+): event failed with (DuplicateBrokerRegistration|StaleBrokerEpoch)Exception": (
        lambda match: (LoggedChange(_REFUSALS[match[2]], detail=match[1]),)
    ),
}
