"""A server of one connection that answers as a test tells it, and counts what it gets."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any


class Script:
    """Answers, given out one for each request; `None` closes the connection instead, and the text of each request."""

    def __init__(self, answers: Sequence[bytes | None]) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0) if self.answers else b""
                if answer is None:
                    return
                for byte_count in range(0, len(answer), 7):
                    # In pieces, as a network may deliver it.
                    writer.write(answer[byte_count : byte_count + 7])
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def answer(status: int, body: str, *, chunked: bool = False, more: str = "") -> bytes:
    """An answer of HTTP/1.1; `more` are further headers, each with its line end."""
    content = body.encode()
    if chunked:
        half = len(content) // 2
        pieces = [piece for piece in (content[:half], content[half:]) if piece]
        content = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        length = "Transfer-Encoding: chunked"
    else:
        length = f"Content-Length: {len(content)}"
    return f"HTTP/1.1 {status} Text\r\nX-Consul-Index: 7\r\n{more}{length}\r\n\r\n".encode() + content


def play(answers: Sequence[bytes | None], use: Callable[[str, int, Script], Coroutine[Any, Any, None]]) -> Script:
    """Serve these answers while `use` runs with the address; returns the script with what it got."""

    async def inside() -> Script:
        script = Script(answers)
        server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        try:
            await asyncio.wait_for(use(host, port, script), 20)
        finally:
            server.close()
        return script

    return asyncio.run(inside())
