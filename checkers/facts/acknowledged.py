"""The acknowledged writes of one history as columns."""

from functools import cached_property
from typing import Final

import numpy as np

from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.operation_columns import Longs, longs
from fencepost.checkers.facts.positions import ok_writes
from fencepost.harness.history import History, Operation

#: Stands for a position or an epoch that an answer does not name; below all others.
UNKNOWN: Final = int(np.iinfo(np.int64).min)


class Acknowledged:
    """One row for each write, in the order of invocation."""

    def __init__(self, history: History) -> None:
        self.writes: Final[list[Operation]] = ok_writes(history)
        self.position: Final = longs([_known(w.position, w.value_position) for w in self.writes])
        self.epoch: Final = longs([UNKNOWN if w.epoch is None else w.epoch for w in self.writes])
        self.invoked_ns: Final = longs([w.invoked_ns for w in self.writes])
        self.completed_ns: Final = longs([w.completed_ns or 0 for w in self.writes])

    @cached_property
    def by_completion(self) -> Longs:
        """List all rows in the order of completion."""
        return np.argsort(self.completed_ns, kind="stable")

    @cached_property
    def of_key(self) -> dict[str | None, Longs]:
        """Map each key to the rows of its writes, in the order of completion."""
        rows: dict[str | None, list[int]] = {}
        for row in self.by_completion.tolist():
            rows.setdefault(self.writes[row].key, []).append(row)
        return {key: longs(own) for key, own in rows.items()}


@once
def acknowledged_writes(history: History) -> Acknowledged:
    """Read the columns once for each history."""
    return Acknowledged(history)


def last_of_highest(values: Longs) -> Longs:
    """Return, for each place, the last place up to it that holds the highest value up to it."""
    highest = np.maximum.accumulate(values)
    return np.maximum.accumulate(np.where(values == highest, np.arange(len(values)), 0))


def first_of_highest(values: Longs) -> Longs:
    """Return, for each place, the first place that holds the highest value up to it."""
    highest = np.maximum.accumulate(values)
    rises = np.concatenate(([True], highest[1:] > highest[:-1]))[: len(values)]
    return np.maximum.accumulate(np.where(rises, np.arange(len(values)), 0))


def _known(position: int | None, value_position: int | None) -> int:
    """Return the position as `facts.positions.write_position` defines it."""
    if value_position is not None:
        return value_position
    return UNKNOWN if position is None else position
