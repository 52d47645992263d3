"""A JetStream of one stream in memory, spoken to over a socket, whose answers a test may replace."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from fencepost.systems.nats.stream import STREAM
from fencepost.systems.nats.wire.connection import NatsConnection, connect
from tests.systems.contract.patience import PATIENCE_S

INFO: Final = {"server_id": "NAME", "client_id": 7, "headers": True}
#: Gets subject, headers and payload; gives the bytes of the answer's frame for an inbox, or None for no answer.
Answer = Callable[[str, dict[str, str], bytes], "tuple[bytes, bytes] | None"]


class Stream:
    """Subjects with their last message: what a healthy stream answers."""

    def __init__(self) -> None:
        self.sequence = 0
        self.last: dict[str, tuple[int, bytes]] = {}
        #: Replaces the answer to a request, where it returns one.
        self.instead: Callable[[str], tuple[bytes, bytes] | None] = lambda subject: None
        self.asked: list[str] = []

    def answer(self, subject: str, headers: dict[str, str], payload: bytes) -> tuple[bytes, bytes] | None:
        self.asked.append(subject)
        other = self.instead(subject)
        if other is not None:
            return None if other == (b"", b"") else other
        if subject.startswith("$JS.API.DIRECT.GET."):
            found = self.last.get(subject.removeprefix(f"$JS.API.DIRECT.GET.{STREAM}."))
            if found is None:
                return b"NATS/1.0 404 Message Not Found\r\n\r\n", b""
            return f"NATS/1.0\r\nNats-Sequence: {found[0]}\r\n\r\n".encode(), found[1]
        if subject.startswith("$JS.API.STREAM.MSG.GET."):
            found = self.last.get(json.loads(payload)["last_by_subj"])
            if found is None:
                return refusal(404, 10037, "no message found")
            return b"", json.dumps({"message": {"seq": found[0], "data": base64.b64encode(found[1]).decode()}}).encode()
        if subject.startswith("$JS.API.STREAM.INFO."):
            prefix = json.loads(payload)["subjects_filter"].removesuffix(">")
            subjects = {name: 1 for name in self.last if name.startswith(prefix)}
            return b"", json.dumps({"state": {"last_seq": self.sequence, "subjects": subjects or None}}).encode()
        expected = headers.get("nats-expected-last-subject-sequence")
        present = self.last.get(subject, (0, b""))[0]
        if expected is not None and int(expected) != present:
            return refusal(400, 10071, f"wrong last sequence: {present}")
        self.sequence += 1
        self.last[subject] = (self.sequence, payload)
        return b"", json.dumps({"stream": STREAM, "seq": self.sequence}).encode()


def refusal(code: int, number: int, text: str) -> tuple[bytes, bytes]:
    """An answer of JetStream that refuses."""
    return b"", json.dumps({"error": {"code": code, "err_code": number, "description": text}}).encode()


NO_ANSWER: Final = (b"", b"")


@asynccontextmanager
async def speaking(
    converse: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """A server on loopback that holds this conversation on every connection; gives its port."""
    writers: set[asyncio.StreamWriter] = set()

    async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        await converse(reader, writer)

    server = await asyncio.start_server(kept, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[int]:
    """A server on loopback that answers so; gives its port."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps(INFO).encode() + b"\r\n")
        while line := (await reader.readline()).split():
            match line[0]:
                case b"PING":
                    writer.write(b"PONG\r\n")
                case b"PUB" | b"HPUB":
                    head = int(line[3]) if line[0] == b"HPUB" else 0
                    content = (await reader.readexactly(int(line[-1]) + 2))[:-2]
                    pairs = (row.split(": ", 1) for row in content[:head].decode().split("\r\n") if ": " in row)
                    headers = {name.lower(): value for name, value in pairs}
                    given = answer(line[1].decode(), headers, content[head:])
                    if given is not None:
                        writer.write(frame(line[2], *given))
                case _:
                    pass

    async with speaking(converse) as port:
        yield port


def frame(inbox: bytes, headers: bytes, payload: bytes) -> bytes:
    if not headers:
        return b"MSG %b 1 %d\r\n%b\r\n" % (inbox, len(payload), payload)
    return b"HMSG %b 1 %d %d\r\n%b%b\r\n" % (inbox, len(headers), len(headers) + len(payload), headers, payload)


async def connected(port: int) -> NatsConnection:
    return await connect("127.0.0.1", port, PATIENCE_S)
