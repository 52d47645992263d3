"""Kafka's sends and polls as they stand in a history: what each operation sent, and what its polls returned."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.positions import is_ok
from fencepost.checkers.violations.impossible import integer, is_same, named, something, unanswered, wrong
from fencepost.harness.history import Operation, Value

_MOVES: Final = frozenset({"send", "poll", "txn"})


class MovedRecord(msgspec.Struct, frozen=True):
    """A value of a key at the offset that `op` names; `offset` is None if it is unknown."""

    op: Operation
    key: str
    offset: int | None
    value: Value


class Moved(msgspec.Struct):
    """The sends and polls of one operation, in order."""

    op: Operation
    sent: list[MovedRecord]
    polls: list[list[MovedRecord]]
    #: True: the process polls keys that it was assigned, not keys that it subscribed to.
    is_assigned: bool = False

    @property
    def polled(self) -> list[MovedRecord]:
        return [record for poll in self.polls for record in poll]


def all_moved(operations: Sequence[Operation]) -> list[Moved]:
    moved: list[Moved] = []
    assigned = set[int]()
    for op in operations:
        if op.f in _MOVES:
            each = _moved(op)
            each.is_assigned = op.process in assigned
            moved.append(each)
        elif op.f == "assign" and is_ok(op):
            assigned.add(op.process)
        else:
            assigned.discard(op.process)
    return moved


def read_answer(op: Operation) -> None:
    """Check what an operation asked for and was answered; raises MalformedHistory."""
    if op.f not in _MOVES:
        return
    moved, request = _moved(op), _moved(unanswered(op))
    sent, meant = ([(record.key, record.value) for record in each.sent] for each in (moved, request))
    if len(sent) != len(meant) or not all(map(is_same, chain(*sent), chain(*meant))):
        wrong(op, f"{op.f} of {named(op.value)} returned {named(op.result)}; expected the same sends")


def _moved(op: Operation) -> Moved:
    """Return the sends and polls of an operation; if it is not ok, only its intended sends are known."""
    given: Any = op.result if is_ok(op) and op.result is not None else op.value
    if not isinstance(given, list) or not all(isinstance(micro, list) and micro for micro in given):
        wrong(op, f"{op.f} is {given!r:.80}; expected a list of [send key value] and [poll]")
    moved = Moved(op, [], [])
    for micro in given:
        match [str(micro[0]).removeprefix(":"), *micro[1:]]:
            case ["send", key, value]:
                moved.sent.append(_sent(op, _key(key), value))
            case ["poll"]:
                pass
            case ["poll", dict(found)] if is_ok(op):
                moved.polls.append(list(_polled(op, found)))
            case ["poll", None | dict()] if not is_ok(op):
                pass
            case _:
                wrong(op, f"{op.f} has {micro!r:.80}; expected [send key value] or [poll {{key: [[offset value]]}}]")
    return moved


def _sent(op: Operation, key: str, value: Value) -> MovedRecord:
    # The invocation has the value alone; some clients write [offset value] only if the offset is known.
    if is_ok(op) and isinstance(value, list) and len(value) == 2:
        offset = None if value[0] is None else integer(op, value[0], "an offset", least=0, answer=True)
        return MovedRecord(op, key, offset, something(op, value[1], "what was sent"))
    return MovedRecord(op, key, None, something(op, value, "what was sent"))


def _polled(op: Operation, replies: dict[str, Any]) -> Iterator[MovedRecord]:
    for key, pairs in replies.items():
        for pair in pairs if isinstance(pairs, list) else wrong(op, f"a poll of {key} returned {pairs!r:.80}, no list"):
            if not isinstance(pair, list) or len(pair) != 2:
                wrong(op, f"a poll of {key} returned {pair!r:.80}; expected [offset value]")
            yield MovedRecord(
                op,
                key,
                integer(op, pair[0], "an offset", least=0, answer=True),
                something(op, pair[1], "what was polled"),
            )


def _key(key: Value) -> str:
    """Return the key as text, as the key of a map has it."""
    return key if isinstance(key, str) else msgspec.json.encode(key, order="deterministic").decode()


def polls(op: Operation) -> bool:
    return any(isinstance(micro, list) and str(micro[0]).endswith("poll") for micro in op.value or () if micro)
