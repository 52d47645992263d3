"""Asking each node alone who is the controller while the role moves from ZooKeeper to KRaft.

The epoch of the subject "controller" is ZooKeeper's controller epoch. A broker's election raises it, and so does every
claim of a KRaft controller. No request returns it, so it comes from the node's own log, which is read before the
question and after the answer.

- A broker in migration mode passes on requests to the controller, so its answers say nothing about itself. It is asked
  for metadata, which shows that it runs, and its log says whether it is the controller.
- A KRaft controller is asked whether it accepts changes. Its log says in which epoch it claimed /controller. Before the
  claim, and when ZooKeeper is no longer in use, it has no such epoch.

Source: KafkaController.elect; KafkaZkClient.tryRegisterKRaftControllerAsActiveController of Kafka 3.6 to 3.9.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from fencepost.harness.contract.system import Answer, Question
from fencepost.harness.history import Claim
from fencepost.harness.runtime.server_log import LogFollower
from fencepost.systems.kafka.client.client import KafkaNode, ListenerRole
from fencepost.systems.kafka.client.reconnecting_client import ReconnectingClient
from fencepost.systems.kafka.server.configuration import BRIDGE
from fencepost.systems.kafka.server.log_lines import read_role_change
from fencepost.systems.kafka.zookeeper_mode.role_log import RoleLog

LOG_SOURCE: Final = "log"
CLAIMED: Final = r"Successfully registered KRaft controller \d+ with ZK epoch (\d+)"
_STARTING: Final = re.compile(r"\[ControllerServer id=\d+\] Starting controller")


class BrokerQuestion:
    """Is this broker the controller, in ZooKeeper mode? A broker in KRaft mode is not."""

    def __init__(self, number: int, address: str, port: int, log: Path) -> None:
        self._name = BRIDGE.node_name(number)
        self._line = ReconnectingClient(address, port)
        self._log = RoleLog(log)

    async def ask(self) -> Answer:
        return await self._line.ask(self._answer)

    async def close(self) -> None:
        await self._line.close()

    async def _answer(self, node: KafkaNode) -> Answer:
        before = self._log.read()
        await node.metadata()
        after = self._log.read()
        if node.role is ListenerRole.BROKER:
            return Answer(claims=Claim.NO, source=LOG_SOURCE, epoch_exact=False, detail="in KRaft mode")
        if before.leads is None or before.leads != after.leads:
            return Answer(claims=Claim.NO, source=LOG_SOURCE, epoch_exact=False)
        return Answer(claims=Claim.YES, source=LOG_SOURCE, epoch=before.leads, leader=self._name)


class ClaimLog:
    """The controller epoch in which a KRaft controller holds /controller, by the lines that its log has now."""

    def __init__(self, path: Path) -> None:
        self._follower = LogFollower(path)
        self._epoch: int | None = None

    def read(self) -> int | None:
        for line in self._follower.lines():
            self._epoch = claimed_after(self._epoch, line)
        return self._epoch


def claimed_after(epoch: int | None, line: str) -> int | None:
    """The epoch of the claim after this line of a KRaft controller's log; None: it has made none in this reign."""
    if match := re.search(CLAIMED, line):
        return int(match.group(1))
    if _STARTING.search(line) or read_role_change(line) is not None:
        return None
    return epoch


class ClaimedQuestion:
    """A KRaft controller's question, with the epoch of its claim."""

    def __init__(self, question: Question, log: ClaimLog) -> None:
        self._question, self._log = question, log

    async def ask(self) -> Answer:
        before = self._log.read()
        answer = await self._question.ask()
        after = self._log.read()
        if answer.claims is not Claim.YES:
            return answer
        return replace(answer, epoch=before, epoch_exact=before is not None and before == after)

    async def close(self) -> None:
        await self._question.close()
