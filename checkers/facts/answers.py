"""Which operations were answered, and which answers could have been caught out."""

from collections.abc import Callable, Iterable, Sequence

from fencepost.harness.history import Operation, Outcome


def is_ok(op: Operation) -> bool:
    return op.type is Outcome.OK and op.complete_index is not None


def answered(op: Operation) -> int:
    """The event at which an `ok` operation returned."""
    assert op.complete_index is not None
    return op.complete_index


def not_failed(operations: Iterable[Operation]) -> list[Operation]:
    return [op for op in operations if op.type is not Outcome.FAIL]


def exposed(
    operations: Sequence[Operation], changes: Callable[[Operation], bool], tells: Callable[[Operation], bool]
) -> list[Operation]:
    """The ok operations that tell something, invoked after a change by another process was acknowledged."""
    # The first acknowledged change, its process, and the first of another process.
    never = max((answered(op) for op in operations if is_ok(op)), default=0) + 1
    done, process, other = never, -1, never
    for op in sorted((op for op in operations if is_ok(op) and changes(op)), key=answered):
        if done == never:
            done, process = answered(op), op.process
        elif op.process != process:
            other = answered(op)
            break
    return [
        op
        for op in operations
        if is_ok(op) and tells(op) and (other if op.process == process else done) < op.invoke_index
    ]
