"""Objects that hold values: registers, several registers, a counter, a bank, a log.

`register`: `read`, `write`; `cas-register` also `cas` of [old new]. `multi-register`: `txn` of micro-operations [f,
register, value], which happen at one instant; `r` (`read`) returned the value, nil before any write; `w` (`write`)
writes one that is not nil.

`counter`: `add` of an integer, `increment` and `decrement` (by 1 where nothing is said), `read` of the sum. A read may
return nil in place of 0 until a change was acknowledged: the counter is not there yet.

`bank`: `transfer` of {from, to, amount}, ok only where the account holds enough; `read` of all balances. A read
returns a map of account to balance, or a list of balances by account from 0; an account that it lacks holds nothing.
The balances at first are whatever the first read of an order tells. Accounts are those that a transfer names, and
those that most reads show.

`append-log`: `append` of a value returns [offset, value], `read` of an offset returns [offset, value]. Offsets grow
with every append, not always by one. A read returns nil as the value where there is nothing (yet).
"""

from bisect import bisect_left, bisect_right
from collections import Counter as Counted
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Final

from fencepost.checkers.derived.positions import answered, is_ok, not_failed
from fencepost.checkers.objects.collections import text
from fencepost.checkers.objects.kind import NON_LINEARIZABLE, Call, Calls, Kind, Quick, Refusals, chance
from fencepost.checkers.objects.model import UNKNOWN
from fencepost.checkers.violations.finding import Finding, describe
from fencepost.checkers.violations.impossible import (
    Micro,
    Numbers,
    impossible_answers,
    integer,
    is_same,
    named,
    same_again,
    same_request,
    set_aside,
    something,
    unanswered,
    unreadable,
    whole,
    wrong,
)
from fencepost.harness.history import Operation, Value

_WRITES: Final = {"r": False, "read": False, "w": True, "write": True}
_TXN: Final = frozenset({"txn"})


class MultiRegister(Kind):
    """The state has the number of the value of each register that was written, 0 for nil, in the registers' order."""

    name = "multi-register"
    changes = tells = _TXN
    chances = tuple(chance(name, "txn") for name in ("internal", "phantom-read", "stale-read", "fractured-read"))

    def __init__(self) -> None:
        super().__init__()
        self.number(None)
        self._registers = Numbers()

    def init(self) -> Any:
        return (0,) * len(self._registers.named)

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        held = list(state)
        for writes, register, wanted in value:
            if writes:
                held[register] = wanted
            elif held[register] != wanted:
                return None
        return tuple(held)

    def read(self, op: Operation) -> Call | None:
        request = _micros(unanswered(op))
        if is_ok(op):
            same_request(op, request, _micros(op))
        known = [micro for micro in _micros(op) if micro[0] or is_ok(op)]
        number, register = self.number, self._registers.number
        call = Call("txn", tuple((writes, register(on), number(value)) for writes, on, value in known))
        return call if known or is_ok(op) else None

    def flaws(self, operations: Sequence[Operation], calls: Calls) -> Iterator[Finding]:
        """Reads that disagree with their own transaction, and of values that nobody ever wrote."""
        written = {made for _, call in calls for writes, *made in call.value if writes for made in [tuple(made)]}
        for op, call in calls:
            held: dict[int, int] = {}
            for writes, register, number in call.value:
                on, value = self._registers.named[register], self.value_of(number)
                what = f"{describe(op)} read {value!r:.80} of {on}"
                if not writes and held.get(register, number) != number:
                    steps: tuple[str, ...] = (f"{what}, which to itself held {self.value_of(held[register])!r:.80}.",)
                    yield Finding(about=0, anomaly="internal", operations=(op,), steps=steps)
                    break
                held[register] = number
                if not writes and number and (register, number) not in written:
                    written.add((register, number))
                    steps = (f"{what}.", "Nobody ever wrote that.")
                    yield Finding(about=0, anomaly="phantom-read", operations=(op,), steps=steps)

    def explain(self, failed: Call, states: Sequence[Any], others: Calls) -> tuple[str, str]:
        for register, wanted in self._first_reads(failed):
            if states and wanted not in {state[register] for state in states}:
                on, value = self._registers.named[register], self.value_of(wanted)
                return "stale-read", f"In no order does {on} hold {named(value)} at that moment."
        if states:
            return "fractured-read", "Each of the values may be there then, but not together."
        return NON_LINEARIZABLE, ""

    def show(self, state: Any) -> str:
        held = (f"{self._registers.named[i]} = {self.value_of(n)!r:.40}" for i, n in enumerate(state) if n)
        return ", ".join(held) or "nothing in any register"

    def reads_only(self, call: Call) -> bool:
        return not any(writes for writes, _, _ in call.value)

    def makes(self, call: Call) -> Iterable[Any]:
        """The last write of each register."""
        return {register: (register, value) for writes, register, value in call.value if writes}.values()

    def sees(self, call: Call) -> Iterable[Any]:
        return [made for made in self._first_reads(call) if made[1]]

    def _first_reads(self, call: Call) -> list[tuple[int, int]]:
        """The reads that come before the transaction's own writes of their register."""
        own, reads = set[int](), list[tuple[int, int]]()
        for writes, register, value in call.value:
            if writes:
                own.add(register)
            elif register not in own:
                reads.append((register, value))
        return reads

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        held = {register: value for _, register, value in call.value}
        every = {i for i, on in enumerate(self._registers.named) if about is None or text(on) in about}
        return tuple(held.get(i, 0) for i in range(len(self._registers.named))) if every <= set(held) else None

    def parts(self, call: Call) -> Iterable[str]:
        return [text(self._registers.named[register]) for _, register, _ in call.value]

    def only(self, calls: Calls, about: Collection[str]) -> Calls:
        every = {i for i, register in enumerate(self._registers.named) if text(register) in about}
        own = [(op, call._replace(value=tuple(m for m in call.value if m[1] in every))) for op, call in calls]
        return [(op, call) for op, call in own if call.value]


def _micros(op: Operation) -> list[Micro]:
    """Whether it writes, the register, the value; what reads found is nil where the outcome is unknown."""
    given: Any = op.result if is_ok(op) and op.result is not None else op.value
    if not isinstance(given, list) or not all(isinstance(micro, list) and len(micro) == 3 for micro in given):
        wrong(op, f"a transaction is {given!r:.80}; expected a list of [f register value]")
    parts = []
    for f, register, value in given:
        writes = _WRITES.get(str(f).removeprefix(":"))
        if writes is None:
            wrong(op, f"a transaction has {f!r:.80}; expected r or w")
        parts.append(
            (writes, something(op, register, "a register"), something(op, value, "a value") if writes else value)
        )
    return parts


class Counter(Kind):
    """The state is the sum."""

    name = "counter"
    reads = frozenset({"read"})
    changes = frozenset({"add", "increment", "decrement"})
    tells = reads
    chances = (chance("impossible-value", "read"),)
    refusals: ClassVar[Refusals] = {
        "read": ("impossible-value", "No order of the changes before and beside it makes this sum.")
    }

    def __init__(self, initial: int = 0) -> None:
        super().__init__()
        self._initial = initial

    def init(self) -> Any:
        return self._initial

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        if f == "add":
            return state + value
        return state if state == result else None

    def read(self, op: Operation) -> Call | None:
        if op.f == "read":
            what = "what a counter's read returns"
            return Call(op.f, None, self._sum(op, what)) if is_ok(op) else None
        same_again(op)
        if op.f == "add":
            return Call("add", integer(op, something(op, op.value, "what to add"), "what to add"))
        by = 1 if op.value is None else integer(op, op.value, "the step")
        return Call("add", by if op.f == "increment" else -by)

    def _sum(self, op: Operation, what: str) -> int:
        return self._initial if op.result is None else whole(op, op.result, what)

    def impossible(self, operations: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
        """Find answers that are no integers, and nil after a change."""
        yield from super().impossible(operations)
        changed: dict[str | None, Operation] = {}
        for op in operations:
            if op.f != "read" and is_ok(op) and (op.key not in changed or answered(op) < answered(changed[op.key])):
                changed[op.key] = op
        for op in operations:
            first = changed.get(op.key)
            if op.f == "read" and is_ok(op) and op.result is None and first and answered(first) < op.invoke_index:
                yield op, f"{describe(first)} was acknowledged before; expected an integer"

    def flaws(self, operations: Sequence[Operation], calls: Calls) -> Iterator[Finding]:
        """The first read beyond what all changes that may have come before it can make."""
        changes = [(op, call.value) for op, call in calls if call.f == "add"]
        # Bounds as the events pass: invoked changes may count, acknowledged ones must.
        marks = [(op.invoke_index, min(by, 0), max(by, 0)) for op, by in changes]
        marks += [(answered(op), max(by, 0), min(by, 0)) for op, by in changes if is_ok(op)]
        marks.sort()
        at = [event for event, _, _ in marks]
        lows, highs = (list(accumulate((m[i] for m in marks), initial=self._initial)) for i in (1, 2))
        for read in sorted((op for op in operations if op.f == "read" and is_ok(op)), key=answered):
            # What came while the read was open may count or not.
            during = slice(bisect_right(at, read.invoke_index), bisect_right(at, answered(read)) + 1)
            least, most = min(lows[during]), max(highs[during])
            if not least <= (total := self._sum(read, "")) <= most:
                sums = str(least) if least == most else f"from {least} to {most}"
                steps = (
                    f"{describe(read)} returned {total}.",
                    f"Whatever of the concurrent and unknown changes it saw, the sum is {sums}.",
                )
                yield Finding(about=0, anomaly="impossible-value", operations=(read,), steps=steps)
                return

    def show(self, state: Any) -> str:
        return f"the sum {state}"

    def reads_only(self, call: Call) -> bool:
        return call.f == "read" or call.value == 0

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        return call.result if call.f == "read" else None

    def refutes(self, start: Any, must: Sequence[Call], may: Sequence[Call]) -> bool:
        """A read beyond what all changes can make."""
        every = [call.value for call in (*must, *may) if call.f == "add"]
        least, most = start + sum(by for by in every if by < 0), start + sum(by for by in every if by > 0)
        return any(call.f == "read" and not least <= call.result <= most for call in must)


class Bank(Kind):
    """The state is the balances; before they were told, what each changed by, and the lowest that this ever was."""

    name = "bank"
    changes = frozenset({"transfer"})
    tells = frozenset({"read"})
    chances = (
        chance("negative-balance", "read"),
        chance("wrong-total", "read", "read"),
        chance("overdraft", "transfer"),
        chance("impossible-balances", "read", "read transfer"),
    )
    refusals: ClassVar[Refusals] = {
        "transfer": ("overdraft", "In no order does the account hold as much at that moment."),
        "read": (
            "impossible-balances",
            "The total is right, but no order of the transfers makes these balances.",
        ),
    }

    def __init__(self, initial: dict[str, int] | None = None) -> None:
        super().__init__()
        self._initial = initial
        for account in initial or ():
            self.number(account)

    def init(self) -> Any:
        zero = (0,) * len(self.names.named)
        if self._initial is None:
            return (zero, zero)
        return (self._padded(tuple(self._initial.values())), None)

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        held, lowest = state
        if f == "read":
            result = self._padded(result)
            if lowest is None:
                return state if held == result else None
            covered = all(balance - by + low >= 0 for balance, by, low in zip(result, held, lowest, strict=True))
            return (result, None) if covered else None
        source, target, amount = value
        after = list(held)
        after[source] -= amount
        if lowest is not None:
            lowest = (*lowest[:source], min(lowest[source], after[source]), *lowest[source + 1 :])
        elif after[source] < 0:
            return None
        after[target] += amount
        return (tuple(after), lowest)

    def _padded(self, balances: tuple[int, ...]) -> tuple[int, ...]:
        """With those of accounts that were met later, which hold nothing."""
        return balances + (0,) * (len(self.names.named) - len(balances))

    def read(self, op: Operation) -> Call | None:
        if op.f == "transfer":
            return Call(op.f, self._transfer(op))
        if not is_ok(op):
            return None
        balances = {self.number(name): balance for name, balance in _balances(op).items()}
        return Call(op.f, None, tuple(balances.get(i, 0) for i in range(len(self.names.named))))

    def _transfer(self, op: Operation) -> tuple[int, int, int]:
        same_again(op)
        value: Any = op.value
        plain = {str(name).removeprefix(":"): part for name, part in value.items()} if isinstance(value, dict) else {}
        if set(plain) != {"from", "to", "amount"} or plain["from"] is None or plain["to"] is None:
            wrong(op, f"a transfer of {value!r:.80}; expected a map of from, to and amount")
        source, target = (self.number(_account(plain[side])) for side in ("from", "to"))
        return source, target, integer(op, plain["amount"], "the amount", least=0)

    def impossible(self, operations: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
        """Find answers that are no balances, and accounts that do not exist."""
        strange = impossible_answers(unreadable(self.read), operations)
        yield from strange.values()
        operations = set_aside(operations, strange)
        reads = [(op, _balances(op)) for op in operations if op.f == "read" and is_ok(op)]
        sides: dict[str | None, set[str]] = {}
        for op in operations:
            if op.f == "transfer":
                sides.setdefault(op.key, set()).update(str(self.value_of(i)) for i in self._transfer(op)[:2])
        usual: dict[str | None, Counted[frozenset[str]]] = {}
        for op, balances in reads:
            usual.setdefault(op.key, Counted())[frozenset(balances)] += 1
        for op, balances in reads:
            known = usual[op.key].most_common(1)[0][0] | sides.get(op.key, set())
            if more := [name for name in balances if name not in known]:
                yield op, f"there is no account {', '.join(more[:5])}; expected {', '.join(sorted(known))}"

    def flaws(self, operations: Sequence[Operation], calls: Calls) -> Iterator[Finding]:
        """Balances below 0, and totals that are not that of the first read: transfers move, they make nothing."""
        first: tuple[Operation, int] | None = None
        for op, call in calls:
            if call.f != "read":
                continue
            below = [f"{self.value_of(i)} has {balance}" for i, balance in enumerate(call.result) if balance < 0]
            total = sum(call.result)
            if below:
                steps: tuple[str, ...] = (f"{describe(op)} returned a balance below 0: {', '.join(below[:5])}.",)
                yield Finding(about=0, anomaly="negative-balance", operations=(op,), steps=steps)
            elif first is None:
                first = op, total
            elif total != first[1]:
                steps = (
                    f"{describe(op)} returned balances of {total} in all.",
                    f"{describe(first[0])} returned {first[1]} in all; transfers move money and make none.",
                )
                yield Finding(about=0, anomaly="wrong-total", operations=(op, first[0]), steps=steps)

    def show(self, state: Any) -> str:
        held, lowest = state
        return "balances that no read has told yet" if lowest else f"balances of {', '.join(map(str, held))}"

    def is_spare(self, call: Call) -> bool:
        """Without a read that tells the balances they are only less known."""
        return call.f == "read"

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        return (self._padded(call.result), None) if call.f == "read" else None

    def refutes(self, start: Any, must: Sequence[Call], may: Sequence[Call]) -> bool:
        """A balance below 0, or two totals."""
        reads = [call.result for call in must if call.f == "read"]
        totals = {sum(balances) for balances in reads} | ({sum(start[0])} if start[1] is None else set())
        return len(totals) > 1 or any(balance < 0 for balances in reads for balance in balances)


def _balances(op: Operation) -> dict[str, int]:
    """What an ok read returned, by account."""
    value: Any = op.result
    pairs = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else None
    if pairs is None:
        wrong(op, f"the read of a bank returned {named(value)}; expected a map of account to balance")
    what = "the balance of account"
    return {_account(n): whole(op, balance, f"{what} {_account(n)}") for n, balance in pairs}


def _account(name: Value) -> str:
    return name if isinstance(name, str) else text(name)


class LastOffset(Kind):
    """An append-only log of which it is certain what stands where: the state is the last offset, -1 at first.

    The value of `append`, of `read` where it found something, and of `past` where it found nothing, is the offset.
    """

    reads = frozenset({"read", "past"})

    def init(self) -> Any:
        return -1

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        if f == "append":
            return value if value > state else None
        return state if (value <= state) == (f == "read") else None

    def makes(self, call: Call) -> Iterable[Any]:
        return (call.value,) if call.f == "append" else ()

    def sees(self, call: Call) -> Iterable[Any]:
        return (call.value,) if call.f == "read" else ()


class AppendLog(Kind):
    """The state is a tuple of what stands where: offset and the number of the value, in order.

    The value of an append is that of the number, and where reads found it; its result the offset. The value of a read
    is the offset, its result the number, None where it found nothing.
    """

    name = "append-log"
    reads = frozenset({"read"})
    changes = frozenset({"append"})
    tells = reads
    chances = (
        chance("inconsistent-offsets", "append read", "append read"),
        chance("duplicate-offset", "append", "append"),
        chance("duplicate-element", "append read", "append read"),
        chance("invented-element", "read"),
        chance("offset-order", "append", "append"),
        chance("phantom-read", "read", "append"),
        chance("stale-read", "read", "append"),
        chance("lost-append", "read", "append"),
    )

    def init(self) -> Any:
        return ()

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        last = state[-1][0] if state else -1
        if f == "append":
            number, places = value
            offsets = places if result is UNKNOWN else (result,)
            return [(*state, (offset, number)) for offset in offsets if offset > last] or None
        at = bisect_left(state, (value, -1))
        there = state[at][1] if at < len(state) and state[at][0] == value else None
        return state if there == result else None

    def read(self, op: Operation) -> Call | None:
        if op.f == "append":
            something(op, op.value, "the value of an append")
        else:
            whole(op, op.value, "the offset of a read")
        if is_ok(op):
            record(op)
        return None

    def impossible(self, operations: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
        """Find answers without an offset; where all say nothing, or what was asked for, the file lacks offsets."""
        if not all(op.result is None or is_same(op.result, op.value) for op in operations if is_ok(op)):
            yield from super().impossible(operations)

    def calls(self, operations: Sequence[Operation]) -> list[tuple[Operation, Call]]:
        places: dict[int, set[int]] = {}
        for op in operations:
            if op.f == "read" and is_ok(op) and record(op)[1] is not None:
                places.setdefault(self.number(record(op)[1]), set()).add(record(op)[0])
        calls = list[tuple[Operation, Call]]()
        for op in not_failed(operations):
            if op.f == "append" and is_ok(op):
                calls.append((op, Call("append", (self.number(op.value), ()), record(op)[0])))
            elif op.f == "append":
                seen = tuple(sorted(places.get(self.number(op.value), ())))
                # Elsewhere one of unknown outcome may as well have done nothing.
                calls += [(op, Call("append", (self.number(op.value), seen), UNKNOWN))] if seen else []
            elif is_ok(op):
                offset, value = record(op)
                calls.append((op, Call("read", offset, None if value is None else self.number(value))))
        return calls

    def placed(self, operations: Sequence[Operation]) -> list[tuple[Operation, int]]:
        """Every append that went into the log for certain, with its offset.

        One of unknown outcome did when a read found what no acknowledged append put there. Of several such that append
        the same, the one invoked first went to the smallest offset: if it can be explained at all, it can be so.
        """
        calls = self.calls(operations)
        known = [(op, call.result) for op, call in calls if call.f == "append" and call.result is not UNKNOWN]
        acknowledged = {(call.value[0], call.result) for _, call in calls if call.f == "append"}
        offsets_read: dict[int, set[int]] = {}
        unknown: dict[int, list[Operation]] = {}
        for op, call in calls:
            if call.f == "append" and call.result is UNKNOWN:
                unknown.setdefault(call.value[0], []).append(op)
            elif call.f == "read" and call.result is not None and (call.result, call.value) not in acknowledged:
                offsets_read.setdefault(call.result, set()).add(call.value)
        for number, offsets in offsets_read.items():
            known += zip(unknown.get(number, ()), sorted(offsets), strict=False)
        return known

    def quick(self, operations: Sequence[Operation], calls: Calls) -> Quick:
        appended = self.placed(operations)
        searched = [(op, Call("append", offset)) for op, offset in appended]
        offsets = {offset for _, offset in appended}
        for op, call in calls:
            # Where nothing ever was there may be a gap.
            if call.f == "read" and (call.result is not None or call.value in offsets):
                searched.append((op, Call("past" if call.result is None else "read", call.value)))
        return Quick(LastOffset(), {None: searched})

    def flaws(self, operations: Sequence[Operation], calls: Calls) -> Iterator[Finding]:
        flaws = list(self._misplaced(operations))
        yield from flaws or self._read_too_early(operations)

    def _misplaced(self, operations: Sequence[Operation]) -> Iterator[Finding]:
        """Offsets with two values, offsets given out twice, values in more places than were appended."""
        at: dict[int, Operation] = {}
        given: dict[int, Operation] = {}
        places: dict[int, dict[int, Operation]] = {}
        reported = set[int]()
        for op in operations:
            if not is_ok(op) or record(op)[1] is None:
                continue
            offset, value = record(op)
            places.setdefault(self.number(value), {}).setdefault(offset, op)
            other = at.setdefault(offset, op)
            if not is_same(record(other)[1], value) and offset not in reported:
                reported.add(offset)
                steps: tuple[str, ...] = (
                    f"{describe(op)} says that {value!r:.80} stands at offset {offset}.",
                    f"{describe(other)} says that {record(other)[1]!r:.80} does.",
                )
                yield Finding(about=0, anomaly="inconsistent-offsets", operations=(op, other), steps=steps)
            elif op.f == "append" and given.setdefault(offset, op) is not op and offset not in reported:
                reported.add(offset)
                steps = (f"{describe(op)} and {describe(given[offset])} were both given offset {offset}.",)
                yield Finding(about=0, anomaly="duplicate-offset", operations=(op, given[offset]), steps=steps)
        appended = Counted(self.number(op.value) for op in not_failed(operations) if op.f == "append")
        for number, offsets in places.items():
            if len(offsets) > appended[number]:
                shows = tuple(op for _, op in sorted(offsets.items()))
                times = f"stands at {len(offsets)} offsets and was appended {appended[number]} times"
                anomaly = "duplicate-element" if appended[number] else "invented-element"
                steps = (f"{self.value_of(number)!r:.80} {times}.",)
                yield Finding(about=0, anomaly=anomaly, operations=(shows[-1], *shows[:-1]), steps=steps)

    def _read_too_early(self, operations: Sequence[Operation]) -> Iterator[Finding]:
        """Reads that were over before the append of unknown outcome that they show was asked for.

        Where this finds nothing, each of these appends has time to take effect before the first read of its offset
        returns: `LastOffset` makes it an operation that has to happen.
        """
        first_read: dict[int, Operation] = {}
        for op in operations:
            if op.f == "read" and is_ok(op) and record(op)[1] is not None:
                known = first_read.setdefault(record(op)[0], op)
                if answered(op) < answered(known):
                    first_read[record(op)[0]] = op
        for append, offset in self.placed(operations):
            read = first_read.get(offset)
            if read is not None and not is_ok(append) and answered(read) < append.invoke_index:
                steps = (
                    f"{describe(read)} returned {record(read)[1]!r:.80}.",
                    f"{describe(append)} came only after that, and nothing else can have put it there.",
                )
                yield Finding(about=0, anomaly="phantom-read", operations=(read, append), steps=steps)

    def explain(self, failed: Call, states: Sequence[Any], others: Calls) -> tuple[str, str]:
        offset = failed.value
        if failed.f == "append":
            return "offset-order", f"In every order an offset beyond {offset} was given out before."
        if failed.f == "read":
            return "phantom-read", "It was read before it can have been appended, or after greater offsets were."
        again = any(call == Call("read", offset) for _, call in others)
        return "stale-read" if again else "lost-append", f"An append to offset {offset} was over before."

    def show(self, state: Any) -> str:
        return f"a log whose last offset is {state}" if state >= 0 else "an empty log"

    def parts(self, call: Call) -> Iterable[str]:
        offset = call.value if call.f == "read" else call.result
        return () if offset is UNKNOWN else (str(offset),)

    def only(self, calls: Calls, about: Collection[str]) -> Calls:
        own = list[tuple[Operation, Call]]()
        for op, call in calls:
            if call.result is UNKNOWN:
                number, places = call.value
                call = call._replace(value=(number, tuple(offset for offset in places if str(offset) in about)))
            if call.value[1] if call.result is UNKNOWN else any(part in about for part in self.parts(call)):
                own.append((op, call))
        return own


def record(op: Operation) -> tuple[int, Value]:
    """Offset and value that an ok operation on a log returned."""
    if not isinstance(op.result, list) or len(op.result) != 2:
        wrong(op, f"{op.f} returned {named(op.result)}; expected [offset, value]", answer=True)
    offset, value = integer(op, op.result[0], "an offset", least=0, answer=True), op.result[1]
    if op.f == "append" and value is not None and not is_same(value, op.value):
        wrong(op, f"append completes with {value!r:.80}, but was invoked with {op.value!r:.80}", answer=True)
    if op.f == "read" and offset != whole(op, op.value, "the offset of a read"):
        wrong(op, f"read of offset {op.value!r:.80} returned offset {offset}", answer=True)
    return offset, op.value if op.f == "append" else value
