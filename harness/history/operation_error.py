"""The error of an operation: its kind, and how a history writes it.

timeout                        no answer came in time
unforeseen: ValueError: ...    an exception that the client does not handle: a defect of the client
<code>...                      a row of the client's table of errors
"""

from enum import StrEnum
from typing import Final

import msgspec

from fencepost.harness.history.operation import Operation, Outcome

#: A leader's refusal of an append since too few replicas are in sync.
NOT_ENOUGH_REPLICAS: Final = "not-enough-replicas"
_TIMEOUT: Final = "timeout"
_UNFORESEEN: Final = "unforeseen: "


class ErrorKind(StrEnum):
    """Whether the error proves that nothing was done, leaves that open, is a defect of the client, or a time-out."""

    DEFINITE = "definite"
    INDEFINITE = "indefinite"
    UNFORESEEN = "unforeseen"
    TIMEOUT = "timeout"


class GaveUp(StrEnum):
    """The codes with which a server says that it ended its own work on a request whose outcome it does not know."""

    WRITE_TIMEOUT = "write-timeout"
    READ_TIMEOUT = "read-timeout"
    CAS_UNKNOWN = "cas-unknown"


class OpError(msgspec.Struct, frozen=True):
    """One error. `text` is that of the history; `code` is a row of the client's table, or the exception's name."""

    kind: ErrorKind
    code: str
    text: str


def unforeseen(error: BaseException) -> str:
    """Return the text for an exception that the client does not handle."""
    return f"{_UNFORESEEN}{type(error).__name__}: {error}"


def error_of(operation: Operation) -> OpError | None:
    """Read an operation's error; None where it has none."""
    text = operation.error
    if text is None:
        return None
    if text.startswith(_UNFORESEEN):
        return OpError(ErrorKind.UNFORESEEN, text.removeprefix(_UNFORESEEN).partition(":")[0], text)
    if text == _TIMEOUT:
        return OpError(ErrorKind.TIMEOUT, text, text)
    kind = ErrorKind.DEFINITE if operation.type is Outcome.FAIL else ErrorKind.INDEFINITE
    return OpError(kind, text.partition(":")[0], text)
