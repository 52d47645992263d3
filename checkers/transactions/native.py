"""Calls of the native core that judge transactions: its errors translated, its answers as values."""

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np

from fencepost.checkers import _core
from fencepost.checkers.transactions.columns import WRITE, TransactionColumns
from fencepost.checkers.transactions.proof import CycleProof, CycleStep
from fencepost.checkers.violations.impossible import named
from fencepost.harness.base.errors import Contradiction, HarnessError, MalformedHistory

_Report = TypeVar("_Report")

RULE: Final = "every value may be written to a key once only"
_ONCE: Final = "write each value to a key once, so that a read shows which transaction wrote what it returned"


class WrittenTwice(MalformedHistory):
    """A value that two transactions write to one key: `rows` are their places, `what` says which value and key."""

    def __init__(self, rows: tuple[int, int], what: str) -> None:
        super().__init__(f"transactions {rows[0]} and {rows[1]} both write {what}; {RULE}", hint=_ONCE)
        self.rows: Final = rows
        self.what: Final = what


def _refusal(error: ValueError, columns: TransactionColumns) -> MalformedHistory:
    """Return the error for columns that the native core refused, in words of the history."""
    if "both write" not in str(error):
        return MalformedHistory(str(error))
    first, second = _written_twice(columns)
    rows = [int(np.searchsorted(columns.first, op, side="right")) - 1 for op in (first, second)]
    key, value = int(columns.key[first]), int(columns.value[first])
    name = columns.keys[key] if key < len(columns.keys) else key
    return WrittenTwice((rows[0], rows[1]), f"{named(columns.names.get(value, value))} to key {named(name)}")


def _written_twice(columns: TransactionColumns) -> tuple[int, int]:
    """Return the first micro-operation that writes what an earlier one wrote to its key, and that one before it."""
    earlier: dict[tuple[int, int], int] = {}
    for op in np.flatnonzero(columns.kind == WRITE).tolist():
        before = earlier.setdefault((int(columns.key[op]), int(columns.value[op])), op)
        if before != op:
            return before, op
    raise HarnessError("the native checker of transactions found a value that was written twice, and there is none")


def call_core(columns: TransactionColumns, check: Callable[..., _Report], **options: object) -> _Report:
    """Call a function of the native core on these columns.

    Raises:
        MalformedHistory: columns that mean nothing.
        Contradiction: the native core does not confirm its own answer.
    """
    try:
        return check(columns.native(), **options)
    except ValueError as error:
        raise _refusal(error, columns) from error
    except RuntimeError as error:
        raise Contradiction(f"the native checker of transactions does not confirm its answer: {error}") from error


def cycles_of(report: _core.TransactionReport) -> list[CycleProof]:
    """The report's cycles as values."""
    return [
        CycleProof(name, shortest, tuple(CycleStep(*step) for step in steps)) for name, shortest, steps in report.cycles
    ]
