"""Random histories of objects beyond registers: valid as they are made, then perhaps bent."""

import random
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fencepost.harness.history import OpEvent, Outcome

#: Model, and what a random operation of it is: its function and value.
FUNCTIONS: Final[dict[str, Callable[[random.Random], tuple[str, Any]]]] = {
    "counter": lambda rng: rng.choice(
        [("add", rng.randrange(-2, 4)), ("increment", None), ("decrement", None), ("read", None), ("read", None)]
    ),
    "queue": lambda rng: rng.choice([("enqueue", rng.randrange(6)), ("dequeue", None)]),
    "mutex": lambda rng: (rng.choice(["acquire", "release"]), None),
    "owner-mutex": lambda rng: (rng.choice(["acquire", "release"]), None),
    "fenced-mutex": lambda rng: (rng.choice(["acquire", "release"]), None),
    "semaphore:2": lambda rng: (rng.choice(["acquire", "release"]), rng.choice([None, 1, 2])),
    "grow-only-set": lambda rng: rng.choice(
        [("add", rng.randrange(9)), ("contains", rng.randrange(9)), ("read", None)]
    ),
    "add-remove-set": lambda rng: rng.choice(
        [("add", rng.randrange(4)), ("remove", rng.randrange(4)), ("contains", rng.randrange(4)), ("read", None)]
    ),
}


class Object:
    """The object itself, one step at a time; a step that it refuses changes nothing."""

    def __init__(self) -> None:
        self.sum = 0
        self.held: list[int] = []
        self.holder: int | None = None
        self.out = 0
        self.token = 0

    def step(self, model: str, process: int, f: str, value: Any) -> tuple[bool, Any]:
        """Whether it goes, and what it returns."""
        match f:
            case "add" if model == "counter":
                self.sum += value
            case "increment" | "decrement":
                self.sum += 1 if f == "increment" else -1
            case "read" if model == "counter":
                return True, self.sum
            case "enqueue":
                self.held.append(value)
            case "dequeue":
                return True, self.held.pop(0) if self.held else None
            case "add":
                self.held = sorted({*self.held, value})
            case "remove":
                self.held = [element for element in self.held if element != value]
            case "contains":
                return True, value in self.held
            case "read":
                return True, list(self.held)
            case "acquire" | "release" if model.startswith("semaphore"):
                out = self.out + (value or 1) * (1 if f == "acquire" else -1)
                if not 0 <= out <= 2:
                    return False, None
                self.out = out
            case "acquire":
                if self.holder is not None:
                    return False, None
                self.holder, self.token = process, self.token + 1
                return True, self.token if model == "fenced-mutex" else None
            case _:
                if self.holder is None or (model != "mutex" and self.holder != process):
                    return False, None
                self.holder = None
        return True, value if f in ("add", "remove", "enqueue") else None


class _Call(msgspec.Struct):
    invoked: float
    effect: float
    returned: float
    client: int
    process: int = 0
    f: str = ""
    value: Any = None
    type: Outcome = Outcome.OK
    result: Any = None


def history(rng: random.Random, model: str, operations: int, clients: int, info: float, bends: int) -> list[OpEvent]:
    """Events of one object; a process that gets no answer is succeeded by another one."""
    clock = [0.0] * clients
    calls = []
    for _ in range(operations):
        client = rng.randrange(clients)
        invoked = clock[client] + rng.random()
        effect = invoked + rng.random()
        clock[client] = effect + rng.random()
        calls.append(_Call(invoked, effect, clock[client], client))
    calls.sort(key=lambda call: call.effect)
    subject, process = Object(), list(range(clients))
    for call in calls:
        call.process = process[call.client]
        call.f, call.value = FUNCTIONS[model](rng)
        unknown = rng.random() < info
        if unknown:
            call.type = Outcome.INFO
            process[call.client] += clients
        if unknown and rng.random() < 0.5:
            continue
        goes, call.result = subject.step(model, call.process, call.f, call.value)
        if not goes and not unknown:
            call.type = Outcome.FAIL
    for _ in range(bends):
        _bend(rng, model, rng.choice(calls))
    return _events(calls)


def _bend(rng: random.Random, model: str, call: _Call) -> None:
    """Another result, another outcome, or a shorter time."""
    if call.type is Outcome.FAIL:
        call.type = Outcome.OK
        call.result = rng.randrange(1, 6) if model == "fenced-mutex" and call.f == "acquire" else None
    elif call.type is Outcome.OK and rng.random() < 0.7:
        match call.f:
            case "read" if model == "counter":
                call.result += rng.choice([-1, 1])
            case "dequeue":
                call.result = rng.choice([None, rng.randrange(6)])
            case "contains":
                call.result = not call.result
            case "read":
                call.result = call.result[1:] if rng.random() < 0.5 else [*call.result, rng.randrange(4)]
            case "acquire" if model == "fenced-mutex":
                call.result += rng.choice([-1, 1])
            case _:
                call.type = Outcome.FAIL
    else:
        call.invoked = call.effect + 0.5 * (call.returned - call.effect)


def _events(calls: list[_Call]) -> list[OpEvent]:
    moments = sorted(
        [(call.invoked, 0, i) for i, call in enumerate(calls)] + [(call.returned, 1, i) for i, call in enumerate(calls)]
    )
    events = []
    for index, (_, ends, i) in enumerate(moments):
        call = calls[i]
        result = call.result if call.type is Outcome.OK else None
        events.append(
            OpEvent(
                index=index,
                time_ns=index,
                type=call.type if ends else Outcome.INVOKE,
                process=call.process,
                f=call.f,
                node="",
                value=result if ends and call.f in ("read", "dequeue", "contains", "acquire") else call.value,
            )
        )
    return events
