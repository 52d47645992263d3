"""The rows of a client's error table: what an answer, or the want of one, proves about a request.

A row ends a request as `Definite` (`NotSent` where the connection is of no more use) only if it is certain that nothing
happened; in doubt as `Indefinite`. What the table of a system does not name is `Indefinite` too.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from fencepost.harness.coordination.session import Definite, Indefinite, NotSent

S = TypeVar("S", int, str)


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
