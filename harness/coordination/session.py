"""A session: one client connection to one node, the base of every protocol in this folder, and how its requests end.

Without a reply a request ends as `Definite` (nothing happened), `NotSent`, `Compacted` or `Indefinite`.

A client's error table has a row for each kind of error: what an answer, or the want of one, proves about a request.
A row ends a request as `Definite` (`NotSent` where the connection is of no more use) only if it is certain that nothing
happened; in doubt as `Indefinite`. What the table of a system does not name is `Indefinite` too.

An interface that only one system offers is named beside it, by a `StrEnum` of its own; who compares takes any name.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

S = TypeVar("S", int, str)


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


class Row(NamedTuple):
    """One kind of error: its word in histories, how it ends a request, and why."""

    code: str
    end: type[Definite] | type[Indefinite]
    why: str

    @property
    def definite(self) -> bool:
        return issubclass(self.end, Definite)

    def outcome(self, detail: str = "") -> Definite | Indefinite:
        """The exception to raise."""
        return self.end(self.code, detail)


#: Rows that a connection needs (`connection.py`).
NOT_CONNECTED: Final = Row(
    "not-connected", NotSent, "the connection was not open when the request was made, so no byte of it was sent"
)
CONNECTION_LOST: Final = Row(
    "connection-lost", Indefinite, "the request was handed over, and the connection ended before the answer"
)


def outcome(row: Row | None, unknown: str, detail: str) -> Definite | Indefinite:
    """The exception for an error of this row; where the table has none, nothing is known, and `unknown` is the code."""
    return Indefinite(unknown, detail) if row is None else row.outcome(detail)


def first_fit(table: Mapping[tuple[S | None, str | None], Row], status: S, text: str) -> Row:
    """The first row for this status and a part of this text, where None fits any; the last one must fit everything."""
    return next(row for (of, part), row in table.items() if of in (None, status) and (part is None or part in text))
