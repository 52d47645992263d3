"""Calls of the engine off the event loop: bounded threads, and a cancelled caller leaves nobody unaccounted for.

A thread that waits for an engine cannot be called back. So a cancelled call goes on; whoever closes the cluster waits
for it (`drain`) before removing what it may still have made.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: Nodes are started, killed and looked at in parallel; an engine does not do more at once.
_THREADS: Final = 16


class EngineCalls:
    def __init__(self) -> None:
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="engine")
        self._running: set[concurrent.futures.Future[object]] = set()

    async def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.shield(self.begin(function, *args, **kwargs))

    def begin(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
        """For a caller that must hear of the result even when it is cancelled: shield what this returns."""
        running = self._threads.submit(function, *args, **kwargs)
        self._running.add(running)  # type: ignore[arg-type]  # only waited for
        running.add_done_callback(self._running.discard)
        wrapped = asyncio.wrap_future(running)
        wrapped.add_done_callback(_looked_at)
        return wrapped

    async def drain(self, timeout_s: float) -> None:
        """Wait until no call is left, those of cancelled callers included, or the time is over."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while self._running and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _looked_at(done: "asyncio.Future[T]") -> None:
    """The error of a call whose caller was cancelled is nobody's any more."""
    if not done.cancelled():
        done.exception()
