"""Models as users write them, some of them badly; imported by name in `test_user_models`."""

from typing import Any

from fencepost.checkers import UNKNOWN, Model


class Stack(Model):
    def init(self) -> Any:
        return ()

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        if f == "push":
            return (*state, value)
        if result is UNKNOWN:
            return state[:-1]
        return state[:-1] if state and state[-1] == result else None


class Peeked(Stack):
    """Stacks by name, with a function that changes none."""

    reads = ("peek",)

    def key(self, f: str, value: Any) -> Any:
        return value[0]

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        if f == "peek":
            return state if result in (UNKNOWN, (state or (None,))[-1]) else None
        return super().step(state, f, value[1], result)


class Changing(Stack):
    reads = ("push",)


class NoNames(Stack):
    reads = 7  # type: ignore[assignment]


class OneName(Stack):
    reads = "pop"


class Unnamed(Stack):
    def key(self, f: str, value: Any) -> Any:
        return [value]


class Duck:
    """No subclass, and the same."""

    init = Stack.init
    step = Stack.step


INSTANCE = Stack()
NOTHING = 7


class NoStep:
    def init(self) -> Any:
        return ()


class Unhashable(Stack):
    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        return {len(state): value}


class UnhashableStart(Stack):
    def init(self) -> Any:
        return []


class NoneAtFirst(Stack):
    def init(self) -> Any:
        return None


class Raises(Stack):
    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        raise KeyError(f)


class Exits(Stack):
    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        raise SystemExit(0)


class Arguments(Stack):
    def __init__(self, size: int) -> None:
        self.size = size


class Forgetful(Stack):
    """Answers each question once, and then otherwise."""

    def __init__(self) -> None:
        self.asked: set[Any] = set()

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        question = state, f, value, str(result)
        if question in self.asked:
            return None
        self.asked.add(question)
        return super().step(state, f, value, result)
