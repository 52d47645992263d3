"""A counter and a bank as plain sequential objects."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from fencepost.checkers.objects.specification import Move, Specification, ended, is_known, text
from fencepost.harness.history import Operation, Value

#: `about` of a bank's total, which no transfer changes.
TOTAL: Final = "total"


class CounterObject(Specification):
    start = 0

    def moves(self, op: Operation) -> Sequence[Move]:
        if op.f == "read":
            return (("read", self._sum(op)),) if is_known(op) else ()
        return (("add", self._by(op)),)

    def _sum(self, read: Operation) -> int:
        return 0 if read.result is None else int(read.result)

    def _by(self, op: Operation) -> int:
        by = 1 if op.value is None else int(str(op.value))
        return -by if op.f == "decrement" else by

    def step(self, state: Any, move: Move) -> Any:
        return state + move[1] if move[0] == "add" else state if state == move[1] else None

    def changes(self, op: Operation) -> bool:
        return op.f != "read" and self._by(op) != 0

    def after(self, op: Operation) -> Any:
        return self._sum(op) if op.f == "read" else None

    def refutes(self, start: Any, must: Sequence[Operation], may: Sequence[Operation]) -> bool:
        """A read beyond what those before it and any of those beside it can make."""
        changes = [(op, self._by(op), op in must) for op in (*must, *may) if op.f != "read"]
        for read in (op for op in must if op.f == "read"):
            least = most = start
            for op, by, certain in changes:
                if certain and ended(op) < read.invoke_index:
                    least, most = least + by, most + by
                elif op.invoke_index < ended(read):
                    least, most = least + min(by, 0), most + max(by, 0)
            if not least <= self._sum(read) <= most:
                return True
        return False


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
        result: Any = op.result
        return {
            _account(name): balance
            for name, balance in (result.items() if isinstance(result, dict) else enumerate(result))
        }

    def moves(self, op: Operation) -> Sequence[Move]:
        if op.f == "read":
            if not is_known(op):
                return ()
            balances = self._balances(op)
            if self._about is not None and TOTAL in self._about:
                return (("total", min(balances.values(), default=0), sum(balances.values())),)
            return (("read", *(balances.get(name, 0) for name in self._accounts)),)
        source, target, amount = self._transfer(op)
        if not {source, target} & set(self._accounts) or (self._about is not None and TOTAL in self._about):
            return ()
        return (("move", *(self._accounts.index(n) if n in self._accounts else -1 for n in (source, target)), amount),)

    def step(self, state: Any, move: Move) -> Any:
        kind, *numbers = state
        if move[0] == "total":
            after = ("total", move[2])
            return after if int(str(move[1])) >= 0 and state in (self.start, after) else None
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
