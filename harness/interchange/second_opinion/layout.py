"""Operations as our Go program reads them (history.go, steps.go): numbers in columns.

They are laid out here again, not by the code that our own checker reads them through: a second opinion that shares the
first one's eyes is none. Left out is what constrains nothing: operations that failed, and reads of unknown outcome.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.history import Operation, Outcome
from fencepost.harness.interchange.second_opinion.opinion import Skip

#: Of a register: read and write and cas; the same numbers mean the functions of the other objects.
_READ: Final = 0
_WRITE: Final = 1
_CAS: Final = 2
_ADD: Final = 1
_REMOVE: Final = 2
_CONTAINS: Final = 3
_LACKS: Final = 4
_ACQUIRE: Final = 0
_RELEASE: Final = 1
_ENQUEUE: Final = 0
_DEQUEUE: Final = 1
_EMPTY: Final = 2
_SUM_MAX: Final = 2**62
_TOKENS: Final = ("fence", "token", ":fence", ":token")


class Layout:
    """Rows on their way to a file."""

    def __init__(self) -> None:
        self._keys: dict[str | None, int] = {}
        self._values: dict[bytes, int] = {b"null": 0}
        self._columns = [array("q") for _ in range(6)]
        self.elements = array("q")

    def number(self, value: Any) -> int:
        """A number for each value, by its text as JSON; nil is 0."""
        return self._values.setdefault(msgspec.json.encode(value, order="deterministic"), len(self._values))

    def nobodys(self) -> int:
        """A number that no value has."""
        return self._values.setdefault(b"", len(self._values))

    def add(self, op: Operation, f: int, a: int = 0, b: int = 0) -> None:
        returned = op.complete_index if is_ok(op) and op.complete_index is not None else -1
        row = (self._keys.setdefault(op.key, len(self._keys)), f, a, b, op.invoke_index, returned)
        for column, number in zip(self._columns, row, strict=True):
            column.append(number)

    def write(self, file: Path, model: str, permits: int) -> None:
        header = {
            "model": model,
            "rows": len(self._columns[0]),
            "keys": len(self._keys),
            "elements": len(self.elements),
            "permits": permits,
        }
        with file.open("wb") as stream:
            stream.write(json.dumps(header).encode() + b"\n")
            for column in (*self._columns, self.elements):
                stream.write(column.tobytes())


def is_ok(op: Operation) -> bool:
    return op.type is Outcome.OK and op.complete_index is not None


def _register(layout: Layout, op: Operation) -> None:
    if op.f == "read":
        if is_ok(op):
            layout.add(op, _READ, layout.number(op.result))
    elif op.f == "write":
        layout.add(op, _WRITE, layout.number(op.value))
    elif op.f == "cas":
        layout.add(op, _CAS, layout.number(op.value[0]), layout.number(op.value[1]))


def _counter(layout: Layout, op: Operation) -> None:
    if op.f == "read":
        if is_ok(op):
            layout.add(op, _READ, _small(op.result))
    else:
        by = _small(1 if op.value is None else op.value)
        layout.add(op, _ADD, -by if op.f == "decrement" else by)


def _small(number: int) -> int:
    """Far from where sums of 64 bits end, whatever history adds it up."""
    if abs(number) >= 2**40:
        raise Skip(f"its sums have 64 bits, and {number} is added or read")
    return number


def _mutex(layout: Layout, op: Operation) -> None:
    layout.add(op, _ACQUIRE if op.f == "acquire" else _RELEASE)


def _owner_mutex(layout: Layout, op: Operation) -> None:
    layout.add(op, _ACQUIRE if op.f == "acquire" else _RELEASE, op.process)


def _fenced_mutex(layout: Layout, op: Operation) -> None:
    if op.f == "release":
        layout.add(op, _RELEASE, op.process)
    elif is_ok(op):
        value = op.result
        if isinstance(value, dict):
            value = next(value[name] for name in _TOKENS if name in value)
        layout.add(op, _ACQUIRE, op.process, value)


def _semaphore(layout: Layout, op: Operation) -> None:
    layout.add(op, _ACQUIRE if op.f == "acquire" else _RELEASE, 1 if op.value is None else op.value)


def _queue(layout: Layout, op: Operation) -> None:
    if op.f == "drain":
        raise Skip("a drain is many steps, for which it has no model", "leave the drains out")
    if op.f == "enqueue":
        layout.add(op, _ENQUEUE, layout.number(op.value))
    elif is_ok(op) and op.result is None:
        layout.add(op, _EMPTY)
    else:
        layout.add(op, _DEQUEUE, layout.number(op.result) if is_ok(op) else 0)


def _set(layout: Layout, op: Operation) -> None:
    if op.f in ("add", "remove"):
        layout.add(op, _ADD if op.f == "add" else _REMOVE, layout.number(op.value))
    elif is_ok(op) and op.f == "contains":
        layout.add(op, _CONTAINS if op.result else _LACKS, layout.number(op.value))
    elif is_ok(op):
        shown = [layout.number(element) for element in op.result]
        if len(set(shown)) < len(shown):
            shown = [layout.nobodys()]  # no set holds an element twice
        layout.add(op, _READ, len(layout.elements), len(shown))
        layout.elements.extend(shown)


#: Our model: the program's name for it, and what lays its operations out.
MODELS: Final[Mapping[str, tuple[str, Callable[[Layout, Operation], None]]]] = {
    "register": ("register", _register),
    "cas-register": ("register", _register),
    "counter": ("counter", _counter),
    "queue": ("queue", _queue),
    "mutex": ("mutex", _mutex),
    "owner-mutex": ("owner-mutex", _owner_mutex),
    "fenced-mutex": ("fenced-mutex", _fenced_mutex),
    "semaphore": ("semaphore", _semaphore),
    "grow-only-set": ("set", _set),
    "add-remove-set": ("set", _set),
}


def write(file: Path, model: str, operations: Iterable[Operation], *, permits: int = 1) -> None:
    """Lay the operations out in `file`; raises Skip where the program cannot say what they mean."""
    name, add = MODELS[model]
    layout = Layout()
    for op in operations:
        if op.type is not Outcome.FAIL:
            add(layout, op)
    layout.write(file, name, permits)
