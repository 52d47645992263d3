"""One question, one tool's answer to it, and what comes of that answer beside our verdict."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from fencepost.harness.history import Event, Operation, OpEvent
from fencepost.harness.verdict import Validity

LINEARIZABLE: Final = "linearizable"


class Standing(StrEnum):
    """What comes of two verdicts. `DISAGREES`: one says valid, the other invalid, so one of the two is wrong.

    `UNDECIDED`: one of them is unknown. `NO_ANSWER`: the tool was asked and did not say. `SKIPPED`: it was not asked.
    """

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"
    NO_ANSWER = "no-answer"
    SKIPPED = "skipped"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A judged history: its operations, the model and guarantee that it was held to, and what we say of it.

    `parameter` is what the model's name says behind a colon, as in `semaphore:3`.
    """

    events: Sequence[Event]
    operations: Sequence[Operation]
    model: str
    guarantee: str
    validity: Validity
    parameter: str = ""

    def client_events(self) -> list[OpEvent]:
        return [event for event in self.events if type(event) is OpEvent]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool said: a validity, which may be unknown, or None and the reason why it said nothing."""

    validity: Validity | None
    reason: str = ""


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's answer beside ours. `took_s` is the time that asking took."""

    tool: str
    standing: Standing
    ours: Validity
    guarantee: str
    validity: Validity | None = None
    reason: str = ""
    hint: str = ""
    took_s: float = 0.0


class Skip(Exception):
    """The tool cannot be asked: why, and the remedy."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class Tool(Protocol):
    """Another checker."""

    def models(self) -> Mapping[str, Sequence[str]]:
        """By guarantee, the models that it can be asked about."""

    def ask(self, question: Question, time_limit_s: float, command: str | None) -> Answer:
        """Its answer within the limit; raises Skip. `command` is what the user gave to call it by."""


def standing(ours: Validity, theirs: Validity | None) -> Standing:
    """What comes of our verdict and theirs."""
    if theirs is None:
        return Standing.NO_ANSWER
    if Validity.UNKNOWN in (ours, theirs):
        return Standing.UNDECIDED
    return Standing.AGREES if ours is theirs else Standing.DISAGREES
