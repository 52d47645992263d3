"""A key-value store of strings: `put` writes one, `append` adds to its end, `get` returns it, or nil for the empty one.

The search is given a shorter model, which has the same orders. Where no value is the beginning of another one, a string
is one chain of values, and the strings that gets returned are nodes of a tree. Everything else that the key may hold is
one state, *unread*: appends stay there, no get sees it, a put leaves it. A node is visited once, unless its chain
begins with a value that several operations may have put. So most appends have one place:

- one that alone can have made a node did that: it is a compare-and-set from the node before;
- one that can have made no node left the key unread: it is a write of that, wherever it stands;
- any other leads from each node to the next one by its value, or to unread. So does a put, from the empty string.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any, ClassVar, Final

from fencepost.checkers.derived.positions import answered, is_ok
from fencepost.checkers.objects.kind import Call, Calls, Kind, Quick, Refusals, chance
from fencepost.checkers.violations.impossible import named, same_again, wrong
from fencepost.harness.history import Operation, Value

_Node = int | str
#: The empty string, what no get returned, and what nobody can have made. Other nodes are numbers from 1.
_EMPTY: Final = ""
_UNREAD: Final = -1
_NEVER: Final = -2
#: Pairs of an append and a node with its value; where there are more, the search alone decides.
_PAIRS_MAX: Final = 10_000


class KeyValue(Kind):
    """The state is the string; in the shorter model it is a node, or unread."""

    name = "key-value"
    reads = frozenset({"get"})
    changes = frozenset({"put", "append"})
    tells = reads
    plain_steps = 16
    chances = (chance("stale-read", "get"), chance("reordered-element", "append", "put append"))
    refusals: ClassVar[Refusals] = {
        "get": ("stale-read", "In no order does the key hold that string at that moment."),
        "cas": ("reordered-element", "In no order does the key hold at that moment what gets show before that value."),
    }

    def __init__(self, initial: str = "") -> None:
        super().__init__()
        self._initial = initial
        #: In order, what gets return; None: any string may matter.
        self._results: list[str] | None = None
        self._next: dict[tuple[_Node, str], int] = {}
        self._came_from: list[tuple[_Node, str]] = [(_EMPTY, "")]

    def init(self) -> Any:
        return self._initial

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        match f:
            case "get":
                return state if result == state else None
            case "cas":
                return value[1] if state == value[0] else None
            case "put":
                return self._seen(value)
            case "append":
                return _UNREAD if state == _UNREAD else self._seen(state + value)
            case "write":
                return value
        return self._next.get((state, value), _UNREAD)

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
        if op.result is not None:
            same_again(op)
        return Call(op.f, _string(op, op.value))

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        return call.result if call.f == "get" else None

    def show(self, state: Any) -> str:
        if state == _UNREAD:
            return "a string that no get returned"
        text = ""
        while isinstance(state, int):
            state, value = self._came_from[state]
            text = value + text
        return f"{(state + text)[-60:]!r}" if state + text else "nothing"

    def quick(self, operations: Sequence[Operation], calls: Calls) -> Quick:
        values = sorted({call.value for _, call in calls if call.f != "get"})
        if self._initial or not all(values) or any(later.startswith(value) for value, later in pairwise(values)):
            # The one model of all keys may know the results of all.
            self._results = sorted({*(self._results or ()), *(call.result for _, call in calls if call.f == "get")})
            return Quick(self, {None: calls})
        appended = {call.value for _, call in calls if call.f == "append"}
        first: dict[str, int] = {}
        for op, call in calls:
            if call.f == "get":
                first[call.result] = min(first.get(call.result, answered(op)), answered(op))
        ends, shown = self._grown(first, values, appended)
        places = self._places(calls, shown)
        searched = list[tuple[Operation, Call]]()
        for op, call in calls:
            to = self._next.get((_EMPTY, call.value), _UNREAD) if call.f == "put" else places.get(op.invoke_index)
            if call.f == "get":
                searched.append((op, Call("get", None, ends[call.result])))
            elif to is None:
                searched.append((op, Call("add", call.value)))
            elif to != _UNREAD and call.f == "append":
                searched.append((op, Call("cas", (self._came_from[to][0], to))))
            elif to != _UNREAD or is_ok(op):
                searched.append((op, Call("write", to)))
        return Quick(self, {None: searched})

    def _grown(
        self, first: Mapping[str, int], values: Sequence[str], appended: Collection[str]
    ) -> tuple[dict[str, _Node], dict[int, float]]:
        """The node of each result, and by when each node was certainly made; a node stands behind that before it."""
        ends: dict[str, _Node] = {"": _EMPTY}
        shown: dict[int, float] = {}
        longest, chains = max(map(len, values), default=0), [""]
        # In their order, so that a result comes behind its beginnings.
        for result in sorted(first.keys() - {_EMPTY}):
            while not result.startswith(chains[-1]):
                chains.pop()
            at, node = len(chains[-1]), ends[chains[-1]]
            while at < len(result):
                # What a string begins with is the greatest value that is not greater.
                place = bisect_right(values, result[at : at + longest]) - 1
                value = values[place] if place >= 0 else ""
                if not value or not result.startswith(value, at) or (at and value not in appended):
                    break
                made = self._next.get((node, value))
                if made is None:
                    made = self._next[node, value] = len(self._came_from)
                    self._came_from.append((node, value))
                shown[made] = shown.get(made, inf)
                at, node = at + len(value), made
            ends[result] = _NEVER
            if at == len(result) and isinstance(node, int):
                chains.append(result)
                ends[result], shown[node] = node, first[result]
        for node in reversed(shown):
            parent = self._came_from[node][0]
            if isinstance(parent, int) and shown[node] < shown[parent]:
                shown[parent] = shown[node]
        return ends, shown

    def _places(self, calls: Calls, shown: Mapping[int, float]) -> dict[int, int]:
        """Where each append stands, by its event: the node that it made, or unread; of others it is not known."""
        changes = [(op, call) for op, call in calls if call.f != "get"]
        until = min((answered(op) for op, _ in changes if is_ok(op)), default=inf)
        puts = Counter(call.value for _, call in changes if call.f == "put")
        appends: dict[str, list[Operation]] = {}
        begun: dict[str, int] = {}
        for op, call in changes:
            begun[call.value] = min(begun.get(call.value, op.invoke_index), op.invoke_index)
            if call.f == "append":
                appends.setdefault(call.value, []).append(op)
        since: dict[_Node, float] = {_EMPTY: -inf}
        again: dict[_Node, bool] = {}
        nodes: dict[str, list[int]] = {}
        for node in shown:
            parent, value = self._came_from[node]
            nodes.setdefault(value, []).append(node)
            since[node] = max(since[parent], begun[value])
            again[node] = (
                puts[value] + sum(op.invoke_index < until for op in appends.get(value, ())) > 1
                if parent == _EMPTY
                else again[parent]
            )

        def fits(op: Operation, node: int, latest: float) -> bool:
            parent = self._came_from[node][0]
            return op.invoke_index < (min(until, latest) if parent == _EMPTY else latest) and (
                not is_ok(op) or answered(op) > since[parent]
            )

        places: dict[int, int] = {}
        for value, own in appends.items():
            there = nodes.get(value, [])
            if len(own) == len(there) == 1 and not puts[value] and fits(own[0], there[0], shown[there[0]]):
                places[own[0].invoke_index] = there[0]
                continue
            if len(own) * len(there) > _PAIRS_MAX:
                continue
            makers = {node: [op for op in own if fits(op, node, shown[node])] for node in there}
            left = [node for node in there if not (puts[value] and self._came_from[node][0] == _EMPTY)]
            made, before = set[int](), -1
            while before < len(made):
                before = len(made)
                for node in left:
                    free = [op for op in makers[node] if op.invoke_index not in places]
                    if len(free) == 1 and node not in made:
                        places[free[0].invoke_index] = node
                        made.add(node)
            for op in own:
                if op.invoke_index not in places and not any(
                    fits(op, node, inf) if again[node] else node not in made and op in makers[node] for node in there
                ):
                    places[op.invoke_index] = _UNREAD
        return places


def _string(op: Operation, value: Value) -> str:
    if not isinstance(value, str):
        wrong(op, f"{op.f} of {named(value)}; expected a string")
    return value
