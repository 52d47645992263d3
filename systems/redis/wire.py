"""RESP, the protocol of Redis: one connection to one process, answers in the order of the requests; no retries.

Outcomes go by the first word of an error (`DEFINITE`); redis.io, "Redis serialization protocol". Each of these is
answered before a command changes anything; a script that meets it at its first write has changed nothing either, and
none of ours writes before. Every other error, and the end of the connection, leaves the outcome unknown.
"""

import asyncio
from collections import deque
from typing import Any, Final, TypeAlias, cast

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.coordination.client_gate import create_connection

#: bytes, an int, None, a Refusal or a list of these.
Answer: TypeAlias = Any
Word: TypeAlias = str | bytes | int

#: By the first word of an error: the code of its outcome.
DEFINITE: Final = {
    "READONLY": "not-leader",  # a replica takes no writes from clients
    "NOREPLICAS": "unavailable",  # fewer replicas than min-replicas-to-write are in contact
    "MASTERDOWN": "no-leader",  # a replica that has lost its master, and was told to answer nothing old
    "LOADING": "loading",  # the server still reads its data
    "MISCONF": "misconf",  # the server cannot save its data, and takes no writes
    "OOM": "out-of-memory",  # the command would need more memory than the server may use
    "BUSY": "busy",  # a script runs for too long; nothing else is begun
    "NOAUTH": "no-auth",  # the client has not said who it is
    "WRONGTYPE": "wrong-type",  # the key holds another kind of value
    "EXECABORT": "aborted",  # a command of the transaction was refused, so that none is carried out
}
#: Outcomes that the client itself decides. The connection ended after a request was handed to the kernel: indefinite.
NOT_CONNECTED, CONNECTION_LOST, MALFORMED = "not-connected", "connection-lost", "malformed"


class Refusal(str):
    """The text of an error answer."""

    def outcome(self) -> Definite | Indefinite:
        word = self.partition(" ")[0]
        return Definite(DEFINITE[word], self) if word in DEFINITE else Indefinite(word.lower(), self)


def encode(*command: Word) -> bytes:
    """One command, as a list of strings."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def decode(data: bytes, at: int = 0) -> tuple[Answer, int]:
    """The answer that begins there, and where the next one does.

    Raises EOFError when it is not all there, and ValueError when it is not RESP.
    """
    end = data.find(b"\r\n", at)
    if end < 0:
        raise EOFError
    kind, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    match kind:
        case b"+":
            return line, at
        case b"-":
            return Refusal(line.decode(errors="replace")), at
        case b":":
            return int(line), at
        case b"$" | b"*" if int(line) < 0:
            return None, at
        case b"$":
            end = at + int(line)
            if len(data) < end + 2:
                raise EOFError
            return data[at:end], end + 2
        case b"*":
            items = []
            for _ in range(int(line)):
                item, at = decode(data, at)
                items.append(item)
            return items, at
    raise ValueError(f"{kind + line!r} begins no answer")


class Connection(asyncio.Protocol):
    """An open connection; `shut` says why it is no longer one."""

    def __init__(self) -> None:
        self.shut: str | None = None
        self._transport: asyncio.Transport | None = None
        self._data = b""
        self._waiting: deque[asyncio.Future[Answer]] = deque()

    async def ask(self, *commands: tuple[Word, ...]) -> Answer:
        """Send these commands together; returns the answer to the last one, and raises the outcome of an error."""
        if self.shut is not None or self._transport is None:
            raise NotSent(NOT_CONNECTED, self.shut or "not open yet")
        answers = [asyncio.get_running_loop().create_future() for _ in commands]
        # An answer that nobody waits for any more still has its place in the order.
        self._waiting += answers
        self._transport.write(b"".join(encode(*command) for command in commands))
        answer = await answers[-1]
        if isinstance(answer, Refusal):
            raise answer.outcome()
        return answer

    def close(self) -> None:
        self._end("closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        at = 0
        try:
            while at < len(self._data):
                answer, at = decode(self._data, at)
                future = self._waiting.popleft()
                if not future.done():
                    future.set_result(answer)
        except EOFError:
            pass  # the rest comes later
        except (ValueError, IndexError) as error:
            self._end(f"{MALFORMED}: {error}")
        self._data = self._data[at:]

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc else "the server closed the connection")

    def _end(self, why: str) -> None:
        if self.shut is not None:
            return
        self.shut = why
        if self._transport is not None:
            self._transport.abort()
        for future in self._waiting:
            if not future.done():
                future.set_exception(Indefinite(CONNECTION_LOST, why))
                future.exception()  # counts as seen: only the last answer of a request is waited for


async def connect(address: str, port: int, timeout_s: float) -> Connection:
    """Open a connection; raises `Definite` when that fails."""
    try:
        async with asyncio.timeout(timeout_s):
            return await create_connection(Connection, address, port)
    except TimeoutError:
        raise Definite("open-timeout", f"no answer within {timeout_s:g} s") from None
    except OSError as error:
        raise Definite("refused", str(error)) from None


async def ask_once(address: tuple[str, int], *command: Word, timeout_s: float = 1.0) -> Answer:
    """Ask this process alone, over a connection of its own: a paused one answers whatever it was asked."""
    async with asyncio.timeout(timeout_s):
        connection = await connect(*address, timeout_s)
        try:
            return await connection.ask(command)
        finally:
            connection.close()
