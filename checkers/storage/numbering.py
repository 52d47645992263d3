"""What an answer cannot contain: by the store's own positions, or by time where servers number writes differently.

A store has one order of writes, and every server numbers a write alike. Then an answer whose value stands at position
v, or whose reply stands at position p when nothing is known of v, cannot contain a write of a later position.

Servers may break that, as those of etcd 3.5.1 do after a kill (etcd#13766): then positions of two servers say nothing
about which write came first, and only time does. An answer with the value of a write that had ended before another one
was invoked cannot contain the other; writes that overlap may stand in either order.

The numbers contradict each other where a value that one write alone wrote is read at another position than that write
was acknowledged at, where two writes were acknowledged at one position, or where a write stands behind one that was
invoked only after it had ended.
"""

from collections.abc import Iterator
from typing import Final

from fencepost.checkers.facts.once import once
from fencepost.checkers.facts.positions import WRITES, ok_reads, ok_writes, view_position, write_position, written
from fencepost.checkers.findings.circumstances import answered_words
from fencepost.checkers.findings.finding import Finding
from fencepost.checkers.findings.words import shown
from fencepost.harness.history import History, Operation, Outcome

RENUMBERED: Final = "renumbered-write"

_Value = tuple[str | None, str]


@once
def views_of(history: History) -> "Views":
    """How this history's answers and writes are compared."""
    return Views(history)


class Views:
    """By `rank`, writes stand in an order; an answer contains no write whose rank is above its `view`."""

    def __init__(self, history: History) -> None:
        self._makers: Final = _makers(history)
        self._placed: Final = {
            value: makers[0]
            for value, makers in self._makers.items()
            if len(makers) == 1 and makers[0].type is Outcome.OK and write_position(makers[0]) is not None
        }
        #: Reads that show a write at another position than its acknowledgement, each with that write.
        self.renumbered: Final[list[tuple[Operation, Operation]]] = []
        #: All reads that tell the position of such a write.
        self.placed_reads: Final[list[Operation]] = []
        for read in ok_reads(history):
            write = self._placed.get(_value(read.key, read.result))
            if write is None or read.value_position is None:
                continue
            self.placed_reads.append(read)
            if read.value_position != write_position(write):
                self.renumbered.append((read, write))
        #: Whether positions of different servers cannot be compared.
        self.by_time: Final = bool(self.renumbered) or bool(order_contradictions(history))

    def rank(self, write: Operation) -> int | None:
        """Return where an acknowledged write stands; None: unknown."""
        return write.invoked_ns if self.by_time else write_position(write)

    def view(self, read: Operation) -> int | None:
        """Up to which rank the answer may contain writes of its key; None where that is not known."""
        if self.by_time:
            maker = self.last_maker(read)
            return None if maker is None else maker.completed_ns
        view = view_position(read)
        write = self._placed.get(_value(read.key, read.result))
        return view if view is None or write is None else max(view, write_position(write) or 0)

    def last_maker(self, read: Operation) -> Operation | None:
        """Return the last to end of the writes that may have made the value of a read; None: one never ended."""
        makers = self._makers.get(_value(read.key, read.result), [])
        if not makers or any(o.type is not Outcome.OK or o.completed_ns is None for o in makers):
            return None
        return max(makers, key=lambda o: o.completed_ns or 0)


def renumbered(history: History, views: Views) -> Iterator[Finding]:
    """Each read that shows a write at another position than it was acknowledged at."""
    for read, write in views.renumbered:
        yield Finding(
            anomaly=RENUMBERED,
            operations=(write, read),
            steps=(
                f"{write.f} of {write.value!r} to {write.key} was acknowledged by {write.node}{epoch_words(write)}, at "
                f"position {shown(write_position(write))}; nobody else wrote that.",
                f"{answered_words(history, read, None)}: {read.result!r}, written at position "
                f"{shown(read.value_position)}{epoch_words(read)}.",
                "A write has one position: the two servers do not hold the same store.",
            ),
            nodes=tuple(dict.fromkeys((read.node, write.node))),
        )


def epoch_words(operation: Operation) -> str:
    return "" if operation.epoch is None else f" in epoch {operation.epoch}"


def _value(key: str | None, value: object) -> _Value:
    return key, repr(value)


def _makers(history: History) -> dict[_Value, list[Operation]]:
    """Every write that may have taken effect, by its key and value; of keys whose writes all say what they write."""
    writes = [o for o in history.operations if o.f in WRITES]
    unsaid = {o.key for o in writes if o.f == "cas" and o.value is None}
    makers: dict[_Value, list[Operation]] = {}
    for write in writes:
        if write.key not in unsaid:
            makers.setdefault(_value(write.key, written(write)), []).append(write)
    return makers


@once
def order_contradictions(history: History) -> list[tuple[Operation, Operation, str]]:
    """List pairs of acknowledged writes whose positions contradict real time, or are shared; with the reason."""
    placed = [
        (position, write.completed_ns, write)
        for write in ok_writes(history)
        if (position := write_position(write)) is not None and write.completed_ns is not None
    ]
    completed = sorted(placed, key=lambda entry: entry[1])
    contradictions = []
    highest, holder_of_highest = -1 << 63, None
    done = 0
    for position, _, write in placed:
        while completed[done][1] < write.invoked_ns:
            if completed[done][0] > highest:
                highest, _, holder_of_highest = completed[done]
            done += 1
        if holder_of_highest is not None and highest >= position:
            why = "had completed before the other was invoked, but stands at or after it"
            contradictions.append((holder_of_highest, write, why))
    holder: dict[int, Operation] = {}
    for position, _, write in placed:
        other = holder.setdefault(position, write)
        if other is not write and (other.completed_ns or 0) >= write.invoked_ns:
            contradictions.append((other, write, "has a position of its own, but both were given the same"))
    return contradictions
