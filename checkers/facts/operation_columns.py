"""Paired operations, and the acknowledged writes among them, as columns: measures over many of them need no loop."""

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.positions import ok_writes
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict.fact_tables import OPERATIONS

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class OperationColumns:
    """The operations of one history, in the order of invocation, so that `invoked_ns` never decreases.

    `ended_ns` and `completed_ns` are `NEVER_NS` where an operation has none.
    """

    def __init__(self, history: History) -> None:
        self.history: Final = history
        self.operations: Final[list[Operation]] = history.operations
        self.invoked_ns: Final = longs([o.invoked_ns for o in self.operations])
        self.ended_ns: Final = _times([o.ended_ns for o in self.operations])
        self.completed_ns: Final = _times([o.completed_ns for o in self.operations])
        types = [o.type for o in self.operations]
        self.ok: Final = np.fromiter((t is Outcome.OK for t in types), np.bool_, len(types))
        self.fail: Final = np.fromiter((t is Outcome.FAIL for t in types), np.bool_, len(types))
        self.nodes: Final = [o.node for o in self.operations]

    @cached_property
    def latency_ns(self) -> Longs:
        """Return how long each caller waited, in ns; negative if it was never answered."""
        return np.where(self.ended_ns == NEVER_NS, -1, self.ended_ns - self.invoked_ns)

    def of_node(self, node: str) -> Flags:
        """Return a mask of the operations that were sent to `node`."""
        return np.fromiter((n == node for n in self.nodes), np.bool_, len(self.nodes))

    def table(self) -> Any:
        """Lay out every operation (-> OPERATIONS)."""
        never = self.ended_ns == NEVER_NS
        return OPERATIONS.of_columns(
            {
                **{name: list(map(attrgetter(name), self.operations)) for name in _PLAIN},
                "type": [o.type.value for o in self.operations],
                "latency_ns": pa.array(self.latency_ns, mask=never),
                "phase": self._phases(),
                "fault_id": self._faults(),
            }
        )

    def _phases(self) -> Any:
        """Return the phase of each invocation; phases follow each other without gaps."""
        phases = self.history.phases
        starts = longs([start for start, _ in phases.values()])
        number = np.searchsorted(starts, self.invoked_ns, side="right") - 1
        names = pa.array([phase.value for phase in phases], pa.string())
        return names.take(pa.array(number, mask=number < 0))

    def _faults(self) -> Any:
        """Return, for each invocation, the last fault that had begun and was not healed; null if there was none."""
        ids = np.full(len(self.operations), -1, np.int64)
        for fault in sorted(self.history.faults, key=lambda f: f.began_ns):
            ended_ns = NEVER_NS if fault.ended_ns is None else fault.ended_ns
            first, last = np.searchsorted(self.invoked_ns, [fault.began_ns, ended_ns])
            ids[first:last] = fault.fault_id
        return pa.array(ids, mask=ids < 0)


#: Columns that are fields of an operation as they stand.
_PLAIN: Final = tuple(c.name for c in OPERATIONS.columns if c.name in Operation.__struct_fields__ and c.name != "type")


def longs(numbers: Sequence[int]) -> Longs:
    return np.fromiter(numbers, np.int64, len(numbers))


def _times(times: list[int | None]) -> Longs:
    return np.fromiter((NEVER_NS if t is None else t for t in times), np.int64, len(times))


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
