"""Consul's listeners: one blocking query after the other on all keys below `watched/`, and the writes that they report.

A blocking query waits until the index of its keys is above the one that it names, or its time is over. Its answer is
the state of all keys, so it tells the newest change of each key and merges earlier ones. What differs from the answer
before is a report, and the answer's index a bookmark. A deletion has no index of its own in the answer.

Queries are in mode default, as clients ask by default. A lost connection ends the watch.

Source: developer.hashicorp.com/consul/api-docs/features/blocking.
"""

from collections.abc import Callable, Mapping
from typing import Final

from fencepost.harness.coordination import (
    Bookmark,
    Change,
    Changes,
    Definite,
    Heard,
    Indefinite,
    NotSent,
    Reply,
    WatchBegun,
    WatchedKey,
)
from fencepost.systems.consul.wire import errors
from fencepost.systems.consul.wire.calls import ConsulCalls
from fencepost.systems.consul.wire.messages import Pair, TxnOperation

_PREFIX: Final = "watched/"


class ConsulWatches:
    """`harness.coordination.Watches` on one connection."""

    def __init__(self, calls: ConsulCalls, now_ns: Callable[[], int]) -> None:
        self._calls = calls
        self._now_ns = now_ns
        self._index: int | None = None
        self._state: Mapping[str, Pair] = {}

    @property
    def session_id(self) -> int | None:
        return None

    async def close(self) -> None:
        self._calls.close()

    async def put(self, key: str, value: bytes) -> Reply:
        return await self._calls.write(_set(key, value))

    async def delete(self, key: str) -> Reply:
        name = _PREFIX + key
        return await self._calls.write(
            TxnOperation("get", name), TxnOperation("delete", name), self._calls.stamp(), otherwise=errors.ABSENT
        )

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        """Read, then write if the key's index is unchanged: two requests, of which the first has no effect."""
        try:
            pairs, _ = await self._calls.pairs(_PREFIX + key, "consistent")
        except Indefinite as error:
            raise NotSent(error.code, "at the read") from None
        if not pairs or pairs[0].value != old:
            raise Definite(errors.CAS_MISMATCH, "at the read")
        swap = TxnOperation("cas", _PREFIX + key, new, index=pairs[0].modify_index)
        return await self._calls.write(swap, otherwise=errors.CAS_MISMATCH)

    async def put_all(self, pairs: tuple[tuple[str, bytes], ...]) -> Reply:
        return await self._calls.write(*(_set(key, value) for key, value in pairs))

    async def compact(self, position: int) -> None:
        raise Definite("unsupported", "Consul keeps no history to compact")

    async def entries(self) -> tuple[WatchedKey, ...]:
        pairs, _ = await self._calls.pairs(_PREFIX, "recurse&consistent")
        return tuple(WatchedKey(pair.key[len(_PREFIX) :], pair.value or b"", pair.modify_index) for pair in pairs)

    async def watch(self, start: int | None) -> WatchBegun:
        pairs, self._index = await self._calls.pairs(_PREFIX, "recurse")
        self._state = {pair.key: pair for pair in pairs}
        return WatchBegun(self._index, position=self._index)

    async def hear(self, wait_s: float, confirm: str | None) -> tuple[Heard, ...]:
        """Ask once; a bookmark comes with every answer, whether asked for or not."""
        if self._index is None:
            raise Definite(errors.NOT_WATCHING)
        query = f"recurse&index={max(self._index, 1)}&wait={round(wait_s * 1000)}ms"
        pairs, self._index = await self._calls.pairs(_PREFIX, query)
        at_ns = self._now_ns()
        before, self._state = self._state, {pair.key: pair for pair in pairs}
        changes = [
            *(Change(None, "deleted", key[len(_PREFIX) :]) for key in before.keys() - self._state.keys()),
            *(
                Change(pair.modify_index, "put", key[len(_PREFIX) :], pair.value)
                for key, pair in self._state.items()
                if key not in before or before[key].modify_index != pair.modify_index
            ),
        ]
        bookmark = Bookmark(at_ns, self._index)
        return (Changes(at_ns, self._index, tuple(changes)), bookmark) if changes else (bookmark,)


def _set(key: str, value: bytes) -> TxnOperation:
    return TxnOperation("set", _PREFIX + key, value)
