"""Figures: the numbers, texts and lists that a verdict carries beside its answer, each number with its rows.

A figure and the rows of the history that it was counted or measured from are one value, `Traced`, from the checker to
the page and verdict.json. A verdict's figures are a mapping by name: to a `Traced`, to a mapping of such by key, or to
a tuple of rows, which are mappings or, where the report reads them by field, structs. A plain number rests on no row: a
bound, what a search cost, what only a server's disk holds.

Names have units last. Those that somebody looks up stand here, so that checker and reader use one constant.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

Rows = tuple[int, ...]
V = TypeVar("V", covariant=True)


class Traced(msgspec.Struct, Generic[V], frozen=True):
    """A value, and the rows of the history that it rests on, as docs/reference/verdict-format.md says."""

    value: V
    rows: Rows = ()


Figures = Mapping[str, Any]


def values(figure: Any) -> Any:
    """Return a figure, or a mapping of figures, without rows."""
    if isinstance(figure, Mapping):
        return {key: values(number) for key, number in figure.items()}
    return figure.value if isinstance(figure, Traced) else figure


def tally(rows: Iterable[int]) -> Traced[int]:
    """Count what has one row for each."""
    own = tuple(rows)
    return Traced(len(own), own)


def tallies(named: Iterable[tuple[str, int]]) -> dict[str, Traced[int]]:
    """Count rows by name, in the order in which the names first come."""
    rows: dict[str, list[int]] = defaultdict(list)
    for name, row in named:
        rows[name].append(row)
    return {name: tally(own) for name, own in rows.items()}


def most(numbers: Iterable[Traced[int]]) -> Traced[int]:
    """Return the greatest of the numbers, the first of equals; 0 where there is none."""
    return max(numbers, key=lambda number: number.value, default=Traced(0))


def total(numbers: Iterable[Traced[int]]) -> Traced[int]:
    """Add numbers, and their rows in order."""
    own = tuple(numbers)
    return Traced(sum(number.value for number in own), tuple(row for number in own for row in number.rows))


#: Of coverage: how late the harness's timer was, who stalled in the main phase, how long nodes were watched at the end.
LOOP_LAG: Final = "loop_lag_ns_max"
STALLED_BY: Final = "stalled_by"
WATCHED_FOR: Final = "watched"
#: Of superseded leaders: claims that outlived their epoch, and operations that were sent to them, by how they ended.
CLAIMED: Final = "claimed"
CLAIMED_COUNT: Final = "claimed_count"
CLAIMED_RUNNING: Final = "claimed_running_ns_max"
POSSIBLE_CLAIMS: Final = "possible_claims"
ASKED: Final = "asked_of_superseded_leader"
SERVED: Final = "served_by_superseded_leader"
FENCED: Final = "attempted_but_fenced"
UNKNOWN: Final = "attempted_outcome_unknown"
STALE_ANSWERS: Final = "stale_answers"
ACTED: Final = "acted"
#: Of a log's partitions: how many there are, how many kept one leader in one epoch; lists with places of their own.
PARTITIONS: Final = "partitions"
PARTITIONS_QUIET: Final = "partitions_quiet"
DEEDS: Final = "deeds"
CUT_LEADERS: Final = "cut_brokers"
REIGNS: Final = "reigns"
#: Of transactions: the consistency models that they rule out, and the searches that the budget ended.
RULED_OUT: Final = "ruled_out"
WEAKEST_RULED_OUT: Final = "weakest_ruled_out"
UNFINISHED: Final = "unfinished"
#: How much was judged.
OPERATIONS: Final = "operations"
TRANSACTIONS: Final = "transactions"
KEYS: Final = "keys"


class LeaderDeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a superseded leader of a partition was asked from then on, and what became of it."""

    partition: str
    node: str
    incarnation: int
    epoch: Traced[int]
    superseded_by: Traced[int]
    superseded_ns: Traced[int]
    claimed_for_ns: Traced[int]
    requests: Traced[int] = msgspec.field(name="asked")
    acknowledged: Traced[int]
    survived: Traced[int]
    lost: Traced[int]
    fenced: Traced[int]
    unknown: Traced[int]
    reads: Traced[int]
    stale_reads: Traced[int]
    vanished_reads: Traced[int]
    stale_ns_max: Traced[int]


class PolledReign(msgspec.Struct, frozen=True, kw_only=True):
    """A broker led a partition in one leader epoch, by the polls that it answered as its leader."""

    partition: str
    node: str
    incarnation: int
    epoch: Traced[int]
    from_ns: Traced[int]
    to_ns: Traced[int]
    samples: Traced[int]
    superseded_by: Traced[int] | None
    superseded_ns: Traced[int] | None
    claimed_samples: Traced[int]
