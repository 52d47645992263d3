"""Every built-in object as a sequential specification in plain Python, by which proofs are checked.

Nothing is shared with the native objects or with the rows that they are given. A specification is made for some of what
an object holds (`about`: elements, registers, accounts, offsets, as JSON text; None: all). What an operation does to
the rest is left out of it, which is sound for each object because its parts hold apart: the order of a queue's elements
is that of any of them, a set's elements and a transaction's registers do not know of each other, an account alone must
cover what is taken from it, and a log without some of its entries is a log.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Final

import msgspec

from harness.operation import Operation, Outcome, Value

#: What one operation asks of the object: a name and arguments.
Move = tuple[Hashable, ...]
#: `about` of a bank's total, which no transfer changes.
TOTAL: Final = "total"
_TOKENS: Final = ("fence", "token", ":fence", ":token")


def text(value: Value) -> str:
    """A value so that equal ones are equal."""
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
        told: Any = op.result
        return next(told[name] for name in _TOKENS if name in told) if isinstance(told, dict) else int(told)

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


class CounterObject(Specification):
    start = 0

    def moves(self, op: Operation) -> Sequence[Move]:
        if op.f == "read":
            return (("read", op.result),) if is_known(op) else ()
        return (("add", self._by(op)),)

    def _by(self, op: Operation) -> int:
        by = 1 if op.value is None else int(str(op.value))
        return -by if op.f == "decrement" else by

    def step(self, state: Any, move: Move) -> Any:
        return state + move[1] if move[0] == "add" else state if state == move[1] else None

    def changes(self, op: Operation) -> bool:
        return op.f != "read" and self._by(op) != 0

    def after(self, op: Operation) -> Any:
        return op.result if op.f == "read" else None

    def refutes(self, start: Any, must: Sequence[Operation], may: Sequence[Operation]) -> bool:
        """A read beyond what those before it and any of those beside it can make."""
        changes = [(op, self._by(op), op in must) for op in (*must, *may) if op.f != "read"]
        for read in (op for op in must if op.f == "read"):
            least = most = start
            for op, by, certain in changes:
                if certain and _ended(op) < read.invoke_index:
                    least, most = least + by, most + by
                elif op.invoke_index < _ended(read):
                    least, most = least + min(by, 0), most + max(by, 0)
            if not least <= read.result <= most:
                return True
        return False


class QueueObject(Specification):
    """The state is what is in, the head first, and how many parts of each drain were taken."""

    start = ((), ())

    def __init__(self, operations: Sequence[Operation], about: Collection[str] | None) -> None:
        super().__init__(operations, about)
        self._into = Counter(text(op.value) for op in operations if op.f == "enqueue")
        self._out = Counter(part for op in operations if is_known(op) for part in self._taken(op))
        self._drains = any(op.f == "drain" and is_known(op) for op in operations)
        unknown = {op.invoke_index for op in operations if op.f != "enqueue" and not is_known(op)}
        is_used_up = all(count <= self._out[part] for part, count in self._into.items() if self.concerns(part))
        self._spare = unknown if is_used_up else set[int]()

    def _taken(self, op: Operation) -> list[str]:
        if op.f == "drain":
            return [text(value) for value in op.result] if isinstance(op.result, list) else []
        return [text(op.result)] if op.f == "dequeue" and op.result is not None else []

    def moves(self, op: Operation) -> Sequence[Move]:
        if op.f == "enqueue":
            return (("in", text(op.value)),) if self.concerns(text(op.value)) else ()
        if not is_known(op):
            every = sum(count for part, count in self._into.items() if self.concerns(part))
            return (("take",),) * (1 if op.f == "dequeue" else every)
        if op.f == "dequeue" and op.result is None:
            return (("empty",),)
        taken = [part for part in self._taken(op) if self.concerns(part)]
        if op.f == "dequeue":
            return [("out", part) for part in taken]
        return [("out", part, op.invoke_index, place) for place, part in enumerate(taken)]

    def step(self, state: Any, move: Move) -> Any:
        held, drains = state
        if move[0] == "in":
            return ((*held, move[1]), drains)
        if move[0] == "empty":
            return None if held else state
        if not held or (move[0] == "out" and held[0] != move[1]):
            return None
        if len(move) == 4:
            taken = dict(drains)
            if taken.get(move[2], 0) != move[3]:
                return None
            drains = tuple(sorted((taken | {move[2]: taken.get(move[2], 0) + 1}).items()))
        return (held[1:], drains)

    def changes(self, op: Operation) -> bool:
        return op.f != "dequeue" or not is_known(op) or op.result is not None

    def after(self, op: Operation) -> Any:
        return self.start if not self.changes(op) and not self._drains else None

    def spare(self, named: Collection[int]) -> set[int]:
        """Where known dequeues took as often as anybody enqueued, those of unknown result took nothing of that."""
        return self._spare - set(named)

    def parts(self, op: Operation) -> Iterable[str]:
        return [text(op.value)] if op.f == "enqueue" else self._taken(op) if is_known(op) else ()

    def refutes(self, start: Any, must: Sequence[Operation], may: Sequence[Operation]) -> bool:
        """By counting: found empty though more was in than can be out, or taken more often than put in."""
        held = Counter(start[0])
        certain = sorted(_ended(op) for op in must if op.f == "enqueue")
        into: dict[str, list[int]] = {}
        outs: list[int] = []
        known: dict[str, list[float]] = {}
        for op in (*must, *may):
            for move in self.moves(op):
                if move[0] == "in":
                    into.setdefault(str(move[1]), []).append(op.invoke_index)
                elif move[0] != "empty":
                    outs.append(op.invoke_index)
        for op in must:
            for move in self.moves(op):
                if move[0] == "out":
                    known.setdefault(str(move[1]), []).append(_ended(op))
        outs.sort()
        for op in must:
            if not self.changes(op):
                least = held.total() + bisect_left(certain, op.invoke_index)
                if least > bisect_left(outs, _ended(op)):
                    return True
        for part, ends in known.items():
            made = sorted(into.get(part, ()))
            for count, until in enumerate(sorted(ends), start=1):
                if count > held[part] + bisect_left(made, until):
                    return True
        return False


class SetObject(Specification):
    start = frozenset()

    def moves(self, op: Operation) -> Sequence[Move]:
        if op.f == "members":
            return (("all", self._shown(op)),) if is_known(op) else ()
        if not self.concerns(text(op.value)) or (op.f == "contains" and not is_known(op)):
            return ()
        f = op.f if op.f != "contains" else "has" if op.result else "lacks"
        return ((f, text(op.value)),)

    def _shown(self, op: Operation) -> frozenset[str] | None:
        """None where an element is shown twice."""
        shown = [text(value) for value in op.result] if isinstance(op.result, list) else []
        return frozenset(filter(self.concerns, shown)) if len(set(shown)) == len(shown) else None

    def step(self, state: Any, move: Move) -> Any:
        match move[0]:
            case "add":
                return state | {move[1]}
            case "remove":
                return state - {move[1]}
            case "all":
                return state if state == move[1] else None
        return state if (move[1] in state) == (move[0] == "has") else None

    def changes(self, op: Operation) -> bool:
        return op.f in ("add", "remove")

    def after(self, op: Operation) -> Any:
        if op.f == "members":
            return self._shown(op)
        if self._about is None or len(self._about) != 1 or not self.concerns(text(op.value)):
            return None
        there = op.f == "add" or (op.f == "contains" and op.result is True)
        return frozenset(self._about) if there else frozenset()

    def parts(self, op: Operation) -> Iterable[str]:
        if op.f != "members":
            return [text(op.value)]
        return [text(value) for value in op.result] if is_known(op) and isinstance(op.result, list) else ()


class LogObject(Specification):
    """The state is all that the log may hold: offsets with values. An append of unknown outcome goes to any offset."""

    start = frozenset({frozenset()})

    def __init__(self, operations: Sequence[Operation], about: Collection[str] | None) -> None:
        super().__init__(operations, about)
        #: Where reads found which value: elsewhere an append of unknown outcome may as well have done nothing.
        self._places: dict[str, set[int]] = {}
        for op in operations:
            if op.f == "read" and is_known(op):
                offset, value = self._entry(op)
                if value is not None and self.concerns(str(offset)):
                    self._places.setdefault(value, set()).add(offset)

    def _entry(self, op: Operation) -> tuple[int, str | None]:
        told: Any = op.result
        value = op.value if op.f == "append" else told[1]
        return int(told[0]), None if value is None else text(value)

    def moves(self, op: Operation) -> Sequence[Move]:
        if not is_known(op):
            return (("somewhere", text(op.value)),) if op.f == "append" else ()
        offset, value = self._entry(op)
        return ((op.f, offset, value),) if self.concerns(str(offset)) else ()

    def step(self, state: Any, move: Move) -> Any:
        if move[0] == "somewhere":
            after = {
                world | {(offset, move[1])}
                for world in state
                for offset in self._places.get(str(move[1]), ())
                if _is_beyond(world, offset)
            }
        elif move[0] == "append":
            after = {world | {(move[1], move[2])} for world in state if _is_beyond(world, move[1])}
        elif move[2] is None:
            after = {world for world in state if all(offset != move[1] for offset, _ in world)}
        else:
            after = {world for world in state if (move[1], move[2]) in world}
        return frozenset(after) or None

    def changes(self, op: Operation) -> bool:
        return op.f == "append"

    def parts(self, op: Operation) -> Iterable[str]:
        return [str(self._entry(op)[0])] if is_known(op) else ()


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
        found = []
        for f, register, value in given:
            writes = str(f).removeprefix(":") in ("w", "write")
            if self.concerns(text(register)) and (writes or is_known(op)):
                found.append((writes, text(register), None if value is None else text(value)))
        return found

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


class BankObject(Specification):
    """The state is the balances, or, before a read told them, what they changed by and the lowest of that."""

    def __init__(self, operations: Sequence[Operation], about: Collection[str] | None) -> None:
        super().__init__(operations, about)
        named = {part for op in operations for part in self.parts(op)}
        self._accounts = sorted(part for part in named if self.concerns(part))
        zero = (0,) * len(self._accounts)
        self.start = ("changed", zero, zero)

    def _transfer(self, op: Operation) -> tuple[str, str, int]:
        plain = {str(name).removeprefix(":"): part for name, part in dict(op.value).items()}
        return _account(plain["from"]), _account(plain["to"]), int(plain["amount"])

    def _balances(self, op: Operation) -> dict[str, int]:
        told: Any = op.result
        return {
            _account(name): balance for name, balance in (told.items() if isinstance(told, dict) else enumerate(told))
        }

    def moves(self, op: Operation) -> Sequence[Move]:
        if op.f == "read":
            if not is_known(op):
                return ()
            balances = self._balances(op)
            if self._about is not None and TOTAL in self._about:
                return (("total", min(balances.values()), sum(balances.values())),)
            return (("read", *(balances[name] for name in self._accounts)),)
        source, target, amount = self._transfer(op)
        if not {source, target} & set(self._accounts) or (self._about is not None and TOTAL in self._about):
            return ()
        return (("move", *(self._accounts.index(n) if n in self._accounts else -1 for n in (source, target)), amount),)

    def step(self, state: Any, move: Move) -> Any:
        kind, *numbers = state
        if move[0] == "total":
            told = ("total", move[2])
            return told if int(str(move[1])) >= 0 and state in (self.start, told) else None
        if move[0] == "read":
            read = move[1:]
            if kind == "known":
                return state if numbers[0] == read else None
            changed, lowest = numbers
            openings = [balance - by for balance, by in zip(read, changed, strict=True)]
            covered = all(opening + least >= 0 for opening, least in zip(openings, lowest, strict=True))
            return ("known", read) if covered else None
        _, source, target, amount = move
        return self._moved(state, int(str(source)), int(str(target)), int(str(amount)))

    def _moved(self, state: Any, source: int, target: int, amount: int) -> Any:
        kind, now, *lowest = state
        after = list(now)
        if source >= 0:
            after[source] -= amount
        lows = list(lowest[0]) if lowest else []
        if source >= 0 and kind == "known" and after[source] < 0:
            return None
        if source >= 0 and lows:
            lows[source] = min(lows[source], after[source])
        if target >= 0:
            after[target] += amount
        return (kind, tuple(after), tuple(lows)) if lowest else (kind, tuple(after))

    def changes(self, op: Operation) -> bool:
        return op.f == "transfer"

    def after(self, op: Operation) -> Any:
        (move,) = self.moves(op) or ((),)
        return ("known", move[1:]) if op.f == "read" and move[0] == "read" else None

    def parts(self, op: Operation) -> Iterable[str]:
        if op.f == "transfer":
            return self._transfer(op)[:2]
        return self._balances(op) if is_known(op) else ()


def _account(name: Value) -> str:
    return name if isinstance(name, str) else text(name)


def _is_beyond(world: frozenset[tuple[int, str]], offset: Any) -> bool:
    return all(other < offset for other, _ in world)


def _ended(op: Operation) -> float:
    return op.complete_index if is_known(op) and op.complete_index is not None else float("inf")


_SPECIFICATIONS: Final[dict[str, Callable[[Sequence[Operation], Collection[str] | None], Specification]]] = {
    "mutex": Mutex,
    "owner-mutex": OwnerMutex,
    "fenced-mutex": FencedMutex,
    "counter": CounterObject,
    "linearizable-set": SetObject,
    "queue": QueueObject,
    "append-log": LogObject,
    "multi-register": MultiRegisterObject,
    "bank": BankObject,
}


def specification(name: str, operations: Sequence[Operation], about: Collection[str] | None) -> Specification | None:
    """The object of this name, a semaphore's with its permits (`semaphore:3`); None where there is none."""
    plain, _, parameter = name.partition(":")
    if plain == "semaphore" and parameter.isdigit():
        return Semaphore(operations, about, int(parameter))
    made = _SPECIFICATIONS.get(name)
    return None if made is None else made(operations, about)
