"""Waiting for what must come on a machine that may be busy: for the event itself, never for a time."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

from fencepost.harness.runtime.lab.node import LabNode

T = TypeVar("T")

#: For what must come: only a test that fails waits so long. Less than the 100 s after which scenarios are given up.
PATIENCE_S: Final = 20.0


async def until(condition: Callable[[], object]) -> None:
    """Wait until it holds; raises TimeoutError when it never does."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.002)


async def once(ask: Callable[[], Awaitable[T]], is_it: Callable[[T], object]) -> T:
    """The first answer that is it, or, after PATIENCE_S, the last one that was not.

    For what a server says sooner or later: one that was kept waiting may elect, or refuse, at any moment before.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not is_it(answer := await ask()) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return answer


async def stopped(node: LabNode) -> None:
    """Pause it, and wait until every thread has stopped."""
    await node.pause()
    await until(lambda: set(node.thread_states().values()) == {"T"})


class Disturbed(Exception):
    """Somebody was kept waiting for longer than what is played can bear: what happened then proves nothing."""


class Pace:
    """Holds a play to the time that a lease in it allows: no more than `limit_s` from one step to the next."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._last_s = time.monotonic()

    async def step(self, request: Awaitable[T]) -> T:
        """Its result; raises Disturbed, whatever came of it, when it came too late."""
        try:
            return await request
        finally:
            now_s = time.monotonic()
            late, self._last_s = now_s - self._last_s > self._limit_s, now_s
            if late:
                raise Disturbed


@contextlib.contextmanager
def refused_port(port: int = 0) -> Iterator[int]:
    """A port of this machine at which nobody listens, and nobody else can meanwhile: it is bound here."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        yield int(bound.getsockname()[1])
