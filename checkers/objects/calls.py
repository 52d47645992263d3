"""The operations of an object as rows for the native search: a function's number and arguments that are integers.

An operation that failed constrains nothing and has no row; one of unknown outcome has a row without a return. What the
numbers mean is said by each object's file, and by its twin under `native/src/objects/`.
"""

from collections.abc import Hashable, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers import _core
from fencepost.checkers.facts.answers import is_ok
from fencepost.checkers.findings.numbers import Numbers
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import Operation, Outcome, Value
from fencepost.harness.verdict import Budget

_Column = NDArray[np.int64]


class Calls:
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

    def judged(self, kind: str, budget: Budget, *, permits: int = 1) -> list[_core.ObjectResult]:
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


def integer(op: Operation, value: Value, what: str, least: int = -(2**62)) -> int:
    """`value`, which is an integer from `least` and below 2^62; raises MalformedHistory."""
    if type(value) is not int or not least <= value < 2**62:
        bound = "" if least < 0 else f" from {least}"
        wrong(op, f"{what} is {value!r:.80}; expected an integer{bound}")
    return value


def something(op: Operation, value: Value, what: str) -> Value:
    """`value`, which is not nil; raises MalformedHistory."""
    if value is None:
        wrong(op, f"{what} is missing; expected a value")
    return value


def same_again(op: Operation) -> None:
    """An `ok` completion says nothing, or what was invoked; raises MalformedHistory."""
    if is_ok(op) and op.result is not None and op.result != op.value:
        wrong(op, f"{op.f} completes with {op.result!r:.80}, but was invoked with {op.value!r:.80}")


def wrong(op: Operation, message: str) -> NoReturn:
    raise MalformedHistory(
        f"event {op.invoke_index}: {message}",
        hint="nothing of this history was judged; docs/reference/models.md says what each model understands",
    )
