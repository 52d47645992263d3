"""The one ordered writer of a run's history: stamps index and time, keeps the order, appends JSON lines.

The event loop's thread stamps events and hands them to a writer thread, which encodes and writes them every 20 ms. So a
`kill -9` of the harness loses little more than 20 ms of events, and a slow disk does not stall the clients. Space is
reserved beforehand: when the disk is full, the reserve is released, `on_disk_full` stops new operations, and recording
goes on in the reserve.
"""

import asyncio
import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.history import DISK_FULL, BeliefEvent, Completion, Event, NoteEvent, OpEvent, Outcome, Value
from fencepost.harness.results.run_folder import RESERVE, RESERVE_BYTES

E = TypeVar("E", bound=Event)

FLUSH_INTERVAL_S: Final = 0.02
#: Encoded at one go: about a millisecond, in which the event loop does not run.
_BATCH: Final = 4000


class Recorder:
    """Stamps and records events. All methods but `close` are for one thread, the event loop's.

    `path` None keeps nothing: events go to the listeners only. `clock_ns` is monotonic; the run's zero is the moment
    of construction. `write` stands in for write(2) in tests.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        reserve_bytes: int = RESERVE_BYTES,
        on_disk_full: Callable[[], None] | None = None,
        write: Callable[[int, bytes], int] = os.write,
    ) -> None:
        self.listeners: list[Callable[[Event], None]] = []
        self.disk_full = False
        self.zero_ns: Final = clock_ns()
        self._clock_ns = clock_ns
        self._index = 0
        self._buffer: list[Event] = []
        self._on_disk_full = on_disk_full
        self._loop: asyncio.AbstractEventLoop | None = None
        self._write_some = write
        self._failure: OSError | None = None
        self._lost = 0
        self._closed = False
        self._over = False
        self._thread: threading.Thread | None = None
        if path is not None:
            self._open(path, reserve_bytes)

    def _open(self, path: Path, reserve_bytes: int) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._path = path
        self._reserve = path.with_name(RESERVE)
        try:
            _reserve_room(self._reserve, reserve_bytes)
        except OSError as error:
            os.close(self._fd)
            path.unlink()
            self._reserve.unlink(missing_ok=True)
            raise HarnessError(
                f"cannot reserve {reserve_bytes >> 20} MiB beside {path}: {error.strerror}",
                hint="free some disk space, or choose another folder with --results",
            ) from error
        self._encoder = msgspec.json.Encoder()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._write_loop, name="recorder", daemon=True)

    def start(self) -> None:
        """Begin to write; events recorded before wait in memory. Nothing to do where nothing is kept."""
        self._loop = _running_loop()
        if self._thread is not None:
            self._thread.start()

    def now_ns(self) -> int:
        """Nanoseconds since the run's zero."""
        return self._clock_ns() - self.zero_ns

    def invoke(self, process: int, f: str, node: str, key: str | None = None, value: Value = None) -> OpEvent:
        """Record that a request is about to leave."""
        event = OpEvent(
            index=self._index,
            time_ns=self._clock_ns() - self.zero_ns,
            type=Outcome.INVOKE,
            process=process,
            f=f,
            node=node,
            key=key,
            value=value,
        )
        self._add(event)
        return event

    def complete(self, invocation: OpEvent, completion: Completion) -> OpEvent:
        """Record how the request ended; the answer has been received."""
        event = OpEvent(
            index=self._index,
            time_ns=self._clock_ns() - self.zero_ns,
            type=completion.type,
            process=invocation.process,
            f=invocation.f,
            node=invocation.node,
            key=invocation.key,
            value=completion.value,
            error=completion.error,
            position=completion.position,
            value_position=completion.value_position,
            epoch=completion.epoch,
            session=completion.session,
        )
        self._add(event)
        return event

    def record(self, cls: type[E], **fields: Any) -> E:
        """Record an event of any type; index and time are stamped here (and `answered_ns` of a belief, with it)."""
        time_ns = self._clock_ns() - self.zero_ns
        if cls is BeliefEvent:
            fields["answered_ns"] = time_ns
        event = cls(index=self._index, time_ns=time_ns, **fields)
        self._add(event)
        return event

    def _add(self, event: Event) -> None:
        self._index += 1
        self._buffer.append(event)
        for listener in self.listeners:
            listener(event)

    async def close(self) -> None:
        """Write what is left, fsync, give the reserve back. Idempotent; raises when events could not be kept."""
        self._over = True
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """`close` for those outside an event loop."""
        if self._closed:
            return
        self._closed = True
        if self._thread is None:
            return
        self._wake.set()
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join()
        try:
            if self._failure is None:
                os.fsync(self._fd)
        finally:
            os.close(self._fd)
            self._reserve.unlink(missing_ok=True)
        if self._failure is not None:
            raise HarnessError(
                f"{self._path}: {self._lost} events could not be written: {self._failure.strerror}",
                hint="free some disk space; the events before them are kept and can be checked",
            )

    def _write_loop(self) -> None:
        while not self._wake.wait(FLUSH_INTERVAL_S):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        # Only this thread takes from the front and only the loop's thread appends: both are single list operations.
        while batch := self._buffer[:_BATCH]:
            del self._buffer[: len(batch)]
            if self._failure is not None:
                self._lost += len(batch)
                continue
            try:
                self._write(self._encoder.encode_lines(batch))
            except OSError as error:
                self._failure = error
                self._lost += len(batch)
                self._tell_disk_full()

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self._write_some(self._fd, left) :]  # type: ignore[arg-type]  # any buffer will do
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or self.disk_full:
                    raise
                self.disk_full = True
                self._reserve.unlink(missing_ok=True)
                self._tell_disk_full()

    def _tell_disk_full(self) -> None:
        """In the event loop's thread where there is one: the note is an event like any other."""
        if self._loop is None:
            self._disk_is_full()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._disk_is_full)

    def _disk_is_full(self) -> None:
        if self._on_disk_full is not None:
            self._on_disk_full()
        # Found by the last writing of all, when nothing is recorded any more: a note would be heard and never written.
        if self._failure is None and not self._over:
            self.record(NoteEvent, topic=DISK_FULL, text="the disk is full: no new operations, recording from reserve")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _reserve_room(path: Path, size_bytes: int) -> None:
    if size_bytes <= 0:
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size_bytes)
    finally:
        os.close(fd)
