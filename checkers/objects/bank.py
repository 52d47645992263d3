"""Accounts: `transfer` of {from, to, amount}, ok only where the account holds enough; `read` of all balances.

A read returns a map of account to balance, or a list of balances by account from 0; an account that it lacks holds
nothing. The balances at first are those of a read before the first transfer, else whatever the first read of an order
tells. Accounts are those that a transfer names, and those that most reads show.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers.facts.positions import is_ok, not_failed
from fencepost.checkers.findings.finding import Finding, describe
from fencepost.checkers.findings.impossible import (
    impossible_answers,
    integer,
    named,
    same_again,
    set_aside,
    unreadable,
    whole,
    wrong,
)
from fencepost.checkers.objects.calls import CallColumns
from fencepost.checkers.objects.judging import ObjectKind, RefutedObject, judge
from fencepost.checkers.objects.rules import Chance
from fencepost.harness.history import History, Operation, Value
from fencepost.harness.verdict import Facts, Verdict

_TRANSFER: Final = 0
_READ: Final = 1


def check(history: History, facts: Facts) -> list[Verdict]:
    return judge(BANK, history, facts)


class Transfer(msgspec.Struct, frozen=True):
    source: str
    target: str
    amount: int


def transfer_of(op: Operation) -> Transfer:
    """What an operation moves; accounts by their name as a map's key has it."""
    same_again(op)
    value: Any = op.value
    if not isinstance(value, dict):
        wrong(op, f"a transfer of {value!r:.80}; expected a map of from, to and amount")
    plain = {str(name).removeprefix(":"): part for name, part in value.items()}
    if set(plain) != {"from", "to", "amount"} or plain["from"] is None or plain["to"] is None:
        wrong(op, f"a transfer of {value!r:.80}; expected a map of from, to and amount")
    return Transfer(_account(plain["from"]), _account(plain["to"]), integer(op, plain["amount"], "the amount", least=0))


def balances_of(op: Operation) -> dict[str, int]:
    """What an ok read returned, by account."""
    value: Any = op.result
    pairs = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else None
    if pairs is None:
        wrong(op, f"the read of a bank returned {named(value)}; expected a map of account to balance")
    return {_account(name): whole(op, balance, f"the balance of account {_account(name)}") for name, balance in pairs}


def _account(name: Value) -> str:
    return name if isinstance(name, str) else msgspec.json.encode(name, order="deterministic").decode()


def _reads(operations: Iterable[Operation]) -> Iterator[tuple[Operation, dict[str, int]]]:
    return ((op, balances_of(op)) for op in operations if op.f == "read" and is_ok(op))


def accounts_of(operations: Sequence[Operation]) -> list[str]:
    """Return all accounts, in order."""
    sides = {name for op in not_failed(operations) if op.f == "transfer" for name in _sides(op)}
    return sorted(sides.union(*(balances for _, balances in _reads(operations))))


def _sides(op: Operation) -> tuple[str, str]:
    transfer = transfer_of(op)
    return transfer.source, transfer.target


def _read(op: Operation) -> None:
    if op.f == "transfer":
        transfer_of(op)
    elif is_ok(op):
        balances_of(op)


def _impossible(operations: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
    """Find answers that are no balances, and accounts that do not exist."""
    strange = impossible_answers(unreadable(_read), operations)
    yield from strange.values()
    operations = set_aside(operations, strange)
    reads = list(_reads(operations))
    sides = {(op.key, name) for op in operations if op.f == "transfer" for name in _sides(op)}
    usual: dict[str | None, Counter[frozenset[str]]] = {}
    for op, balances in reads:
        usual.setdefault(op.key, Counter())[frozenset(balances)] += 1
    accounts = {key: counts.most_common(1)[0][0] for key, counts in usual.items()}
    for op, balances in reads:
        more = [name for name in balances if name not in accounts[op.key] and (op.key, name) not in sides]
        if more:
            known = ", ".join(sorted({*accounts[op.key], *(name for key, name in sides if key == op.key)}))
            yield op, f"there is no account {', '.join(more[:5])}; expected {known}"


def _encode(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
    accounts = accounts_of(operations)
    place = {name: i for i, name in enumerate(accounts)}
    for op in not_failed(operations):
        if op.f == "transfer":
            moved = transfer_of(op)
            calls.add(op, subject, _TRANSFER, place[moved.source], place[moved.target], moved.amount)
        elif is_ok(op):
            balances = balances_of(op)
            held = (
                integer(op, balances.get(name, 0), f"the balance of account {name}", answer=True) for name in accounts
            )
            calls.add(op, subject, _READ, *held)


def _flaws(operations: Sequence[Operation]) -> list[Finding]:
    return list(_each_flaw(operations))


def _each_flaw(operations: Sequence[Operation]) -> Iterator[Finding]:
    """Balances below 0, and totals that are not that of the first read: transfers move, they make nothing."""
    first: tuple[Operation, int] | None = None
    for op, balances in _reads(operations):
        total = sum(balances.values())
        below = [f"{name} has {balance}" for name, balance in balances.items() if balance < 0]
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


def _explain(refused: RefutedObject) -> tuple[str, tuple[str, ...]]:
    if refused.failed.f == "transfer":
        return "overdraft", ("In no order does the account hold as much at that moment.",)
    return "impossible-balances", ("The total is right, but no order of the transfers makes these balances.",)


def _holds(state: Sequence[int], names: Sequence[Value]) -> str:
    return f"balances of {', '.join(map(str, state))}" if state else "balances that no read has told yet"


BANK: Final = ObjectKind(
    name="bank",
    native="bank",
    changes=frozenset({"transfer"}),
    tells=frozenset({"read"}),
    impossible=_impossible,
    encode=_encode,
    flaws=_flaws,
    explain=_explain,
    holds=_holds,
    chances=(
        Chance("negative-balance", frozenset({"read"})),
        Chance("wrong-total", frozenset({"read"}), frozenset({"read"})),
        Chance("overdraft", frozenset({"transfer"})),
        Chance("impossible-balances", frozenset({"read"}), frozenset({"read", "transfer"})),
    ),
)
