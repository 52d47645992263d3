"""Several registers as one plain sequential object."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from fencepost.checkers.objects.specification import Move, Specification, is_known, text
from fencepost.harness.history import Operation


class MultiRegisterObject(Specification):
    start = frozenset()

    def __init__(self, operations: Sequence[Operation], about: Collection[str] | None) -> None:
        super().__init__(operations, about)
        self._seen: dict[int, set[tuple[str, str | None]]] = {}
        self._made: dict[int, set[tuple[str, str | None]]] = {}
        for op in operations:
            for writes, register, value in self._micros(op):
                into = self._made if writes else self._seen
                into.setdefault(op.invoke_index, set()).add((register, value))

    def _micros(self, op: Operation) -> list[tuple[bool, str, str | None]]:
        """Whether it writes, the register, the value; reads of unknown result are left out."""
        given: Any = op.result if is_known(op) and op.result is not None else op.value
        parts = []
        for f, register, value in given:
            writes = str(f).removeprefix(":") in ("w", "write")
            if self.concerns(text(register)) and (writes or is_known(op)):
                parts.append((writes, text(register), None if value is None else text(value)))
        return parts

    def moves(self, op: Operation) -> Sequence[Move]:
        micros = self._micros(op)
        return (tuple(micros),) if micros else ()

    def step(self, state: Any, move: Move) -> Any:
        held = dict(state)
        micro: Any
        for micro in move:
            writes, register, value = micro
            if writes:
                held[register] = value
            elif held.get(register) != value:
                return None
        return frozenset(held.items())

    def first_refused(self, moves: Iterable[Move]) -> int | None:
        held = dict[str, str | None]()
        micro: Any
        for place, move in enumerate(moves):
            for micro in move:
                writes, register, value = micro
                if writes:
                    held[register] = value
                elif held.get(register) != value:
                    return place
        return None

    def changes(self, op: Operation) -> bool:
        return any(writes for writes, _, _ in self._micros(op))

    def after(self, op: Operation) -> Any:
        held = {register: value for _, register, value in self._micros(op)}
        if self._about is None or set(held) != set(self._about):
            return None
        return frozenset((register, value) for register, value in held.items() if value is not None)

    def spare(self, named: Collection[int]) -> set[int]:
        """Transactions that wrote nothing which one of `named` saw: those find what they saw without them, too."""
        seen = set[tuple[str, str | None]]().union(*(self._seen.get(row, ()) for row in named))
        return {row for row, made in self._made.items() if row not in named and not seen & made}

    def parts(self, op: Operation) -> Iterable[str]:
        return [register for _, register, _ in self._micros(op)]
