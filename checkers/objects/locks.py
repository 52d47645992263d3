"""Locks: `mutex` (anyone may release), `owner-mutex` (only its holder), `fenced-mutex` (each acquire returns a token,
greater than all before), `semaphore` (so many permits).

Operations `acquire` and `release`. What they carry matters in two of them: a fencing token, an integer from 0 or a map
with `fence` or `token`; a semaphore's number of permits, 1 where nothing is said. The holder is the process. A process
whose operation has no answer never acts again, so what it holds then stays held.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, Final

from fencepost.checkers.derived.positions import answered, is_ok
from fencepost.checkers.objects.kind import Call, Calls, Chance, Kind, Refusals, chance
from fencepost.checkers.violations.finding import Finding, describe
from fencepost.checkers.violations.impossible import integer, is_same, named, whole, wrong
from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.quantities import counted
from fencepost.harness.history import Operation, Value

_TOKEN_NAMES: Final = ("fence", "token", ":fence", ":token")
_TWO_HOLDERS: Final = chance("two-holders", "acquire", "acquire")
_BY_ANOTHER: Final = chance("released-by-another", "release")
_WHILE_FREE: Final = chance("released-while-free", "release")


class Mutex(Kind):
    """Held or free; a release is anyone's."""

    name = "mutex"
    changes = frozenset({"acquire", "release"})
    tells = frozenset({"acquire"})
    chances: tuple[Chance, ...] = (_TWO_HOLDERS, _WHILE_FREE)
    refusals: ClassVar[Refusals] = {
        "acquire": ("two-holders", "In every order the lock is held at that moment."),
        "release": ("released-while-free", "In every order the lock is free at that moment."),
    }

    def __init__(self, initial: bool = False) -> None:
        super().__init__()
        self._initial: Any = initial

    def init(self) -> Any:
        return self._initial

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        return (f == "acquire") if state == (f == "release") else None

    def read(self, op: Operation) -> Call | None:
        return Call(op.f)

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        return call.f == "acquire"

    def show(self, state: Any) -> str:
        return "a held lock" if state else "a free lock"


class OwnerMutex(Mutex):
    """Held by one process, which alone may release it: the value of a call. -1: free."""

    name = "owner-mutex"
    chances: tuple[Chance, ...] = (_TWO_HOLDERS, _BY_ANOTHER)

    def __init__(self, initial: int = -1) -> None:
        super().__init__()
        self._initial = initial

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        if f == "release":
            return -1 if state == value else None
        return value if state == -1 else None

    def read(self, op: Operation) -> Call | None:
        """An acquire without an answer is the last of its process: nobody could release what it took."""
        return Call(op.f, op.process) if op.f == "release" or is_ok(op) else None

    def explain(self, failed: Call, states: Sequence[Any], others: Calls) -> tuple[str, str]:
        if failed.f == "acquire":
            return "two-holders", "In every order another process holds the lock, or got a greater token before."
        return "released-by-another", f"In no order does process {failed.value} hold the lock at that moment."

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        return call.value if call.f == "acquire" else -1

    def show(self, state: Any) -> str:
        return "a free lock" if state == -1 else f"a lock held by process {state}"


class FencedMutex(OwnerMutex):
    """As `OwnerMutex`; the result of an acquire is its token. The state names the holder and the last token."""

    name = "fenced-mutex"
    chances = (
        _TWO_HOLDERS,
        _BY_ANOTHER,
        chance("token-order", "acquire", "acquire"),
        chance("duplicate-token", "acquire", "acquire"),
    )
    has_rest = False

    def init(self) -> Any:
        return (self._initial, -1)

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        holder, last = state
        if f == "release":
            return (-1, last) if holder == value else None
        return (value, result) if holder == -1 and result > last else None

    def read(self, op: Operation) -> Call | None:
        token = token_of(op) if op.f == "acquire" and is_ok(op) else None
        return None if op.f == "acquire" and token is None else Call(op.f, op.process, token)

    def flaws(self, operations: Sequence[Operation], calls: Calls) -> Iterator[Finding]:
        """The first acquire that was asked for after another one was granted, and got no greater token; or the same."""
        acquired = [op for op in operations if op.f == "acquire" and is_ok(op)]
        granted, at = sorted(acquired, key=answered), 0
        greatest: Operation | None = None
        holders: dict[int, Operation] = {}
        for op in sorted(acquired, key=lambda op: op.invoke_index):
            while at < len(granted) and answered(granted[at]) < op.invoke_index:
                if greatest is None or token_of(granted[at]) > token_of(greatest):
                    greatest = granted[at]
                at += 1
            token, other = token_of(op), holders.setdefault(token_of(op), op)
            if greatest is not None and token <= token_of(greatest):
                steps: tuple[str, ...] = (
                    f"{describe(greatest)} returned the token {token_of(greatest)}.",
                    f"{describe(op)} was asked for after that and returned {token}: tokens grow with every acquire.",
                )
                yield Finding(about=0, anomaly="token-order", operations=(op, greatest), steps=steps)
                return
            if other is not op:
                steps = (f"{describe(op)} and {describe(other)} both returned the token {token}.",)
                yield Finding(about=0, anomaly="duplicate-token", operations=(op, other), steps=steps)
                return

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        return (call.value, call.result) if call.f == "acquire" else None

    def show(self, state: Any) -> str:
        holder, last = state
        return f"{super().show(holder)} with {'no token yet' if last < 0 else f'the last token {last}'}"


class Semaphore(Kind):
    """So many permits may be out at once, and never more come back than went. The state is how many are out."""

    name = "semaphore"
    changes = Mutex.changes
    tells = Mutex.tells
    chances = (chance("too-many-holders", "acquire"), _WHILE_FREE)
    refusals: ClassVar[Refusals] = {
        "acquire": ("too-many-holders", "In every order too few permits are left at that moment."),
        "release": ("released-while-free", "In every order fewer permits are out than came back."),
    }

    def __init__(self, permits: int | None, initial: int = 0) -> None:
        super().__init__()
        if type(permits) is not int or not 1 <= permits < 2**31:
            raise UsageError(
                f"a semaphore of {'unknown size' if permits is None else permits}; expected how many permits it has",
                hint="--model semaphore:3 is one of three permits",
            )
        self._permits, self._initial = permits, initial
        self.name = f"semaphore:{permits}"

    def init(self) -> Any:
        return self._initial

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        out = state + value if f == "acquire" else state - value
        return out if 0 <= out <= self._permits else None

    def read(self, op: Operation) -> Call | None:
        count = 1 if op.value is None else integer(op, op.value, "the number of permits", least=0)
        if count >= 2**31:
            wrong(op, f"the number of permits is {count}; expected less than 2^31")
        if is_ok(op) and op.result is not None and not is_same(op.result, count):
            about = f"{op.f} of {count} completes with {named(op.result)}"
            wrong(op, f"{about}; expected nothing, or the number of permits")
        return Call(op.f, count)

    def reads_only(self, call: Call) -> bool:
        return bool(call.value == 0)

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        """Where all permits go or come at once there was only one way."""
        if call.value != self._permits:
            return None
        return self._permits if call.f == "acquire" else 0

    def show(self, state: Any) -> str:
        return f"a semaphore with {counted(state, 'permit')} out"


def token_of(op: Operation) -> int:
    """The fencing token that an acquire returned."""
    value: Value = op.result
    if isinstance(value, dict):
        value = next((value[name] for name in _TOKEN_NAMES if name in value), None)
    return whole(op, value, "the fencing token of an ok acquire", least=0)
