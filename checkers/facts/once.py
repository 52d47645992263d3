"""Derive once: a fact that several checkers and tables need of one history is computed at its first use."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from fencepost.harness.history import History

P = ParamSpec("P")
R = TypeVar("R")


def once(derivation: Callable[Concatenate[History, P], R]) -> Callable[Concatenate[History, P], R]:
    """Remember the result of a pure function for a history and the other arguments, for the life of the history.

    Everybody gets the same object, which nobody may change. Other arguments are the same when they are one object, or
    equal texts.
    """

    @wraps(derivation)
    def kept(history: History, /, *args: P.args, **named: P.kwargs) -> R:
        entries = history.derived.setdefault(derivation, [])
        given = (*args, *named.items())
        for known, result in entries:
            if len(known) == len(given) and all(map(_same, known, given)):
                return result  # type: ignore[no-any-return]  # of this derivation
        result = derivation(history, *args, **named)
        entries.append((given, result))
        return result

    return kept


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str) and one == other)
