"""One line of docs/benchmarks.md."""

from typing import NamedTuple


class Figure(NamedTuple):
    """What was measured: a median unless `note` says otherwise; `target` is what was wanted, in words."""

    name: str
    value: float
    unit: str
    target: str
    note: str
