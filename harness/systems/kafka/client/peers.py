"""The nodes that one session asks beside its own: whoever coordinates or leads something, one connection to each.

A session asks its own node where to send a request, and keeps the answer until a request there fails. It then leaves
that node: the operation has its outcome, and the next one asks the own node again. Nothing is sent twice for one
operation, with one exception: codes that say that the transaction before is still ending, and that nothing was done.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.systems.kafka.client.client import KafkaNode, open_node
from fencepost.harness.systems.kafka.client.transactions import find_coordinator
from fencepost.harness.systems.kafka.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    UNSTABLE_OFFSET_COMMIT,
    ServerRefusal,
)
from fencepost.harness.systems.kafka.wire.values import BrokerAddress

T = TypeVar("T")
Request = Callable[[KafkaNode], Awaitable[T]]

NO_LEADER: Final = "no-leader"
TIMEOUT: Final = "timeout"
#: A request that is not answered within this time has an unknown outcome, and its connection is closed.
PATIENCE_S: Final = 1.5
_ENDING: Final = frozenset({CONCURRENT_TRANSACTIONS, UNSTABLE_OFFSET_COMMIT})
#: For how long, and how often, a node is asked again that is still ending the transaction before.
_ENDING_S: Final = 1.0
_ENDING_POLL_S: Final = 0.005


class Peers:
    """The connections of one session; `number` is the id of its own node."""

    def __init__(self, own: KafkaNode, number: int, *, connect_timeout_s: float) -> None:
        self.own: Final = own
        self._number = number
        self._connect_timeout_s = connect_timeout_s
        self._nodes: dict[int, KafkaNode] = {}
        #: By (kind, name), or (topic, partition): the number of the node that coordinates or leads it.
        self._where: dict[tuple[str | int, str | int], int] = {}

    def close(self) -> None:
        """Close the connections to the other nodes at once. Idempotent; never raises."""
        for node in self._nodes.values():
            node.close()
        self._nodes.clear()
        self._where.clear()

    async def at_coordinator(self, kind: int, name: str, request: Request[T]) -> T:
        """Send one request to the coordinator of a transactional id or group."""
        return await self._at((kind, name), lambda: find_coordinator(self.own, name, kind), request)

    async def at_leader(self, topic: str, partition: int, request: Request[T]) -> T:
        """Send one request to the leader of a partition."""
        return await self._at((topic, partition), lambda: self._leader(topic, partition), request)

    async def _at(
        self,
        what: tuple[str | int, str | int],
        find: Callable[[], Awaitable[BrokerAddress]],
        request: Request[T],
    ) -> T:
        if what not in self._where:
            self._where[what] = await self._connected(await self._asked_own(find))
        number = self._where[what]
        # Another failure may have closed the connection that the answer was kept for.
        if number != self._number and number not in self._nodes:
            del self._where[what]
            return await self._at(what, find, request)
        node = self.own if number == self._number else self._nodes[number]
        try:
            return await _while_ending(node, request)
        except ServerRefusal:
            self._where.pop(what, None)
            raise
        except NotSent as unsent:
            self._leave(number)
            if node is self.own:
                raise
            raise Definite(unsent.code, str(unsent)) from None
        except BaseException:
            self._leave(number)
            raise

    async def _asked_own(self, find: Callable[[], Awaitable[BrokerAddress]]) -> BrokerAddress:
        """Ask the own node where to send something: without an answer nothing was sent."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await find()
        except TimeoutError:
            raise NotSent(TIMEOUT, "the own node does not say where to send the request") from None
        except Indefinite as lost:
            raise NotSent(lost.code, str(lost)) from None

    async def _leader(self, topic: str, partition: int) -> BrokerAddress:
        view = await self.own.metadata([topic])
        leaders = [part.leader for known in view.topics for part in known.partitions if part.partition == partition]
        for broker in view.brokers:
            if broker.node in leaders:
                return broker
        raise Definite(NO_LEADER, f"{topic}-{partition}: led by {leaders or 'nobody'}")

    async def _connected(self, to: BrokerAddress) -> int:
        if to.node != self._number and to.node not in self._nodes:
            self._nodes[to.node] = await open_node(to.host, to.port, connect_timeout_s=self._connect_timeout_s)
        return to.node

    def _leave(self, number: int) -> None:
        """Close the connection to this node, and forget what was to be asked there."""
        self._where = {what: where for what, where in self._where.items() if where != number}
        node = self._nodes.pop(number, None)
        if node is not None:
            node.close()


async def _while_ending(node: KafkaNode, request: Request[T]) -> T:
    """Ask, and again for a second while the node is still ending the transaction before."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + _ENDING_S
    while True:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await request(node)
        except TimeoutError:
            raise Indefinite(TIMEOUT, f"no answer within {PATIENCE_S} s") from None
        except ServerRefusal as refusal:
            if refusal.number not in _ENDING or clock() >= until_s:
                raise
        await asyncio.sleep(_ENDING_POLL_S)
