"""Answers in EDN whose values are of another kind than those that were written, as JSON that equals none of these.

A history keeps JSON, in which a keyword and its text are equal. An answer of the wrong kind must not pass for the right
one, so that it becomes a map of its kind and its value.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from fencepost.harness.interchange.formats.edn import is_edn, kind_of, plain
from fencepost.harness.interchange.formats.family import Family

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
