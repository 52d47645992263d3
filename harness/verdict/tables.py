"""The interface of a judged table: its verdict, and its rows for a page or for another tool.

A table is too large to hold its events in memory, so only the rows that someone looks at become events.
`harness.plugins.registry.table` chooses how to open a table by its content.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from fencepost.harness.history import Event, History
from fencepost.harness.verdict import Facts, Verdict, Witness

#: Models of tables.
CAS_REGISTER: Final = "cas-register"
LIST_APPEND: Final = "list-append"
RW_REGISTER: Final = "rw-register"
#: The guarantee by which a table is judged unless a weaker one is chosen.
STRICT: Final = "strict-serializable"


class ShownRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a verdict's witnesses as events; `numbers` maps a row to the table's number of its transaction."""

    events: Sequence[Event]
    numbers: tuple[int, ...] = ()


class Table(Protocol):
    """A table on this machine; every method raises MalformedHistory if the table breaks its rules."""

    @property
    def model(self) -> str: ...

    def check(self, facts: Facts) -> Verdict: ...

    def shown(self, verdict: Verdict) -> ShownRows:
        """Return the rows that the witnesses rest on, without those of witnesses that are too large to draw."""
        ...

    def witnesses(self, history: History, verdict: Verdict, facts: Facts) -> tuple[Witness, ...]:
        """Return the verdict's witnesses in terms of the events of `history`, which was made from the `shown` rows."""
        ...

    def size(self) -> int:
        """Return how many numbers the table holds, a measure of the cost to pass it on."""
        ...

    def events(self) -> list[Event]:
        """Return every row as events for other tools; each operation has an end."""
        ...


class OpensTable(Protocol):
    def __call__(self, path: Path, model: str | None = None) -> Table:
        """Open the table at `path`, a file or a folder of part files; a given `model` must be the table's."""
        ...
