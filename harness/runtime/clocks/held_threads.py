"""Holds all threads of a process for a moment, by ptrace(2) or else by SIGSTOP, and reads where each of them stands.

`PTRACE_SEIZE` and `PTRACE_INTERRUPT` send no signal, so a paused process stays paused and a running one notices
nothing. A tracer is one thread, so all of this must run in a process of one thread that uses `waitpid` for nothing
else. If that process ends for any reason, the kernel releases every thread.
"""

import ctypes
import errno
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from fencepost.harness.runtime.clocks.memory import ClockError, Gone

_SEIZE, _INTERRUPT, _CONT, _DETACH, _GETREGSET = 0x4206, 0x4207, 7, 17, 0x4204
_TRACE_EXEC: Final = 0x10
_EVENT_EXEC, _EVENT_STOP = 4, 128
_NT_PRSTATUS: Final = 1
#: struct user_regs_struct of x86-64 has 27 registers; these two are read.
_REGISTERS, _RIP, _RSP = 27, 16, 19
_WALL: Final = 0x4000_0000
#: Every thread stops within this time, unless a freezer holds it.
DEADLINE_S: Final = 3.0
_POLL_S: Final = 0.0002
#: An active tracer releases a thread within less time.
_STILL_S: Final = 0.003

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long] * 4


class StuckThread(ClockError):
    """Raised when a thread did not stop. It is still traced: only the end of this process surely releases it."""


class TracedByOther(ClockError):
    """Raised when another program (strace, a debugger) already traces the process."""


class Thread(NamedTuple):
    """The position of a stopped thread: its instruction and stack pointers."""

    pc: int
    sp: int


class Hold(Protocol):
    """A context in which no thread of the process runs."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def threads(self) -> Iterator[Thread]: ...


def number_here(proc_number: int) -> int:
    """Return the number that system calls of this process use for the thread that /proc calls `proc_number`.

    The numbers differ if /proc belongs to an outer pid namespace: NSpid lists them from that namespace inwards.
    """
    depth = _depth()
    if depth == 0:
        return proc_number
    return int(_status(proc_number, "NSpid").split()[depth])


def state(proc_number: int) -> str:
    """Return the state letter of a thread; "" when it is gone."""
    try:
        text = Path(f"/proc/{proc_number}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return text[text.rindex(")") + 2]


def tracer_of(proc_number: int) -> int:
    """Return the number of the tracer; 0 when there is none."""
    return int(_status(proc_number, "TracerPid"))


def hold(pid: int) -> Hold:
    """Choose the gentlest way to hold this process: ptrace, unless another program traces it."""
    return _Stopped(pid) if tracer_of(pid) else _Traced(pid)


class _Traced:
    """A hold of all threads by ptrace."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        #: For each thread the signal that it was about to get when it stopped; it gets the signal at its release.
        self._held: dict[int, int] = {}
        self._deadline = time.monotonic() + DEADLINE_S

    def __enter__(self) -> Self:
        seen: set[int] = set()
        try:
            while new := [number for number in _threads(self._pid) if number not in seen]:
                seen.update(new)
                seized = [thread for thread in map(_seize, new) if thread is not None]
                for thread in seized:
                    self._held[thread] = 0
                for thread in seized:
                    self._await_stop(thread)
        except BaseException:
            self._let_go()
            raise
        if not self._held:
            raise Gone(f"process {self._pid} has ended")
        return self

    def _await_stop(self, thread: int) -> None:
        status = wait(thread, self._deadline)
        if status is None or not os.WIFSTOPPED(status):
            del self._held[thread]
            return
        # A pending signal arrived before our interruption.
        self._held[thread] = os.WSTOPSIG(status) if status >> 16 == 0 else 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def _let_go(self) -> None:
        for thread, pending in self._held.items():
            with suppress(OSError):
                _ptrace(_DETACH, thread, 0, pending)
        self._held = {}

    def threads(self) -> Iterator[Thread]:
        for thread in self._held:
            yield _registers(thread)


class _Stopped:
    """A hold of all threads by SIGSTOP, for a process that another program traces; a stopped process stays stopped.

    A thread may also stand still for a moment because its tracer inspects it. So a thread counts as stopped only when
    it is seen twice at the same position; an active tracer would have moved it on.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._was = state(pid) == "T"
        self._places: dict[int, Thread] = {}

    def __enter__(self) -> Self:
        deadline = time.monotonic() + DEADLINE_S
        self._signal(signal.SIGSTOP)
        before: dict[int, Thread] | None = None
        while (now := self._look()) is None or now != before:
            if time.monotonic() > deadline:
                self._signal(signal.SIGCONT)
                raise ClockError(f"process {self._pid} did not stop within {DEADLINE_S:g} s")
            before = now
            time.sleep(_STILL_S)
        self._places = now
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if not self._was:
            try:
                os.kill(number_here(self._pid), number)
            except ProcessLookupError:
                raise Gone(f"process {self._pid} has ended") from None

    def _look(self) -> dict[int, Thread] | None:
        """Return the position of each thread; None while a thread runs."""
        places = {}
        for thread in _threads(self._pid):
            letter = state(thread)
            if letter in ("Z", "X", ""):
                continue
            try:
                fields = Path(f"/proc/{thread}/syscall").read_text(encoding="ascii").split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if letter not in ("T", "t") or fields[0] == "running":
                return None
            places[thread] = Thread(int(fields[-1], 16), int(fields[-2], 16))
        if not places:
            raise Gone(f"process {self._pid} has ended")
        return places

    def threads(self) -> Iterator[Thread]:
        return iter(self._places.values())


class AtExec:
    """A hold at the first instruction of a program that the process has just begun; nothing of it ran yet.

    `gate` is a process that stops itself by SIGSTOP and executes the program when it is continued.
    """

    def __init__(self, gate: int) -> None:
        self._gate = gate
        self._thread = number_here(gate)
        self._deadline = time.monotonic() + DEADLINE_S

    def __enter__(self) -> Self:
        _attach(self._gate, _TRACE_EXEC)
        while True:
            status = wait(self._thread, self._deadline)
            if status is None or not os.WIFSTOPPED(status):
                raise Gone(f"process {self._gate} ended before it executed its program")
            event, number = status >> 16, os.WSTOPSIG(status)
            if event == _EVENT_EXEC:
                return self
            if event == _EVENT_STOP and number == signal.SIGSTOP:
                os.kill(self._thread, signal.SIGCONT)
            _ptrace(_CONT, self._thread, 0, 0 if event else number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            _ptrace(_DETACH, self._thread)

    def threads(self) -> Iterator[Thread]:
        """Yield nothing: no thread can be inside any function yet."""
        return iter(())


def wait(thread: int, deadline: float) -> int | None:
    """Return the status of the next event of a traced thread; None when the thread is gone. Raises Stuck."""
    while True:
        try:
            number, status = os.waitpid(thread, os.WNOHANG | _WALL)
        except ChildProcessError:
            return None
        if number:
            return status
        if time.monotonic() > deadline:
            raise StuckThread(f"thread {thread} did not stop within {DEADLINE_S:g} s; is it frozen?")
        time.sleep(_POLL_S)


def _seize(proc_number: int) -> int | None:
    """Seize and interrupt a thread; return its number here, or None when it has ended."""
    try:
        thread = _attach(proc_number)
        _ptrace(_INTERRUPT, thread)
    except Gone:
        return None
    except OSError as error:
        if error.errno == errno.ESRCH:
            return None
        raise ClockError(f"ptrace of {proc_number}: {error.strerror}") from None
    return thread


def _attach(proc_number: int, options: int = 0) -> int:
    """Seize a thread; return its number here."""
    thread = number_here(proc_number)
    try:
        _ptrace(_SEIZE, thread, 0, options)
    except OSError as error:
        # EPERM also means that the thread has ended.
        if error.errno == errno.ESRCH or state(proc_number) in ("Z", "X", ""):
            raise Gone(f"process {proc_number} has ended") from None
        tracer = tracer_of(proc_number)
        if error.errno == errno.EPERM and tracer:
            raise TracedByOther(f"process {proc_number} is traced by process {tracer}") from None
        raise ClockError(f"process {proc_number} may not be traced: {error.strerror}") from None
    return thread


def _registers(thread: int) -> Thread:
    values = (ctypes.c_uint64 * _REGISTERS)()
    vector = (ctypes.c_uint64 * 2)(ctypes.addressof(values), ctypes.sizeof(values))
    _ptrace(_GETREGSET, thread, _NT_PRSTATUS, ctypes.addressof(vector))
    return Thread(values[_RIP], values[_RSP])


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        raise Gone(f"process {pid} has ended") from None


def _depth() -> int:
    return len(_status("self", "NSpid").split()) - 1


def _status(proc_number: int | str, name: str) -> str:
    try:
        text = Path(f"/proc/{proc_number}/status").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise Gone(f"process {proc_number} has ended") from None
    return next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(f"{name}:")), "0")


def _ptrace(request: int, thread: int, address: int = 0, data: int = 0) -> None:
    ctypes.set_errno(0)
    if _libc.ptrace(request, thread, address, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
