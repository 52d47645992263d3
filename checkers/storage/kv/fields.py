"""The fields of requests and replies, by name; what cannot be read is refused with its event."""

from typing import Any, Final, NoReturn

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import Operation, Value

_HINT: Final = "nothing of this history was judged; docs/reference/models.md says what each model understands"


def fields_of(op: Operation, given: Value, what: str, allowed: set[str], at: int | None = None) -> dict[str, Any]:
    """A map's fields by name, written `mod-revision` however EDN or JSON have it."""
    expected = ", ".join(sorted(allowed)) or "nothing"
    if not isinstance(given, dict):
        wrong_with(op, f"{what} is {given!r:.80}; expected a map of {expected}", at)
    fields = {str(name).removeprefix(":").replace("_", "-"): value for name, value in given.items()}
    strange = sorted(set(fields) - allowed)
    if strange:
        wrong_with(op, f"{what} has the field {strange[0]!r}; expected {expected}", at)
    return fields


def number_of(op: Operation, name: str, value: Value) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        wrong_with(op, f"{name} is {value!r:.80}; expected an integer from 0")
    return value


def wrong_with(op: Operation, message: str, at: int | None = None) -> NoReturn:
    raise MalformedHistory(f"event {op.invoke_index if at is None else at}: {message}", hint=_HINT)
