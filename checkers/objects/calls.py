"""The operations of an object as rows for the native search: a function's number and arguments that are integers.

An operation that failed constrains nothing and has no row; one of unknown outcome has a row without a return. What the
numbers mean is said by each object's file, and by its twin under `native/search/src/objects/`.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers import _core
from fencepost.checkers.findings.numbers import Numbers
from fencepost.harness.history import Operation, Outcome
from fencepost.harness.verdict import SearchBudget

_Column = NDArray[np.int64]


class CallColumns:
    """Rows on their way to columns. A `subject` is one object that is judged alone."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.subjects: list[Hashable] = []
        self.numbers = Numbers()
        self._subjects: dict[Hashable, int] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self._first = [0]
        self._arguments: list[int] = []

    def add(self, op: Operation, subject: Hashable, f: int, *arguments: int) -> None:
        """Add one row; `op` did not fail."""
        if subject not in self._subjects:
            self._subjects[subject] = len(self.subjects)
            self.subjects.append(subject)
        known = op.type is Outcome.OK and op.complete_index is not None
        returned = op.complete_index if known and op.complete_index is not None else -1
        self.operations.append(op)
        self._rows.append((self._subjects[subject], f, op.invoke_index, returned))
        self._arguments += arguments
        self._first.append(len(self._arguments))

    def judged(self, kind: str, budget: SearchBudget, *, permits: int = 1) -> list[_core.ObjectResult]:
        """The native search's word on each subject, in the order of `subjects`."""
        table = np.array(self._rows, dtype=np.int64).reshape(len(self._rows), 4)
        key, f, invoked, returned = (np.ascontiguousarray(table[:, i]) for i in range(4))
        return _core.check_objects(
            kind,
            key,
            f,
            _column(self._first),
            _column(self._arguments),
            invoked,
            returned,
            permits=permits,
            steps=budget.steps,
            memory_bytes=budget.memory_bytes,
            wall_s=budget.wall_s,
            orders=True,
        )


def _column(numbers: Sequence[int]) -> _Column:
    return np.array(numbers, dtype=np.int64)
