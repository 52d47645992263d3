"""Locks as plain sequential objects."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from fencepost.checkers.objects.specification import Move, Specification, is_known
from fencepost.harness.history import Operation

_TOKENS: Final = ("fence", "token", ":fence", ":token")


class Mutex(Specification):
    start = False

    def moves(self, op: Operation) -> Sequence[Move]:
        return ((op.f,),)

    def step(self, state: Any, move: Move) -> Any:
        return (move[0] == "acquire") if state == (move[0] == "release") else None

    def changes(self, op: Operation) -> bool:
        return True

    def after(self, op: Operation) -> Any:
        return op.f == "acquire"


class OwnerMutex(Specification):
    """The state names the holder, and the last token if there are any."""

    start = ("free", -1)

    def __init__(self, operations: Sequence[Operation], about: Collection[str] | None) -> None:
        super().__init__(operations, about)
        by_process: dict[int, list[Operation]] = {}
        for op in operations:
            by_process.setdefault(op.process, []).append(op)
        self._holds = [
            {op.invoke_index for op in own[place : place + 2]}
            for own in by_process.values()
            for place, op in enumerate(own)
            if op.f == "acquire" and all(after.f == "release" for after in own[place + 1 : place + 2])
        ]

    def moves(self, op: Operation) -> Sequence[Move]:
        return ((op.f, op.process, self.token(op)),)

    def token(self, op: Operation) -> int | None:
        return None

    def step(self, state: Any, move: Move) -> Any:
        holder, last = state
        f, process, token = move
        if f == "release":
            return ("free", last) if holder == process else None
        if holder != "free" or (isinstance(token, int) and token <= last):
            return None
        return (process, last if token is None else token)

    def changes(self, op: Operation) -> bool:
        return True

    def after(self, op: Operation) -> Any:
        return (op.process if op.f == "acquire" else "free", -1)

    def spare(self, named: Collection[int]) -> set[int]:
        """Whole holds: an acquire with the release that its process called next, or that it never called.

        Between the two nothing else can be in an order, so without both it is still one.
        """
        return {row for hold in self._holds if not hold & set(named) for row in hold}


class FencedMutex(OwnerMutex):
    def moves(self, op: Operation) -> Sequence[Move]:
        # An acquire of unknown outcome has no token, and is the last that its process did.
        return () if op.f == "acquire" and not is_known(op) else super().moves(op)

    def token(self, op: Operation) -> int | None:
        if op.f == "release":
            return None
        result: Any = op.result
        return next(result[name] for name in _TOKENS if name in result) if isinstance(result, dict) else int(result)

    def after(self, op: Operation) -> Any:
        return (op.process, self.token(op)) if op.f == "acquire" else None


class Semaphore(Specification):
    start = 0

    def __init__(self, operations: Sequence[Operation], about: Collection[str] | None, permits: int) -> None:
        super().__init__(operations, about)
        self._permits = permits

    def moves(self, op: Operation) -> Sequence[Move]:
        return (("out", self._count(op) if op.f == "acquire" else -self._count(op)),)

    def _count(self, op: Operation) -> int:
        return 1 if op.value is None else int(str(op.value))

    def step(self, state: Any, move: Move) -> Any:
        after = state + move[1]
        return after if 0 <= after <= self._permits else None

    def changes(self, op: Operation) -> bool:
        return self._count(op) != 0

    def after(self, op: Operation) -> Any:
        """Where all permits go or come at once there was only one way."""
        if self._count(op) != self._permits:
            return None
        return self._permits if op.f == "acquire" else 0
