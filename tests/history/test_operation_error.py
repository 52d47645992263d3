"""The kind of an operation's error, as any history tells it."""

import pytest

from fencepost.harness.history import Operation, Outcome
from fencepost.harness.history.operation import ErrorKind, OpError, error_of, unforeseen


def ended(outcome: Outcome, error: str | None) -> Operation:
    return Operation(
        invoke_index=0,
        complete_index=1,
        process=0,
        f="write",
        node="n1",
        type=outcome,
        invoked_ns=0,
        completed_ns=None,
        error=error,
    )


@pytest.mark.parametrize(
    ("outcome", "error", "kind", "code"),
    [
        (Outcome.FAIL, "no-node: /a", ErrorKind.DEFINITE, "no-node"),
        (Outcome.INFO, "connection-loss", ErrorKind.INDEFINITE, "connection-loss"),
        (Outcome.INFO, "timeout", ErrorKind.TIMEOUT, "timeout"),
        (Outcome.FAIL, "timeout", ErrorKind.TIMEOUT, "timeout"),
        (Outcome.INFO, unforeseen(ValueError("a: b")), ErrorKind.UNFORESEEN, "ValueError"),
    ],
)
def test_the_kind_of_an_error(outcome: Outcome, error: str, kind: ErrorKind, code: str) -> None:
    assert error_of(ended(outcome, error)) == OpError(kind, code, error)


def test_who_succeeded_has_none() -> None:
    assert error_of(ended(Outcome.OK, None)) is None
