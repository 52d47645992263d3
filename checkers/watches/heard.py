"""What listeners received: stretches of listening, each on one connection and begun by one `watch`.

A stretch ends with the next `watch` of its process, or with its first `next` that failed. Its events stand in the order
in which they came; `workloads.watch` defines how they are recorded.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome

WATCH: Final = "watch"
NEXT: Final = "next"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One reported change of one key. `message` counts what came together; `at` is its place in the stretch."""

    at: int
    message: int
    at_ns: int
    position: int | None
    kind: str
    key: str
    value: int | None
    op: Operation

    @property
    def is_delete(self) -> bool:
        return self.kind == "deleted"


class Mark(msgspec.Struct, frozen=True, gc=False):
    """A bookmark (`key` None) or the answer of a read: all changes up to `position` should have been told before."""

    at: int
    at_ns: int
    position: int
    op: Operation
    key: str | None = None
    value: int | None = None
    value_position: int | None = None
    arms: bool = False


class HeardStretch(msgspec.Struct, kw_only=True):
    """Changes above `after` are told; `resumed` when that was asked for; `store` is where the node's store was."""

    watch: Operation
    after: int
    store: int | None
    heard: list[Event | Mark] = []
    last: Operation

    @property
    def resumed(self) -> bool:
        return self.watch.value is not None

    @property
    def events(self) -> list[Event]:
        return [one for one in self.heard if type(one) is Event]

    @property
    def marks(self) -> list[Mark]:
        return [one for one in self.heard if type(one) is Mark]


def stretches(history: History) -> list[HeardStretch]:
    """List all stretches, in the order in which they began; raises MalformedHistory for results of another form."""
    begun: list[HeardStretch] = []
    current: dict[int, HeardStretch] = {}
    for op in history.operations:
        if op.f == WATCH:
            current.pop(op.process, None)
            if op.type is Outcome.OK:
                if not isinstance(op.result, int):
                    raise MalformedHistory(
                        f"event {op.complete_index}: a watch's result is a number, not {op.result!r}"
                    )
                stretch = HeardStretch(watch=op, after=op.result, store=op.position, heard=[], last=op)
                current[op.process] = stretch
                begun.append(stretch)
        elif op.f == NEXT:
            stretch_or_none = current.get(op.process)
            if stretch_or_none is None:
                continue
            if op.type is not Outcome.OK:
                del current[op.process]
                continue
            stretch_or_none.last = op
            stretch_or_none.heard.extend(_heard(op, len(stretch_or_none.heard)))
    return begun


def _heard(op: Operation, at: int) -> Iterator[Event | Mark]:
    for message, row in enumerate(op.result or ()):
        try:
            parts = list(_parts(op, at, message, row))
        except (TypeError, ValueError, IndexError):
            raise MalformedHistory(f"event {op.complete_index}: {row!r} is nothing that a listener hears") from None
        yield from parts
        at += len(parts)


def _parts(op: Operation, at: int, message: int, row: list[Any]) -> Iterator[Event | Mark]:
    number = op.invoke_index * 4096 + message
    match row:
        case ["changes", at_ns, _, changes]:
            for i, (position, kind, key, value) in enumerate(changes):
                yield Event(at + i, number, at_ns, position, kind, key, value, op)
        case ["bookmark", at_ns, position]:
            yield Mark(at, at_ns, position, op)
        case ["look", at_ns, position, key, value, value_position]:
            yield Mark(at, at_ns, position, op, key, value, value_position)
        case ["armed", at_ns, position, key, value_position]:
            yield Mark(at, at_ns, position, op, key, None, value_position, True)
        case _:
            raise ValueError
