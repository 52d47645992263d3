"""Refused attempts of superseded controllers in the logs of Kafka in ZooKeeper mode.

Three checks refuse such a controller:
- ZooKeeper checks the version of /controller_epoch with every write of a controller. The controller logs which event it
  was processing when it learned of its successor ("controller-epoch").
- Brokers check the controller epoch in its requests, and log each request that they ignore, with its epoch
  ("stale-controller-epoch").
- ZooKeeper refuses an expired session. A change for a client then ends with an exception, which stands on a line of its
  own below the request ("session-expired").

Source: KafkaController.process, ReplicaManager.becomeLeaderOrFollower, stopReplicas and maybeUpdateMetadataCache,
ZkAdminManager.createTopics of Kafka 2.8 to 3.9; lines of real servers in the tests where a run has produced them.
"""

import re
from collections.abc import Callable
from typing import Final

from fencepost.harness.contract.leadership import Attempt

CONTROLLER_EPOCH: Final = "controller-epoch"
STALE_CONTROLLER_EPOCH: Final = "stale-controller-epoch"
SESSION_EXPIRED: Final = "session-expired"

_MOVED: Final = re.compile(r"\[Controller id=\d+\] Controller moved to another broker when processing (.+)\.$")
_EVENT: Final = re.compile(r"\w+")
_IGNORED: Final = re.compile(
    r"[Ii]gnoring (LeaderAndIsr|StopReplica) request from controller (\d+) with correlation id \d+.* since its "
    r"controller epoch (\d+) is old\. Latest known controller epoch is (\d+)"
)
_OLD: Final = re.compile(
    r"Received update metadata request with correlation id \d+ from an old controller (\d+) with epoch (\d+)\. "
    r"Latest known controller epoch is (\d+)"
)
_CREATE: Final = re.compile(r"Error processing create topic request CreatableTopic\(name='([^']+)'")
_EXPIRED: Final = "KeeperException$SessionExpiredException: "
#: The beginning of a line that is not the rest of an exception.
_DATED: Final = re.compile(r"\d\d:\d\d:\d\d\.\d\d\d ")


class ZooKeeperModeAttempts:
    """`harness.contract.leadership.AttemptReader`; `name_of` gives a broker's name by its id."""

    def __init__(self, name_of: Callable[[int], str]) -> None:
        self._name_of = name_of
        #: The topic whose creation failed, until the line that says why.
        self._failed: str | None = None

    def read(self, line: str) -> Attempt | None:
        failed = self._failed
        if _DATED.match(line):
            self._failed = None
            return self._dated(line.rstrip())
        # Of the rest of an exception only the reason is new.
        if failed is None or _EXPIRED not in line:
            return None
        self._failed = None
        return Attempt("create", SESSION_EXPIRED, key=failed, detail=line.partition(_EXPIRED)[2].strip())

    def _dated(self, line: str) -> Attempt | None:
        if match := _CREATE.search(line):
            self._failed = match.group(1)
            return None
        if match := _MOVED.search(line):
            event = _EVENT.match(match.group(1))
            return Attempt(event.group() if event else match.group(1), CONTROLLER_EPOCH)
        if match := _IGNORED.search(line):
            kind, controller, epoch, latest = match.groups()
            return self._ignored(kind, int(controller), int(epoch), int(latest))
        if match := _OLD.search(line):
            controller, epoch, latest = match.groups()
            return self._ignored("UpdateMetadata", int(controller), int(epoch), int(latest))
        return None

    def _ignored(self, kind: str, controller: int, epoch: int, latest: int) -> Attempt:
        node, detail = self._name_of(controller), f"knew of epoch {latest}"
        return Attempt(kind, STALE_CONTROLLER_EPOCH, node=node, epoch=epoch, detail=detail)
