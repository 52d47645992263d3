"""A question to another tool, its answer, and the comparison of the answer with our verdict."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from fencepost.harness.history import Event, Operation, OpEvent
from fencepost.harness.verdict import Validity

LINEARIZABLE: Final = "linearizable"


class ToolStanding(StrEnum):
    """The comparison of two verdicts. `DISAGREES`: one is valid, the other invalid, so one of the two is wrong.

    `UNDECIDED`: one of them is unknown. `NO_ANSWER`: the tool gave no answer. `SKIPPED`: the tool was not asked.
    """

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"
    NO_ANSWER = "no-answer"
    SKIPPED = "skipped"


class ToolQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A judged history: its operations, the model and guarantee by which it was judged, and our verdict.

    `parameter` is the part of the model's name after the colon, as in `semaphore:3`.
    """

    events: Sequence[Event]
    operations: Sequence[Operation]
    model: str
    guarantee: str
    validity: Validity
    parameter: str = ""

    def client_events(self) -> list[OpEvent]:
        return [event for event in self.events if type(event) is OpEvent]


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's answer: a validity, which may be unknown; or None and the reason why there is no answer."""

    validity: Validity | None
    reason: str = ""


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's answer and our verdict. `took_s` is the time that the tool needed."""

    tool: str
    standing: ToolStanding
    ours: Validity
    guarantee: str
    validity: Validity | None = None
    reason: str = ""
    hint: str = ""
    took_s: float = 0.0


class ToolSkip(Exception):
    """Raised when a tool cannot be asked; it holds the reason and the remedy."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class Tool(Protocol):
    """Another checker."""

    def models(self) -> Mapping[str, Sequence[str]]:
        """Return the models that it can judge, by guarantee."""

    def ask(self, question: ToolQuestion, time_limit_s: float, command: str | None) -> ToolAnswer:
        """Return its answer within the limit; raise Skip if it cannot be asked. `command` is the user's command."""


def standing(ours: Validity, theirs: Validity | None) -> ToolStanding:
    """Compare our verdict with theirs."""
    if theirs is None:
        return ToolStanding.NO_ANSWER
    if Validity.UNKNOWN in (ours, theirs):
        return ToolStanding.UNDECIDED
    return ToolStanding.AGREES if ours is theirs else ToolStanding.DISAGREES
