"""The register of a night: append-only JSON lines, each on the disk before the next step is taken.

    {"record": "opened", ...}       the night: campaign, cells, seed, budget, shard, machine; the first line
    {"record": "refused", ...}      a cell that this machine cannot run, and why
    {"record": "registered", ...}   an attempt at a run, before its cluster exists
    {"record": "added", ...}        a cell that a search asks for while the night goes on
    {"record": "ended", ...}        the attempt with its class and what it showed
    {"record": "ticked", ...}       the night's time, every few seconds while runs are in flight
    {"record": "resumed", ...}      another session goes on
    {"record": "closed", ...}       the night is over, or was stopped; names the cells that were left out

No line is ever changed. An attempt that was registered and has no `ended` is `lost`. `kill -9` may leave half a last
line: it is ignored when read, and a session that resumes begins a new line after it. One process at a time holds the
register (flock).
"""

import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.night import FORMAT, Night, NightHead, NightState, RunAttempt, outcome_of
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import UsageError
from fencepost.harness.findings.known_issues import TrackedIssue

REGISTER: Final = "register.jsonl"


class Opened(NightHead, frozen=True, kw_only=True, tag_field="record", tag="opened"):
    """A night begins; `at` is UTC."""

    at: str
    cells: tuple[NightCell, ...]
    shard: int = 1


class RefusedRun(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="refused"):
    """This machine cannot run a cell."""

    cell: str
    reason: str


class AddedCell(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="added"):
    """A strategy that does not know its cells beforehand asks for one more."""

    cell: NightCell


class Registered(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="registered"):
    """An attempt is about to begin; its class is None."""

    attempt: RunAttempt


class EndedRun(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="ended"):
    """An attempt ended; `spent_s` is the night's time by then."""

    attempt: RunAttempt
    spent_s: float


class Ticked(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="ticked"):
    """The night's time by now, so that the budget has it also when nothing after it was written."""

    spent_s: float


class Resumed(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="resumed"):
    """Another session of the same night; known issues are those of its day."""

    at: str
    budget_s: float
    jobs: int
    known_issues: tuple[TrackedIssue, ...] = ()


class ClosedNight(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="closed"):
    """A session ended in order. `left_out` says by cell why it was not run."""

    at: str
    spent_s: float
    stopped: bool
    left_out: dict[str, str] = {}


Record: TypeAlias = Opened | RefusedRun | AddedCell | Registered | EndedRun | Ticked | Resumed | ClosedNight
#: Takes a record; returns when it is safe.
Append = Callable[[Record], None]


class NightRegister:
    """A register that is open for writing; a context manager."""

    def __init__(self, path: Path) -> None:
        """Open or make it; raises UsageError while another process holds it.

        A new one has its name once its first line is on the disk: what is killed before that never began.
        """
        self._path = path
        self._hidden = None if path.exists() else path.with_name(f".{path.name}.new")
        self._file = (self._hidden or path).open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UsageError(f"{path}: another fencepost is running this", hint="wait for it to end") from None
        if not _ends_whole(self._hidden or path):
            self._file.write(b"\n")

    def __enter__(self) -> "NightRegister":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, record: Record) -> None:
        """Write one line; returns when it is on the disk."""
        self._file.write(msgspec.json.encode(record) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._hidden is not None:
            self._hidden.replace(self._path)
            self._hidden = None


def read_register(path: Path) -> list[Record]:
    """Read every whole line; raises UsageError that names file, line and remedy."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="give the folder of a night, which holds it") from None
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            records.append(msgspec.json.decode(line, type=Record))
        except msgspec.ValidationError as error:
            raise UsageError(
                f"{path}, line {number}: {error}", hint="it was written by another version of fencepost"
            ) from None
        except msgspec.DecodeError:
            # Half a line, as a killed session leaves it; what it would have said did not happen.
            continue
    first = records[0] if records else None
    if not isinstance(first, Opened):
        raise UsageError(f"{path}: it does not begin with a night", hint="give the folder of a night")
    if first.format != FORMAT:
        raise UsageError(
            f"{path}, line 1: format {first.format}, and this fencepost reads {FORMAT}", hint="use the newer fencepost"
        )
    return records


def night_of(records: Iterable[Record], *, running: bool = False) -> Night:
    """Replay a register to the night it tells of.

    Args:
        running: the register's session still goes on, so that what is in flight is not lost.
    """
    opened, *rest = records
    assert isinstance(opened, Opened)
    attempts: dict[tuple[int, str, int, int], RunAttempt] = {}
    refusals: dict[str, str] = {}
    left_out: dict[str, str] = {}
    issues, budget_s, jobs, sessions = opened.known_issues, opened.budget_s, opened.jobs, 1
    spent_s, ended_at, state = 0.0, "", NightState.INTERRUPTED
    cells = list(opened.cells)
    for record in rest:
        match record:
            case RefusedRun():
                refusals[record.cell] = record.reason
            case AddedCell():
                cells.append(record.cell)
            case Registered():
                attempts[record.attempt.key] = record.attempt
                spent_s = max(spent_s, record.attempt.began_s)
            case EndedRun():
                attempts[record.attempt.key] = record.attempt
                spent_s = max(spent_s, record.spent_s)
            case Ticked():
                spent_s = max(spent_s, record.spent_s)
            case Resumed():
                issues, budget_s, jobs = record.known_issues, record.budget_s, record.jobs
                sessions += 1
                # The machine may be able by now to run what it could not.
                refusals, left_out, ended_at, state = {}, {}, "", NightState.INTERRUPTED
                attempts = {key: _lost(attempt) for key, attempt in attempts.items()}
            case ClosedNight():
                spent_s, ended_at, left_out = record.spent_s, record.at, record.left_out
                state = NightState.STOPPED if record.stopped else NightState.FINISHED
            case Opened():
                raise UsageError("a register tells of two nights", hint="give the folder of one night")
    state = NightState.RUNNING if running else state
    if not running:
        attempts = {key: _lost(attempt) for key, attempt in attempts.items()}
    own: dict[str, list[RunAttempt]] = {cell.id: [] for cell in cells}
    for attempt in attempts.values():
        own[attempt.cell].append(attempt)
    unsaid = "the night ended before its turn" if state is not NightState.RUNNING else ""
    head = {name: getattr(opened, name) for name in NightHead.__struct_fields__}
    return Night(
        **{**head, "budget_s": budget_s, "jobs": jobs, "known_issues": issues},
        started_at=opened.at,
        state=state,
        ended_at=ended_at,
        spent_s=spent_s,
        sessions=sessions,
        shards_present=(opened.shard,),
        cells=tuple(
            outcome_of(cell, own[cell.id], refusals.get(cell.id, ""), left_out.get(cell.id, unsaid)) for cell in cells
        ),
    )


def _lost(attempt: RunAttempt) -> RunAttempt:
    if attempt.run_class is not None:
        return attempt
    return msgspec.structs.replace(
        attempt, run_class=RunClass.LOST, reason="it was in flight when fencepost ended, and never reported"
    )


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
