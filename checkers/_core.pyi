"""Linearizability of registers, searched natively: columns in, one result per key out.

Each row is one operation: `f` is 0 read, 1 write or 2 cas; `a` is the value read, written or compared with, `b` the new
value of a cas (else 0); `invoked` and `returned` are places in one order, `returned` -1 for an operation of
unknown outcome, which may take effect at any later point or never. Failed operations are left out by the caller.
Values are numbers from 0, and every register holds 0 at first. Columns are one-dimensional, contiguous int64 arrays.
"""

from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["KeyResult", "build_info", "check_registers"]

_Column = NDArray[np.int64]

@final
class KeyResult:
    """What the search found about one key. Operations are named by their row."""

    @property
    def key(self) -> int: ...
    @property
    def verdict(self) -> str:
        """`valid`, `invalid` or `unknown`; `reason` says why it is unknown."""

    @property
    def reason(self) -> str: ...
    @property
    def operations(self) -> int: ...
    @property
    def steps(self) -> int:
        """Configurations looked at and made; the same input always takes the same number."""

    @property
    def order(self) -> list[int]:
        """Valid and asked for: an order that explains all. Invalid: a longest one up to `failed`."""

    @property
    def failed(self) -> int | None:
        """Invalid: the first operation to return that no order passes."""

    @property
    def open(self) -> list[int]:
        """Invalid: the operations that had not returned then; of unknown outcome or concurrent with `failed`."""

    @property
    def states(self) -> list[int]:
        """Invalid: every value that the register may hold then, over all orders."""

def build_info() -> dict[str, str]:
    """Version and build profile of this module."""

def check_registers(
    key: _Column,
    f: _Column,
    a: _Column,
    b: _Column,
    invoked: _Column,
    returned: _Column,
    *,
    steps: int,
    memory_bytes: int,
    wall_s: float,
    threads: int = 0,
    orders: bool = False,
) -> list[KeyResult]:
    """Judge the registers of all distinct keys, in ascending order of key, under one budget.

    Keys are judged in parallel (`threads` 0: as many as there are processors) with the interpreter's lock released.
    The answer does not depend on timing, except that what is unfinished after `wall_s` is unknown.

    Raises:
        ValueError: columns of different length, or a row that means nothing; names the row.
        TypeError: a column that is not a one-dimensional, contiguous int64 array.
        RuntimeError: a defect of the search itself; no statement about the history.
    """
