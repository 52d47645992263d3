"""Transactions as columns: what the checkers of transactions read, and what readers of other formats write.

One row per transaction, in any order; its micro-operations are the rows `first[t]` to `first[t + 1]` of a second table,
in the order in which the transaction made them; the list that micro-operation m read is the stretch `start[m]` to
`start[m + 1]` of `elements`. All are one-dimensional, contiguous int64 arrays; offsets as in Arrow, one more than rows.

| column | per | holds |
| --- | --- | --- |
| `process` | transaction | the logical process; it has at most one open transaction at any time |
| `outcome` | transaction | `OK`, `FAIL` (never took effect) or `INFO` (may have, or may still) |
| `invoked` | transaction | place of the invocation in one order of all events (an index, or nanoseconds) |
| `completed` | transaction | place of the completion, above `invoked`; not looked at unless OK (then say `NEVER`) |
| `first` | transaction | offset of its first micro-operation; from 0 to the number of micro-operations |
| `kind` | micro-op | `WRITE` (an append, or a register's write), `READ`, or `READ_UNKNOWN` (it was never answered) |
| `key` | micro-op | number of the key, from 0; `keys[number]` is its name |
| `value` | micro-op | what was written or appended; what a read of a register returned, `NIL` for nothing; else 0 |
| `start` | micro-op | lists: offset of what was read, the same twice where no list was. Registers: empty |
| `elements` | element | lists: the elements read, one list after the other. Registers: empty |

Values are the integers themselves, or numbers given to other values (then `names` says which): equal numbers of one key
are equal values. `NIL` is no value. Two places are never equal across a completion and an invocation that follows it;
should a format's times be so coarse, give indexes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]

OK: Final = 0
FAIL: Final = 1
INFO: Final = 2

WRITE: Final = 0
READ: Final = 1
READ_UNKNOWN: Final = 2

NEVER: Final = -1
NIL: Final = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionColumns:
    """The table above."""

    process: Column
    outcome: Column
    invoked: Column
    completed: Column
    first: Column
    kind: Column
    key: Column
    value: Column
    start: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    elements: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    keys: Sequence[object] = ()
    names: Mapping[int, object] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.process)

    def native(self) -> tuple[Column, ...]:
        """Return the columns in the order in which the native core takes them."""
        c = self
        return (
            c.process, c.outcome, c.invoked, c.completed, c.first, c.kind, c.key, c.value, c.start, c.elements
        )  # fmt: skip
