"""Asking one ZooKeeper server alone whether it leads: the four-letter word `srvr`, one connection for each question.

The server's network thread answers `srvr` from its own state, without a session or a quorum, and closes the connection
afterwards. A leader answers "Mode: leader" only after it set its zxid to the first one of its epoch (in
Leader.startZkServer, before it serves). So the upper half of "Zxid" is exactly the epoch of a leader. For a follower it
is the epoch of the last transaction that it applied, a lower bound. A server between two roles says that it is "not
currently serving requests".
"""

import asyncio
from typing import Final, cast

from fencepost.harness.contract.system import Answer
from fencepost.harness.history import Claim

SOURCE: Final = "srvr"
_NOT_SERVING: Final = "not currently serving requests"


class _FourLetterWord(asyncio.Protocol):
    """Send a word and collect the answer until the server closes the connection."""

    def __init__(self, word: bytes) -> None:
        self._word = word
        self._parts: list[bytes] = []
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._word)

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.answer.done():
            return
        if exc is not None or not self._parts:
            self.answer.set_exception(ConnectionResetError(f"no answer: {exc!r}"))
            self.answer.exception()  # counts as seen: the caller may have been cancelled
        else:
            self.answer.set_result(b"".join(self._parts).decode(errors="replace"))


async def four_letter_word(address: str, port: int, word: bytes) -> str:
    """Ask the server a four-letter word; the caller bounds the wait by cancelling."""
    transport, protocol = await asyncio.get_running_loop().create_connection(
        lambda: _FourLetterWord(word), address, port
    )
    try:
        return await protocol.answer
    finally:
        transport.abort()


def read_answer(name: str, text: str) -> Answer:
    """Read the answer of the node `name` to `srvr`; raises ValueError for an unknown text."""
    if _NOT_SERVING in text:
        return Answer(claims=Claim.NO, source=SOURCE, detail="not serving")
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if "Mode" not in fields or "Zxid" not in fields:
        raise ValueError(f"{name}: srvr answered {text[:200]!r}")
    mode, zxid = fields["Mode"], int(fields["Zxid"], 16)
    leads = mode == "leader"
    return Answer(
        claims=Claim.YES if leads else Claim.NO,
        source=SOURCE,
        epoch=zxid >> 32,
        epoch_exact=leads,
        leader=name if leads else None,
        position=zxid,
        detail=mode,
    )


class SrvrQuestion:
    """The `Question` to one server; questions share nothing, so any number may be open."""

    def __init__(self, name: str, address: str, port: int) -> None:
        self._name, self._address, self._port = name, address, port

    async def ask(self) -> Answer:
        return read_answer(self._name, await four_letter_word(self._address, self._port, SOURCE.encode()))

    async def close(self) -> None:
        """Do nothing: nothing is kept between questions."""
