"""What a judge of a table gives: its verdict, and those of its rows that a page shows or another tool is handed.

A table is too large to be events in memory; events are made of the rows that are looked at. Tables are opened by
`harness.plugins.registry.table`, by what they hold.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from fencepost.harness.history import Event, History
from fencepost.harness.verdict.verdict import Facts, Verdict, Witness

#: Models of tables.
CAS_REGISTER: Final = "cas-register"
LIST_APPEND: Final = "list-append"
RW_REGISTER: Final = "rw-register"
#: What a table is held to unless something weaker is asked for.
LINEARIZABLE: Final = "linearizable"
STRICT: Final = "strict-serializable"


class ShownRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a verdict's witnesses as events; `numbers` are the table's own of its transactions, by row."""

    events: Sequence[Event]
    numbers: tuple[int, ...] = ()


class Table(Protocol):
    """A table on this machine. Every method raises MalformedHistory for a table that breaks its rules."""

    @property
    def model(self) -> str: ...

    def check(self, facts: Facts) -> Verdict: ...

    def shown(self, verdict: Verdict) -> ShownRows:
        """The rows that the witnesses rest on, without those of witnesses that are too large to draw."""
        ...

    def witnesses(self, history: History, verdict: Verdict, facts: Facts) -> tuple[Witness, ...]:
        """The verdict's witnesses as the events of `history`, made of what is `shown`, show them."""
        ...

    def size(self) -> int:
        """How many numbers there are in it, as a measure of what handing it on takes."""
        ...

    def events(self) -> list[Event]:
        """Every row, each operation with an end, as other tools read them."""
        ...


class OpensTable(Protocol):
    def __call__(self, path: Path, model: str | None = None) -> Table:
        """Open the table at `path`, a file or a folder of part files, which must be of this model if one is given."""
        ...
