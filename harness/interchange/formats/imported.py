"""A history from another tool, and the checks that it must pass before it is judged.

It has no phases and often no nodes, and numbers its events in the order of the file. This module refuses requests
that a model would misread, and names their position, as for values of mixed type. Answers are left to the checkers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import UNNAMED_NODE, Event, History, Operation, OpEvent, Outcome, pair
from fencepost.harness.interchange.formats.family import TRANSACTIONS, Family
from fencepost.harness.interchange.formats.origin import Origin

_THE_ONE: Final = {"register": "the register", "cas-register": "the register"}
_SETS: Final = ("set", "set-full", "grow-only-set", "add-remove-set")
_TYPES: Final = {
    bool: "a boolean",
    int: "an integer",
    float: "a double",
    str: "a string",
    list: "a list",
    dict: "a map",
}


class InFile(NamedTuple):
    """Where the file has event i, as "line 4", and the text of its value there."""

    place: Callable[[int], str]
    text: Callable[[int], str]


class ImportedHistory(History):
    """A history whose family decides which reads are judged: for a `set` those after all adds and the last one."""

    def __init__(self, events: Sequence[Event], family: Family, *, source: str, in_file: InFile | None = None) -> None:
        """Check the events; `in_file` finds them in a file that a person can read."""
        if family.name in _SETS:
            _rename(events, "read", "members")
        super().__init__(events, source=source)
        self.family: Final = family
        self.in_file: Final = in_file

    @cached_property
    def operations(self) -> list[Operation]:
        """Return paired operations in the order of invocation, with function names that read well in sentences."""
        operations = pair(self.events)
        share = msgspec.structs.force_setattr
        the_one = _THE_ONE.get(self.family.name)
        for op in operations:
            if not op.node:
                share(op, "node", UNNAMED_NODE)
            if op.key is None and the_one:
                share(op, "key", the_one)
        return _with_last_reads(operations) if self.family.name == "set" else operations

    @cached_property
    def healed_ns(self) -> int | None:
        """Return None: the history knows no faults, so every read counts."""
        return 0


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """An imported history, its format, and whether its values are keyed."""

    history: ImportedHistory
    form: str
    keyed: bool
    #: The run from which it was exported, if the file names it.
    origin: Origin | None = None

    @property
    def family(self) -> Family:
        return self.history.family


def _rename(events: Iterable[Event], old: str, new: str) -> None:
    for event in events:
        if type(event) is OpEvent and event.f == old:
            msgspec.structs.force_setattr(event, "f", new)


def _with_last_reads(operations: list[Operation]) -> list[Operation]:
    """Drop the reads that came while elements were still added, except the last read of each key."""
    last = {op.key: op for op in operations if op.f == "members" and op.type is Outcome.OK}
    added: dict[str | None, int] = {}
    for op in operations:
        if op.f == "add" and op.type is Outcome.OK and op.complete_index is not None:
            added[op.key] = max(added.get(op.key, -1), op.complete_index)
    return [
        op
        for op in operations
        if op.f != "members" or last.get(op.key) is op or op.invoke_index > added.get(op.key, -1)
    ]


def check_values(history: ImportedHistory, place: Callable[[int], str]) -> None:
    """Raise MalformedHistory for a request that a model would misread. `place(i)` names the position of event i."""
    expected: tuple[type, int] | None = None
    if history.family.name in (*TRANSACTIONS, "log"):
        _check_keyless(history, place)
    for op in () if history.family.is_users else history.operations:
        if op.f == "cas" and (not isinstance(op.value, list) or len(op.value) != 2):
            raise _wrong(place(op.invoke_index), f"the value of a cas is {op.value!r}; expected [old new]")
        if op.f == "add" and op.value is None:
            raise _wrong(place(op.invoke_index), "an add without an element; expected an element")
        for value in _compared(op):
            if value is None:
                continue
            if expected is None:
                expected = type(value), op.invoke_index
            elif type(value) is not expected[0]:
                was = f"{_TYPES[expected[0]]} as at {place(expected[1])}"
                raise _wrong(place(op.invoke_index), f"{value!r:.80} is {_TYPES[type(value)]}; expected {was}")


def _check_keyless(history: ImportedHistory, place: Callable[[int], str]) -> None:
    """Refuse a `key` field for transactions and for Kafka's sends and polls, whose keys stand in the value."""
    named = next((op for op in history.operations if op.key is not None), None)
    if named is not None:
        raise _wrong(place(named.invoke_index), f"a {named.f} of the key {named.key!r:.60}; expected it in the value")


def _micros(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _compared(op: Operation) -> Iterator[Any]:
    """Yield the values of a request that a model compares."""
    if op.f in ("write", "add"):
        yield op.value
    elif op.f == "cas":
        yield from op.value
    elif op.f == "txn":
        yield from (m[1] for m in _micros(op.value) if isinstance(m, list) and len(m) == 3)


def json_text(value: Any) -> str:
    """Return the value as JSON."""
    return msgspec.json.encode(value).decode()


def _wrong(place: str, message: str) -> MalformedHistory:
    return MalformedHistory(
        f"{place}: {message}", hint="nothing of this history was judged; put each kind of value into its own history"
    )
