"""A sequential object: its state at first, and the state after each call that it allows.

Built-in models (`checkers.objects.models`) and those of users are of one kind, and are searched alike.
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
from typing import Any, Final, Protocol, final


@final
class Unknown:
    """What a call returned whose outcome is unknown."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


class Steps(Protocol):
    """What a search needs of a model."""

    @property
    def reads(self) -> Collection[str]: ...
    def init(self) -> Any: ...
    def step(self, state: Any, f: str, value: Any, result: Any, /) -> Any: ...


class Model:
    """A sequential object. States are hashable, compared by `==`, and never None. Neither method changes anything.

    `reads` may name functions that leave every state as it is: the search is then shorter. A subclass may have
    `key(self, f, value)`, which names the object that an operation is about: each is judged by itself.
    """

    reads: Collection[str] = ()

    def init(self) -> Hashable:
        """The state at first."""
        raise NotImplementedError

    def step(self, state: Any, f: str, value: Any, result: Any) -> Hashable | list[Any] | None:
        """The state after `f` with `value` returned `result`, or None where `state` forbids that.

        A list has all states that there may be then, where the object decides by itself. `result` is `UNKNOWN` where
        the outcome is: such a call may take effect or not, and returned whatever it does in `state`. Calls that failed
        are never asked about.
        """
        raise NotImplementedError
