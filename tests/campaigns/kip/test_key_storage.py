"""`KeyStorage` on sessions with and without an update of their own."""

import asyncio
from typing import Any, cast

import pytest

from fencepost.campaigns.kip.storage import KeyStorage
from fencepost.harness.coordination import Definite, Indefinite, KeyValue, ReadMode, Reply


class Keys:
    """A session in memory without an update; `broken` is what its reads raise."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes, int]] = {}
        self.broken: Exception | None = None
        self.asked: list[str] = []

    async def read(self, key: str, mode: ReadMode) -> Reply:
        self.asked.append("read")
        if self.broken is not None:
            raise self.broken
        value, version = self.values.get(key, (None, None))
        return Reply(value=value, value_position=version, version=version)

    async def create(self, key: str, value: bytes) -> Reply:
        if key in self.values:
            raise Definite("exists")
        self.values[key] = value, 1
        return Reply(version=1)

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        self.asked.append("write_if")
        self.values[key] = value, (version or 0) + 1
        return Reply(version=(version or 0) + 1)


class Updating(Keys):
    async def update(self, key: str, value: bytes) -> Reply:
        self.asked.append("update")
        if key not in self.values:
            raise Definite("absent")
        return Reply(version=7)


def storage(keys: Keys) -> KeyStorage:
    return KeyStorage(cast(KeyValue, keys), reads=ReadMode.STRONG)


async def code_of(request: Any) -> str:
    with pytest.raises(Definite) as raised:
        await request
    return raised.value.code


def test_put_fetch_and_update_are_as_the_proposal_has_them() -> None:
    async def scenario() -> None:
        own = storage(Keys())
        assert await own.fetch("a") is None
        assert await code_of(own.update("a", b"1")) == "absent"
        await own.put("a", b"1")
        assert await code_of(own.put("a", b"2")) == "exists"
        await own.update("a", b"2")
        assert await own.fetch("a") == b"2"
        assert own.answer.version == 2

    asyncio.run(scenario())


def test_an_update_of_the_session_s_own_is_one_request() -> None:
    async def scenario() -> None:
        keys = Updating()
        own = storage(keys)
        assert await code_of(own.update("a", b"1")) == "absent"
        await own.put("a", b"1")
        await own.update("a", b"2")
        assert own.answer.version == 7
        assert keys.asked == ["update", "update"]

    asyncio.run(scenario())


def test_an_update_whose_read_was_lost_has_certainly_written_nothing() -> None:
    async def scenario() -> None:
        keys = Keys()
        keys.broken = Indefinite("connection-lost")
        assert await code_of(storage(keys).update("a", b"1")) == "connection-lost"
        assert keys.asked == ["read"]

    asyncio.run(scenario())
