"""A queue, a set and an append-only log as plain sequential objects."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

from fencepost.checkers.objects.specification import Move, Specification, ended, is_known, text
from fencepost.harness.history import Operation


class QueueObject(Specification):
    """The state is what is in, the head first, and how many parts of each drain were taken."""

    start = ((), ())

    def __init__(self, operations: Sequence[Operation], about: Collection[str] | None) -> None:
        super().__init__(operations, about)
        self._into = Counter(text(op.value) for op in operations if op.f == "enqueue")
        self._out = Counter(part for op in operations if is_known(op) for part in self._outputs(op))
        self._drains = any(op.f == "drain" and is_known(op) for op in operations)
        unknown = {op.invoke_index for op in operations if op.f != "enqueue" and not is_known(op)}
        is_used_up = all(count <= self._out[part] for part, count in self._into.items() if self.concerns(part))
        self._spare = unknown if is_used_up else set[int]()

    def _outputs(self, op: Operation) -> list[str]:
        if op.f == "drain":
            return [text(value) for value in op.result] if isinstance(op.result, list) else []
        return [text(op.result)] if op.f == "dequeue" and op.result is not None else []

    def moves(self, op: Operation) -> Sequence[Move]:
        if op.f == "enqueue":
            return (("in", text(op.value)),) if self.concerns(text(op.value)) else ()
        if not is_known(op):
            every = sum(count for part, count in self._into.items() if self.concerns(part))
            return (("take",),) * (1 if op.f == "dequeue" else every)
        if op.f == "dequeue" and op.result is None:
            return (("empty",),)
        outputs = [part for part in self._outputs(op) if self.concerns(part)]
        if op.f == "dequeue":
            return [("out", part) for part in outputs]
        return [("out", part, op.invoke_index, place) for place, part in enumerate(outputs)]

    def step(self, state: Any, move: Move) -> Any:
        held, drains = state
        if move[0] == "in":
            return ((*held, move[1]), drains)
        if move[0] == "empty":
            return None if held else state
        if not held or (move[0] == "out" and held[0] != move[1]):
            return None
        if len(move) == 4:
            counts = dict(drains)
            if counts.get(move[2], 0) != move[3]:
                return None
            drains = tuple(sorted((counts | {move[2]: counts.get(move[2], 0) + 1}).items()))
        return (held[1:], drains)

    def first_refused(self, moves: Iterable[Move]) -> int | None:
        held, drained = deque[Hashable](), Counter[Hashable]()
        for place, move in enumerate(moves):
            if move[0] == "in":
                held.append(move[1])
            elif move[0] == "empty":
                if held:
                    return place
            elif not held or (move[0] == "out" and held[0] != move[1]):
                return place
            else:
                held.popleft()
                if len(move) == 4:
                    if drained[move[2]] != move[3]:
                        return place
                    drained[move[2]] += 1
        return None

    def changes(self, op: Operation) -> bool:
        return op.f != "dequeue" or not is_known(op) or op.result is not None

    def after(self, op: Operation) -> Any:
        return self.start if not self.changes(op) and not self._drains else None

    def spare(self, named: Collection[int]) -> set[int]:
        """Where known dequeues took as often as anybody enqueued, those of unknown result took nothing of that."""
        return self._spare - set(named)

    def parts(self, op: Operation) -> Iterable[str]:
        return [text(op.value)] if op.f == "enqueue" else self._outputs(op) if is_known(op) else ()

    def refutes(self, start: Any, must: Sequence[Operation], may: Sequence[Operation]) -> bool:
        """Refute by counting: a queue found empty holds more than can be out, or more came out than went in."""
        held = Counter(start[0])
        certain = sorted(ended(op) for op in must if op.f == "enqueue")
        into: dict[str, list[int]] = {}
        outs: list[int] = []
        known: dict[str, list[float]] = {}
        for op in (*must, *may):
            for move in self.moves(op):
                if move[0] == "in":
                    into.setdefault(str(move[1]), []).append(op.invoke_index)
                elif move[0] != "empty":
                    outs.append(op.invoke_index)
        for op in must:
            for move in self.moves(op):
                if move[0] == "out":
                    known.setdefault(str(move[1]), []).append(ended(op))
        outs.sort()
        for op in must:
            if not self.changes(op):
                least = held.total() + bisect_left(certain, op.invoke_index)
                if least > bisect_left(outs, ended(op)):
                    return True
        for part, ends in known.items():
            made = sorted(into.get(part, ()))
            for count, until in enumerate(sorted(ends), start=1):
                if count > held[part] + bisect_left(made, until):
                    return True
        return False


class SetObject(Specification):
    start = frozenset()

    def moves(self, op: Operation) -> Sequence[Move]:
        if op.f == "members":
            return (("all", self._shown(op)),) if is_known(op) else ()
        if not self.concerns(text(op.value)) or (op.f == "contains" and not is_known(op)):
            return ()
        f = op.f if op.f != "contains" else "has" if op.result else "lacks"
        return ((f, text(op.value)),)

    def _shown(self, op: Operation) -> frozenset[str] | None:
        """None where an element is shown twice."""
        shown = [text(value) for value in op.result] if isinstance(op.result, list) else []
        return frozenset(filter(self.concerns, shown)) if len(set(shown)) == len(shown) else None

    def step(self, state: Any, move: Move) -> Any:
        match move[0]:
            case "add":
                return state | {move[1]}
            case "remove":
                return state - {move[1]}
            case "all":
                return state if state == move[1] else None
        return state if (move[1] in state) == (move[0] == "has") else None

    def first_refused(self, moves: Iterable[Move]) -> int | None:
        held, move = set[Any](), tuple[Any, ...]()
        for place, move in enumerate(moves):
            match move[0]:
                case "add":
                    held.add(move[1])
                case "remove":
                    held.discard(move[1])
                case "all" if frozenset(held) != move[1]:
                    return place
                case "has" | "lacks" if (move[1] in held) != (move[0] == "has"):
                    return place
        return None

    def changes(self, op: Operation) -> bool:
        return op.f in ("add", "remove")

    def after(self, op: Operation) -> Any:
        if op.f == "members":
            return self._shown(op)
        if self._about is None or len(self._about) != 1 or not self.concerns(text(op.value)):
            return None
        there = op.f == "add" or (op.f == "contains" and op.result is True)
        return frozenset(self._about) if there else frozenset()

    def parts(self, op: Operation) -> Iterable[str]:
        if op.f != "members":
            return [text(op.value)]
        return [text(value) for value in op.result] if is_known(op) and isinstance(op.result, list) else ()


class LogObject(Specification):
    """The state is all that the log may hold: offsets with values. An append of unknown outcome goes to any offset."""

    start = frozenset({frozenset()})

    def __init__(self, operations: Sequence[Operation], about: Collection[str] | None) -> None:
        super().__init__(operations, about)
        #: Where reads found which value: elsewhere an append of unknown outcome may as well have done nothing.
        self._places: dict[str, set[int]] = {}
        for op in operations:
            if op.f == "read" and is_known(op):
                offset, value = self._entry(op)
                if value is not None and self.concerns(str(offset)):
                    self._places.setdefault(value, set()).add(offset)

    def _entry(self, op: Operation) -> tuple[int, str | None]:
        result: Any = op.result
        value = op.value if op.f == "append" else result[1]
        return int(result[0]), None if value is None else text(value)

    def moves(self, op: Operation) -> Sequence[Move]:
        if not is_known(op):
            return (("somewhere", text(op.value)),) if op.f == "append" else ()
        offset, value = self._entry(op)
        return ((op.f, offset, value),) if self.concerns(str(offset)) else ()

    def step(self, state: Any, move: Move) -> Any:
        if move[0] == "somewhere":
            after = {
                world | {(offset, move[1])}
                for world in state
                for offset in self._places.get(str(move[1]), ())
                if _is_beyond(world, offset)
            }
        elif move[0] == "append":
            after = {world | {(move[1], move[2])} for world in state if _is_beyond(world, move[1])}
        elif move[2] is None:
            after = {world for world in state if all(offset != move[1] for offset, _ in world)}
        else:
            after = {world for world in state if (move[1], move[2]) in world}
        return frozenset(after) or None

    def first_refused(self, moves: Iterable[Move]) -> int | None:
        """As in `step`, but an append of unknown outcome goes to the first place where a read found its value."""
        held, last = dict[Any, Any](), -1
        given: list[Any]
        offset: Any
        for place, (f, *given) in enumerate(moves):
            if f == "read":
                if held.get(given[0]) != given[1]:
                    return place
                continue
            if f == "somewhere":
                beyond = [offset for offset in self._places.get(str(given[0]), ()) if offset > last]
                offset, value = min(beyond, default=last), given[0]
            else:
                offset, value = given
            if offset <= last:
                return place
            held[offset], last = value, offset
        return None

    def changes(self, op: Operation) -> bool:
        return op.f == "append"

    def parts(self, op: Operation) -> Iterable[str]:
        return [str(self._entry(op)[0])] if is_known(op) else ()


def _is_beyond(world: frozenset[tuple[int, str]], offset: Any) -> bool:
    return all(other < offset for other, _ in world)
