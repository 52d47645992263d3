"""A companion: a process beside the harness that obeys messages, and that always ends with the harness.

It does work that must neither wait for the harness's event loop nor block it: holding packets, and measuring links. A
message is one JSON object, with file descriptors if need be, over a pair of sockets; each has one answer.
"""

import asyncio
import json
import socket
import subprocess
from collections.abc import Sequence
from typing import Any, Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.linux.companion_start import start

_END_S: Final = 5.0
_ANSWER_BYTES: Final = 1 << 20
#: An answer normally takes a millisecond, and the first one the start of a Python; this bounds the wait on a very
#: busy machine, and is less than the time limit of an injection.
ANSWER_TIMEOUT_S: Final = 8.0


class Companion:
    """One companion process: runs `module` with the number of its socket; see `companion_orders`."""

    def __init__(self, module: str) -> None:
        self._name = module.rpartition(".")[2]
        self._process, self._socket = start(module)
        #: One request at a time.
        self._asking = asyncio.Lock()
        self._failed: str | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_failed(self) -> bool:
        """Say whether the companion is unusable: it ended, was late, or a caller did not wait for its answer."""
        return self._failed is not None

    async def ask(
        self, do: str, *, fds: Sequence[int] = (), timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any
    ) -> dict[str, Any]:
        """Send one request and return the answer.

        Raises:
            HarnessError: the companion could not do it; or it is gone or late, and is then not asked again.
        """
        async with self._asking:
            if self._failed:
                raise HarnessError(self._failed)
            data = json.dumps({"do": do, **fields}, separators=(",", ":")).encode()
            try:
                socket.send_fds(self._socket, [data], fds)
                try:
                    async with asyncio.timeout(timeout_s):
                        reply = await self._receive()
                except TimeoutError as late:
                    try:
                        # The harness itself may have been late, so look once more.
                        reply = self._socket.recv(_ANSWER_BYTES)
                    except BlockingIOError:
                        raise late from None
            except BrokenPipeError:
                reply = b""
            except BaseException as error:
                # A late answer would look like the answer to the next request.
                self._failed = f"{self._name}, a process of the harness, did not answer {do!r}: {error!r}"
                if isinstance(error, OSError | TimeoutError):
                    raise HarnessError(self._failed) from error
                raise
            if not reply:
                self._failed = f"{self._name}, a process of the harness, has ended"
                raise HarnessError(self._failed)
        answer: dict[str, Any] = json.loads(reply)
        if "error" in answer:
            raise HarnessError(f"{self._name}: {answer['error']}")
        return answer

    async def _receive(self) -> bytes:
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._socket.fileno(), _note, readable)
        try:
            await readable
        finally:
            loop.remove_reader(self._socket.fileno())
        return self._socket.recv(_ANSWER_BYTES)

    def close(self) -> None:
        """End it and wait for it."""
        self._socket.close()
        if self._failed:
            # It may hang, and nobody needs anything that it still does.
            self._process.kill()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)


def _note(readable: "asyncio.Future[None]") -> None:
    if not readable.done():
        readable.set_result(None)
