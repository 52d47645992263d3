"""Plain sequential objects, by which proofs are checked.

Nothing is shared with the native objects or with the rows that they are given. A specification is made for some of what
an object holds (`about`: elements, registers, accounts, offsets, as JSON text; None: all). What an operation does to
the rest is left out of it, which is sound for each object because its parts hold apart: the order of a queue's elements
is that of any of them, a set's elements and a transaction's registers do not know of each other, an account alone must
cover what is taken from it, and a log without some of its entries is a log.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

import msgspec

from fencepost.harness.history import Operation, Outcome, Value

#: What one operation asks of the object: a name and arguments.
Move = tuple[Hashable, ...]


def text(value: Value) -> str:
    """Return the JSON text of a value; equal values have equal texts."""
    return msgspec.json.encode(value, order="deterministic").decode()


def is_known(op: Operation) -> bool:
    return op.type is Outcome.OK and op.complete_index is not None


class Specification:
    """One key's object. `operations` are those that did not fail; states are hashable and never None."""

    start: Any = None

    def __init__(self, operations: Sequence[Operation], about: Collection[str] | None) -> None:
        self.operations = operations
        self._about = about

    def concerns(self, part: str) -> bool:
        return self._about is None or part in self._about

    def moves(self, op: Operation) -> Sequence[Move]:
        """What `op` does, each part at an instant of its own; nothing where it does not matter."""
        raise NotImplementedError

    def step(self, state: Any, move: Move) -> Any:
        """The state after `move`; None where `state` forbids it."""
        raise NotImplementedError

    def first_refused(self, moves: Iterable[Move]) -> int | None:
        """Carry out `moves` one after the other; return the place of the first that is forbidden, if any.

        Cost: linear in moves and in what they return, also where `step` copies a large state.
        """
        state = self.start
        for place, move in enumerate(moves):
            state = self.step(state, move)
            if state is None:
                return place
        return None

    def changes(self, op: Operation) -> bool:
        """Whether `op` may change the state. If not, it can be left out of any order."""
        raise NotImplementedError

    def after(self, op: Operation) -> Any:
        """The state after the ok `op` whatever was before; None where that depends."""
        return None

    def spare(self, named: Collection[int]) -> set[int]:
        """Operations (by event) outside of `named` that can be left out of any order, for the object's reasons."""
        return set()

    def refutes(self, start: Any, must: Sequence[Operation], may: Sequence[Operation]) -> bool:
        """Whether it can be seen without a search that no order explains `must`, some of `may` among them or not."""
        return False

    def parts(self, op: Operation) -> Iterable[str]:
        """What `op` is about, where the object can be judged in parts."""
        return ()


def ended(op: Operation) -> float:
    """Return the event by which `op` had certainly taken effect."""
    return op.complete_index if is_known(op) and op.complete_index is not None else float("inf")
