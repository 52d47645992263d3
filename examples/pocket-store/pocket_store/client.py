"""One connection to the store. It never retries and never reconnects: fencepost decides what comes next.

what happened                                        how the request ended
the server says "changed"                            Definite: nothing was written, and nothing will be
the connection had ended before the request          NotSent: nothing was sent
the connection ended while the answer was awaited    Indefinite: the write may be in the file
"""

import asyncio
import itertools
import json
from typing import Any

from fencepost.harness.coordination import Definite, Indefinite, Members, NotSent, ReadMode, Reply


async def connect(host: str, port: int, timeout_s: float) -> "PocketClient":
    """Connect once; raises Definite when that fails."""
    try:
        async with asyncio.timeout(timeout_s):
            return PocketClient(*await asyncio.open_connection(host, port))
    except TimeoutError:
        raise Definite("open-timeout") from None
    except OSError as error:
        raise Definite("refused", str(error)) from None


class PocketClient:
    """Key-value storage (`fencepost.harness.coordination.KeyValue`)."""

    session_id = None

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ended = False
        self._task = asyncio.create_task(self._read_answers(reader))

    async def close(self) -> None:
        self._task.cancel()
        self._end()

    async def read(self, key: str, mode: ReadMode) -> Reply:
        return _reply(await self._ask(op="read", key=key))

    async def write(self, key: str, value: bytes) -> Reply:
        return _reply(await self._ask(op="write", key=key, value=value.decode()))

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        return _reply(await self._ask(op="write", key=key, value=new.decode(), old=old.decode()))

    async def create(self, key: str, value: bytes) -> Reply:
        try:
            return await self.write_if(key, value, 0, None)
        except Definite as error:
            raise Definite("exists" if error.code == "cas-mismatch" else error.code) from None

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        return _reply(
            await self._ask(**{"op": "write", "key": key, "value": value.decode(), "if": value_position or 0})
        )

    async def add(self, name: str, element: int) -> Reply:
        return await self.create(f"{name}/{element}", b"1")

    async def members(self, name: str, mode: ReadMode) -> Members:
        keys = (await self._ask(op="list", prefix=f"{name}/"))["keys"]
        return Members(tuple(sorted(int(key.rpartition("/")[2]) for key in keys)), None, None)

    async def _ask(self, **request: Any) -> dict[str, Any]:
        if self._ended:
            raise NotSent("connection-lost")
        number = next(self._numbers)
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(json.dumps({"id": number, **request}).encode() + b"\n")
            answer = await answered
        finally:
            del self._waiting[number]
        if "error" in answer:
            raise Definite("cas-mismatch")
        return answer

    async def _read_answers(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                answer = json.loads(line)
                if (waiting := self._waiting.get(answer["id"])) is not None and not waiting.done():
                    waiting.set_result(answer)
        except OSError:
            pass  # the connection ended
        finally:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._writer.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Indefinite("connection-lost"))


def _reply(answer: dict[str, Any]) -> Reply:
    value = answer["value"]
    return Reply(
        value=None if value is None else value.encode(),
        position=answer["position"],
        value_position=answer["position"] or None,
        epoch=None,
    )
