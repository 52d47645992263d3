"""One history, our core and Porcupine in turns on one processor: processor time of the verdict alone, and memory.

Ours is called from Python with columns in memory, and returns a verdict that it confirmed, with its witness. Porcupine,
in a process of its own with GOMAXPROCS=1, gets events that were prepared in memory. Neither reads a file on the clock.
"""

import contextlib
import ctypes
import gc
import json
import math
import multiprocessing
import os
import select
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bench.against_porcupine.cells import End, Outcome, Side
from bench.against_porcupine.histories import Shape
from fencepost.checkers.storage.register_anomalies import Columns
from fencepost.checkers.storage.registers import search
from fencepost.harness.interchange.second_opinion.porcupine import OUT_OF_MEMORY, OUT_OF_TIME
from fencepost.harness.verdict import SearchBudget

#: Shorter ones are repeated on the clock until they take so long together: ten times what changing sides costs.
_MEASURABLE_S: Final = 0.02
_ROUNDS: Final = ((0.2, 7), (1.0, 5), (3.0, 3))
#: A busy machine lets a process run for a part of the time.
_WALL_FACTOR: Final = 8
_START_S: Final = 120.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one verdict, for either side."""

    cpu_s: float
    memory_bytes: int


class Wrong(Exception):
    """A verdict that contradicts how the history was made, or the other checker's."""


class Lap(NamedTuple):
    """One measurement: processor seconds of one verdict, or how it failed."""

    end: End
    cpu_s: float
    verdict: str
    peak_bytes: int
    method: str = ""


def contest(
    shape: Shape, columns: Columns, expected: str | None, program: Path, limits: Limits, folder: Path, *, ask: bool
) -> Outcome:
    """Both sides on this history; Porcupine only if `ask`. Raises Wrong."""
    with contextlib.ExitStack() as stack:
        ours = _Runner(stack.enter_context(_our_side(columns, limits)))
        runners = [ours]
        theirs = None
        if ask:
            theirs = _Runner(stack.enter_context(_their_side(shape, columns, program, limits, folder)))
            runners.append(theirs)
        while any(runner.waits for runner in runners):
            for runner in runners:
                runner.run()
    verdicts = {runner.verdict for runner in runners if runner.verdict} | ({expected} if expected else set())
    if len(verdicts) > 1:
        by = f"ours {ours.verdict or 'nothing'}, Porcupine {theirs.verdict if theirs else 'was not asked'}"
        raise Wrong(f"{shape}: {by}; as it was made it is {expected or 'of no known verdict'}")
    not_asked = Side(end=End.NOT_ASKED)
    return Outcome(
        shape=shape, ours=ours.side(), theirs=theirs.side() if theirs else not_asked, method=ours.last.method
    )


class _Runner:
    """One side: a first verdict, which says how often it will be measured, and then the measurements."""

    def __init__(self, measure: "_Measure") -> None:
        self._measure = measure
        self._laps: list[Lap] = []
        self._rounds = 1
        self._repeats = 1

    @property
    def waits(self) -> bool:
        return len(self._laps) < self._rounds

    @property
    def last(self) -> Lap:
        return self._laps[-1]

    @property
    def verdict(self) -> str:
        """Valid, invalid, or nothing."""
        return self.last.verdict if self.last.end is End.DONE else ""

    def run(self) -> None:
        if not self.waits:
            return
        lap = self._measure(self._repeats)
        if self._laps and lap.verdict != self.last.verdict:
            raise Wrong(f"{self.last.verdict}, then {lap.verdict}, of the same history")
        self._laps.append(lap)
        if len(self._laps) == 1 and lap.end is not End.TIME and lap.end is not End.MEMORY:
            self._rounds = next((1 + rounds for limit_s, rounds in _ROUNDS if lap.cpu_s < limit_s), 1)
            self._repeats = max(1, math.ceil(_MEASURABLE_S / max(lap.cpu_s, 1e-7)))

    def side(self) -> Side:
        """By the median of all but the first, which found everything cold, where there are others."""
        counted = self._laps[1:] or self._laps
        return Side(
            end=self.last.end,
            cpu_s=statistics.median(lap.cpu_s for lap in counted),
            peak_bytes=max(lap.peak_bytes for lap in self._laps),
        )


class _Measure:
    """Asks the process of one side."""

    def __call__(self, repeats: int) -> Lap:
        raise NotImplementedError


# --- ours


class _Ours(_Measure):
    def __init__(self, connection: "Connection[int, Lap]", limits: Limits) -> None:
        self._connection = connection
        self._limits = limits

    def __call__(self, repeats: int) -> Lap:
        try:
            self._connection.send(repeats)
            if not self._connection.poll(self._limits.cpu_s * _WALL_FACTOR + _START_S):
                return Lap(End.TIME, 0.0, "", 0)
            return self._connection.recv()
        except (BrokenPipeError, EOFError):
            raise Wrong("our side ended without an answer") from None


@contextmanager
def _our_side(columns: Columns, limits: Limits) -> Iterator[_Measure]:
    """In a forked process: what it takes beyond the columns is its own."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, here, columns, limits), daemon=True)
    process.start()
    there.close()
    try:
        yield _Ours(here, limits)
    finally:
        here.close()
        process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(there: "Connection[Lap, int]", here: "Connection[int, Lap]", columns: Columns, limits: Limits) -> None:
    here.close()
    gc.disable()
    budget = SearchBudget(wall_s=limits.cpu_s * 2)
    # What the parent freed would be used again unseen; and the peak counts from here.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _memory("VmRSS")
    with contextlib.suppress(EOFError):
        while True:
            repeats = there.recv()
            began = time.process_time_ns()
            for _ in range(repeats):
                results = search(columns, budget, orders=True)
                verdicts = {result.verdict for result in results}
                verdict = "invalid" if "invalid" in verdicts else "unknown" if "unknown" in verdicts else "valid"
            spent = (time.process_time_ns() - began) / repeats / 1e9
            by = "+".join(sorted({result.method for result in results}))
            why = sorted({result.reason for result in results if result.reason})
            end = End.UNKNOWN if verdict == "unknown" else End.DONE
            there.send(Lap(end, spent, verdict, _memory("VmHWM") - before, f"{by}: {', '.join(why)}" if why else by))


def _memory(name: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(f"{name}:")).split()[1]) * 1024


# --- Porcupine


class _Theirs(_Measure):
    def __init__(self, process: "subprocess.Popen[bytes]", limits: Limits) -> None:
        self._process = process
        self._limits = limits

    def __call__(self, repeats: int) -> Lap:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{repeats}\n".encode())
            self._process.stdin.flush()
        line = _line(self._process, self._limits.cpu_s * _WALL_FACTOR + _START_S)
        if line is None:
            return Lap(End.TIME, 0.0, "", 0)
        if not line:
            return Lap(_ended(self._process), 0.0, "", 0)
        lap = json.loads(line)
        verdict = {"Ok": "valid", "Illegal": "invalid"}[lap["result"]]
        return Lap(End.DONE, lap["cpu_ns"] / repeats / 1e9, verdict, lap["peak_bytes"])


@contextmanager
def _their_side(shape: Shape, columns: Columns, program: Path, limits: Limits, folder: Path) -> Iterator[_Measure]:
    file = folder / "history"
    write_columns(file, columns)
    process = subprocess.Popen(
        [str(program), "bench", str(file), f"{limits.cpu_s:g}", str(limits.memory_bytes)],
        env={**os.environ, "GOMAXPROCS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    try:
        line = _line(process, _START_S)
        if not line and (line is None or _ended(process) is not End.MEMORY):
            raise Wrong(f"{shape}: Porcupine's program did not start")
        yield _Theirs(process, limits)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        file.unlink()


def write_columns(file: Path, columns: Columns) -> None:
    """The columns as the program's history.go reads them."""
    header = {"model": "register", "rows": len(columns.f), "keys": len(columns.keys), "elements": 0}
    with file.open("wb") as stream:
        stream.write(json.dumps(header).encode() + b"\n")
        for column in (columns.key, columns.f, columns.a, columns.b, columns.invoked, columns.returned):
            stream.write(column.astype("<i8").tobytes())


def _line(process: "subprocess.Popen[bytes]", timeout_s: float) -> bytes | None:
    """A line of its standard output; empty at its end, None when it is too late."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], timeout_s)
    return process.stdout.readline() if ready else None


def _ended(process: "subprocess.Popen[bytes]") -> End:
    status = process.wait(10)
    if status == OUT_OF_MEMORY:
        return End.MEMORY
    if status == OUT_OF_TIME:
        return End.TIME
    raise Wrong(f"Porcupine's program ended with {status}")
