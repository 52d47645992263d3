"""Does a figure again from the rows that it names, by its name alone: what a reader of `verdict.json` can do as well.

The rules are those of `docs/reference/verdict-format.md`: a count has one row for each thing counted; a length of time
lies between two rows, less what lies between further pairs, or is the sum of such pairs; a moment and an epoch stand in
one of the rows.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec

from fencepost.checkers.derived.clocks import OwnTime
from fencepost.harness.history import BeliefEvent, Clock, ClockEvent, Event, History, LogEvent, OpEvent
from fencepost.harness.report.words import clock, length
from fencepost.harness.verdict import Verdict
from fencepost.harness.verdict.figures import Traced

#: What is no figure: names, indexes, values of settings, and what the plan or the system says.
NAMES: Final = frozenset({"incarnation", "fault_id", "event", "lacks_event", "answered", "lacks"})
GIVEN: Final = frozenset({"bound_ns", "limit_running_ns"})
#: Records within replies are more than rows, what stands on disks only is no row of the history, and what a search cost
#: says nothing of it.
ELSEWHERE: Final = re.compile(
    r"\.(records_read|records_final|entries_told|entries_compared|entries_compared_with_disks|entries_by_type\..*|steps|wall_ms|core_.*)$|metadata-log-agrees\.exposure$"
    r"|\.snapshots-match-log\.|log-agrees\.anomalies\.(logs-differ|epoch-went-back|uninvoked-write)$|^(zombie-controllers|handover|both-stores)\."
    r"|^brokers\.(broker-states|broker-epochs|one-broker-per-id|controlled-shutdown|leaders-are-eligible|eligible-replicas-kept)\.(exposure|anomalies\..*)$"
)
#: A number that a reply gave: it stands in its row.
_GIVEN_OUT: Final = frozenset({"id_min", "id_max"})
_MOMENTS: Final = re.compile(r"(^|_)(from|to|superseded|resigned)_ns$")
_EPOCHS: Final = frozenset(
    {"epoch", "superseded_by", "epoch_max", "epoch_before", "epoch_when_healed", "epoch_after", "epoch_led"}
)
_EPOCHS_BETWEEN: Final = frozenset({"deposed_epochs", "epochs_used_max"})
_ROWS_OF_A_LENGTH: Final = 12
_DURATION: Final = re.compile(r"(\d+(?:[.,]\d+)*) (ns|µs|ms|s)\b")


class Figure:
    """One number with its name and its rows."""

    def __init__(self, path: str, name: str, value: Any, rows: Sequence[int]) -> None:
        self.path = path
        self.name = name
        self.value = value
        self.rows = tuple(rows)

    def __repr__(self) -> str:
        return f"{self.path} = {self.value!r} by {len(self.rows)} rows {self.rows[:6]}"


def figures_of(verdict: Verdict) -> Iterator[Figure]:
    """Every number of a verdict that is claimed: exposure, anomalies, figures, and figures in rows."""
    yield from (figure for figure in _all(verdict) if not ELSEWHERE.search(figure.path))


def _all(verdict: Verdict) -> Iterator[Figure]:
    path = f"{verdict.checker}.{verdict.guarantee}"
    yield from _figures(f"{path}.exposure", "exposure", verdict.exposure)
    for name, number in verdict.anomalies.items():
        yield from _figures(f"{path}.anomalies.{name}", name, number)
    for name, figure in verdict.figures.items():
        yield from _figures(f"{path}.{name}", name, figure)


def _figures(path: str, name: str, figure: Any) -> Iterator[Figure]:
    if isinstance(figure, tuple | list):
        for number, row in enumerate(figure):
            fields = msgspec.structs.asdict(row) if isinstance(row, msgspec.Struct) else row
            for key, field in fields.items() if isinstance(fields, Mapping) else ():
                yield from _number(f"{path}[{number}].{key}", key, field)
    elif isinstance(figure, Mapping):
        for key, number in figure.items():
            yield from _number(f"{path}.{key}", name if name.endswith("_ns") else key, number)
    else:
        yield from _number(path, name, figure)


def _number(path: str, name: str, figure: Any) -> Iterator[Figure]:
    """A plain number claims as much as one that names its rows."""
    value, rows = (figure.value, figure.rows) if isinstance(figure, Traced) else (figure, ())
    if _is_number(name, value):
        yield Figure(path, name, value, rows)


def _is_number(name: str, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and name not in NAMES | GIVEN


def wrong(figure: Figure, history: History) -> str | None:
    """Why the figure does not follow from its rows; None when it does."""
    if any(not 0 <= i < len(history.events) for i in figure.rows):
        return f"{figure}: a row that the history does not have"
    return why_not(figure, [history.events[i] for i in figure.rows])


def why_not(figure: Figure, rows: Sequence[Event]) -> str | None:
    """Why the figure does not follow from these rows, which are all that there is to do it from; None when it does."""
    if not rows:
        return None if figure.value == 0 else f"{figure}: no rows"
    name = figure.name
    if name == "loop_lag_ns_max":
        right = any(figure.value == getattr(row, name, None) for row in rows)
    elif name == "reverted_to":
        right = any(figure.value == getattr(row, "position", None) for row in rows)
    elif name in _GIVEN_OUT:
        right = any(isinstance(row, OpEvent) and row.value == figure.value for row in rows)
    elif _MOMENTS.search(name):
        right = any(figure.value in times(row) for row in rows)
    elif name.endswith("_ns") or "_ns_" in name:
        right = figure.value in lengths(rows) | own_lengths(rows)
    elif name in _EPOCHS:
        right = any(figure.value in epochs(row) for row in rows)
    elif name in _EPOCHS_BETWEEN:
        right = any(b - a == figure.value for a in epochs(rows[0]) for b in epochs(rows[-1]))
    else:
        right = figure.value == len(rows)
    return None if right else f"{figure}: does not follow"


def times(row: Event) -> set[int]:
    """The moments that a row speaks of; a listener's reply names those at which it heard what it tells."""
    if isinstance(row, BeliefEvent | LogEvent):
        return {row.time_ns, row.asked_ns}
    heard = row.value if isinstance(row, OpEvent) and row.f == "next" and isinstance(row.value, list) else ()
    return {row.time_ns, *(told[1] for told in heard)}


def own_lengths(rows: Sequence[Event]) -> set[int]:
    """The running time between the first two rows by a node's own clocks, as further rows say what those showed."""
    clocks = [row for row in rows if isinstance(row, ClockEvent)]
    others = [row for row in rows if not isinstance(row, ClockEvent)]
    if not clocks:
        return set()
    shown = cast(History, SimpleNamespace(of=lambda _: clocks, end_ns=max(row.time_ns for row in others)))
    stopped = [(a.time_ns, b.time_ns) for a, b in zip(others[2::2], others[3::2], strict=False)]
    return {
        OwnTime(shown, clocks[0].node, stopped, kinds).running_ns(a, b)
        for kinds in ((Clock.WALL,), (Clock.MONOTONIC,), tuple(Clock))
        for a in times(others[0])
        for b in times(others[1])
    }


def epochs(row: Event) -> set[int]:
    """The epochs that a row names; a poll's records name theirs."""
    found = {getattr(row, "epoch", None)}
    if isinstance(row, OpEvent) and row.f in ("poll", "scan") and isinstance(row.value, list):
        found |= {record[2] for record in row.value if len(record) > 2}
    return {epoch for epoch in found if epoch is not None}


def lengths(rows: Sequence[Event]) -> set[int]:
    """Every length that the rows can prove: between the first two, less further pairs, or the sum of all pairs."""
    if len(rows) < 2:
        return {0}
    found = {max(0, b - a) for a in times(rows[0]) for b in times(rows[1])}
    found |= {max(0, b - a) for a in times(rows[0]) for b in times(rows[-1])}
    stops = [(a.time_ns, b.time_ns) for a, b in zip(rows[2::2], rows[3::2], strict=False)]
    for a in times(rows[0]):
        for b in {*times(rows[1]), *(end for _, end in stops)}:
            found.add(b - a - sum(max(0, min(end, b) - max(start, a)) for start, end in stops))
    sums = {0}
    for first, last in zip(rows[::2], rows[1::2], strict=False):
        sums = {total + max(0, y - x) for total in sums for x in times(first) for y in times(last)}
        if len(sums) > 4096:
            break
    return found | sums


def untold(said: str, rows: Sequence[Event], given: set[str]) -> list[str]:
    """The lengths and moments in a clause that are neither between two of its rows nor `given`."""
    moments = {clock(ns) for row in rows for ns in times(row)}
    # A clause with many rows counts them; a length has few.
    few = rows if len(rows) <= _ROWS_OF_A_LENGTH else []
    between = {length(ns) for ns in lengths(few)}
    between |= {length(abs(y - x)) for a in few for b in few for x in times(a) for y in times(b)}
    told = (match[0] for match in _DURATION.finditer(said))
    return [words for words in told if words not in moments | between | given]
