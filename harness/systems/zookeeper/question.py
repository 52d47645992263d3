"""Ask one ZooKeeper server alone whether it leads: the four-letter word `srvr`, one connection for each question.

`srvr` is answered by the server's network thread from its own state, without session and quorum, and the server closes
the connection behind it. A leader answers "Mode: leader" only after it set its zxid to the first of its epoch
(Leader.startZkServer, before it serves), so for a leader the upper half of "Zxid" is its epoch exactly; for a follower
it is the epoch of the last transaction that it applied, a lower bound. A server between two roles says that it is "not
currently serving requests".
"""

import asyncio
from typing import Final, cast

from fencepost.harness.history import Claim
from fencepost.harness.systems.contract.system import Answer

SOURCE: Final = "srvr"
_NOT_SERVING: Final = "not currently serving requests"


class _FourLetterWord(asyncio.Protocol):
    """Sends a word and collects what comes until the server closes."""

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
            self.answer.exception()  # counts as seen: the asker may have been cancelled
        else:
            self.answer.set_result(b"".join(self._parts).decode(errors="replace"))


async def four_letter_word(address: str, port: int, word: bytes) -> str:
    """The server's answer to `word`; the caller bounds the wait by cancelling."""
    transport, protocol = await asyncio.get_running_loop().create_connection(
        lambda: _FourLetterWord(word), address, port
    )
    try:
        return await protocol.answer
    finally:
        transport.abort()


def read_answer(name: str, text: str) -> Answer:
    """What `srvr`'s text says of the node `name`; raises ValueError when it is none of the known answers."""
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
    """The `Question` of one server; questions do not share anything, so any number may be open."""

    def __init__(self, name: str, address: str, port: int) -> None:
        self._name, self._address, self._port = name, address, port

    async def ask(self) -> Answer:
        return read_answer(self._name, await four_letter_word(self._address, self._port, SOURCE.encode()))

    async def close(self) -> None:
        """Nothing is kept between questions."""
