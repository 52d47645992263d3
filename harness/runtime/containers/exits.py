"""Decides for each exit of a node's server whether the harness caused it.

The engine reports an exit while our signal to the container may still be under way. Only the engine's answer to the
signal tells whether the server had ended before. So an exit that arrives in between waits for that answer.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from fencepost.harness.runtime.containers.container import exit_status
from fencepost.harness.runtime.node import Exit


class ExitWatch:
    """The exits of one node, one per incarnation. All calls are made on the event loop."""

    def __init__(self, node: str, report: Callable[[Exit], None]) -> None:
        self._node, self._report = node, report
        self._incarnation = -1
        #: Whether the harness ended this incarnation; assumed as soon as a signal is sent.
        self.is_ours = False
        self._is_signalling = False
        self._status: int | None = None
        #: Set once this incarnation has ended.
        self.gone = asyncio.Event()

    def begin(self, incarnation: int) -> None:
        """Watch a new process of the node."""
        self._incarnation = incarnation
        self.is_ours, self._status = False, None
        self.gone = asyncio.Event()

    def ended(self, status: int) -> None:
        """Note that the process has ended, with the status that the engine reports."""
        self._status = status
        self.gone.set()
        if not self._is_signalling:
            self._report_exit()

    @contextlib.contextmanager
    def signalling(self) -> Iterator[None]:
        """Hold an exit back while a signal of ours is under way. The caller sets `is_ours` to the engine's answer."""
        self.is_ours = self._is_signalling = True
        try:
            yield
        finally:
            self._is_signalling = False
            self._report_exit()

    def _report_exit(self) -> None:
        if self._status is None:
            return
        status, self._status = self._status, None
        self._report(
            Exit(
                node=self._node,
                incarnation=self._incarnation,
                exit_status=exit_status(status),
                expected=self.is_ours,
            )
        )
