"""The rows behind a figure: the events of the history that a number was counted or measured from.

A count has one row for each thing counted: an operation stands as its completion, or as its invocation where it never
ended. A length of time has the two rows between which it lies, the earlier first, then in pairs those of every interval
that it leaves out; a sum of lengths has such a pair for each. A moment has the row of that moment. So a reader who
holds the rows can do the sum again.
"""

from collections.abc import Iterable

from fencepost.harness.history import Operation

Rows = tuple[int, ...]


def row(operation: Operation) -> int:
    """Return the row of an operation's completion; that of its invocation if it never ended."""
    return operation.invoke_index if operation.complete_index is None else operation.complete_index


def rows(operations: Iterable[Operation]) -> Rows:
    """Return one row for each of the operations, in their order."""
    return tuple(row(operation) for operation in operations)


def violations(anomalies: Iterable[tuple[str, Operation]]) -> dict[str, Rows]:
    """Map the names of a verdict's evidence to rows: one for each anomaly, that of the operation that stands for it."""
    counted: dict[str, list[int]] = {}
    for anomaly, operation in anomalies:
        counted.setdefault(f"anomalies.{anomaly}", []).append(row(operation))
    return {name: tuple(own) for name, own in counted.items()}
