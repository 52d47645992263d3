"""A key-value store of strings: `put` writes one, `append` adds to its end, `get` returns it, or nil for the empty one.

The native core knows it, and searches it by a shorter model (`checkers/native/search/src/objects/strings.rs`).
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from fencepost.checkers import _core
from fencepost.checkers.derived.positions import is_ok, return_of
from fencepost.checkers.objects.kind import Call, Calls, Kind, Refusals, chance
from fencepost.checkers.objects.search import ASKED_FIRST, ASKED_MAX, Answer
from fencepost.checkers.violations.impossible import named, same_again, wrong
from fencepost.harness.history import Operation, Value
from fencepost.harness.verdict import SearchBudget

#: A string that no get returned.
_UNREAD: Final = -1


class KeyValue(Kind):
    """The state is the string."""

    name = "key-value"
    reads = frozenset({"get"})
    changes = frozenset({"put", "append"})
    tells = reads
    chances = (chance("stale-read", "get"), chance("reordered-element", "append", "put append"))
    refusals: ClassVar[Refusals] = {
        "get": ("stale-read", "In no order does the key hold that string at that moment."),
        "append": (
            "reordered-element",
            "In no order does the key hold at that moment what gets show before that value.",
        ),
    }

    def __init__(self, initial: str = "") -> None:
        super().__init__()
        self._initial = initial
        #: In order, what gets return; None: any string may matter.
        self._results: list[str] | None = None

    def init(self) -> Any:
        return self._initial

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        match f:
            case "get":
                return state if result == state else None
            case "put":
                return self._seen(value)
        return _UNREAD if state == _UNREAD else self._seen(state + value)

    def _seen(self, state: str) -> Any:
        """The string, where a get can return it or what comes of it."""
        if self._results is None:
            return state
        place = bisect_left(self._results, state)
        return state if place < len(self._results) and self._results[place].startswith(state) else _UNREAD

    def narrowed(self, calls: Sequence[Call]) -> Kind:
        narrow = KeyValue(self._initial)
        narrow._results = sorted({call.result for call in calls if call.f == "get"})
        return narrow

    def read(self, op: Operation) -> Call | None:
        if op.f == "get":
            return Call("get", None, _string(op, "" if op.result is None else op.result)) if is_ok(op) else None
        if op.result is not None and op.result != op.value:
            same_again(op)
        return Call(op.f, _string(op, op.value))

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        return call.result if call.f == "get" else None

    def show(self, state: Any) -> str:
        return "a string that no get returned" if state is None else f"{state[-60:]!r}" if state else "nothing"

    def searched(self, keys: Mapping[str | None, Calls], budget: SearchBudget) -> dict[str | None, Answer]:
        searched = {key: calls for key, calls in keys.items() if calls}
        results = _core.check_strings(
            [
                [
                    (call.f, call.result if call.f == "get" else call.value, op.invoke_index, return_of(op))
                    for op, call in calls
                ]
                for calls in searched.values()
            ],
            self._initial,
            asked=ASKED_MAX,
            asked_first=ASKED_FIRST,
            steps=budget.steps,
            memory_bytes=budget.memory_bytes,
            wall_s=budget.wall_s,
        )
        return {
            key: Answer(
                result,
                [calls[i][0] for i in result.order],
                None if result.failed is None else calls[result.failed],
                [calls[i][0] for i in result.open],
            )
            for (key, calls), result in zip(searched.items(), results, strict=True)
            if result is not None
        }


def _string(op: Operation, value: Value) -> str:
    if not isinstance(value, str):
        wrong(op, f"{op.f} of {named(value)}; expected a string")
    return value
