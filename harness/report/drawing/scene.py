"""The scene of a witness: its operations in the order of their events, and the faults that were in force.

A scene needs only the witness and the history, so every witness that names operations has one. Of too many
operations the scene keeps those that the witness's sentences name, and the last ones. When a witness names only one
operation and those that overlap it, the scene adds the operations just before and beside it, marked as not named.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.report.drawing.cells import value_words
from fencepost.harness.verdict import Witness

#: Nobody reads a list of more operations.
OPERATIONS_MAX: Final = 12
#: How sentences name an operation: `event 12`, or the name of a transaction.
_NAMED: Final = re.compile(r"\bevent (\d+)|\b(T\d+)\b")
#: The most earlier operations that a scene adds.
_BEFORE_MAX: Final = 6
_FAULTS_MAX: Final = 3
#: Functions that ask for a value: an answer without a value means that there was nothing.
_ASKS: Final = frozenset({"read", "dequeue"})


class ShownOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation in words.

    `marked` says whether the witness is about it. `named` says whether the witness names it; the others came just
    before or beside the named ones.
    """

    operation: Operation
    phrase: str
    marked: bool
    named: bool = True


class Disturbance(msgspec.Struct, frozen=True, kw_only=True):
    """A fault from the event that proves it to the event that begins its healing; `end` is None if never healed."""

    phrase: str
    begin: int
    end: int | None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Operations in the order of invocation, how many more were left out, and the faults that were in force."""

    operations: tuple[ShownOperation, ...]
    left_out: int
    faults: tuple[Disturbance, ...] = ()


def witness_operations(witness: Witness, history: History) -> list[Operation]:
    """Return the operations that the witness's events belong to, in the order of invocation."""
    wanted = set(witness.events)
    return [o for o in history.operations if o.invoke_index in wanted or o.complete_index in wanted]


def marked(witness: Witness, operations: list[Operation], names: Mapping[int, str]) -> Operation | None:
    """Return the operation that the witness is about: the first in its sentences, else the last that succeeded."""
    for step in witness.steps:
        for number, name in _NAMED.findall(step):
            for op in operations:
                if (
                    (names.get(op.invoke_index) == name)
                    if name
                    else int(number) in (op.invoke_index, op.complete_index)
                ):
                    return op
    ok = [op for op in operations if op.type is Outcome.OK and op.complete_index is not None]
    return max(ok, key=lambda op: op.complete_index or 0, default=None)


def before(
    witness: Witness, history: History, operations: Sequence[Operation], about: Operation | None
) -> list[Operation]:
    """Return what came just before or beside `about` on its key; nothing if not all `operations` overlap it."""
    # Sentences on transactions need no context.
    if about is None or any(name for step in witness.steps for _, name in _NAMED.findall(step)):
        return []
    ended = about.complete_index
    for op in operations:
        over = op.type is Outcome.OK and op.complete_index is not None and op.complete_index < about.invoke_index
        if over or (ended is not None and op.invoke_index > ended):
            return []
    known = {op.invoke_index for op in operations}
    earlier = [
        op
        for op in history.operations
        if op.key == about.key
        and op.type is not Outcome.FAIL
        and op.invoke_index not in known
        and op.invoke_index < (about.invoke_index if ended is None else ended)
    ]
    latest = sorted(earlier, key=_last_seen)[-_BEFORE_MAX:]
    return sorted(latest, key=lambda op: op.invoke_index)


def _last_seen(op: Operation) -> int:
    """Return the last certain event: for an unknown outcome only the invocation is certain."""
    return op.invoke_index if op.type is Outcome.INFO or op.complete_index is None else op.complete_index


def transaction_names(history: History) -> dict[int, str]:
    """Return the checkers' name of each transaction, by the event of its invocation."""
    return {op.invoke_index: f"T{number}" for number, op in history.transactions.items()}


def scene(witness: Witness, history: History) -> Scene | None:
    """Make the scene of a witness; None when it names no operation."""
    everything = witness_operations(witness, history)
    if not everything:
        return None
    names = transaction_names(history) if any(op.f == "txn" for op in everything) else {}
    about = marked(witness, everything, names)
    named = _most_telling(witness, everything, about)
    known = {op.invoke_index for op in named}
    shown = sorted([*before(witness, history, named, about), *named], key=lambda op: op.invoke_index)
    one_key = len({op.key for op in shown}) == 1
    operations = []
    for op in shown:
        name = names.get(op.invoke_index, "")
        phrase = f"{name}: {operation_words(op)}" if name else operation_words(op, with_key=not one_key)
        operations.append(
            ShownOperation(operation=op, phrase=phrase, marked=op is about, named=op.invoke_index in known)
        )
    last = max(op.invoke_index if op.complete_index is None else op.complete_index for op in shown)
    return Scene(
        operations=tuple(operations),
        left_out=len(everything) - len(named),
        faults=_faults(history, shown[0].invoke_index, last),
    )


def _faults(history: History, first: int, last: int) -> tuple[Disturbance, ...]:
    """Return the last few faults that were certainly in force between two events."""
    disturbances = []
    for fault in history.faults:
        if fault.certain_from_ns is None:
            continue
        begin, end = fault.events[1], None if fault.certain_to_ns is None else fault.events[2]
        if begin < last and (end is None or end > first):
            phrase = f"{fault.fault} {','.join(fault.nodes) or fault.target}"
            disturbances.append(Disturbance(phrase=phrase, begin=begin, end=end))
    return tuple(disturbances[-_FAULTS_MAX:])


def _most_telling(witness: Witness, operations: list[Operation], about: Operation | None) -> list[Operation]:
    if len(operations) <= OPERATIONS_MAX:
        return operations
    named = {int(number) for step in witness.steps for number, _ in _NAMED.findall(step) if number}
    # A violation shows at its end, so the last operations tell most.
    order = sorted(
        operations,
        key=lambda op: (op is about, bool(named & {op.invoke_index, op.complete_index}), op.invoke_index),
        reverse=True,
    )
    kept = {op.invoke_index for op in order[:OPERATIONS_MAX]}
    return [op for op in operations if op.invoke_index in kept]


def operation_words(op: Operation, *, with_key: bool = True) -> str:
    """Describe an operation: `write 3`, `read = 1`, `cas 1 -> 2`, a transaction by its parts; on request its key."""
    if op.f == "txn":
        return "; ".join(micro_words(op)) or "nothing"
    parts = [op.f, *([op.key] if with_key and op.key is not None else [])]
    if op.f == "cas" and isinstance(op.value, list | tuple) and len(op.value) == 2:
        parts.append(f"{value_words(op.value[0])} -> {value_words(op.value[1])}")
    elif op.value is not None:
        parts.append(value_words(op.value))
    phrase = " ".join(parts)
    # In Python True equals 1; here they differ.
    differs = op.result != op.value or type(op.result) is not type(op.value)
    if op.type is Outcome.OK and (differs if op.result is not None else op.f in _ASKS):
        phrase += f" = {value_words(op.result)}"
    return phrase


def outcome_words(op: Operation) -> str:
    """Describe an outcome: `ok`, `failed`, or that it may still happen; with the error."""
    outcome = {Outcome.OK: "ok", Outcome.FAIL: "failed"}.get(op.type, "unknown, may happen later")
    return f"{outcome} ({op.error})" if op.error and op.type is not Outcome.OK else outcome


def micro_words(op: Operation) -> list[str]:
    """Describe a transaction's micro-operations: `append x 1`, `r x = [1 2]`, `r x` for a read without an answer."""
    answered = op.type is Outcome.OK and op.result is not None
    given = op.result if answered else op.value
    if not isinstance(given, list):
        return [f"= {value_words(given)}"]
    return [_micro(micro, answered) for micro in given]


def _micro(micro: object, answered: bool) -> str:
    if not isinstance(micro, list) or len(micro) != 3:
        return value_words(micro)
    f, key, value = micro
    f = str(f).removeprefix(":")
    if f != "r":
        return f"{f} {value_words(key)} {value_words(value)}"
    return f"r {value_words(key)} = {value_words(value)}" if answered else f"r {value_words(key)}"
