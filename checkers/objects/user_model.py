"""A model that a user writes: a sequential object in Python, judged like the built-in ones.

docs/reference/models.md has an example.

class Stack(Model):
    def init(self):
        return ()

    def step(self, state, f, value, result):
        if f == "push":
            return (*state, value)
        if result is UNKNOWN:
            return state[:-1]
        return state[:-1] if state and state[-1] == result else None
"""

from collections.abc import Collection, Hashable
from typing import Any, Final, final


@final
class Unknown:
    """What a call returned whose outcome is unknown."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


class Model:
    """A sequential object. States are hashable, compared by `==`, and never None. Neither method changes anything.

    `reads` may name functions that leave every state as it is: the search is then shorter. A subclass may have
    `key(self, f, value)`, which names the object that an operation is about: each is judged by itself.
    """

    reads: Collection[str] = ()

    def init(self) -> Hashable:
        """The state at first."""
        raise NotImplementedError

    def step(self, state: Any, f: str, value: Any, result: Any) -> Hashable | None:
        """The state after `f` with `value` returned `result`, or None where `state` forbids that.

        `result` is `UNKNOWN` where the outcome is: such a call may take effect or not, and returned whatever it does
        in `state`. Calls that failed are never asked about.
        """
        raise NotImplementedError
