"""KIP-273's interface: Kafka's requests to its metastore, its handlers and its session, method by method.

The names are those of the proposal's trait `KafkaMetastore`, in Python's spelling, without Kafka and ZNode in them;
requests and errors are ZooKeeper's.
A handler is registered for a path, and the next request that reads the path sets its watch, as Kafka's own client does.

Source: KIP-273, "Kafka to support using ETCD beside Zookeeper" (cwiki, 2018), trait KafkaMetastore; kafka.zookeeper
.ZooKeeperClient of Kafka 1.1.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

import msgspec

from fencepost.harness.coordination.session import ClientSession


class MetastoreRefusal(StrEnum):
    """Why a request changed nothing, in ZooKeeper's words."""

    NO_NODE = "no-node"
    NODE_EXISTS = "node-exists"
    NOT_EMPTY = "not-empty"
    NO_CHILDREN_FOR_EPHEMERALS = "no-children-for-ephemerals"
    SESSION_EXPIRED = "session-expired"
    OTHER = "other"


class Create(msgspec.Struct, frozen=True):
    path: str
    data: bytes = b""
    ephemeral: bool = False


class Delete(msgspec.Struct, frozen=True):
    path: str


class SetData(msgspec.Struct, frozen=True):
    path: str
    data: bytes


class GetData(msgspec.Struct, frozen=True):
    path: str


Request: TypeAlias = Create | Delete | SetData | GetData


class MetastoreResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one request; `version` counts the path's writes since its creation, from 0.

    `position` is that of the change, or of the value read, in the store's order.
    """

    refusal: MetastoreRefusal | None = None
    data: bytes | None = None
    version: int | None = None
    position: int | None = None


class MetastoreChange(msgspec.Struct, frozen=True):
    """A change of a watched path; `position` is None where the event does not say it."""

    path: str
    position: int | None = None


PathChangeHandler: TypeAlias = Callable[[MetastoreChange], None]
#: Called when the session has ended.
StateChangeHandler: TypeAlias = Callable[[str], None]
#: Hears of each answer when it arrives: its place among the requests, and the answer. Not a part of KIP-273.
AnswerListener: TypeAlias = Callable[[int, MetastoreResponse], None]


class Metastore(Protocol):
    """One session of the metastore."""

    @property
    def session_id(self) -> str: ...

    async def wait_until_connected(self) -> None: ...

    def register_path_change_handler(self, path: str, handler: PathChangeHandler) -> None: ...

    def unregister_path_change_handler(self, path: str) -> None: ...

    def register_state_change_handler(self, handler: StateChangeHandler) -> None: ...

    def unregister_state_change_handler(self, handler: StateChangeHandler) -> None: ...

    async def handle_request(self, request: Request) -> MetastoreResponse: ...

    async def handle_requests(
        self, requests: Sequence[Request], listener: AnswerListener | None = None
    ) -> tuple[MetastoreResponse, ...]:
        """Send all requests at once and wait for all answers. Raises Indefinite when one gets none."""
        ...

    async def close(self) -> None: ...


class BaseMetastore(ABC):
    """What every recipe does alike: it keeps the handlers, and is made on a connection that stands."""

    def __init__(self) -> None:
        self._handlers: dict[str, PathChangeHandler] = {}
        self._states: list[StateChangeHandler] = []

    async def wait_until_connected(self) -> None:
        return

    def register_path_change_handler(self, path: str, handler: PathChangeHandler) -> None:
        self._handlers[path] = handler

    def unregister_path_change_handler(self, path: str) -> None:
        self._handlers.pop(path, None)

    def register_state_change_handler(self, handler: StateChangeHandler) -> None:
        self._states.append(handler)

    def unregister_state_change_handler(self, handler: StateChangeHandler) -> None:
        self._states.remove(handler)

    async def handle_request(self, request: Request) -> MetastoreResponse:
        (response,) = await self.handle_requests((request,))
        return response

    @abstractmethod
    async def handle_requests(
        self, requests: Sequence[Request], listener: AnswerListener | None = None
    ) -> tuple[MetastoreResponse, ...]:
        """`Metastore.handle_requests`."""


class Metastores(ClientSession, Protocol):
    """A connection on which metastores can be opened."""

    async def metastore(self, ttl_ms: int | None) -> Metastore:
        """A metastore on this connection's session, or with `ttl_ms` on a new session that nothing keeps alive."""
        ...
