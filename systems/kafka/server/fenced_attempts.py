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

from collections.abc import Callable
from typing import Final

from fencepost.harness.contract.logs import Attempt, Rows

CONTROLLER_EPOCH: Final = "controller-epoch"
STALE_CONTROLLER_EPOCH: Final = "stale-controller-epoch"
SESSION_EXPIRED: Final = "session-expired"

#: How a line begins that is not the rest of an exception, which may repeat what the line above it says.
ENTRY: Final = r"^\d\d:\d\d:\d\d\.\d\d\d .*"


def attempted(name_of: Callable[[int], str]) -> Rows[Attempt]:
    """The refused attempts of which logs tell; `name_of` gives a broker's name by its id."""

    def ignored(kind: str, controller: str, epoch: str, latest: str) -> Attempt:
        node, detail = name_of(int(controller)), f"knew of epoch {latest}"
        return Attempt(kind, STALE_CONTROLLER_EPOCH, node=node, epoch=int(epoch), detail=detail)

    return {
        rf"{ENTRY}\[Controller id=\d+\] Controller moved to another broker when processing (\w+)": (
            lambda match: Attempt(match[1], CONTROLLER_EPOCH)
        ),
        rf"{ENTRY}[Ii]gnoring (LeaderAndIsr|StopReplica) request from controller (\d+) with correlation id \d+.* since "
        r"its controller epoch (\d+) is old\. Latest known controller epoch is (\d+)": (
            lambda match: ignored(*match.group(1, 2, 3, 4))
        ),
        rf"{ENTRY}Received update metadata request with correlation id \d+ from an old controller (\d+) with epoch "
        r"(\d+)\. Latest known controller epoch is (\d+)": (
            lambda match: ignored("UpdateMetadata", *match.group(1, 2, 3))
        ),
        r"Error processing create topic request CreatableTopic\(name='([^']+)'.*\n"
        r".*KeeperException\$SessionExpiredException: (.*)": (
            lambda match: Attempt("create", SESSION_EXPIRED, key=match[1], detail=match[2].strip())
        ),
    }
