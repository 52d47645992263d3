"""Sequential objects as data: how the operations of a history become rows for the search.

A row is (function code, a, b) over values numbered from 0, where 0 is "absent", what every register holds at first.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import Operation, Outcome, Value

READ: Final = 0
WRITE: Final = 1
CAS: Final = 2


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A sequential object: the functions that it understands, by name, with their code for the search."""

    name: str
    functions: dict[str, int]


REGISTER: Final = Model(name="register", functions={"read": READ, "write": WRITE})
CAS_REGISTER: Final = Model(name="cas-register", functions={"read": READ, "write": WRITE, "cas": CAS})


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The operations of a model as integer columns: row i is `operations[i]`.

    `keys` and `values` name what the numbers stand for. `returned` is -1 where the outcome is unknown. Times are the
    indexes of events, since one writer put them in their order.
    """

    operations: Sequence[Operation]
    keys: Sequence[str | None]
    values: Sequence[Value]
    key: NDArray[np.int64]
    f: NDArray[np.int64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    invoked: NDArray[np.int64]
    returned: NDArray[np.int64]


def encode(operations: Iterable[Operation], model: Model = CAS_REGISTER) -> Columns:
    """Number keys and values, and lay out the operations in columns.

    Operations that constrain nothing are left out: those that failed, reads of unknown outcome, other functions.

    Raises:
        MalformedHistory: a cas whose value is not [old, new]; names the event.
    """
    functions = model.functions
    keys: dict[str | None, int] = {}
    values = _Numbers()
    kept: list[Operation] = []
    rows: list[tuple[int, int, int, int, int, int]] = []
    for op in operations:
        code = functions.get(op.f)
        if code is None or op.type is Outcome.FAIL or (code == READ and op.type is not Outcome.OK):
            continue
        a, b = _arguments(op, code, values)
        returned = op.complete_index if op.type is Outcome.OK else None
        rows.append(
            (keys.setdefault(op.key, len(keys)), code, a, b, op.invoke_index, -1 if returned is None else returned)
        )
        kept.append(op)
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 6)
    key, f, first, second, invoked, done = (np.ascontiguousarray(table[:, i]) for i in range(6))
    return Columns(
        operations=kept,
        keys=tuple(keys),
        values=values.named,
        key=key,
        f=f,
        a=first,
        b=second,
        invoked=invoked,
        returned=done,
    )


def _arguments(op: Operation, code: int, values: "_Numbers") -> tuple[int, int]:
    if code == READ:
        return values.number(op.result), 0
    if code == WRITE:
        return values.number(op.value), 0
    if not isinstance(op.value, (list, tuple)) or len(op.value) != 2:
        raise MalformedHistory(f"event {op.invoke_index}: the value of a cas is [old, new], not {op.value!r}")
    return values.number(op.value[0]), values.number(op.value[1])


_PLAIN: Final = frozenset((int, str, type(None)))


class _Numbers:
    """Values that are equal as JSON get one number; None is 0."""

    def __init__(self) -> None:
        self.named: list[Value] = [None]
        self._numbers: dict[Value, int] = {None: 0}

    def number(self, value: Value) -> int:
        # Of other types by the canonical text, which no plain value can be: 1, 1.0 and true are three values.
        key = value if type(value) in _PLAIN else ("json", msgspec.json.encode(value, order="deterministic"))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.named)
            self.named.append(value)
        return number


def makes(op: Operation) -> Value:
    """The value that a write or cas leaves behind."""
    return op.value[1] if op.f == "cas" else op.value


def sees(op: Operation) -> Value:
    """The value that a read returned or a cas compared with."""
    return op.value[0] if op.f == "cas" else op.result
