"""What was there before the first operation: `--initial`, and `initial=` in Python."""

from typing import Any

import pytest

import fencepost

_READ_0 = [("a", "read", "x", 0, 0, 1), ("a", "write", "x", 5, 2, 3), ("b", "read", "y", 0, 4, 5)]
_TXNS = [("a", "txn", None, [["r", "x", 5]], 0, 1), ("a", "txn", None, [["w", "x", 6]], 2, 3)]


@pytest.mark.parametrize(
    ("rows", "model", "initial", "validity"),
    [
        (_READ_0, "register", None, "invalid"),
        (_READ_0, "register", 0, "valid"),
        (_READ_0, "register", {"x": 0}, "invalid"),
        (_READ_0, "register", {"x": 0, "y": 0}, "valid"),
        ([("a", "read", None, 6, 0, 1), ("a", "add", None, 1, 2, 3)], "counter", 6, "valid"),
        ([("a", "add", None, 1, 0, 1), ("a", "read", None, [1, 6], 2, 3)], "set", [6], "valid"),
        ([("a", "add", None, 1, 0, 1), ("a", "read", None, [1], 2, 3)], "set", [6], "invalid"),
        ([("a", "enqueue", None, 1, 0, 1), ("a", "dequeue", None, 6, 2, 3)], "queue", [6], "valid"),
        (_TXNS, "rw-register", None, "invalid"),
        (_TXNS, "rw-register", 5, "valid"),
        ([("b", "txn", None, [["r", "x", None]], 0, 1), *_TXNS], "rw-register", 5, "invalid"),
    ],
)
def test_what_was_there_before(rows: Any, model: str, initial: Any, validity: str) -> None:
    result = fencepost.check(rows, model=model, initial=initial)
    assert result.validity == validity
    assert (initial is None) == ("--initial VALUE" in result.explain())


@pytest.mark.parametrize(
    ("rows", "model", "initial", "message"),
    [
        (_READ_0, "register", {"z": 1}, "unknown key 'z'"),
        (_READ_0, "register", "text", "5 is an integer; expected a string"),
        ([("a", "write", None, 1, 0, 1)], "register", {"z": 1}, "the history has no keys"),
        ([("a", "acquire", None, None, 0, 1)], "mutex", 1, "not for mutex"),
    ],
)
def test_what_cannot_have_been_there_is_refused(rows: Any, model: str, initial: Any, message: str) -> None:
    with pytest.raises(fencepost.UsageError, match=message):
        fencepost.check(rows, model=model, initial=initial)
