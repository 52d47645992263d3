"""The nodes that one session asks beside its own: whoever coordinates or leads something, one connection to each.

A session asks its own node where to send a request, and keeps the answer until a request there fails, or is refused as
only a node refuses that is not what it was taken for. That operation has its outcome, and the next one asks the own
node again. Nothing is sent twice for one operation, with one exception: codes that say that the transaction before is
still ending, and that nothing was done.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.client.transactions import find_coordinator
from fencepost.systems.kafka.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    ILLEGAL_GENERATION,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    PRODUCER_FENCED,
    REBALANCE_IN_PROGRESS,
    TRANSACTIONAL_ID_NOT_FOUND,
    UNKNOWN_MEMBER_ID,
    UNSTABLE_OFFSET_COMMIT,
    ServerRefusal,
)
from fencepost.systems.kafka.wire.values import BrokerAddress

T = TypeVar("T")
Request = Callable[[KafkaNode], Awaitable[T]]
#: What a node is asked as: (kind, name) of what it coordinates, or (topic, partition) that it leads.
_Role = tuple[str | int, str | int]

NO_LEADER: Final = "no-leader"
TIMEOUT: Final = "timeout"
#: Refusals of a producer that was superseded.
SUPERSEDED: Final = frozenset({INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED})
#: Refusals by a node that is what the session took it for.
_BY_THE_RIGHT_NODE: Final = SUPERSEDED | {
    CONCURRENT_TRANSACTIONS,
    ILLEGAL_GENERATION,
    INVALID_TXN_STATE,
    REBALANCE_IN_PROGRESS,
    TRANSACTIONAL_ID_NOT_FOUND,
    UNKNOWN_MEMBER_ID,
}
_ENDING: Final = frozenset({CONCURRENT_TRANSACTIONS, UNSTABLE_OFFSET_COMMIT})
#: For how long, and how often, a node is asked again that is still ending the transaction before.
_ENDING_S: Final = 1.0
_ENDING_POLL_S: Final = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """A node in one role. Each look-up makes another one, so `is` tells whether the role may have moved."""

    number: int
    node: KafkaNode


class Peers:
    """The connections of one session; `number` is the id of its own node.

    A request that is not answered within `patience_s` has an unknown outcome, and its connection is closed; without it
    a request waits for as long as its operation does.
    """

    def __init__(
        self, own: KafkaNode, number: int, *, connect_timeout_s: float, patience_s: float | None = None
    ) -> None:
        self.own: Final = own
        self._number = number
        self._connect_timeout_s = connect_timeout_s
        self._patience_s = patience_s
        self._nodes: dict[int, KafkaNode] = {}
        self._peers: dict[_Role, Peer] = {}

    def close(self) -> None:
        """Close the connections to the other nodes at once. Idempotent; never raises."""
        for node in self._nodes.values():
            node.close()
        self._nodes.clear()
        self._peers.clear()

    def coordinator(self, kind: int, name: str) -> Peer | None:
        """The coordinator as this session knows it; None before the first request and after one that failed."""
        return self._peers.get((kind, name))

    async def at_coordinator(self, kind: int, name: str, request: Request[T]) -> T:
        """Send one request to the coordinator of a transactional id or group."""
        return await self._at((kind, name), lambda: find_coordinator(self.own, name, kind), request)

    async def at_leader(self, topic: str, partition: int, request: Request[T]) -> T:
        """Send one request to the leader of a partition."""
        return await self._at((topic, partition), lambda: self._leader(topic, partition), request)

    async def _at(self, role: _Role, find: Callable[[], Awaitable[BrokerAddress]], request: Request[T]) -> T:
        if role not in self._peers:
            self._peers[role] = await self._connected(await self._asked_own(find))
        peer = self._peers[role]
        try:
            return await self._while_ending(peer.node, request)
        except ServerRefusal as refusal:
            if refusal.number not in _BY_THE_RIGHT_NODE:
                self._peers.pop(role, None)
            raise
        except NotSent as unsent:
            self._leave(peer.number)
            # A lost connection ends the session (`NotSent`) only where it is that to the own node.
            if peer.node is self.own:
                raise
            raise Definite(unsent.code, str(unsent)) from None
        except BaseException:
            self._leave(peer.number)
            raise

    async def _asked_own(self, find: Callable[[], Awaitable[BrokerAddress]]) -> BrokerAddress:
        """Ask the own node where to send something: without an answer nothing was sent."""
        try:
            async with asyncio.timeout(self._patience_s):
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

    async def _connected(self, to: BrokerAddress) -> Peer:
        if to.node == self._number:
            return Peer(to.node, self.own)
        if to.node not in self._nodes:
            self._nodes[to.node] = await open_node(to.host, to.port, connect_timeout_s=self._connect_timeout_s)
        return Peer(to.node, self._nodes[to.node])

    def _leave(self, number: int) -> None:
        """Close the connection to this node, and forget what was to be asked there."""
        self._peers = {role: peer for role, peer in self._peers.items() if peer.number != number}
        node = self._nodes.pop(number, None)
        if node is not None:
            node.close()

    async def _while_ending(self, node: KafkaNode, request: Request[T]) -> T:
        """Ask, and again for a second while the node is still ending the transaction before."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + _ENDING_S
        while True:
            try:
                async with asyncio.timeout(self._patience_s):
                    return await request(node)
            except TimeoutError:
                raise Indefinite(TIMEOUT, f"no answer within {self._patience_s} s") from None
            except ServerRefusal as refusal:
                if refusal.number not in _ENDING or clock() >= until_s:
                    raise
            await asyncio.sleep(_ENDING_POLL_S)
