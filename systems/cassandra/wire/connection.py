"""One connection to one node: a request is one frame, and gets one answer or none.

Nothing reconnects, retries, speculates or queues, and no statement is prepared.
"""

from typing import Final

from fencepost.harness.coordination import Definite, NotSent, connection
from fencepost.systems.cassandra.wire import errors, frames
from fencepost.systems.cassandra.wire.frames import CassandraError, Consistency, Frame, Opcode, Row

#: Streams of one connection; a request whose answer never came keeps its stream.
_STREAMS: Final = 32768


class CassandraConnection(connection.Connection):
    """An open connection."""

    _next = 0

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
        answer = await self._request(Opcode.QUERY, frames.query(statement, values, consistency, serial))
        if isinstance(answer, CassandraError):
            raise errors.outcome(answer, conditional=conditional)
        return answer

    async def begin(self) -> None:
        answer = await self._request(Opcode.STARTUP, frames.startup())
        if isinstance(answer, CassandraError):
            raise Definite("refused", answer.text)

    async def _request(self, opcode: Opcode, body: bytes) -> CassandraError | list[Row]:
        if len(self._waiting) == _STREAMS:
            raise NotSent(errors.NOT_CONNECTED, "every stream of the connection waits for an answer")
        while self._next in self._waiting:
            self._next = (self._next + 1) % _STREAMS
        stream, self._next = self._next, (self._next + 1) % _STREAMS
        head = frames.HEADER.pack(frames.REQUEST, 0, stream, opcode, len(body))
        answer: CassandraError | list[Row] = await self.ask(stream, head + body)
        return answer

    split = staticmethod(frames.frame_at)

    def match(self, frame: Frame) -> None:
        flags, stream, opcode, body = frame
        if stream not in self._waiting:
            raise ValueError(f"the server answers on stream {stream}, where nothing was asked")
        self.settle(stream, frames.answer(opcode, flags, body))


async def connect(address: str, port: int, timeout_s: float) -> CassandraConnection:
    """Open a connection that the server has answered on; raises `Definite` when that fails."""
    return await connection.dial(CassandraConnection, address, port, timeout_s)
