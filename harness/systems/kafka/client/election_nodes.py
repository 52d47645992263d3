"""The nodes that elections ask: the session's own, the coordinator of the election, and the leader of the trail.

Coordinator and leader are whichever nodes they are. A session asks its own node who they are, and opens at most one
connection to each. A connection is dropped when it ends, or when its node refuses because it is not what the session
took it for: that operation has its outcome, and the next one asks the own node again. Nothing is sent twice for one
operation, with one exception: code 51 (concurrent transactions) says that the coordinator is still ending the last
transaction and has done nothing, so it is asked again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.systems.kafka.client.client import KafkaNode, open_node
from fencepost.harness.systems.kafka.client.transactions import find_coordinator
from fencepost.harness.systems.kafka.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    PRODUCER_FENCED,
    TRANSACTIONAL_ID_NOT_FOUND,
    ServerRefusal,
)
from fencepost.harness.systems.kafka.wire.values import BrokerAddress

T = TypeVar("T")

NO_LEADER: Final = "no-leader"
#: Refusals of a producer that was superseded.
SUPERSEDED: Final = frozenset({INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED})
#: The trail has one partition.
PARTITION: Final = 0
#: Refusals by a node that is what the session took it for.
_BY_THE_RIGHT_NODE: Final = SUPERSEDED | {INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, TRANSACTIONAL_ID_NOT_FOUND}
#: For how long, and how often, a coordinator is asked that is still ending the last transaction.
_ENDING_S: Final = 1.0
_ENDING_POLL_S: Final = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """A connection to a node in one role. Each connecting makes another one, so `is` tells them apart."""

    number: int
    node: KafkaNode


class ElectionNodes:
    """The connections of one session; `number` is the id of its own node."""

    def __init__(self, own: KafkaNode, number: int, *, connect_timeout_s: float) -> None:
        self.own: Final = own
        self._number = number
        self._connect_timeout_s = connect_timeout_s
        self._coordinator: Peer | None = None
        self._leader: Peer | None = None

    @property
    def coordinator(self) -> Peer | None:
        """The coordinator that this session is connected to; None before the first request and after a failed one."""
        return self._coordinator

    def close(self) -> None:
        """Close the connections to the other nodes at once. Idempotent; never raises."""
        self._leave(self._coordinator)
        self._leave(self._leader)
        self._coordinator = self._leader = None

    async def at_coordinator(self, name: str, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """Send one request to the coordinator of the transactional id `name`."""
        if self._coordinator is None:
            self._coordinator = await self._connected(await self._at_own(lambda node: find_coordinator(node, name)))
        try:
            return await self._at(self._coordinator, request)
        except BaseException as error:
            if not _is_by_the_right_node(error):
                self._leave(self._coordinator)
                self._coordinator = None
            raise

    async def at_idle_coordinator(self, name: str, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """As `at_coordinator`, and again, for a second, while the coordinator is still ending the last transaction."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + _ENDING_S
        while True:
            try:
                return await self.at_coordinator(name, request)
            except ServerRefusal as refusal:
                if refusal.number != CONCURRENT_TRANSACTIONS or clock() >= until_s:
                    raise
            await asyncio.sleep(_ENDING_POLL_S)

    async def at_leader(self, trail: str, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """Send one request to the leader of the trail's partition."""
        if self._leader is None:
            self._leader = await self._connected(await self._leader_of(trail))
        try:
            return await self._at(self._leader, request)
        except BaseException as error:
            if not _is_by_the_right_node(error):
                self._leave(self._leader)
                self._leader = None
            raise

    async def _at(self, peer: Peer, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """Send a request; a lost connection ends the session (`NotSent`) only where it is that to the own node."""
        try:
            return await request(peer.node)
        except NotSent as unsent:
            if peer.node is self.own:
                raise
            raise Definite(unsent.code, str(unsent)) from None

    async def _at_own(self, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """Ask the own node something before anything else is asked: without an answer nothing was sent."""
        try:
            return await request(self.own)
        except Indefinite as lost:
            raise NotSent(lost.code, str(lost)) from None

    async def _leader_of(self, trail: str) -> BrokerAddress:
        view = await self._at_own(lambda node: node.metadata([trail]))
        leaders = [part.leader for topic in view.topics for part in topic.partitions if part.partition == PARTITION]
        for broker in view.brokers:
            if broker.node in leaders:
                return broker
        raise Definite(NO_LEADER, f"{trail}: led by {leaders or 'nobody'}")

    async def _connected(self, to: BrokerAddress) -> Peer:
        if to.node == self._number:
            return Peer(to.node, self.own)
        return Peer(to.node, await open_node(to.host, to.port, connect_timeout_s=self._connect_timeout_s))

    def _leave(self, peer: Peer | None) -> None:
        if peer is not None and peer.node is not self.own:
            peer.node.close()


def _is_by_the_right_node(error: BaseException) -> bool:
    return isinstance(error, ServerRefusal) and error.number in _BY_THE_RIGHT_NODE
