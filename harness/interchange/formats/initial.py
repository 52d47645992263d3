"""What the objects of a history held before its first operation, as `--initial` says: operations put in front of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.history import Event, OpEvent, Outcome
from fencepost.harness.interchange.formats.imported import (
    Imported,
    ImportedHistory,
    InFile,
    check_values,
    micros_of,
)

#: By model, the function that puts a value there, and whether it puts each element of a list.
_PUTS: Final = {
    **dict.fromkeys(("register", "cas-register"), ("write", False)),
    **dict.fromkeys(("rw-register", "multi-register"), ("w", False)),
    "counter": ("add", False),
    "key-value": ("put", False),
    **dict.fromkeys(("set", "set-full", "grow-only-set", "add-remove-set"), ("add", True)),
    **dict.fromkeys(("queue", "bag"), ("enqueue", True)),
}
_PLACE: Final = "--initial"
#: What a transaction read that found nothing where something was: no transaction wrote it.
_NOTHING: Final = "nothing, though a value was there"


def initial_values(texts: Sequence[str]) -> dict[str | None, Any]:
    """Return the values of VALUE (for all keys: None) and KEY=VALUE; a VALUE is JSON, or a word."""
    values: dict[str | None, Any] = {}
    for text in texts:
        key, is_keyed, value = text.rpartition("=") if not text.startswith(('"', "[")) else ("", "", text)
        try:
            values[key if is_keyed else None] = json.loads(value)
        except ValueError:
            values[key if is_keyed else None] = value
    return values


def with_initial(imported: Imported, values: Mapping[str | None, Any], source: str) -> Imported:
    """Put operations that leave these values in front of the history; raises UsageError where none can."""
    family = imported.family
    if not values:
        return imported
    if family.name not in _PUTS:
        raise UsageError(
            f"{source}: {_PLACE} is for the models {', '.join(_PUTS)}, not for {family.name}",
            hint="a model of your own has `init`",
        )
    f, is_each = _PUTS[family.name]
    is_txn = "txn" in family.functions
    keys = dict.fromkeys(_keys(imported.history.events, is_txn=is_txn))
    for key in values:
        if key is not None and set(keys) == {None}:
            raise UsageError(f"{source}: {_PLACE} {key}=...: the history has no keys", hint="give the value alone")
        if key is not None and key not in map(_name, keys):
            raise unknown_choice("key", key, sorted({str(key) for key in keys}))
    put: list[Any] = []
    for key in keys:
        value = values.get(_name(key), values.get(None))
        for item in value if is_each and isinstance(value, list) else [value]:
            if item is not None:
                put.append((key, item))
    rows: list[tuple[str, str | None, Any]] = [(f, key, item) for key, item in put]
    if is_txn and put:
        rows = [("txn", None, [[f, key, item] for key, item in put])]
    process = 1 + max((e.process for e in imported.history.events if type(e) is OpEvent), default=0)
    front = [
        OpEvent(index=2 * i + late, time_ns=0, type=kind, process=process, f=name, node="", key=key, value=value)
        for i, (name, key, value) in enumerate(rows)
        for late, kind in enumerate((Outcome.INVOKE, Outcome.OK))
    ]
    shift, known, before = len(front), {key for key, _ in put}, imported.history.in_file
    events = [*front, *(_moved(event, shift, known) for event in imported.history.events)]

    def place(event: int) -> str:
        return _PLACE if event < shift else before.place(event - shift) if before else f"event {event - shift}"

    def text(event: int) -> str:
        return json.dumps(front[event].value) if event < shift else before.text(event - shift) if before else ""

    history = ImportedHistory(events, family, source=source, in_file=InFile(place, text), checked=True)
    check_values(history, lambda event: f"{source}: {place(event)}")
    note = f"{_PLACE}: {len(rows)} operation{'s' * (len(rows) != 1)} put in front, which the file does not have"
    return msgspec.structs.replace(imported, history=history, has_initial=True, notes=(*imported.notes, note))


def _name(key: Any) -> str | None:
    return None if key is None else str(key)


def _keys(events: Sequence[Event], *, is_txn: bool) -> Iterator[Any]:
    for event in events:
        if type(event) is OpEvent and event.type is Outcome.INVOKE:
            if is_txn:
                yield from (micro[1] for micro in micros_of(event.value) if isinstance(micro[1], (str, int)))
            else:
                yield event.key


def _moved(event: Event, by: int, known: set[Any]) -> Event:
    """Number the event behind the others; a transaction that was answered nothing for a known key read nonsense."""
    changes: dict[str, Any] = {"index": event.index + by}
    if type(event) is OpEvent and event.f == "txn" and event.type is Outcome.OK:
        changes["value"] = [
            [f, key, _NOTHING if value is None and str(f).strip(":") == "r" and key in known else value]
            for f, key, value in micros_of(event.value)
        ]
    return msgspec.structs.replace(event, **changes)
