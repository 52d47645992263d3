"""ZooKeeper's own requests on one session, with whole paths: one request and one answer each.

The client protocols (`client.py`) use these, and tests may use them directly. `call` leaves a server's error code to
the caller (`ZooKeeperError`), who may expect it; `ask` translates it by the table.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, TypeVar

from fencepost.harness.coordination import Definite
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.connection import Parse, WatchEvent, ZooKeeperConnection
from fencepost.systems.zookeeper.wire.errors import NO_NODE, NODE_EXISTS, ZooKeeperError
from fencepost.systems.zookeeper.wire.jute import HEADER_BYTES, MultiResult, Op, Stat

T = TypeVar("T")

PERSISTENT: Final = 0
EPHEMERAL: Final = 1
SEQUENTIAL: Final = 2
ANY_VERSION: Final = -1


class MultiError(ZooKeeperError):
    """A multi was refused, with this code for its operation number `at`; no operation took effect."""

    def __init__(self, code: int, at: int) -> None:
        super().__init__(code)
        self.at = at


def raise_outcome(error: ZooKeeperError, expected: Mapping[int, str] | None = None) -> NoReturn:
    """Raise the outcome of a server's error.

    Args:
        expected: codes to which the operation gives a name of its own; all are refusals, so definite.
    """
    word = expected.get(error.code) if expected else None
    if word is not None:
        raise Definite(word) from None
    raise error.outcome() from None


class ZooKeeperSession:
    """One session on one server."""

    def __init__(self, connection: ZooKeeperConnection) -> None:
        self.connection = connection

    @property
    def watch_events(self) -> "asyncio.Queue[WatchEvent]":
        """The events of the watches that `get`, `exists` and `children` set, in the server's order."""
        return self.connection.watch_events

    def close(self) -> None:
        self.connection.close()

    async def call(self, op: Op, record: bytes, parse: Parse[T]) -> T:
        return await self.connection.request(op, record, parse)

    async def ask(self, op: Op, record: bytes, parse: Parse[T], expected: Mapping[int, str] | None = None) -> T:
        try:
            return await self.connection.request(op, record, parse)
        except ZooKeeperError as error:
            raise_outcome(error, expected)

    async def after(self, first: Op, first_record: bytes, op: Op, record: bytes, parse: Parse[T]) -> T:
        """Send two requests at once; returns the second's answer if the first succeeded."""
        connection = self.connection
        before, done = connection.queue(first, first_record, zxid_of)
        behind, answer = connection.queue(op, record, parse)
        connection.send(before + behind)
        value = await answer
        done.result()  # answered before: ZooKeeper keeps the order
        return value

    async def call_multi(self, operations: Sequence[tuple[Op, bytes]]) -> tuple[int, list[MultiResult]]:
        """Send operations that take effect together or not at all.

        Returns:
            The reply's zxid, and one result for each operation.

        Raises:
            MultiError: one was refused, so none took effect.
        """
        zxid, results = await self.call(Op.MULTI, wire.multi_record(operations), _multi)
        for at, result in enumerate(results):
            if result.error not in (0, wire.RUNTIME_INCONSISTENCY):
                raise MultiError(result.error, at)
        if any(result.error for result in results):
            raise MultiError(wire.RUNTIME_INCONSISTENCY, 0)
        return zxid, results

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        return await self.ask(Op.GET_DATA, wire.path_and_watch(wire.text(path), watch), _data)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        try:
            return await self.call(Op.EXISTS, wire.path_and_watch(wire.text(path), watch), _stat)
        except ZooKeeperError as error:
            if error.code == NO_NODE:
                return None
            raise_outcome(error)

    async def children(self, path: str, *, watch: bool = False) -> tuple[list[str], Stat]:
        return await self.ask(Op.GET_CHILDREN, wire.path_and_watch(wire.text(path), watch), _children)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return await self.ask(Op.SET_DATA, wire.set_record(wire.text(path), data, version), _stat)

    async def make(self, path: str, data: bytes = b"", flags: int = PERSISTENT) -> tuple[str, Stat]:
        """Create a znode; `flags` are EPHEMERAL and SEQUENTIAL. Returns the path that it got, and its stat."""
        return await self.ask(Op.CREATE_WITH_STAT, wire.create_record(wire.text(path), data, flags), made)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.ask(Op.DELETE, wire.version_record(wire.text(path), version), zxid_of)

    async def sync(self, path: str) -> int:
        """Sync; returns the reply's zxid."""
        return await self.ask(Op.SYNC, wire.text(path), zxid_of)

    async def multi(self, operations: Sequence[tuple[Op, bytes]]) -> list[MultiResult]:
        """Send operations that take effect together or not at all; `wire` makes their records."""
        try:
            return (await self.call_multi(operations))[1]
        except ZooKeeperError as error:
            raise_outcome(error)

    async def make_if_absent(self, path: str) -> None:
        try:
            await self.call(Op.CREATE, wire.create_record(wire.text(path), b"", PERSISTENT), zxid_of)
        except ZooKeeperError as error:
            if error.code != NODE_EXISTS:
                raise_outcome(error)


# Replies. Each takes (body, zxid of the header).


def zxid_of(body: bytes, zxid: int) -> int:
    return zxid


def made(body: bytes, zxid: int) -> tuple[str, Stat]:
    path, offset = wire.read_text(body, HEADER_BYTES)
    return path, wire.read_stat(body, offset)


def _data(body: bytes, zxid: int) -> tuple[bytes, Stat]:
    return wire.read_data(body, HEADER_BYTES)


def _stat(body: bytes, zxid: int) -> Stat:
    return wire.read_stat(body, HEADER_BYTES)


def _children(body: bytes, zxid: int) -> tuple[list[str], Stat]:
    return wire.read_children(body, HEADER_BYTES)


def _multi(body: bytes, zxid: int) -> tuple[int, list[MultiResult]]:
    return zxid, wire.read_multi(body, HEADER_BYTES)
