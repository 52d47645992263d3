"""A session: one client connection to one node, the base of every protocol in this folder, and how its requests end.

Without a reply a request ends as `Definite` (nothing happened), `NotSent`, `Compacted` or `Indefinite`.

An interface that only one system offers is named beside it, by a `StrEnum` of its own; who compares takes any name.
"""

from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec


class ClientSession(Protocol):
    """A client connection to one node: opened once, used by one process, closed, never reopened.

    It never retries, reconnects, fails over or queues requests by itself. Each request ends in one of three ways: it
    returns (it took effect), raises `Definite` (it did not and never will), or raises `Indefinite` (nobody knows). A
    client in doubt raises `Indefinite`.
    """

    @property
    def session_id(self) -> int | None:
        """The server's own number for this session; None where the server has none."""
        ...

    async def close(self) -> None:
        """Close at once, without waiting for the server. Never raises."""
        ...


class Needs(msgspec.Struct, frozen=True):
    """What a workload needs before its first request; each interface says which of these structs it takes."""

    @property
    def within_s(self) -> float:
        """By when it must be made."""
        return 20.0


@runtime_checkable
class Prepares(Protocol):
    """A session of a store in which that must be made first."""

    async def prepare(self, needs: Any) -> None:
        """Make what its interface needs. Idempotent; ends as every request does."""
        ...


async def prepare(session: ClientSession, needs: Needs) -> None:
    """Make what a workload needs, where the session's store needs that. Idempotent."""
    if isinstance(session, Prepares):
        await session.prepare(needs)


class Definite(Exception):
    """The request did not take effect and never will. `code` is a row of the client's error table."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code


class NotSent(Definite):
    """Nothing was sent, and this connection can no longer be used: its owner must close it and open another."""


class Compacted(Definite):
    """A watch cannot begin or continue at a compacted position; `position` is where history begins now."""

    def __init__(self, position: int, detail: str = "") -> None:
        super().__init__("compacted", detail)
        self.position = position


class Indefinite(Exception):
    """The request may have taken effect, or may still. `code` is a row of the client's error table."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code


class Interface(StrEnum):
    """A protocol of `harness.coordination`; the value is the name that `list` and messages show."""

    STORAGE = "key-value"
    LOCKS = "locks"
    ELECTION = "elections"
    LEASES = "leases"
    MEMBERSHIP = "membership"
    METASTORE = "metastore"
    LISTENERS = "watches"
    LISTS = "list-transactions"
    LOG = "log"
