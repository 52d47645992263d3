"""One connection to one node: a request is one frame, and gets one answer or none.

Nothing reconnects, retries, speculates or queues, and no statement is prepared. There are no time-outs here: the caller
cancels a request at its own deadline, and an answer that comes later is dropped.
"""

import asyncio
from typing import Final, cast

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.coordination.client_gate import create_connection
from fencepost.systems.cassandra.wire import errors, frames
from fencepost.systems.cassandra.wire.frames import Consistency, Opcode, Row, ServerError

#: Streams of one connection; a request whose answer never came keeps its stream.
_STREAMS: Final = 32768


class Connection(asyncio.Protocol):
    """An open connection; `shut` says why it is no longer one."""

    def __init__(self) -> None:
        self.shut: str | None = None
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._next = 0
        self._waiting: dict[int, asyncio.Future[ServerError | list[Row]]] = {}

    async def query(
        self,
        statement: str,
        *values: bytes,
        consistency: Consistency = Consistency.QUORUM,
        serial: Consistency = Consistency.SERIAL,
        conditional: bool = False,
    ) -> list[Row]:
        """Execute one statement.

        Raises:
            NotSent: the connection was not open.
            Definite, Indefinite: what the table says of the error, or that the connection ended.
        """
        answer = await self._ask(Opcode.QUERY, frames.query(statement, values, consistency, serial))
        if isinstance(answer, ServerError):
            raise errors.outcome(answer, conditional=conditional)
        return answer

    async def begin(self) -> None:
        """Say hello; raises as `query`."""
        answer = await self._ask(Opcode.STARTUP, frames.startup())
        if isinstance(answer, ServerError):
            raise Definite("refused", answer.text)

    def close(self) -> None:
        """Close at once. Idempotent, never raises."""
        self._end("closed by its owner")

    async def _ask(self, opcode: Opcode, body: bytes) -> ServerError | list[Row]:
        if self.shut is not None or self._transport is None:
            raise NotSent(errors.NOT_CONNECTED, self.shut or "not open yet")
        if len(self._waiting) == _STREAMS:
            raise NotSent(errors.NOT_CONNECTED, "every stream of the connection waits for an answer")
        while self._next in self._waiting:
            self._next = (self._next + 1) % _STREAMS
        stream, self._next = self._next, (self._next + 1) % _STREAMS
        future: asyncio.Future[ServerError | list[Row]] = asyncio.get_running_loop().create_future()
        self._waiting[stream] = future
        self._transport.write(frames.HEADER.pack(frames.REQUEST, 0, stream, opcode, len(body)) + body)
        return await future

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        self._received += data
        while self.shut is None and len(self._received) >= frames.HEADER.size:
            version, flags, stream, opcode, length = frames.HEADER.unpack_from(self._received)
            end = frames.HEADER.size + length
            if version != frames.ANSWER or length < 0:
                self._end(f"the server's frame begins with {bytes(self._received[:9])!r}")
                return
            if len(self._received) < end:
                return
            body = bytes(self._received[frames.HEADER.size : end])
            del self._received[:end]
            self._deliver(flags, stream, opcode, body)

    def eof_received(self) -> None:
        self._end("the server closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection broke: {exc}" if exc else "the server closed the connection")

    def _deliver(self, flags: int, stream: int, opcode: int, body: bytes) -> None:
        future = self._waiting.pop(stream, None)
        if future is None:
            self._end(f"the server answers on stream {stream}, where nothing was asked")
            return
        try:
            answer = frames.answer(opcode, flags, body)
        except ValueError as error:
            self._waiting[stream] = future
            self._end(str(error))
            return
        if not future.done():
            future.set_result(answer)

    def _end(self, why: str) -> None:
        if self.shut is None:
            self.shut = why
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Indefinite(errors.CONNECTION_LOST, self.shut))
        if self._transport is not None:
            self._transport.abort()


async def connect(address: str, port: int, timeout_s: float) -> Connection:
    """Open a connection that the server has answered on; raises `Definite` when that fails."""
    where = f"{address}:{port}"
    connection: Connection | None = None
    try:
        async with asyncio.timeout(timeout_s):
            connection = await create_connection(Connection, address, port)
            await connection.begin()
            return connection
    except TimeoutError:
        error: Definite = NotSent(errors.NOT_CONNECTED, f"{where} did not answer within {timeout_s:g} s")
    except (OSError, Indefinite) as refused:
        error = NotSent(errors.NOT_CONNECTED, f"{where}: {refused}")
    except Definite as refused:
        error = refused
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    if connection is not None:
        connection.close()
    raise error
