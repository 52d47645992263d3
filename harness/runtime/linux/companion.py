"""A process of ours beside the harness, told what to do by messages; it ends with the harness, whatever happens.

For work that must neither wait for the harness's event loop nor hold it up: holding packets, and measuring links. A
message is one JSON object, with file descriptors if need be, over a pair of sockets; each is answered by one.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.base.source_tree import source_tree

_END_S: Final = 5.0
_ANSWER_BYTES: Final = 1 << 20
#: A request is answered within a millisecond, the first one once its Python has come up; this bounds the wait on a
#: machine that is very busy, and is less than what the nemesis gives an injection.
ANSWER_TIMEOUT_S: Final = 8.0


class Companion:
    """`module` is run with the number of its socket; see `harness.runtime.linux.companion_orders`."""

    def __init__(self, module: str) -> None:
        self._name = module.rpartition(".")[2]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                # -S: it needs nothing of site-packages, and starts in half the time without.
                [sys.executable, "-S", "-m", module, str(theirs.fileno()), str(os.getpid())],
                env={"PATH": os.defpath, "PYTHONPATH": str(source_tree()), "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        ours.setblocking(False)
        self._socket = ours
        #: One request at a time.
        self._asking = asyncio.Lock()
        self._failed: str | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_failed(self) -> bool:
        """It is not asked any more: it ended, was late, or whoever asked did not wait for its answer."""
        return self._failed is not None

    async def ask(
        self, do: str, *, fds: Sequence[int] = (), timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any
    ) -> dict[str, Any]:
        """Its answer. Raises HarnessError when it cannot, is gone, or is late: then it is not asked again."""
        async with self._asking:
            if self._failed:
                raise HarnessError(self._failed)
            data = json.dumps({"do": do, **fields}, separators=(",", ":")).encode()
            try:
                socket.send_fds(self._socket, [data], fds)
                try:
                    async with asyncio.timeout(timeout_s):
                        said = await self._receive()
                except TimeoutError as late:
                    try:
                        # It may be we who were late.
                        said = self._socket.recv(_ANSWER_BYTES)
                    except BlockingIOError:
                        raise late from None
            except BrokenPipeError:
                said = b""
            except BaseException as error:
                # An answer that comes later would be taken for that of the next request.
                self._failed = f"{self._name}, a process of the harness, did not answer {do!r}: {error!r}"
                if isinstance(error, OSError | TimeoutError):
                    raise HarnessError(self._failed) from error
                raise
            if not said:
                self._failed = f"{self._name}, a process of the harness, has ended"
                raise HarnessError(self._failed)
        answer: dict[str, Any] = json.loads(said)
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
            # It may hang, and nothing that it still does is of use.
            self._process.kill()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)


def _note(readable: "asyncio.Future[None]") -> None:
    if not readable.done():
        readable.set_result(None)
