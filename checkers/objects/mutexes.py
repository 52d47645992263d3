"""Locks: `mutex` (anyone may release), `owner-mutex` (only its holder), `fenced-mutex` (each acquire returns a token,
greater than all before), `semaphore` (so many permits).

Operations `acquire` and `release`. What they carry matters in two of them: a fencing token, an integer from 0 or a map
with `fence` or `token`; a semaphore's number of permits, 1 where nothing is said. The holder is the process. A process
whose operation has no answer never acts again, so what it holds then stays held.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

from fencepost.checkers.facts.positions import answered, is_ok, not_failed
from fencepost.checkers.findings.finding import Finding, describe
from fencepost.checkers.findings.impossible import integer, is_same, named, nothing_impossible, unreadable, whole, wrong
from fencepost.checkers.objects.calls import CallColumns
from fencepost.checkers.objects.judging import ObjectKind, RefutedObject, judge, no_flaws
from fencepost.checkers.objects.rules import Chance
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import History, Operation, Value
from fencepost.harness.verdict import Facts, Verdict

_ACQUIRE: Final = 0
_RELEASE: Final = 1
_CODES: Final = {"acquire": _ACQUIRE, "release": _RELEASE}
_ACQUIRES: Final = frozenset({"acquire"})
_BOTH: Final = frozenset(_CODES)
_TOKEN_NAMES: Final = ("fence", "token", ":fence", ":token")


def check_mutex(history: History, facts: Facts) -> list[Verdict]:
    return judge(MUTEX, history, facts)


def check_owner_mutex(history: History, facts: Facts) -> list[Verdict]:
    return judge(OWNER_MUTEX, history, facts)


def check_fenced_mutex(history: History, facts: Facts) -> list[Verdict]:
    return judge(FENCED_MUTEX, history, facts)


def check_semaphore(history: History, facts: Facts) -> list[Verdict]:
    return judge(SEMAPHORE, history, facts, permits=permits_of(facts.options.get("parameter", "")))


def permits_of(parameter: str) -> int:
    """How many permits the model's parameter says, as in `semaphore:3`; raises UsageError."""
    if not parameter.isascii() or not parameter.isdigit() or not 1 <= int(parameter) < 2**31:
        raise UsageError(
            f"a semaphore of {parameter or 'unknown size'}; expected how many permits it has",
            hint="--model semaphore:3 is one of three permits",
        )
    return int(parameter)


def _encode_mutex(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
    for op in not_failed(operations):
        calls.add(op, subject, _CODES[op.f])


def _encode_owned(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
    for op in not_failed(operations):
        calls.add(op, subject, _CODES[op.f], op.process)


def _encode_fenced(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
    # The search compares tokens only, so that their ranks do for it; a token may be larger than what it can hold.
    tokens = sorted({token_of(op) for op in operations if op.f == "acquire" and is_ok(op)})
    ranks = {token: calls.numbers.number([len(calls.subjects), token]) for token in tokens}
    for op in not_failed(operations):
        if op.f == "release":
            calls.add(op, subject, _RELEASE, op.process)
        elif is_ok(op):
            # One of unknown outcome has no token, and constrains nothing: its process never releases.
            calls.add(op, subject, _ACQUIRE, op.process, ranks[token_of(op)])


def _encode_semaphore(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
    for op in not_failed(operations):
        calls.add(op, subject, _CODES[op.f], count_of(op))


def count_of(op: Operation) -> int:
    """How many permits an operation is about."""
    count = 1 if op.value is None else integer(op, op.value, "the number of permits", least=0)
    return count if count < 2**31 else wrong(op, f"the number of permits is {count}; expected less than 2^31")


def token_of(op: Operation) -> int:
    """The fencing token that an acquire returned."""
    return whole(op, _token(op), "the fencing token of an ok acquire", least=0)


def _token(op: Operation) -> Value:
    value: Any = op.result
    if isinstance(value, dict):
        value = next((value[name] for name in _TOKEN_NAMES if name in value), None)
    return value


def _read_token(op: Operation) -> None:
    if op.f == "acquire" and is_ok(op):
        token_of(op)


def _read_permits(op: Operation) -> None:
    count = count_of(op)
    if is_ok(op) and op.result is not None and not is_same(op.result, count):
        wrong(op, f"{op.f} of {count} completes with {named(op.result)}; expected nothing, or the number of permits")


def _token_flaws(operations: Sequence[Operation]) -> list[Finding]:
    """The first acquire that was asked for after another one was granted, and got no greater token; or the same one."""
    acquired = [op for op in operations if op.f == "acquire" and is_ok(op)]
    granted, at = sorted(acquired, key=answered), 0
    greatest: Operation | None = None
    holders: dict[int, Operation] = {}
    for op in sorted(acquired, key=lambda op: op.invoke_index):
        while at < len(granted) and answered(granted[at]) < op.invoke_index:
            if greatest is None or token_of(granted[at]) > token_of(greatest):
                greatest = granted[at]
            at += 1
        other = holders.setdefault(token_of(op), op)
        if greatest is not None and token_of(op) <= token_of(greatest):
            steps: tuple[str, ...] = (
                f"{describe(greatest)} returned the token {token_of(greatest)}.",
                f"{describe(op)} was asked for after that and returned {token_of(op)}: tokens grow with every acquire.",
            )
            return [Finding(about=0, anomaly="token-order", operations=(op, greatest), steps=steps)]
        if other is not op:
            steps = (f"{describe(op)} and {describe(other)} both returned the token {token_of(op)}.",)
            return [Finding(about=0, anomaly="duplicate-token", operations=(op, other), steps=steps)]
    return []


def _explain(refused: RefutedObject) -> tuple[str, tuple[str, ...]]:
    if refused.failed.f == "acquire":
        return "two-holders", ("In every order the lock is held at that moment.",)
    return "released-while-free", ("In every order the lock is free at that moment.",)


def _explain_owned(refused: RefutedObject) -> tuple[str, tuple[str, ...]]:
    if refused.failed.f == "acquire":
        return "two-holders", ("In every order another process holds the lock, or got a greater token before.",)
    return "released-by-another", (f"In no order does process {refused.failed.process} hold the lock at that moment.",)


def _explain_semaphore(refused: RefutedObject) -> tuple[str, tuple[str, ...]]:
    if refused.failed.f == "acquire":
        return "too-many-holders", ("In every order too few permits are left at that moment.",)
    return "released-while-free", ("In every order fewer permits are out than came back.",)


def _held(state: Sequence[int], names: Sequence[Value]) -> str:
    return "a held lock" if state[0] else "a free lock"


def _owner(state: Sequence[int], names: Sequence[Value]) -> str:
    return f"a lock held by process {state[0]}" if state else "a free lock"


def _fence(state: Sequence[int], names: Sequence[Value]) -> str:
    token: Any = None if state[0] < 0 else names[state[0]]
    last = "no token yet" if token is None else f"the last token {token[1]}"
    return f"{_owner(state[1:], names)} with {last}"


def _permits(state: Sequence[int], names: Sequence[Value]) -> str:
    return f"{state[0]} permits out"


MUTEX: Final = ObjectKind(
    name="mutex",
    native="mutex",
    changes=_BOTH,
    tells=_ACQUIRES,
    impossible=nothing_impossible,
    encode=_encode_mutex,
    flaws=no_flaws,
    explain=_explain,
    holds=_held,
    chances=(
        Chance("two-holders", _ACQUIRES, _ACQUIRES),
        Chance("released-while-free", frozenset({"release"})),
    ),
)
OWNER_MUTEX: Final = ObjectKind(
    name="owner-mutex",
    native="owner-mutex",
    changes=_BOTH,
    tells=_ACQUIRES,
    impossible=nothing_impossible,
    encode=_encode_owned,
    flaws=no_flaws,
    explain=_explain_owned,
    holds=_owner,
    chances=(
        Chance("two-holders", _ACQUIRES, _ACQUIRES),
        Chance("released-by-another", frozenset({"release"})),
    ),
)
FENCED_MUTEX: Final = ObjectKind(
    name="fenced-mutex",
    native="fenced-mutex",
    changes=_BOTH,
    tells=_ACQUIRES,
    impossible=unreadable(_read_token),
    has_rest=False,
    encode=_encode_fenced,
    flaws=_token_flaws,
    explain=_explain_owned,
    holds=_fence,
    chances=(
        Chance("two-holders", _ACQUIRES, _ACQUIRES),
        Chance("released-by-another", frozenset({"release"})),
        Chance("token-order", _ACQUIRES, _ACQUIRES),
        Chance("duplicate-token", _ACQUIRES, _ACQUIRES),
    ),
)
SEMAPHORE: Final = ObjectKind(
    name="semaphore",
    native="semaphore",
    changes=_BOTH,
    tells=_ACQUIRES,
    impossible=unreadable(_read_permits),
    encode=_encode_semaphore,
    flaws=no_flaws,
    explain=_explain_semaphore,
    holds=_permits,
    chances=(
        Chance("too-many-holders", _ACQUIRES),
        Chance("released-while-free", frozenset({"release"})),
    ),
)
