"""The harness's side of the clock daemon: requests with their answers, and reports of processes as they come."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from fencepost.harness.base.files import source_tree
from fencepost.harness.runtime.clocks.memory import ClockError
from fencepost.harness.runtime.clocks.messages import (
    Arm,
    Armed,
    ClockChange,
    ClockDone,
    ClockRelease,
    NotArmed,
    decode,
    encode,
)
from fencepost.harness.runtime.clocks.setting import Settings

_MODULE: Final = "fencepost.harness.runtime.clocks.clock_daemon"
_ROOT: Final = source_tree()
#: Arming a large process takes tens of milliseconds, and a busy machine ten times that.
_ANSWER_S: Final = 8.0
_END_S: Final = 5.0


class DaemonClient:
    """A running clock daemon. `on_report` is called on the event loop with each report, before the request's answer."""

    def __init__(self, on_report: Callable[[Armed | NotArmed], None], on_end: Callable[[], None]) -> None:
        self._on_report = on_report
        self._on_end = on_end
        self._count = 0
        self._open: dict[int, asyncio.Future[None]] = {}
        self._ended = False
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd=_ROOT,
                # The daemon must not get the harness's signals from the terminal.
                start_new_session=True,
            )
        ours.setblocking(False)
        self._socket = ours
        self._rest = b""
        asyncio.get_running_loop().add_reader(ours.fileno(), self._readable)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def arm(self, node: str, pid: int, settings: Settings) -> None:
        """Arm the node's processes; all have been reported when this returns. Raises ClockError."""
        await self._ask(lambda number: Arm(id=number, node=node, pid=pid, settings=settings))

    def arm_through_gate(self, node: str, pid: int, settings: Settings) -> "asyncio.Future[None]":
        """Open the gate of a node that was just started; send the request at once, get the answer later."""
        return self._request(lambda n: Arm(id=n, node=node, pid=pid, settings=settings, through_gate=True))

    def change(self, node: str, settings: Settings) -> None:
        """Choose the settings that new processes of the node get from now on."""
        self._send(encode(ClockChange(node=node, settings=settings)))

    async def release(self, node: str) -> None:
        """Disarm the node's processes and forget them. Raises ClockError."""
        await self._ask(lambda number: ClockRelease(id=number, node=node))

    async def close(self) -> None:
        """End the daemon, which releases every process that it holds. Idempotent."""
        self._end()
        await asyncio.to_thread(self._reap)

    async def _ask(self, make: Callable[[int], Arm | ClockRelease]) -> None:
        answer = self._request(make)
        try:
            async with asyncio.timeout(_ANSWER_S):
                await answer
        except TimeoutError:
            raise ClockError(f"the clock daemon did not answer within {_ANSWER_S:g} s") from None

    def _request(self, make: Callable[[int], Arm | ClockRelease]) -> "asyncio.Future[None]":
        self._count += 1
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open[self._count] = answer
        self._send(encode(make(self._count)))
        return answer

    def _send(self, line: bytes) -> None:
        if self._ended:
            self._fail()
            return
        try:
            # Lines are short, and the daemon reads them between two processes, so the buffer never fills.
            self._socket.sendall(line)
        except OSError:
            self._end()

    def _readable(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for message in map(decode, lines):
            if isinstance(message, ClockDone):
                answer = self._open.pop(message.id, None)
                if answer is not None and not answer.done():
                    answer.set_result(None)
            elif isinstance(message, Armed | NotArmed):
                self._on_report(message)

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        self._fail()
        self._on_end()

    def _fail(self) -> None:
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(ClockError("the clock daemon has ended"))
                answer.exception()  # mark it as seen, as perhaps nobody waits for it
        self._open.clear()

    def _reap(self) -> None:
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)


def proc_number(pid: int) -> int | None:
    """Return the number under which /proc shows our process `pid`; None when it has ended."""
    from fencepost.harness.runtime.linux.processes import number_in_proc

    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        return number_in_proc(pidfd)
    finally:
        os.close(pidfd)
