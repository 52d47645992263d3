"""A broker's present role according to its own log, which gives an epoch to answers that name none.

No request returns a broker's controller epoch. The log has it, in a reliable order: "successfully elected ... Epoch
incremented to N" is written before the new controller sends anything, "Resigned" before it can be elected again, and
"UpdateMetadata request sent by controller I epoch N" when its view of the controller has changed. Lines are written at
once and in order. So when the log is the same before a question and after its answer, nothing that the answer depends
on has changed in between.

Source: KafkaController.elect and onControllerResignation, ZkMetadataCache.updateMetadata of Kafka 2.8 to 3.9.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.harness.runtime.server_log import LogFollower
from fencepost.systems.kafka.server.log_lines import Layer, read_role_change

_STARTING: Final = re.compile(r"KafkaServer - (\[KafkaServer id=\d+\] )?starting$")
_NEW_VIEW: Final = re.compile(r"UpdateMetadata request sent by controller (\d+) epoch (\d+) with correlation id")


class Role(NamedTuple):
    """What the log says since the server started.

    `elected` is the epoch of its last election, and `resigned` whether it resigned after that. `view` is the
    controller that it was last told of: the broker's id and the controller epoch.
    """

    elected: int | None = None
    resigned: bool = False
    view: tuple[int, int] | None = None

    @property
    def leads(self) -> int | None:
        """The epoch in which the log says that it is the controller."""
        return None if self.resigned else self.elected


class RoleLog:
    """Reads the role from the lines that the log has now."""

    def __init__(self, path: Path) -> None:
        self._follower = LogFollower(path)
        self._role = Role()

    def read(self) -> Role:
        for line in self._follower.lines():
            self._role = after(self._role, line)
        return self._role


def after(role: Role, line: str) -> Role:
    """The role after this line."""
    if _STARTING.search(line):
        return Role()
    if match := _NEW_VIEW.search(line):
        return role._replace(view=(int(match.group(1)), int(match.group(2))))
    change = read_role_change(line)
    if change is None or change.layer is not Layer.ZOOKEEPER:
        return role
    if change.leads:
        return role._replace(elected=change.epoch, resigned=False)
    return role._replace(resigned=True)
