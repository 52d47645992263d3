"""Rows of operations as Python has them: tuples, dicts, or a table of pandas, Arrow or Polars, as a history.

A row is one operation. Keys and values of any type become JSON that is equal where they are: numbers, text, lists and
maps as they are, sets as lists in a fixed order, anything else as a map of its type's name and its text.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.history import Event, OpEvent, Outcome
from fencepost.harness.interchange.formats.calls import Call, CallEvents
from fencepost.harness.interchange.formats.family import ModelChoice, choose, sampler
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory, InFile, check_values, json_text

FORM: Final = "rows"
COLUMNS: Final = ("process", "f", "key", "value", "start", "end")
#: Columns that a table may have beside these.
_MORE: Final = ("result", "type")
_HINT: Final = f"a row has {', '.join(COLUMNS)}, and may have {' and '.join(_MORE)}; without an answer, end is None"
#: Without a result, the value of these functions is what they returned.
_ANSWERED: Final = frozenset({"read", "members", "dequeue", "drain", "poll", "acquire"})
_KEYLESS: Final = frozenset({"sync", "txn"})
_INTEGERS_MAX: Final = 2**62
_OUTCOMES: Final = {"ok": Outcome.OK, "fail": Outcome.FAIL, "info": Outcome.INFO}


def read_rows(history: Any, source: str, *, model: ModelChoice = None) -> Imported:
    """Read and check a history that Python holds; raises UsageError naming the row.

    Args:
        history: a table with the columns `COLUMNS`, an iterable of tuples in this order or of dicts, typed events, or
            a `harness.history.History` of these.
        source: the name of the history in messages.
        model: as `fencepost.check` takes it.
    """
    rows = _rows(getattr(history, "events", history), source)
    if rows and isinstance(rows[0], msgspec.Struct):
        return _imported(rows, None, model, source, "events")
    calls = _calls([_as_mapping(row, number, source) for number, row in enumerate(rows)], source)

    def refuse(row: int, other: int) -> MalformedHistory:
        return MalformedHistory(
            f"{source}: row {row} starts while row {other} of the same process {calls[row].client} is open",
            hint="a process has one open operation at a time; leave process out if it names no such caller",
        )

    events = CallEvents(calls, refuse)
    in_file = InFile(
        lambda event: f"row {events.call_of(event)}", lambda event: json_text(calls[events.call_of(event)].result)
    )
    return _imported(events, in_file, model, source, FORM)


def _imported(events: Sequence[Event], in_file: InFile | None, model: ModelChoice, source: str, form: str) -> Imported:
    operations = [event for event in events if type(event) is OpEvent]
    functions = {"read" if event.f == "members" else event.f for event in operations}
    family = choose(model, functions, sampler(events), source)
    history = ImportedHistory(events, family, source=source, in_file=in_file)
    check_values(history, lambda event: f"{source}: {in_file.place(event) if in_file else f'event {event}'}")
    return Imported(history=history, form=form, keyed=any(event.key is not None for event in operations))


# --- rows


def _rows(history: Any, source: str) -> list[Any]:
    for method, arguments in (("to_pylist", ()), ("to_dicts", ()), ("to_dict", ("records",))):
        if callable(convert := getattr(history, method, None)) and not isinstance(history, Mapping):
            _check_columns(map(str, getattr(history, "column_names", getattr(history, "columns", ()))), source)
            return list(convert(*arguments))
    if isinstance(history, (str, bytes, Mapping)) or not isinstance(history, Iterable):
        raise UsageError(
            f"{source}: an object of type {type(history).__name__} is no history", hint=f"give rows: {_HINT}"
        )
    return list(history)


def _check_columns(names: Iterable[str], source: str) -> None:
    columns = set(names)
    lacking, strange = {"f", "start", "end"} - columns, columns - {*COLUMNS, *_MORE}
    if lacking or strange:
        wrong = [f"lacks {', '.join(sorted(lacking))}"] if lacking else []
        wrong += [f"has {', '.join(sorted(strange))}, which could mean something"] if strange else []
        raise UsageError(f"{source}: the table {' and '.join(wrong)}", hint=_HINT)


def _as_mapping(row: Any, number: int, source: str) -> Mapping[str, Any]:
    if isinstance(row, tuple) and hasattr(row, "_asdict"):
        row = row._asdict()
    if isinstance(row, Mapping):
        if strange := sorted(map(str, row.keys() - {*COLUMNS, *_MORE})):
            raise UsageError(f"{source}: row {number} has {', '.join(strange)}", hint=_HINT)
        return row
    if not isinstance(row, (tuple, list)) or len(row) != len(COLUMNS):
        raise UsageError(f"{source}: row {number} is {row!r:.80}", hint=_HINT)
    return dict(zip(COLUMNS, row, strict=True))


def _calls(rows: Sequence[Mapping[str, Any]], source: str) -> list[Call]:
    times = [(_present(row.get("start")), _present(row.get("end"))) for row in rows]
    late = next((number for number, (start, _) in enumerate(times) if start is None), None)
    if late is not None:
        raise UsageError(f"{source}: row {late} has no start; expected when it was asked", hint=_HINT)
    numbers = _as_ns([time for pair in times for time in pair], source)
    clients, keys = _named(rows, "process"), _named(rows, "key")
    calls = []
    for i, row in enumerate(rows):
        f, started, ended = row.get("f"), numbers[2 * i] or 0, numbers[2 * i + 1]
        if not isinstance(f, str) or not f:
            raise UsageError(f"{source}: row {i}: f is {f!r:.60}; expected the name of a function", hint=_HINT)
        word = _present(row.get("type"))
        kind = _OUTCOMES.get(str(word).lower()) if word is not None else Outcome.INFO if ended is None else Outcome.OK
        if kind is None or (ended is None and kind is Outcome.OK):
            wrong = "has no end, but is ok" if kind else f"is of the type {word!r:.60}; expected ok, fail or info"
            raise UsageError(f"{source}: row {i} {wrong}", hint=_HINT)
        if ended is not None and ended < started:
            raise UsageError(f"{source}: row {i} ends before it starts", hint="start and end are of one clock")
        value = _plain(row.get("value"), i, source)
        result = _plain(row.get("result"), i, source)
        has_result = "result" in row
        request = value if has_result else _request(f, value)
        answer = result if has_result and (result is not None or f in _ANSWERED) else value
        calls.append(
            Call(
                client=clients[i],
                f=f,
                key=keys[i],
                value=request,
                result=answer,
                started=started,
                ended=ended,
                type=kind,
            )
        )
    keyed = {call.key is not None for call in calls if call.f not in _KEYLESS}
    if len(keyed) > 1:
        bare = next(i for i, call in enumerate(calls) if call.key is None and call.f not in _KEYLESS)
        raise UsageError(f"{source}: row {bare} has no key, but others have", hint="give all rows a key, or none")
    return calls


def _request(f: str, value: Any) -> Any:
    """What was asked, where the value has the answer too."""
    if f in _ANSWERED:
        return None
    if f == "txn" and isinstance(value, list):
        return [[*m[:2], None] if isinstance(m, list) and len(m) == 3 and m[0] == "r" else m for m in value]
    return value


def _present(value: Any) -> Any:
    """The value; None for what tables have where nothing is (NaN, NaT, NA)."""
    if value is None or type(value).__name__ == "NAType":
        return None
    return None if isinstance(value, (float, datetime)) and value != value else _unboxed(value)


def _unboxed(value: Any) -> Any:
    """A number of numpy as Python's."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0 else value


def _as_ns(times: Sequence[Any], source: str) -> list[int | None]:
    """Times since the first one: integers are ns; floats that are no integers are seconds; or datetimes."""
    present = [time for time in times if time is not None]
    kinds = {datetime if isinstance(time, datetime) else float if type(time) is int else type(time) for time in present}
    if len(kinds) > 1 or not kinds <= {datetime, float}:
        names = ", ".join(sorted({type(time).__name__ for time in present}))
        raise UsageError(f"{source}: start and end are {names}", hint="expected numbers, or datetimes, in all rows")
    if kinds == {float} and any(not float(time).is_integer() for time in present):
        unit: float = 10**9
    else:
        unit = 1
    try:
        first = min(present, default=0)
        since = [None if time is None else time - first for time in times]
        ns = [None if gone is None else _gone_ns(gone, unit) for gone in since]
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{source}: start and end cannot be compared: {error}", hint=_HINT) from None
    if any(time is not None and time >= _INTEGERS_MAX for time in ns):
        raise UsageError(f"{source}: a time is out of reach", hint="times are in ns, or in seconds with a fraction")
    return ns


def _gone_ns(gone: Any, unit: float) -> int:
    if isinstance(gone, timedelta):
        # A Timedelta of pandas has nanoseconds.
        return (gone.days * 86_400 + gone.seconds) * 10**9 + gone.microseconds * 1000 + getattr(gone, "nanoseconds", 0)
    return gone if type(gone) is int else round(gone * unit)


def _named(rows: Sequence[Mapping[str, Any]], column: str) -> list[str | None]:
    """A name for each value of a column: its text, with quotes where another value has the same text."""
    values = [_present(row.get(column)) for row in rows]
    others = {repr(value) for value in values if not isinstance(value, str)}
    return [
        None if value is None else value if isinstance(value, str) and value not in others else repr(value)
        for value in values
    ]


def _plain(value: Any, row: int, source: str) -> Any:
    """The value as JSON that is equal where the values are; raises UsageError for one that has only an address."""
    value = _present(value)
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple) or type(value).__name__ == "ndarray":
        return [_plain(item, row, source) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item, row, source) for item in value), key=json_text)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else repr(key): _plain(item, row, source) for key, item in value.items()}
    of: Any = type(value)
    if of.__repr__ is object.__repr__:
        raise UsageError(
            f"{source}: row {row}: an object of type {of.__name__} has no text of its own to compare it by",
            hint="give its class a __repr__, as a dataclass has, or give text, numbers, lists or maps",
        )
    return {type(value).__name__: repr(value)}
