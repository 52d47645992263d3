"""Data-change listeners (KIP-30): watches of keys, and what they report."""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import msgspec

from fencepost.harness.coordination.session import ClientSession
from fencepost.harness.coordination.storage import Reply


class WatchMode(StrEnum):
    """The kinds of watches; each system declares which it has.

    `PERSISTENT` lasts until it is ended. `ONE_SHOT` ends with the first change of its key, and the next look at the key
    sets it again; only that look shows the changes in between. `MERGED` tells the newest change of each key since the
    last report and leaves earlier ones out; a bookmark after each report says up to where all keys were told. A
    deletion may come without a position: it is known only to stand at or before the bookmark that follows.
    """

    PERSISTENT = "persistent"
    ONE_SHOT = "one-shot"
    MERGED = "merged"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One change of one key, as a watch reports it.

    `kind` is "put" or "deleted"; where the system distinguishes them, "created" or "changed" instead of "put".
    `position` is None where the release does not report it, `value` where the system never does.
    """

    position: int | None
    kind: str
    key: str
    value: bytes | None = None


class Changes(msgspec.Struct, frozen=True, gc=False):
    """The changes of one message, received at `at_ns` of the history's clock; `position` is the message's, if any."""

    at_ns: int
    position: int | None
    changes: tuple[Change, ...]


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """The store's statement that it has reported every change up to `position`."""

    at_ns: int
    position: int


class WatchedRead(msgspec.Struct, frozen=True, gc=False):
    """A read of one key, answered among the reports of its own connection.

    `value_position` and `value` are None for an absent key; `value` is also None where the read does not return it.
    `arms` says that this look set the one-shot watch of the key.
    """

    at_ns: int
    position: int
    key: str
    value: bytes | None
    value_position: int | None
    arms: bool = False


Heard = Changes | Bookmark | WatchedRead


class WatchBegun(msgspec.Struct, frozen=True):
    """A watch that was set and reports the changes after `after`; `position` is where the node's store stood."""

    after: int
    position: int | None = None
    epoch: int | None = None


class WatchedKey(msgspec.Struct, frozen=True, gc=False):
    """A key that exists, with its value and the position of the write that made it."""

    key: str
    value: bytes
    value_position: int


class Watches(ClientSession, Protocol):
    """Writes of keys, and at most one watch of all keys at a time.

    `Reply.value_position` of a write is the position of its change. A watch that has ended never restarts by itself.
    """

    async def put(self, key: str, value: bytes) -> Reply:
        """Write unconditionally; creates an absent key."""
        ...

    async def delete(self, key: str) -> Reply:
        """Delete the key; raises `Definite("absent")` when there is nothing to delete."""
        ...

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        """Write `new` if the value is `old`; otherwise raises `Definite("cas-mismatch")`."""
        ...

    async def put_all(self, pairs: tuple[tuple[str, bytes], ...]) -> Reply:
        """Write all pairs of key and value in one transaction; they are among the session's `Keys`."""
        ...

    async def compact(self, position: int) -> None:
        """Discard the history before `position`; only where watches can be resumed."""
        ...

    async def entries(self) -> tuple[WatchedKey, ...]:
        """Read every key that exists, with a current read."""
        ...

    async def watch(self, start: int | None) -> WatchBegun:
        """End the present watch and begin another, at the position `start` or, with None, at the present one.

        `start` counts only where watches can be resumed. Raises `Compacted` when history does not reach back to it.
        """
        ...

    async def hear(self, wait_s: float, confirm: str | None) -> tuple[Heard, ...]:
        """Return the reports since the last call and of the next `wait_s` seconds, in order.

        Args:
            confirm: a key; the node is asked for a bookmark (where watches can be resumed) or for this key. A later
                call may return the answer.

        Raises:
            Definite, Indefinite: the watch is broken. The reports from before that are returned first.
        """
        ...


class Watchable(ClientSession, Protocol):
    """A session that can listen; its reports are stamped by the history's clock."""

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> Watches:
        """Use this connection as `Watches` of these keys; called once. `now_ns` reads the history's clock."""
        ...
