"""A history from another tool, and the checks that it must pass before it is judged.

It has no phases and often no nodes, and numbers its events in the order of the file. This module refuses requests
that a model would misread, and names their position, as for values of mixed type. Answers are left to the checkers.

The origin of an exported history: a first-line comment that other tools skip and `fencepost check` repeats.

A run is judged for more than the model that fits its operations, so the comment names the run and the guarantees that
decided it.

Answers in EDN whose values are of another kind than those that were written, as JSON that equals none of these.

A history keeps JSON, in which a keyword and its text are equal. An answer of the wrong kind must not pass for the right
one, so that it becomes a map of its kind and its value.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from fencepost.harness.base.errors import MalformedHistory, command_line
from fencepost.harness.history import UNNAMED_NODE, Event, History, Operation, OpEvent, Outcome, pair
from fencepost.harness.interchange.formats.edn import is_edn, kind_of, plain
from fencepost.harness.interchange.formats.family import TRANSACTIONS, Family
from fencepost.harness.results import run_folder as store

#: The type of JSON value that each kind becomes, where several kinds become one.
_JSON_OF: Final[dict[str, type]] = {
    **dict.fromkeys(("a string", "a keyword", "a symbol", "a character", "a ratio", "a decimal"), str),
    **dict.fromkeys(("a vector", "a set", "a list"), list),
    "a map": dict,
}


def conversions(family: Family, kinds: Collection[str]) -> dict[str, Callable[[Any], Any]]:
    """Return how the forms of ok answers become JSON, by function; nothing where no answer can be mistaken.

    Args:
        family: says where the value stands in what a read returns.
        kinds: those of the values that were written.
    """
    alike = {_JSON_OF[kind] for kind in kinds if kind in _JSON_OF}
    if not alike:
        return {}

    def mark(form: Any) -> Any:
        value = plain(form)
        if form is None or type(value) not in alike or kind_of(form) in kinds:
            return value
        # Clojure's lists equal its vectors.
        return value if {kind_of(form), *kinds} <= {"a list", "a vector"} else {kind_of(form): value}

    read = _as_entry if family.name == "append-log" else _as_elements if "add" in family.functions else _as_whole
    shapes = {"read": read, "dequeue": _as_whole, "drain": _as_elements, "txn": _as_micros}

    def conversion(shape: Callable[[Any, _Mark], Any]) -> Callable[[Any], Any]:
        return lambda form: shape(form, mark)

    return {f: conversion(shape) for f, shape in shapes.items()}


def kinds_written(requests: Iterable[Any]) -> set[str]:
    """Return the kinds of the values that transactions write."""
    micros = [micro for request in requests if type(request) is list for micro in request]
    written = (micro[2] for micro in micros if type(micro) is list and len(micro) == 3)
    return {kind_of(value) for value in written if value is not None}


def elements_of(form: Any) -> list[Any]:
    """Return the elements of a collection; of another form, itself."""
    if is_edn(form) and form.kind in ("set", "list"):
        return form.items
    return form if type(form) is list else [form]


_Mark = Callable[[Any], Any]


def _as_whole(form: Any, mark: _Mark) -> Any:
    return mark(form)


def _as_elements(form: Any, mark: _Mark) -> Any:
    is_collection = type(form) is list or (is_edn(form) and form.kind in ("set", "list"))
    return [mark(item) for item in elements_of(form)] if is_collection else plain(form)


def _as_entry(form: Any, mark: _Mark) -> Any:
    """Convert [offset value]."""
    return [plain(form[0]), mark(form[1])] if type(form) is list and len(form) == 2 else plain(form)


def _as_micros(form: Any, mark: _Mark) -> Any:
    """Convert the micro-operations of a transaction; a read returns a value, or a list of them."""
    if type(form) is not list or not all(type(micro) is list and len(micro) == 3 for micro in form):
        return plain(form)
    return [
        [plain(f), plain(key), (_as_elements if type(value) is list else _as_whole)(value, mark)]
        for f, key, value in form
    ]


_HEAD: Final = "; exported by fencepost: "


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a history: `judged_for` names the guarantees that decided the run; empty if it was not judged.

    `keyed` says whether every value is [key value]; None if some operations have no key.
    """

    run: str
    judged_for: tuple[str, ...] = ()
    keyed: bool | None = None

    @property
    def sentence(self) -> str:
        judged = f"the run was judged for {', '.join(self.judged_for)}" if self.judged_for else "the run was not judged"
        return f"{judged}: {command_line('check', self.run)}"


class _Guarantee(msgspec.Struct, frozen=True):
    name: str
    decides: bool = False


class _Judged(msgspec.Struct, frozen=True):
    guarantees: tuple[_Guarantee, ...] = ()


def origin_of(folder: Path, events: Iterable[Event]) -> Origin:
    """Return the origin of a history that is exported from a run's folder."""
    keyed = {event.key is not None for event in events if type(event) is OpEvent} == {True} or None
    try:
        kept = msgspec.json.decode((folder / store.VERDICT).read_bytes(), type=_Judged)
    except (OSError, msgspec.DecodeError, RecursionError):
        return Origin(run=str(folder), keyed=keyed)
    return Origin(run=str(folder), judged_for=tuple(g.name for g in kept.guarantees if g.decides), keyed=keyed)


def comment(origin: Origin) -> str:
    return f"{_HEAD}{msgspec.json.encode(origin).decode()}\n"


def stated_origin(start: bytes) -> Origin | None:
    """Return the origin that the first line states, if it is such a comment."""
    first = start.partition(b"\n")[0]
    if not first.startswith(_HEAD.encode()):
        return None
    try:
        return msgspec.json.decode(first.removeprefix(_HEAD.encode()), type=Origin)
    except (msgspec.DecodeError, RecursionError):
        return None


_THE_ONE: Final = {"register": "the register", "cas-register": "the register"}
SETS: Final = ("set", "set-full", "grow-only-set", "add-remove-set")
#: Events or operations that are made at a time.
BATCH: Final = 1 << 16
_TYPES: Final = {
    bool: "a boolean",
    int: "an integer",
    float: "a double",
    str: "a string",
    list: "a list",
    dict: "a map",
}


class CheckedEvents(Sequence[Event]):
    """Events that their reader has checked and can pair; made when they are asked for."""

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        return next(self._iterated(at, at + 1))

    def __iter__(self) -> Iterator[Event]:
        for start in range(0, len(self), BATCH):
            yield from self._iterated(start, min(start + BATCH, len(self)))

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Give a function another name."""

    @abstractmethod
    def _iterated(self, start: int, stop: int) -> Iterator[Event]:
        """Make the events from `start` to `stop`."""

    @abstractmethod
    def paired(self, the_one: str | None) -> list[Operation]:
        """Return the operations in the order of invocation; `the_one` is the key of those without one."""


class InFile(NamedTuple):
    """Where the file has event i, as "line 4", and the text of its value there."""

    place: Callable[[int], str]
    text: Callable[[int], str]


class ImportedHistory(History):
    """A history whose family decides which reads are judged: for a `set` those after all adds and the last one."""

    def __init__(
        self,
        events: Sequence[Event],
        family: Family,
        *,
        source: str,
        in_file: InFile | None = None,
        checked: bool = False,
    ) -> None:
        """Check the events, unless they are; `in_file` finds them in a file that a person can read."""
        if family.name in SETS:
            _rename(events, "read", "members")
        super().__init__(events, source=source, checked=checked or isinstance(events, CheckedEvents))
        self.family: Final = family
        self.in_file: Final = in_file

    @cached_property
    def operations(self) -> list[Operation]:
        """Return paired operations in the order of invocation, with names that read well in sentences."""
        return operations_of(self.events, self.family)

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
    #: Whether the file says which operations of different processes came one after the other.
    has_times: bool = True
    #: Whether the user said what was there before the first operation.
    has_initial: bool = False
    #: What was guessed about the file.
    notes: tuple[str, ...] = ()

    @property
    def family(self) -> Family:
        return self.history.family


def operations_of(events: Sequence[Event], family: Family) -> list[Operation]:
    """Pair events, which may be those of some keys only, to the operations of `family` that are judged."""
    the_one = _THE_ONE.get(family.name)
    if isinstance(events, CheckedEvents):
        operations = events.paired(the_one)
    else:
        if family.name in SETS:
            _rename(events, "read", "members")
        operations = pair(events)
        share = msgspec.structs.force_setattr
        for op in operations:
            if not op.node:
                share(op, "node", UNNAMED_NODE)
            if op.key is None and the_one:
                share(op, "key", the_one)
    if family.name == "eventual-counter":
        return _last_of_processes(operations)
    return _with_last_reads(operations) if family.name == "set" else operations


def _rename(events: Iterable[Event], old: str, new: str) -> None:
    if isinstance(events, CheckedEvents):
        events.rename(old, new)
        return
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


def _last_of_processes(operations: list[Operation]) -> list[Operation]:
    """Drop all reads but the last one of each process and key, and those too if a change was acknowledged later."""
    last = {(op.key, op.process): op for op in operations if op.f == "read" and op.type is Outcome.OK}
    changed: dict[str | None, int] = {}
    for op in operations:
        if op.f != "read" and op.type is Outcome.OK and op.complete_index is not None:
            changed[op.key] = max(changed.get(op.key, -1), op.complete_index)
    final = {id(op) for op in last.values() if op.invoke_index > changed.get(op.key, -1)}
    return [op for op in operations if op.f != "read" or id(op) in final]


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


def micros_of(value: Any) -> list[Any]:
    """Return the micro-operations of a transaction; of another value none."""
    return [m for m in value if isinstance(m, list) and len(m) == 3] if isinstance(value, list) else []


def _compared(op: Operation) -> Iterator[Any]:
    """Yield the values of a request that a model compares."""
    if op.f in ("write", "add"):
        yield op.value
    elif op.f == "cas":
        yield from op.value
    elif op.f == "txn":
        yield from (micro[1] for micro in micros_of(op.value))


def json_text(value: Any) -> str:
    """Return the value as JSON."""
    return msgspec.json.encode(value).decode()


def _wrong(place: str, message: str) -> MalformedHistory:
    return MalformedHistory(
        f"{place}: {message}", hint="nothing of this history was judged; put each kind of value into its own history"
    )
