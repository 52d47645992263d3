"""EDN: the values that the native reader returns, and the writing of values.

A history keeps JSON values in place of EDN values; `plain` converts them. A value that JSON lacks becomes its EDN text
(`:a`, `1/2`); a set becomes a list in a fixed order. Two EDN values that differ only in their type may therefore be
equal as JSON, so a comparison must also compare `kind_of`.
"""

import math
import re
from typing import Any, BinaryIO, Final, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.plugins import registry

_Ids = NDArray[np.uint32]


class Edn(Protocol):
    """A value of EDN for which Python has no type; the native core makes and describes it."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def items(self) -> list[Any]: ...


class EdnEvents(Protocol):
    """A history's events as columns, as the native core describes them; ids are positions in `forms`."""

    @property
    def line(self) -> _Ids: ...
    @property
    def column(self) -> _Ids: ...
    @property
    def time(self) -> NDArray[np.int64]: ...
    @property
    def kind(self) -> NDArray[np.uint8]: ...
    @property
    def process(self) -> NDArray[np.int64]: ...
    @property
    def function(self) -> _Ids: ...
    @property
    def value(self) -> _Ids: ...
    @property
    def error(self) -> _Ids: ...
    @property
    def node(self) -> _Ids: ...
    @property
    def key(self) -> _Ids: ...
    @property
    def invocation(self) -> _Ids: ...
    @property
    def forms(self) -> list[Any]: ...


_EDN: Final[type] = registry.native("edn-form")

#: The names of kinds of values in messages.
KINDS: Final = {bool: "a boolean", int: "an integer", float: "a double", str: "a string", list: "a vector"}
_AS_IT_IS: Final = frozenset((int, str, bool, type(None)))
_KEYWORD: Final = re.compile(r":[A-Za-z*+!_?<>=$&%.-][\w*+!?<>=$&%.'#-]*(/[\w*+!?<>=$&%.'#-]+)?", re.ASCII)
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_ESCAPED: Final = re.compile(r'[\\"\n\t\r\b\f]')


def read_events(stream: BinaryIO, source: str, *, json: bool = False) -> EdnEvents:
    """Read the history in `stream` as columns; raise MalformedHistory with line, column and expectation.

    `json`: it is known to be JSON.
    """
    try:
        events: EdnEvents = registry.native("edn")(stream.read, json=json)
        return events
    except ValueError as error:
        if len(error.args) != 3:
            raise
        line, column, message = error.args
        raise malformed(source, line, column, message) from None


def malformed(source: str, line: int, column: int, message: str) -> MalformedHistory:
    """Make the error for one wrong position of a file; nothing of the file is judged."""
    return MalformedHistory(
        f"{source}: line {line}, column {column}: {message}", hint="nothing of this history was judged; fix the file"
    )


def is_edn(form: object) -> TypeGuard[Edn]:
    """Say whether a form has a type that Python lacks."""
    return isinstance(form, _EDN)


def kind_of(form: Any) -> str:
    """Return the kind of a form's value, for messages and comparisons; nil has no kind."""
    if is_edn(form):
        return f"a #{form.text}" if form.kind == "tagged" else f"a {form.kind}"
    return KINDS[type(form)]


def plain(form: Any) -> Any:
    """Convert a form to a JSON value."""
    if type(form) is list:
        return [item if type(item) in _AS_IT_IS else plain(item) for item in form]
    if type(form) is float and not math.isfinite(form):
        return edn_text(form)
    if not is_edn(form):
        return form
    match form.kind:
        case "keyword":
            return f":{form.text}"
        case "set" | "list":
            return [plain(item) for item in form.items]
        case "map":
            keys, values = form.items[::2], form.items[1::2]
            return {key_text(key): plain(value) for key, value in zip(keys, values, strict=True)}
        case "tagged":
            return {f"#{form.text}": plain(form.items[0])}
        case _:
            return form.text


def key_text(form: Any) -> str:
    """Convert a form to the name of a key."""
    if type(form) is str:
        return form
    if is_edn(form) and form.kind in ("character", "ratio", "decimal", "symbol"):
        return form.text
    return edn_text(plain(form))


def edn_text(value: Any) -> str:
    """Write a JSON value as EDN. Text that looks like a keyword becomes one, because `plain` made it from one."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if -(2**63) <= value < 2**63 else f"{value}N"
        case float():
            if math.isnan(value):
                return "##NaN"
            return repr(value) if math.isfinite(value) else ("##Inf" if value > 0 else "##-Inf")
        case str():
            return value if _KEYWORD.fullmatch(value) else edn_string(value)
        case dict():
            return "{" + ", ".join(f"{edn_text(key)} {edn_text(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + " ".join(edn_text(item) for item in value) + "]"
        case _:
            raise TypeError(f"not a value of a history: {value!r}")


def form_text(form: Any) -> str:
    """Write a form that was read as EDN again."""
    if type(form) is list:
        return f"[{' '.join(map(form_text, form))}]"
    if type(form) is str:
        return edn_string(form)
    if not is_edn(form):
        return edn_text(form)
    match form.kind:
        case "set":
            return f"#{{{' '.join(map(form_text, form.items))}}}"
        case "list":
            return f"({' '.join(map(form_text, form.items))})"
        case "map":
            pairs = zip(form.items[::2], form.items[1::2], strict=True)
            return "{" + ", ".join(f"{form_text(key)} {form_text(value)}" for key, value in pairs) + "}"
        case "tagged":
            return f"#{form.text} {form_text(form.items[0])}"
        case "character":
            return f"\\{form.text}"
    return edn_text(plain(form)) if form.kind == "keyword" else str(form.text)


def edn_string(text: str) -> str:
    """Write text as a string, even if it looks like a keyword."""
    return f'"{_ESCAPED.sub(lambda match: _ESCAPES[match[0]], text)}"'
