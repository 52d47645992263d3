"""An append-only log: `append` of a value returns [offset, value], `read` of an offset returns [offset, value].

Offsets grow with every append, not always by one. A read returns nil as the value where there is nothing (yet).
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from fencepost.checkers.facts.positions import answered, is_ok, not_failed
from fencepost.checkers.findings.finding import Finding, describe
from fencepost.checkers.findings.impossible import integer, is_same, named, something, unreadable, whole, wrong
from fencepost.checkers.findings.numbers import Numbers
from fencepost.checkers.objects.calls import CallColumns
from fencepost.checkers.objects.judging import ObjectKind, RefutedObject, judge
from fencepost.checkers.objects.rules import Chance
from fencepost.harness.history import History, Operation, Value
from fencepost.harness.verdict import Facts, Verdict

_APPEND: Final = 0
_READ: Final = 1
_PAST: Final = 2


def check(history: History, facts: Facts) -> list[Verdict]:
    return judge(APPEND_LOG, history, facts)


def record(op: Operation) -> tuple[int, Value]:
    """Offset and value that an ok operation returned."""
    if not isinstance(op.result, list) or len(op.result) != 2:
        wrong(op, f"{op.f} returned {named(op.result)}; expected [offset, value]", answer=True)
    offset, value = integer(op, op.result[0], "an offset", least=0, answer=True), op.result[1]
    if op.f == "append" and value is not None and not is_same(value, op.value):
        wrong(op, f"append completes with {value!r:.80}, but was invoked with {op.value!r:.80}", answer=True)
    if op.f == "read" and offset != whole(op, op.value, "the offset of a read"):
        wrong(op, f"read of offset {op.value!r:.80} returned offset {offset}", answer=True)
    return offset, op.value if op.f == "append" else value


def _read(op: Operation) -> None:
    if op.f == "append":
        something(op, op.value, "the value of an append")
    else:
        whole(op, op.value, "the offset of a read")
    if is_ok(op):
        record(op)


def _impossible(operations: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
    """Find answers without an offset; where all say nothing, or what they were asked for, the file lacks offsets."""
    if all(op.result is None or is_same(op.result, op.value) for op in operations if is_ok(op)):
        return
    yield from unreadable(_read)(operations)


def placed(operations: Sequence[Operation]) -> list[tuple[Operation, int]]:
    """Every append that went into the log for certain, with its offset.

    One of unknown outcome did when a read found what no acknowledged append put there. Of several such that append the
    same, the one invoked first went to the smallest offset: if it can be explained at all, it can be so.
    """
    numbers = Numbers()
    known = [(op, record(op)[0]) for op in operations if op.f == "append" and is_ok(op)]
    acknowledged = {(numbers.number(op.value), offset) for op, offset in known}
    offsets_read: dict[int, set[int]] = {}
    for op in operations:
        if op.f == "read" and is_ok(op):
            offset, value = record(op)
            if value is not None and (numbers.number(value), offset) not in acknowledged:
                offsets_read.setdefault(numbers.number(value), set()).add(offset)
    unknown: dict[int, list[Operation]] = {}
    for op in not_failed(operations):
        if op.f == "append" and not is_ok(op):
            unknown.setdefault(numbers.number(op.value), []).append(op)
    for number, offsets in offsets_read.items():
        known += zip(unknown.get(number, ()), sorted(offsets), strict=False)
    return known


def _encode(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
    appended = placed(operations)
    for op, offset in appended:
        calls.add(op, subject, _APPEND, offset)
    offsets = {offset for _, offset in appended}
    for op in operations:
        if op.f == "read" and is_ok(op):
            offset, value = record(op)
            # Where nothing ever was there may be a gap.
            if value is not None or offset in offsets:
                calls.add(op, subject, _READ if value is not None else _PAST, offset)


def _flaws(operations: Sequence[Operation]) -> list[Finding]:
    return list(_each_flaw(operations)) or list(_read_too_early(operations))


def _read_too_early(operations: Sequence[Operation]) -> Iterator[Finding]:
    """Reads that were over before the append of unknown outcome that they show was asked for.

    Where this finds nothing, each of these appends has time to take effect before the first read of its offset returns:
    the search makes it an operation that has to happen.
    """
    first_read: dict[int, Operation] = {}
    for op in operations:
        if op.f == "read" and is_ok(op) and record(op)[1] is not None:
            known = first_read.setdefault(record(op)[0], op)
            if answered(op) < answered(known):
                first_read[record(op)[0]] = op
    for append, offset in placed(operations):
        read = first_read.get(offset)
        if read is not None and not is_ok(append) and answered(read) < append.invoke_index:
            steps = (
                f"{describe(read)} returned {record(read)[1]!r:.80}.",
                f"{describe(append)} came only after that, and nothing else can have put it there.",
            )
            yield Finding(about=0, anomaly="phantom-read", operations=(read, append), steps=steps)


def _each_flaw(operations: Sequence[Operation]) -> Iterator[Finding]:
    """Offsets with two values, offsets given out twice, values in more places than were appended."""
    numbers = Numbers()
    at: dict[int, Operation] = {}
    given: dict[int, Operation] = {}
    places: dict[int, dict[int, Operation]] = {}
    reported = set[int]()
    for op in operations:
        if op.f == "append":
            something(op, op.value, "the value of an append")
        if not is_ok(op):
            continue
        offset, value = record(op)
        if value is None:
            continue
        places.setdefault(numbers.number(value), {}).setdefault(offset, op)
        other = at.setdefault(offset, op)
        if numbers.number(record(other)[1]) != numbers.number(value) and offset not in reported:
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
    appended = Counter(numbers.number(op.value) for op in not_failed(operations) if op.f == "append")
    for number, offsets in places.items():
        if len(offsets) > appended[number]:
            shows = tuple(op for _, op in sorted(offsets.items()))
            value = numbers.named[number]
            steps = (f"{value!r:.80} stands at {len(offsets)} offsets and was appended {appended[number]} times.",)
            anomaly = "duplicate-element" if appended[number] else "invented-element"
            yield Finding(about=0, anomaly=anomaly, operations=(shows[-1], *shows[:-1]), steps=steps)


def _explain(refused: RefutedObject) -> tuple[str, tuple[str, ...]]:
    op = refused.failed
    offset, value = record(op)
    if op.f == "append":
        return "offset-order", (f"In every order an offset beyond {offset} was given out before.",)
    if value is not None:
        return "phantom-read", ("It was read before it can have been appended, or after greater offsets were.",)
    again = any(
        o.f == "read" and is_ok(o) and record(o)[0] == offset and record(o)[1] is not None for o in refused.operations
    )
    return ("stale-read" if again else "lost-append"), (f"An append to offset {offset} was over before.",)


def _holds(state: Sequence[int], names: Sequence[Value]) -> str:
    return f"a log whose last offset is {state[0]}" if state[0] >= 0 else "an empty log"


APPEND_LOG: Final = ObjectKind(
    name="append-log",
    native="log",
    changes=frozenset({"append"}),
    tells=frozenset({"read"}),
    impossible=_impossible,
    encode=_encode,
    flaws=_flaws,
    explain=_explain,
    holds=_holds,
    chances=(
        Chance("inconsistent-offsets", frozenset({"append", "read"}), frozenset({"append", "read"})),
        Chance("duplicate-offset", frozenset({"append"}), frozenset({"append"})),
        Chance("duplicate-element", frozenset({"append", "read"}), frozenset({"append", "read"})),
        Chance("invented-element", frozenset({"read"})),
        Chance("offset-order", frozenset({"append"}), frozenset({"append"})),
        Chance("phantom-read", frozenset({"read"}), frozenset({"append"})),
        Chance("stale-read", frozenset({"read"}), frozenset({"append"})),
        Chance("lost-append", frozenset({"read"}), frozenset({"append"})),
    ),
)
