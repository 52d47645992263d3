"""Which changes were made: what the store acknowledged, what current reads show, and what events themselves prove.

An acknowledged write is a change at the position of its answer. So is an entry that was read at the end. A write of
unknown outcome is a change if an event or a read showed its number: nothing else can have put that number there. If no
listener reported it, that proves nothing.

Each event is compared with the known changes. It is *explained* by the acknowledged change at its position, or by a
write of unknown outcome; otherwise it is a finding. One position is one transaction, so an acknowledged write leaves no
room for other keys at its position.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from fencepost.checkers.violations.finding import Finding, by, seconds, shown
from fencepost.checkers.watches.heard import Event, HeardStretch, Mark
from fencepost.harness.history import History, Operation, Outcome

WRITES: Final = frozenset({"put", "cas", "delete", "put-all"})
ENTRIES: Final = "entries"


class KnownChange(msgspec.Struct, frozen=True, gc=False):
    """A change that was certainly made; `proof` shows it. `value` None: deleted, or not told."""

    position: int
    key: str
    deleted: bool
    value: int | None
    proof: Operation

    @property
    def acknowledged_ns(self) -> int | None:
        return self.proof.completed_ns if self.proof.f in WRITES else None


class KnownChanges:
    """All known changes, and what of the events is not explained by any; cost O(n log n)."""

    def __init__(self, history: History, heard: Iterable[HeardStretch]) -> None:
        heard = list(heard)
        self.known: Final[dict[tuple[int, str], KnownChange]] = {}
        self.findings: Final[list[Finding]] = []
        self.explained: Final[list[Event]] = []
        self._taken: dict[int, Operation] = {}
        self._puts: dict[tuple[str, int], Operation] = {}
        self._unknown: dict[str, list[Operation]] = {}
        self._proven: dict[int, int] = {}
        for op in history.operations:
            if op.f in WRITES:
                self._add_write(op)
        for op in history.operations:
            if op.f == ENTRIES and op.type is Outcome.OK:
                for key, value, position in op.result or ():
                    self._add_shown(position, key, value, op)
        for stretch in heard:
            for one in stretch.heard:
                if type(one) is Event:
                    self._explain(one)
                elif type(one) is Mark and one.key and one.value is not None and one.value_position is not None:
                    self._add_shown(one.value_position, one.key, one.value, one.op)
        self.ordered: Final[list[KnownChange]] = sorted(self.known.values(), key=lambda k: (k.position, k.key))
        self.positions: Final[list[int]] = [known.position for known in self.ordered]

    @property
    def acknowledged(self) -> list[KnownChange]:
        return [known for known in self.ordered if known.proof.f in WRITES]

    def may_be_deleted(self, key: str, position: int, by_ns: int) -> bool:
        """Whether a deletion of unknown outcome may have followed the change of `key` at `position` by this time."""
        before = self.known[position, key].proof
        return any(
            op.f == "delete" and op.invoked_ns <= by_ns and (op.ended_ns is None or op.ended_ns >= before.invoked_ns)
            for op in self._unknown.get(key, ())
        )

    def _add_write(self, op: Operation) -> None:
        pairs = list(_written(op))
        for key, value in pairs:
            if value is not None:
                self._puts[key, value] = op
            if op.type is Outcome.INFO:
                self._unknown.setdefault(key, []).append(op)
        position = op.position if op.value_position is None else op.value_position
        if op.type is Outcome.OK and position is not None:
            self._taken[position] = op
            for key, value in pairs:
                self.known[position, key] = KnownChange(position, key, value is None, value, op)

    def _add_shown(self, position: int, key: str, value: int, proof: Operation) -> None:
        """Record that a number in the store was put there, at the position that the store gives with it."""
        put = self._puts.get((key, value))
        if put is not None and put.type is Outcome.INFO and (position, key) not in self.known:
            self._prove(put, position, proof)

    def _prove(self, put: Operation, position: int, proof: Operation) -> None:
        """Record that this write of unknown outcome took effect as a whole at `position`."""
        self._proven.setdefault(put.invoke_index, position)
        for key, value in _written(put):
            self.known.setdefault((position, key), KnownChange(position, key, value is None, value, proof))

    def _explain(self, event: Event) -> None:
        if event.position is None:
            return
        place = (event.position, event.key)
        known = self.known.get(place)
        if known is not None:
            finding = _differs(event, known)
        elif event.position in self._taken:
            finding = _beside(event, self._taken[event.position])
        else:
            finding = self._explain_by_unknown(event, event.position)
        if finding is None:
            self.explained.append(event)
        else:
            self.findings.append(finding)

    def _explain_by_unknown(self, event: Event, position: int) -> Finding | None:
        """Assign this change to a write of unknown outcome; without one, nobody made it.

        Numbers are unique, so one tells which write it was. An event without a number may be of any that there is.
        """
        if event.value is not None:
            put = self._puts.get((event.key, event.value))
            if put is None:
                return _invented(event, None, "Nobody ever wrote it.")
            if not _may_be(put, event) or self._proven.get(put.invoke_index, position) != position:
                return _invented(event, put, _why_not(event, put))
            self._prove(put, position, event.op)
            return None
        candidates = [op for op in self._unknown.get(event.key, ()) if (op.f == "delete") == event.is_delete]
        if not any(_may_be(op, event) for op in candidates):
            what = "deletion" if event.is_delete else "write"
            why = f"No {what} of {event.key} is acknowledged there, and none of unknown outcome was invoked by then."
            return _invented(event, None, why)
        known = KnownChange(position, event.key, event.is_delete, None, event.op)
        self.known.setdefault((position, event.key), known)
        return None


def _may_be(op: Operation, event: Event) -> bool:
    return op.type is Outcome.INFO and op.invoked_ns <= event.at_ns


def _written(op: Operation) -> Iterator[tuple[str, int | None]]:
    """Return each key that a write changes, with its number; None if the key is deleted."""
    match op.f:
        case "put-all":
            yield from ((key, value) for key, value in op.value)
        case "cas":
            yield op.key or "", op.value[1]
        case "delete":
            yield op.key or "", None
        case _:
            yield op.key or "", op.value


def _differs(event: Event, known: KnownChange) -> Finding | None:
    message = _phrase(event)
    if event.is_delete != known.deleted:
        made = "deleted it" if known.deleted else f"wrote {known.value}"
        steps = (f"{message}.", f"The {_describe(known.proof)} {made} at that position.")
        return Finding(anomaly="wrong-kind", operations=(known.proof, event.op), steps=steps)
    if event.value is not None and event.value != known.value:
        steps = (f"{message}.", f"The {_describe(known.proof)} wrote {known.value} at that position.")
        return Finding(anomaly="wrong-value", operations=(known.proof, event.op), steps=steps)
    return None


def _beside(event: Event, owner: Operation) -> Finding:
    why = f"That position is the {_describe(owner)}'s, which did not change {event.key}."
    return _invented(event, owner, why)


def _invented(event: Event, op: Operation | None, why: str) -> Finding:
    shown = (event.op,) if op is None else (op, event.op)
    return Finding(anomaly="invented-event", operations=shown, steps=(f"{_phrase(event)}.", why))


def _why_not(event: Event, op: Operation) -> str:
    match op.type:
        case Outcome.FAIL:
            return f"The {_describe(op)} failed definitely ({op.error or 'no error named'})."
        case Outcome.OK:
            position = op.position if op.value_position is None else op.value_position
            return f"The {_describe(op)} was acknowledged, at position {shown(position)}."
        case _ if op.invoked_ns > event.at_ns:
            return f"The {_describe(op)} was invoked only later, at {seconds(op.invoked_ns)}."
        case _:
            return f"The {_describe(op)} is known to have been made at another position."


def _phrase(event: Event) -> str:
    return f"The {tell(event)}"


def tell(event: Event) -> str:
    """Describe an event, its listener and its time of arrival."""
    what = f"{event.kind} {event.key}" + ("" if event.value is None else f" = {event.value}")
    return (
        f"event '{what}' at position {shown(event.position)}, told to process {event.op.process} on {event.op.node} "
        f"at {seconds(event.at_ns)} (event {event.op.complete_index})"
    )


def _describe(op: Operation) -> str:
    what = f"{op.f} of {op.key}" if op.f != ENTRIES else "final read"
    return f"{what} {by(op)}"


def describe(known: KnownChange) -> str:
    """Describe a change and how it is known."""
    what = f"deletion of {known.key}" if known.deleted else f"{known.key} = {known.value}"
    how = "acknowledged by" if known.proof.f in WRITES else "shown by"
    return f"{what} at position {shown(known.position)}, {how} the {_describe(known.proof)}"
