"""What a broker's own log says of its role now: so an answer that names no epoch gets one, where it is proven.

No request tells a broker's controller epoch. Its log does, in an order that can be relied upon: "successfully elected
... Epoch incremented to N" is written before the new controller sends anything, "Resigned" before it can be elected
again, and "UpdateMetadata request sent by controller I epoch N" when its view of who the controller is has changed.
Lines are written at once and in order. So when the log says the same before a question left and after its answer came,
nothing that the answer depends on can have changed between.

Source: KafkaController.elect and onControllerResignation, ZkMetadataCache.updateMetadata of Kafka 2.8 to 3.9.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.harness.runtime.server_log import LogFollower
from fencepost.harness.systems.kafka.server.log_lines import Layer, read_role_change

_STARTING: Final = re.compile(r"KafkaServer - (\[KafkaServer id=\d+\] )?starting$")
_TOLD: Final = re.compile(r"UpdateMetadata request sent by controller (\d+) epoch (\d+) with correlation id")


class Role(NamedTuple):
    """Since this start of the server: the epoch of its last election, whether it has resigned since, whom it was told
    to be the controller (a broker's id) and of which epoch."""

    elected: int | None = None
    resigned: bool = False
    told: tuple[int, int] | None = None

    @property
    def leads(self) -> int | None:
        """The epoch in which the log says that it is the controller."""
        return None if self.resigned else self.elected


class RoleLog:
    """The role by the lines that are there now."""

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
    if told := _TOLD.search(line):
        return role._replace(told=(int(told.group(1)), int(told.group(2))))
    change = read_role_change(line)
    if change is None or change.layer is not Layer.ZOOKEEPER:
        return role
    if change.leads:
        return role._replace(elected=change.epoch, resigned=False)
    return role._replace(resigned=True)
