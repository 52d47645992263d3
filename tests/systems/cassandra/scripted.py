"""A server that speaks CQL's protocol and answers as a test says."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from fencepost.systems.cassandra.wire import frames
from fencepost.systems.cassandra.wire.frames import Opcode

#: An opcode and a body; None: no answer; "end": the connection is closed.
Said = tuple[int, bytes] | None | str
_BLOB = 0x03


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def _value(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def error(number: int, text: str = "as the test says", *, level: int | None = None) -> Said:
    return Opcode.ERROR, struct.pack(">i", number) + _text(text) + (b"" if level is None else struct.pack(">H", level))


def rows(*rows_: Mapping[str, bytes | None]) -> Said:
    names = list(rows_[0]) if rows_ else []
    columns = b"".join(_text(name) + struct.pack(">H", _BLOB) for name in names)
    head = struct.pack(">iii", 2, 1, len(names)) + _text("keyspace") + _text("table") + columns
    cells = b"".join(_value(row[name]) for row in rows_ for name in names)
    return Opcode.RESULT, head + struct.pack(">i", len(rows_)) + cells


VOID: Said = (Opcode.RESULT, struct.pack(">i", 1))
APPLIED: Said = rows({"[applied]": b"\x01"})
REFUSED: Said = rows({"[applied]": b"\x00"})


@asynccontextmanager
async def serving(answer: Callable[[str], Said]) -> AsyncIterator[int]:
    """Serve on loopback until the end; `answer` gets each statement. Yields the port."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                _, _, stream, opcode, length = frames.HEADER.unpack(await reader.readexactly(frames.HEADER.size))
                body = await reader.readexactly(length)
                said: Said = (Opcode.READY, b"")
                if opcode == Opcode.QUERY:
                    (size,) = struct.unpack_from(">i", body)
                    said = answer(body[4 : 4 + size].decode())
                if isinstance(said, str):
                    return
                if said is not None:
                    writer.write(frames.HEADER.pack(frames.ANSWER, 0, stream, said[0], len(said[1])) + said[1])
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
