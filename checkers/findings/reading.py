"""Values that operations carry, checked: what was asked for and what was answered, with the event in the message."""

from collections.abc import Sequence
from typing import Final, NoReturn

import msgspec

from fencepost.checkers.facts.positions import is_ok
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import Operation, Value

#: The native search adds numbers up in 64 bits.
_LARGEST: Final = 2**62 - 1
_HINT: Final = "nothing of this history was judged; docs/reference/models.md says what each model understands"
#: A micro-operation: whether it writes, the key, the value.
Micro = tuple[bool, Value, Value]


class BeyondLimit(MalformedHistory):
    """A number that may be right and is too large to be judged."""


def integer(op: Operation, value: Value, what: str, least: int = -_LARGEST, *, answer: bool = False) -> int:
    """Return `value`, an integer that the search can hold; raises MalformedHistory, and BeyondLimit for a large one.

    `answer` says that the operation returned it, so that the message names the event of the answer.
    """
    number = whole(op, value, what, least, answer=answer)
    if number > _LARGEST:
        raise BeyondLimit(
            f"event {_event(op, answer)}: {what} is {value!r:.80}; expected an integer from {least} to {_LARGEST}",
            hint=_HINT,
        )
    return number


def whole(op: Operation, value: Value, what: str, least: int = -_LARGEST, *, answer: bool = False) -> int:
    """Return `value`, an integer from `least`; raises MalformedHistory."""
    if type(value) is int and value >= least:
        return value
    bound = "" if least < 0 else f" from {least}"
    wrong(op, f"{what} is {named(value)}; expected an integer{bound}", answer=answer)


def something(op: Operation, value: Value, what: str) -> Value:
    """`value`, which is not nil; raises MalformedHistory."""
    if value is None:
        wrong(op, f"{what} is missing; expected a value")
    return value


def same_again(op: Operation) -> None:
    """An `ok` completion says nothing, or what was invoked; raises MalformedHistory."""
    if is_ok(op) and op.result is not None and not is_same(op.result, op.value):
        wrong(op, f"{op.f} completes with {op.result!r:.80}, but was invoked with {named(op.value)}")


def same_request(op: Operation, request: Sequence[Micro], reply: Sequence[Micro]) -> None:
    """Check that an ok transaction did what was asked for; raises MalformedHistory.

    Its micro-operations say whether they write, the key, and the value, which only reads may answer otherwise.
    """
    if op.result is None and not all(writes for writes, _, _ in request):
        wrong(op, "a transaction with reads returned nothing; expected what they read")
    if len(reply) != len(request):
        wrong(op, f"a transaction of {len(request)} micro-operations returned {len(reply)}; expected as many")
    for (writes, key, value), (wrote, on, returned) in zip(request, reply, strict=True):
        if writes != wrote or not is_same(key, on) or (writes and not is_same(value, returned)):
            request_kind, reply_kind = ("a write" if change else "a read" for change in (writes, wrote))
            what, instead = (f" of {named(part)}" if writes and wrote else "" for part in (value, returned))
            wrong(op, f"{request_kind}{what} on {key!r:.40} was answered as {reply_kind}{instead} on {on!r:.40}")


def wrong(op: Operation, message: str, *, answer: bool = False) -> NoReturn:
    raise MalformedHistory(f"event {_event(op, answer)}: {message}", hint=_HINT)


def _event(op: Operation, answer: bool) -> int:
    return op.complete_index if answer and op.complete_index is not None else op.invoke_index


def named(value: Value) -> str:
    """Return the value for a sentence."""
    if isinstance(value, str) and not value.startswith(":"):
        return f"{_text(value).decode():.80}"
    return "nothing" if value is None else f"{value!r:.80}".strip("'" if isinstance(value, str) else "")


def is_same(value: Value, other: Value) -> bool:
    """Say whether two values are equal, and of the same types."""
    if value != other or type(value) is not type(other):
        return False
    return not isinstance(value, (list, dict)) or _text(value) == _text(other)


def _text(value: Value) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
