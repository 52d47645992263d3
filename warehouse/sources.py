"""What there is to add: run folders below a path, and the registers of nights, with what each run belongs to."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fencepost.campaigns.gate.documents import read_gate
from fencepost.campaigns.night.merge import read_night
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.outcome import outcome
from fencepost.campaigns.night.register import REGISTER
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import FencepostError, UsageError
from fencepost.harness.judging.run_facts import run_id_of
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import FACTS
from fencepost.harness.verdict.fact_tables import FactTable
from fencepost.warehouse.night_tables import ATTEMPTS, CELLS, NIGHTS, REQUIREMENTS


class RunSource(msgspec.Struct, frozen=True, kw_only=True):
    """A run's folder, its id, and where it belongs; `attempt` is the attempt's folder in its shard of the night.

    `size` is that of its history's file, in bytes. `is_half`: its attempt never reported, and nobody sealed its
    history: what a killed night left of it, or what a night under way is writing.
    """

    folder: str
    run_id: str
    night: str
    day: str
    cell: str | None = None
    attempt: str | None = None
    shard: int | None = None
    size: int = 0
    is_half: bool = False


def sources_below(results: Path) -> list[RunSource]:
    """List the runs below `results`, or `results` itself, by path; of copies with one `run_id`, the first.

    Raises:
        UsageError: there is no run.
    """
    folders = sorted(folder.resolve() for folder in _run_folders(results))
    if not folders:
        raise UsageError(f"{results}: no run is kept here", hint="give the folder that `fencepost run` kept runs in")
    sources: dict[str, RunSource] = {}
    for source in sources_of(folders):
        sources.setdefault(source.run_id, source)
    return list(sources.values())


def _run_folders(results: Path) -> Iterator[Path]:
    """Yield the folders that have a plan, and a history or what was made of one. All in such a folder is that run's.

    A run that has neither recorded nothing: its cluster did not start. One whose history is gone cannot be judged.
    """
    for folder, below, files in os.walk(results):
        if store.PLAN in files and (_histories(files) or store.VERDICT in files or FACTS in below):
            below.clear()
            yield Path(folder)


def _histories(files: Sequence[str]) -> list[str]:
    return [name for name in (store.HISTORY, store.HISTORY_LINES) if name in files]


def sources_of(folders: Sequence[Path]) -> list[RunSource]:
    """Say of each run where it belongs: to the night whose folder it lies in, else to the UTC date of its start."""
    nights: dict[Path, _Cells] = {}
    return [_source(folder, nights) for folder in folders]


def night_folders(results: Path) -> list[Path]:
    """The folders of nights at, below or above `results`."""
    above = [folder for folder in (results, *results.resolve().parents) if (folder / REGISTER).is_file()]
    return above[:1] or sorted(path.parent for path in results.glob(f"**/{REGISTER}"))


def rows_of_night(folder: Path) -> tuple[Night, dict[str, list[dict[str, Any]]]]:
    """A night as rows of the tables of nights; raises UsageError as its register does.

    Whether a gate is green is decided by its policy, as its gate.json says.
    """
    night = read_night(folder)
    gate = read_gate(folder)
    judged = outcome(night)
    place = {"night": night.id, "shard": night.shards_present[0]}
    nights = {
        **_columns(NIGHTS, night),
        **_columns(NIGHTS, gate or judged),
        **place,
        "reasons": list(gate.reasons) if gate else [reason.text for reason in judged.reasons],
        "machine": msgspec.json.encode(night.machine).decode(),
        "folder": str(folder),
    }
    cells = [
        {
            **_columns(CELLS, each.cell.plan),
            **_columns(CELLS, each.cell),
            **_columns(CELLS, each),
            **place,
            "cell": each.cell.id,
            "caught": each.is_caught if each.cell.canary else None,
            "exposure": each.exposure,
        }
        for each in night.cells
    ]
    attempts = [{**_columns(ATTEMPTS, attempt), **place} for attempt in night.attempts]
    requirements = [
        {
            **_columns(REQUIREMENTS, each),
            "night": night.id,
            "number": number,
            "runs": len(each.attempts),
            "reports": [attempt.report for attempt in each.attempts if attempt.report],
        }
        for number, each in enumerate(gate.requirements if gate else ())
    ]
    return night, {"nights": [nights], "cells": cells, "attempts": attempts, "requirements": requirements}


def _columns(table: FactTable, value: msgspec.Struct) -> dict[str, Any]:
    """What a value has of a table's columns, by the same names."""
    names = {column.name for column in table.columns}
    return {name: own for name, own in msgspec.to_builtins(value).items() if name in names}


class _Cells(msgspec.Struct, frozen=True):
    """A night's id and shard, and each attempt by its folder."""

    night: str
    shard: int
    by_folder: dict[str, RunAttempt]


def _source(folder: Path, nights: dict[Path, _Cells]) -> RunSource:
    try:
        run = store.read_run(folder)
    except (FencepostError, OSError):
        # Its own task says why it cannot be read.
        run = {}
    day = str(run.get("started_at") or "unknown")[:10]
    run_id = run_id_of(folder, run)
    size = sum((folder / name).stat().st_size for name in _histories(os.listdir(folder))[:1])
    home = next((above for above in folder.parents if (above / REGISTER).is_file()), None)
    if home is None:
        return RunSource(folder=str(folder), run_id=run_id, night=day, day=day, size=size)
    if home not in nights:
        night = read_night(home)
        nights[home] = _Cells(night.id, night.shards_present[0], {a.folder: a for a in night.attempts})
    cells = nights[home]
    attempt = next((name for name in cells.by_folder if folder.is_relative_to(home / name)), None)
    known = None if attempt is None else cells.by_folder[attempt]
    is_half = known is not None and known.run_class is RunClass.LOST and not (folder / store.HISTORY).is_file()
    return RunSource(
        folder=str(folder),
        run_id=run_id,
        night=cells.night,
        day=day,
        cell=None if known is None else known.cell,
        attempt=attempt,
        shard=cells.shard,
        size=size,
        is_half=is_half,
    )
