"""Data-change listeners (KIP-30): watches of keys, and the reports that they give."""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import msgspec

from fencepost.harness.coordination.session import Session
from fencepost.harness.coordination.storage import Reply


class WatchMode(StrEnum):
    """How changes are listened for; each system says which modes it has.

    `PERSISTENT` goes on until it is ended. `ONE_SHOT` ends with the first change of its key and is set again by the
    next look at the key, so changes in between are seen by that look alone.
    """

    PERSISTENT = "persistent"
    ONE_SHOT = "one-shot"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One change of one key as a watch reports it.

    `kind` is "put" or "deleted", or, where the system tells them apart, "created" or "changed". `position` is None
    where the release does not tell it, `value` where the system never does.
    """

    position: int | None
    kind: str
    key: str
    value: bytes | None = None


class Changes(msgspec.Struct, frozen=True, gc=False):
    """Changes of one message, which came at `at_ns` of the history's clock; `position` is the message's own, if any."""

    at_ns: int
    position: int | None
    changes: tuple[Change, ...]


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """The store's statement that it reported every change up to `position` before."""

    at_ns: int
    position: int


class Look(msgspec.Struct, frozen=True, gc=False):
    """A read of one key, answered among the reports of its own connection.

    `value_position` is None for an absent key; `value` is None then, too, and where it was not asked for. `arms`: this
    look set the one-shot watch of the key.
    """

    at_ns: int
    position: int
    key: str
    value: bytes | None
    value_position: int | None
    arms: bool = False


Heard = Changes | Bookmark | Look


class WatchBegun(msgspec.Struct, frozen=True):
    """A watch that was set: it reports the changes after `after`; `position` is where the node's store stood."""

    after: int
    position: int | None = None
    epoch: int | None = None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A key that exists, with the position of the write that made its value."""

    key: str
    value: bytes
    value_position: int


class Watches(Session, Protocol):
    """Writes of keys and one watch of all of them at a time.

    `Reply.value_position` of a write is the position of its change. A watch that ended never begins again by itself.
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
        """Write all pairs of key and value in one transaction; `System.prepare` has made these keys."""
        ...

    async def compact(self, position: int) -> None:
        """Discard the history before `position`; only where watches can be resumed."""
        ...

    async def entries(self) -> tuple[Entry, ...]:
        """Read those of the keys that exist, by a current read."""
        ...

    async def watch(self, start: int | None) -> WatchBegun:
        """End the watch before, and listen from the position `start` on; from now on with None.

        Only where watches can be resumed does `start` count. Raises `Compacted`.
        """
        ...

    async def hear(self, wait_s: float, confirm: str | None) -> tuple[Heard, ...]:
        """Return the reports since the last call and those of the next `wait_s` seconds, in their order.

        `confirm` is a key: the node is asked for a bookmark (where watches can be resumed) or for that key; the answer
        may come with a later call. After a watch broke, the reports before are returned first; then every call raises
        the reason.
        """
        ...


class Watchable(Session, Protocol):
    """A session that can listen; its reports are stamped by the history's clock."""

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> Watches:
        """The same connection as `Watches` of these keys; called once. `now_ns` reads the history's clock."""
        ...
