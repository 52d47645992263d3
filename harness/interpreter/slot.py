"""The state of one worker of the interpreter, and the completions that the interpreter itself makes."""

import asyncio
from typing import Final

from fencepost.harness.generators.contract import Offer
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client

TIMEOUT: Final = Completion(type=Outcome.INFO, error="timeout")
TIMEOUT_EFFECT_FREE: Final = Completion(type=Outcome.FAIL, error="timeout")
OPEN_TIMEOUT: Final = Completion(type=Outcome.FAIL, error="open-timeout")
SHUTDOWN: Final = Completion(type=Outcome.INFO, error="shutdown")


class Slot:
    """The state of one worker; when its task must be abandoned, another slot replaces this one.

    `process` is the logical process that the worker plays now, `offer` the operation that it got and has not begun, and
    `invocation` the operation in flight. `opening`: its client is being opened, so nothing of the operation has been
    sent. `expired`: its cancellation comes from the deadline.
    """

    __slots__ = ("client", "expired", "invocation", "number", "offer", "opening", "process", "task", "wake")

    def __init__(self, number: int) -> None:
        self.number = number
        self.process = number
        self.client: Client | None = None
        self.offer: Offer | None = None
        self.invocation: OpEvent | None = None
        self.opening = False
        self.expired = False
        self.wake: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
