"""RESP, the protocol of Redis: one connection to one process, answers in the order of the requests; no retries.

Outcomes go by the first word of an error; redis.io, "Redis serialization protocol". Each row here is answered before a
command changes anything; a script that meets it at its first write has changed nothing either, and none of ours writes
before. Every other error leaves the outcome unknown.
"""

import asyncio
from typing import Any, Final, TypeAlias

from fencepost.harness.coordination import Definite, Indefinite, connection
from fencepost.harness.coordination.session import Row, outcome

#: bytes, an int, None, a Refusal or a list of these.
Answer: TypeAlias = Any
Word: TypeAlias = str | bytes | int

SERVER_PORT: Final = 6379

ROWS: Final = {
    "READONLY": Row("not-leader", Definite, "a replica takes no writes from clients"),
    "NOREPLICAS": Row("unavailable", Definite, "fewer replicas than min-replicas-to-write are in contact"),
    "MASTERDOWN": Row("no-leader", Definite, "a replica that has lost its master, and was told to answer nothing old"),
    "LOADING": Row("loading", Definite, "the server still reads its data"),
    "MISCONF": Row("misconf", Definite, "the server cannot save its data, and takes no writes"),
    "OOM": Row("out-of-memory", Definite, "the command would need more memory than the server may use"),
    "BUSY": Row("busy", Definite, "a script runs for too long; nothing else is begun"),
    "NOAUTH": Row("no-auth", Definite, "the client has not said who it is"),
    "WRONGTYPE": Row("wrong-type", Definite, "the key holds another kind of value"),
    "EXECABORT": Row("aborted", Definite, "a command of the transaction was refused, so that none is carried out"),
}


class RedisRefusal(str):
    """The text of an error answer."""

    def outcome(self) -> Definite | Indefinite:
        word = self.partition(" ")[0]
        return outcome(ROWS.get(word), word.lower(), self)


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
            return RedisRefusal(line.decode(errors="replace")), at
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


class RedisConnection(connection.Connection):
    """An open connection."""

    _number = 0

    async def command(self, *commands: tuple[Word, ...]) -> Answer:
        """Send these commands together; returns the answer to the last one, and raises the outcome of an error."""
        transport = self.usable()
        for _ in commands:
            self._number += 1
            last = self.expect(self._number)
        transport.write(b"".join(encode(*command) for command in commands))
        answer = await last
        if isinstance(answer, RedisRefusal):
            raise answer.outcome()
        return answer

    def split(self, received: bytes, at: int) -> tuple[Answer, int] | None:
        try:
            return decode(received, at)
        except EOFError:
            return None

    def match(self, frame: Answer) -> None:
        if not self._waiting:
            raise ValueError("an answer that nobody asked for")
        self.settle(next(iter(self._waiting)), frame)


async def connect(address: str, port: int, timeout_s: float) -> RedisConnection:
    """Open a connection; raises `Definite` when that fails."""
    return await connection.dial(RedisConnection, address, port, timeout_s)


async def ask_once(address: tuple[str, int], *command: Word, timeout_s: float = 1.0) -> Answer:
    """Ask this process alone, over a connection of its own: a paused one answers whatever it was opened."""
    async with asyncio.timeout(timeout_s):
        opened = await connect(*address, timeout_s)
        try:
            return await opened.command(command)
        finally:
            opened.close()
