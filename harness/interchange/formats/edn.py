"""EDN: what the native reader returns, and how values are written.

JSON values stand for those of EDN wherever a history keeps them: `plain` turns one into the other. What JSON lacks is
text as EDN has it (`:a`, `1/2`); sets are lists in a fixed order. So values that differ in EDN by their type alone may
be equal as JSON, and whoever compares them must compare `kind_of` too.
"""

import math
import re
from typing import Any, BinaryIO, Final

from fencepost.checkers import _core
from fencepost.harness.base.errors import MalformedHistory

Edn = _core.Edn
EdnEvents = _core.EdnEvents

#: What names in a message are called.
KINDS: Final = {bool: "a boolean", int: "an integer", float: "a double", str: "a string", list: "a vector"}
_KEYWORD: Final = re.compile(r":[A-Za-z*+!_?<>=$&%.-][\w*+!?<>=$&%.'#-]*(/[\w*+!?<>=$&%.'#-]+)?", re.ASCII)
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_ESCAPED: Final = re.compile(r'[\\"\n\t\r\b\f]')


def read_events(stream: BinaryIO, source: str) -> EdnEvents:
    """The history in `stream` as columns; raises MalformedHistory with line, column and what was expected."""
    try:
        return _core.read_edn(stream.read)
    except ValueError as error:
        if len(error.args) != 3:
            raise
        line, column, message = error.args
        raise malformed(source, line, column, message) from None


def malformed(source: str, line: int, column: int, message: str) -> MalformedHistory:
    """One wrong place of a file; nothing of the file is judged."""
    return MalformedHistory(
        f"{source}: line {line}, column {column}: {message}", hint="nothing of this history was judged; mend the file"
    )


def kind_of(form: Any) -> str:
    """What kind of value a form is, for a message and for comparing; nil has none."""
    if isinstance(form, Edn):
        return f"a #{form.text}" if form.kind == "tagged" else f"a {form.kind}"
    return KINDS[type(form)]


def plain(form: Any) -> Any:
    """The form as a JSON value."""
    if type(form) is list:
        return [plain(item) for item in form]
    if type(form) is float and not math.isfinite(form):
        return edn_text(form)
    if not isinstance(form, Edn):
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
    """The form as the name of a key."""
    if type(form) is str:
        return form
    if isinstance(form, Edn) and form.kind in ("character", "ratio", "decimal", "symbol"):
        return form.text
    return edn_text(plain(form))


def edn_text(value: Any) -> str:
    """A JSON value in EDN. Text that could be a keyword is one, as `plain` had it."""
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
            raise TypeError(f"no value of a history: {value!r}")


def edn_string(text: str) -> str:
    """Text as a string, though it could be a keyword."""
    return f'"{_ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)}"'
