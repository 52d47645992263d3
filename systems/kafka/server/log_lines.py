"""The log lines of a Kafka node about changes of its role, in all releases from 2.8 to 4.3.

A KRaft controller has two layers: `raft` (QuorumState: who leads the metadata quorum) and `controller`
(QuorumController: who acts on it), which follows the first and may lag. ZooKeeper mode has `zookeeper`
(KafkaController, elected through the znode /controller).

Source: lines of real servers of 3.6.0, 3.9.2 and 4.3.1 (in the tests), found in QuorumState.durableTransitionTo and
memoryTransitionTo, QuorumController.claim and renounce, KafkaController.elect and onControllerResignation.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple


class Layer(StrEnum):
    """The part of a node whose role changed."""

    RAFT = "raft"
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"


class RoleChange(NamedTuple):
    """A node began (`leads`) or ceased to lead in one layer; `epoch` is the reign's, None where the line has none.

    In ZooKeeper mode the epoch is the controller epoch. A node that did not lead may also log "Resigned". `reverted_to`
    is the offset to which a KRaft controller gave up its changes that were not committed.
    """

    layer: Layer
    leads: bool
    epoch: int | None
    reverted_to: int | None = None


#: By layer: the line of a node that begins to lead, with the epoch. The first epoch in the description of a state is
#: the state's own; nested descriptions before it have none.
BEGINS: Final = {
    Layer.RAFT: r"Completed transition to Leader\(.*?\bepoch=(\d+)",
    Layer.CONTROLLER: r"Becoming the active controller at epoch (\d+)",
    Layer.ZOOKEEPER: r"successfully elected as the controller\. Epoch incremented to (\d+)",
}
_FROM_LEADER: Final = re.compile(r" from Leader\(.*?\bepoch=(\d+)")
_RENOUNCE: Final = re.compile(r"\bat epoch (\d+)")
_REVERTED: Final = re.compile(r"[Rr]everting to (?:the )?last (?:stable|committed) offset (\d+)")
_RESIGNED: Final = re.compile(r"\[Controller id=\d+\] Resigned$")


def read_role_change(line: str) -> RoleChange | None:
    """Read the change of role from a log line; None for any other line."""
    if "Completed transition to " in line:
        return _raft(line)
    if " active controller at " in line:
        return _begun(Layer.CONTROLLER, line)
    if "enouncing" in line and "leadership" in line:
        return _renounced(line)
    if "successfully elected" in line:
        return _begun(Layer.ZOOKEEPER, line)
    if _RESIGNED.search(line.rstrip()):
        return RoleChange(Layer.ZOOKEEPER, False, None)
    return None


def _raft(line: str) -> RoleChange | None:
    return _begun(Layer.RAFT, line) or _ended(Layer.RAFT, _FROM_LEADER.search(line))


def _renounced(line: str) -> RoleChange | None:
    change, reverted = _ended(Layer.CONTROLLER, _RENOUNCE.search(line)), _REVERTED.search(line)
    return change if change is None or reverted is None else change._replace(reverted_to=int(reverted.group(1)))


def _begun(layer: Layer, line: str) -> RoleChange | None:
    match = re.search(BEGINS[layer], line)
    return None if match is None else RoleChange(layer, True, int(match[1]))


def _ended(layer: Layer, match: re.Match[str] | None) -> RoleChange | None:
    return None if match is None else RoleChange(layer, False, int(match[1]))
