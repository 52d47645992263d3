"""Every built-in object once more, as a user would write it: what each call may return, and the state after it.

From this both sides of a comparison are made: histories, by drawing from what may happen, and a model in Python, by
asking whether what was returned is among it. A call of unknown outcome may have returned any of it, so a model's state
is the set of all that the object may be in.
"""

import random
from collections.abc import Hashable, Iterable
from typing import Any

import msgspec

from fencepost.checkers import UNKNOWN, Model
from fencepost.harness.history import Operation, Outcome

#: Tokens and offsets are below this.
NUMBERS = 9
#: Money in the bank at first, in each account, is below this.
MONEY = 4

Move = tuple[Any, Hashable]


class Twin:
    """One object: `models` are its names; `draw` gives what a process could call."""

    models: tuple[str, ...] = ()

    def starts(self) -> Iterable[Hashable]:
        raise NotImplementedError

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        raise NotImplementedError

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        raise NotImplementedError


class AsModel(Model):
    def __init__(self, twin: Twin) -> None:
        self.twin = twin

    def init(self) -> Hashable:
        return frozenset(self.twin.starts())

    def step(self, state: Any, f: str, value: Any, result: Any) -> Hashable | None:
        after = {
            after
            for before in state
            for returned, after in self.twin.moves(before, f, value)
            if result is UNKNOWN or returned == result
        }
        return frozenset(after) if after else None


class MutexTwin(Twin):
    models = ("mutex",)

    def starts(self) -> Iterable[Hashable]:
        return [False]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        return rng.choice(("acquire", "release")), None

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        if state == (f == "release"):
            yield None, not state


class OwnerTwin(MutexTwin):
    """The process stands in the value."""

    models = ("owner-mutex",)

    def starts(self) -> Iterable[Hashable]:
        return [-1]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        return rng.choice(("acquire", "release")), process

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        if f == "acquire" and state == -1:
            yield None, value
        if f == "release" and state == value:
            yield None, -1


class FencedTwin(OwnerTwin):
    models = ("fenced-mutex",)

    def starts(self) -> Iterable[Hashable]:
        return [(-1, -1)]

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        holder, last = state
        if f == "acquire" and holder == -1:
            # What is bent may be beyond what is drawn.
            for token in range(last + 1, NUMBERS + 4):
                yield token, (value, token)
        if f == "release" and holder == value:
            yield None, (-1, last)


class SemaphoreTwin(Twin):
    models = ("semaphore:3",)

    def starts(self) -> Iterable[Hashable]:
        return [3]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        return rng.choice(("acquire", "release")), rng.choice((None, 1, 2))

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        count = 1 if value is None else value
        left = state - count if f == "acquire" else state + count
        if 0 <= left <= 3:
            yield None, left


class CounterTwin(Twin):
    models = ("counter",)

    def starts(self) -> Iterable[Hashable]:
        return [0]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        f = rng.choice(("add", "increment", "decrement", "read", "read"))
        return f, {"add": rng.choice((-2, 1, 3)), "read": None}.get(f, rng.choice((None, 2)))

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        if f == "read":
            yield state, state
        else:
            by = 1 if value is None else value
            yield None, state - by if f == "decrement" else state + by


class KeyValueTwin(Twin):
    models = ("key-value",)
    values: tuple[str, ...] = ("a", "b", "xa")

    def starts(self) -> Iterable[Hashable]:
        return [""]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        f = rng.choice(("put", "append", "append", "get", "get"))
        return f, None if f == "get" else rng.choice(self.values)

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        yield (state, state) if f == "get" else (None, value if f == "put" else state + value)


class DistinctTwin(KeyValueTwin):
    """Most values have one place."""

    values = tuple("abcdefghijklmnopqrstuvwxyz")


class PrefixTwin(KeyValueTwin):
    """Values are beginnings of others."""

    values = ("a", "ab", "b")


class QueueTwin(Twin):
    models = ("queue",)

    def starts(self) -> Iterable[Hashable]:
        return [()]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        if rng.random() < 0.5:
            return "enqueue", rng.randrange(1, 4) if rng.random() < 0.3 else rng.randrange(4, 1000)
        return "dequeue", None

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        if f == "enqueue":
            yield None, (*state, value)
        elif state:
            yield state[0], state[1:]
        else:
            yield None, ()


class BagTwin(QueueTwin):
    models = ("bag",)

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        if f == "enqueue":
            yield None, tuple(sorted((*state, value)))
        for i, held in enumerate(state if f == "dequeue" else ()):
            yield held, state[:i] + state[i + 1 :]
        if f == "dequeue" and not state:
            yield None, ()


class StackTwin(QueueTwin):
    models = ("stack",)

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        f, value = super().draw(rng, process)
        return {"enqueue": "push", "dequeue": "pop"}[f], value

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        if f == "push":
            yield None, (*state, value)
        else:
            yield state[-1] if state else None, state[:-1]


class PriorityTwin(QueueTwin):
    models = ("priority-queue",)

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        if f == "enqueue":
            yield None, tuple(sorted((*state, value)))
        else:
            yield from super().moves(state, f, value)


class GrowOnlySetTwin(Twin):
    models = ("grow-only-set",)

    def starts(self) -> Iterable[Hashable]:
        return [frozenset()]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        f = rng.choice(("add", "add", "members", "contains"))
        return f, None if f == "members" else rng.randrange(5)

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        match f:
            case "add":
                yield None, state | {value}
            case "remove":
                yield None, state - {value}
            case "contains":
                yield value in state, state
            case _:
                yield sorted(state), state


class SetTwin(GrowOnlySetTwin):
    models = ("add-remove-set",)

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        f = rng.choice(("add", "remove", "members", "contains"))
        return f, None if f == "members" else rng.randrange(3)


class ElementsTwin(SetTwin):
    """Without reads of all, so that elements are judged apart."""

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        return rng.choice(("add", "remove", "contains")), rng.randrange(3)


class LogTwin(Twin):
    models = ("append-log",)

    def starts(self) -> Iterable[Hashable]:
        return [()]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        return ("append", rng.choice("abcdefgh")) if rng.random() < 0.5 else ("read", rng.randrange(NUMBERS - 2))

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        if f == "append":
            last = state[-1][0] if state else -1
            for offset in range(last + 1, NUMBERS):
                yield [offset, value], (*state, (offset, value))
        else:
            yield [value, dict(state).get(value)], state


class MultiRegisterTwin(Twin):
    models = ("multi-register",)

    def starts(self) -> Iterable[Hashable]:
        return [(None, None)]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        kinds = [(rng.choice("rw"), rng.randrange(2)) for _ in range(rng.randrange(1, 4))]
        return "txn", [[f, i, rng.randrange(1, 6) if f == "w" else None] for f, i in kinds]

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        held, done = list(state), []
        for kind, i, written in value:
            if kind == "w":
                held[i] = written
            done.append([kind, i, held[i]])
        yield done, tuple(held)


class BankTwin(Twin):
    models = ("bank",)

    def starts(self) -> Iterable[Hashable]:
        return [(a, b) for a in range(MONEY * 4) for b in range(MONEY * 4)]

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        if rng.random() < 0.4:
            return "read", None
        return "transfer", {"from": rng.randrange(2), "to": rng.randrange(2), "amount": rng.randrange(1, 4)}

    def moves(self, state: Any, f: str, value: Any) -> Iterable[Move]:
        if f == "read":
            yield {"0": state[0], "1": state[1]}, state
        elif state[value["from"]] >= value["amount"]:
            held = list(state)
            held[value["from"]] -= value["amount"]
            held[value["to"]] += value["amount"]
            yield None, tuple(held)


TWINS: tuple[Twin, ...] = (
    MutexTwin(),
    OwnerTwin(),
    FencedTwin(),
    SemaphoreTwin(),
    CounterTwin(),
    KeyValueTwin(),
    DistinctTwin(),
    PrefixTwin(),
    QueueTwin(),
    BagTwin(),
    StackTwin(),
    PriorityTwin(),
    GrowOnlySetTwin(),
    SetTwin(),
    ElementsTwin(),
    LogTwin(),
    MultiRegisterTwin(),
    BankTwin(),
)


class Drawn(msgspec.Struct):
    """One call with the times at which it was invoked and returned; `ok` is whether its answer is known."""

    process: int
    f: str
    value: Any
    result: Any
    invoked: float
    returned: float
    ok: bool


def draw(rng: random.Random, twin: Twin, operations: int, clients: int, info: float) -> list[Drawn]:
    """A history that is linearizable: each call takes effect at one instant between invocation and return."""
    clock, process = [0.0] * clients, list(range(clients))
    spans = []
    width = rng.choice((0.05, 1))
    for _ in range(operations):
        client = min(range(clients), key=clock.__getitem__)
        invoked = clock[client] + rng.expovariate(3)
        effect = invoked + width * rng.expovariate(1)
        clock[client] = effect + width * rng.expovariate(1)
        ok = rng.random() >= info
        spans.append((effect, invoked, clock[client], process[client], ok))
        if not ok:
            process[client] = clients + len(spans)
    state: Any = rng.choice(list(twin.starts()))
    if isinstance(twin, BankTwin):
        state = rng.randrange(MONEY), rng.randrange(MONEY)
    calls = []
    for _, invoked, returned, by, ok in sorted(spans):
        for _ in range(5):
            f, value = twin.draw(rng, by)
            moves = list(twin.moves(state, f, value))[:2]
            if moves:
                break
        else:
            continue
        result, after = rng.choice(moves)
        if ok or rng.random() < 0.5:
            state = after
        calls.append(Drawn(by, f, value, result, invoked, returned, ok))
    return calls


def bend(rng: random.Random, twin: Twin, calls: list[Drawn]) -> None:
    """Change something that may or may not make the history invalid; only an oracle can tell."""
    for _ in range(rng.randrange(1, 4)):
        if not calls:
            return
        call = rng.choice(calls)
        same = [other for other in calls if other.f == call.f and (call.f != "txn" or other.value == call.value)]
        if call.f == "append":
            same = [call]
        other = rng.choice(same)
        match rng.randrange(7):
            case 0 | 1 if call.f == "read" and isinstance(call.result, list):
                call.result = [call.value, rng.choice([None, *"abcd"])]
            case 0 | 5 if call.f in ("acquire", "release") and call.result is None:
                call.f = "release" if call.f == "acquire" or isinstance(twin, FencedTwin) else "acquire"
            case 0 | 1 if isinstance(call.result, dict):
                moved = rng.randrange(-2, 3)
                call.result = {"0": call.result["0"] + moved, "1": call.result["1"] - moved}
            case 0 | 1 | 5 if call.f == "members":
                call.result = sorted(set(call.result) ^ {rng.randrange(5)})
            case 0 | 1 | 5 if call.f == "contains":
                call.result = not call.result
            case 0 | 1 if call.f == "txn":
                call.result = [[f, i, v if f == "w" else rng.choice((None, 1, 2, 3))] for f, i, v in call.result]
            case 1 | 5 if isinstance(twin, KeyValueTwin) and call.f == "get":
                call.result = rng.choice(("", other.result)) + rng.choice(twin.values)
            case 0:
                call.result, other.result = other.result, call.result
            case 1:
                call.result = other.result
            case 2:
                calls.remove(call)
            case 3:
                call.returned = call.invoked + (call.returned - call.invoked) * rng.random()
            case 4:
                call.invoked = call.returned - (call.returned - call.invoked) * rng.random()
            case 5 if call.f == "append" and call.result is not None:
                call.result = [rng.randrange(NUMBERS), call.value]
            case 5 if type(call.result) is int:
                call.result = max(call.result + rng.choice((-1, 1)), 0)
            case _:
                # Unknown from here on: the process's later calls become those of others.
                call.ok = False
                shift = 1 + max(each.process for each in calls)
                for later in calls:
                    if later.process == call.process and later.invoked > call.invoked:
                        later.process += shift
                        if isinstance(twin, OwnerTwin):
                            later.value += shift


def operations_of(calls: list[Drawn]) -> list[Operation]:
    """As the reader of a history pairs them: times are the places of events."""
    times = sorted([call.invoked for call in calls] + [call.returned for call in calls if call.ok])
    place = {time: i for i, time in enumerate(times)}
    found = [
        Operation(
            invoke_index=place[call.invoked],
            complete_index=place[call.returned] if call.ok else None,
            process=call.process,
            f=call.f,
            node="n1",
            type=Outcome.OK if call.ok else Outcome.INFO,
            invoked_ns=place[call.invoked],
            completed_ns=place[call.returned] if call.ok else None,
            value=call.value,
            result=call.result if call.ok else None,
        )
        for call in calls
    ]
    return sorted(found, key=lambda op: op.invoke_index)
