"""A run's folder: what lies where, and how it is made.

results/<system>-<workload>-<nemesis>/<utc time>/
    plan.toml        the plan, ready to run again; written first
    run.json         the run's id, seed, versions, hashes, kernel, commit, wall-clock time of the monotonic zero; when
                     the run is over, the times of its phases
    history.jsonl    while the run lasts; history.parquet afterwards
    schedule.jsonl   the faults as they really happened
    given-schedule.jsonl  the faults that the plan named, where it named a file
    nodes/<name>/    configuration and log of each server; data.tar.gz when kept; metadata-log.jsonl, the replicated
                     log as the node's disk holds it, where the system has one
    lost.txt         only of a run of a night that was ended before it was judged: nobody counts it as a run
    verdict.json, junit.xml, report.html
    facts/           what is derived from all this: one Parquet file per table (docs/reference/facts-tables.md)
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import MachineError, UsageError
from fencepost.harness.base.files import write_whole
from fencepost.harness.base.quantities import parse_json

PLAN: Final = "plan.toml"
RUN: Final = "run.json"
HISTORY_LINES: Final = "history.jsonl"
#: Beside it while the run lasts: room for what comes after the disk is full.
RESERVE: Final = "history.reserve"
HISTORY: Final = "history.parquet"
SCHEDULE: Final = "schedule.jsonl"
GIVEN: Final = "given-schedule.jsonl"
NODES: Final = "nodes"
VERDICT: Final = "verdict.json"
JUNIT: Final = "junit.xml"
REPORT: Final = "report.html"
RUNNER_LOG: Final = "runner.log"
#: Kept free while a run lasts, so that its end can be recorded on a disk that is full by then.
RESERVE_BYTES: Final = 32 << 20
LOST: Final = "lost.txt"
#: Version of a run's folder, as `run.json` says it.
FORMAT: Final = 1
#: Why a run of a newer format is not judged, and the remedy.
NEWER: Final = "newer format"
NEWER_HINT: Final = "update fencepost: a newer one made this run"
_RUN_HINT: Final = "a run that was not edited judges as before; `fencepost run FOLDER/plan.toml` makes another"
#: Parts of `run.json` that early runs had in other forms, which nothing reads.
_ONCE_OTHERWISE: Final = ("nemesis", "settings", "machine")


def make_run_folder(results: Path, slug: str) -> Path:
    """Make a new folder named by the UTC time; two runs in one millisecond get different names.

    Raises:
        UsageError: the folder cannot be made.
        MachineError: its disk has no room for what a run reserves for its end.
    """
    parent = results / slug
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{parent}: {error.strerror}", hint="give another folder with --results") from None
    disk = shutil.disk_usage(parent)
    if disk.total and disk.free < RESERVE_BYTES:  # a file system that counts nothing says 0 of 0
        raise MachineError(
            f"{parent}: {disk.free >> 20} MiB are free on this disk; expected at least {RESERVE_BYTES >> 20} MiB",
            hint="free some disk space, or give another folder with --results",
        )
    while True:
        now = datetime.now(UTC)
        folder = parent / f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z"
        try:
            folder.mkdir()
        except FileExistsError:
            time.sleep(0.002)
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}", hint="give another folder with --results") from None
        else:
            return folder.resolve()


def find_run_folder(path: Path) -> Path:
    """Return the run's folder that `path` means: itself, or the newest run in it, which is then named on stderr.

    Raises UsageError when runs lie deeper, as in a folder of all results: then the run must be named.
    """
    if path.is_file():
        inside = _is_run(path.parent)
        raise UsageError(
            f"{path}: a file, where a run's folder is expected",
            hint=f"give {path.parent}" if inside else "give a folder that holds plan.toml and a history",
        )
    if _is_run(path):
        return path.resolve()
    within = sorted((child for child in path.glob("*/") if _is_run(child)), key=lambda child: child.name)
    if within:
        newest = within[-1].resolve()
        there = "the only run" if len(within) == 1 else f"the newest of {len(within)} runs"
        sys.stderr.write(f"{newest.name}: {there} in {path}\n")
        return newest
    deeper = sorted((plan.parent for plan in path.glob(f"*/**/{PLAN}")), key=lambda folder: folder.name)
    if deeper:
        raise UsageError(
            f"{path}: neither a run nor a folder of runs; {len(deeper)} runs lie deeper in it",
            hint=f"give one of them, such as {deeper[-1]}, or the folder that holds it",
        )
    raise UsageError(f"{path}: there is no run in this folder", hint="give a folder that holds plan.toml and a history")


def has_history(folder: Path) -> bool:
    """Whether a run recorded anything; one whose cluster did not start has recorded nothing."""
    return (folder / HISTORY_LINES).exists() or (folder / HISTORY).exists()


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (PLAN, HISTORY, HISTORY_LINES))


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a JSON file as `write_whole` does."""
    write_whole(path, json.dumps(data, indent=2, sort_keys=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read the object in `path`; return an empty one when the file is absent."""
    try:
        data = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: expected an object")
    return data


class _Artifacts(msgspec.Struct):
    version: str | None = None
    sha256: dict[str, str] = {}


class _LeftOut(msgspec.Struct):
    fault: str
    why: str


class _Nemesis(msgspec.Struct):
    left_out: list[_LeftOut] = []
    without_time: list[str] = []


class _Settings(msgspec.Struct):
    servers: dict[str, dict[str, Any]] = msgspec.field(name="asked", default_factory=dict)


class _RunFile(msgspec.Struct):
    """What judging and reports take from `run.json`."""

    system_version: str | None = None
    started_at: str | None = None
    failure: str | None = None
    artifacts: _Artifacts = msgspec.field(default_factory=_Artifacts)
    other_artifacts: dict[str, _Artifacts] = {}
    nemesis: _Nemesis | None = None
    settings: _Settings | None = None
    machine: dict[str, Any] | None = None
    plugins: list[dict[str, Any]] = []


def read_run(folder: Path) -> dict[str, Any]:
    """Read the `run.json` of a folder; an empty one without it.

    Raises:
        UsageError: it is no JSON object, of a format that this fencepost does not know, or has a value of another type.
    """
    data = read_json(folder / RUN)
    known = data.get("format", FORMAT)
    if known != FORMAT:
        if isinstance(known, int) and known > FORMAT:
            raise newer_format(folder / RUN, known, FORMAT)
        message = f"{folder / RUN}: format {known!r}, and this fencepost reads {FORMAT}"
        raise UsageError(message, hint="restore the file")
    try:
        msgspec.convert({k: v for k, v in data.items() if k not in _ONCE_OTHERWISE or isinstance(v, dict)}, _RunFile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{folder / RUN}: {str(error)[0].lower()}{str(error)[1:]}", hint=_RUN_HINT) from None
    return data


class RunRecord:
    """`run.json` of one run. The outer process alone writes it: whole, whenever more is known."""

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self.folder = folder
        self.facts = dict(facts)

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read the record of a stored run; raises as `read_run` does."""
        return cls(folder, read_run(folder))

    def add(self, facts: Mapping[str, Any]) -> None:
        """Add facts, and write the file; an existing key is replaced. Raises OSError; the facts are kept here then."""
        self.facts |= facts
        write_json(self.folder / RUN, self.facts)


def newer_format(path: Path, known: object, own: object) -> UsageError:
    """The error of a file of a run that a newer fencepost wrote."""
    return UsageError(f"{path}: {NEWER}: {known}, and this fencepost reads {own}", hint=NEWER_HINT)


def machine_facts() -> dict[str, Any]:
    """Return what `run.json` says about the machine; never its name."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "git_commit": _git_commit(),
    }


def _git_commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
