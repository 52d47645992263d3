"""Shards of one night as one night, by their files alone: any machine that has their folders can merge them.

A shard that is missing, or that never ended, is told by the outcome. Folders that cannot belong together are refused:
another campaign, another number of shards, one shard twice, or beginnings more than a day apart.
"""

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fencepost.campaigns.night.night import CellOutcome, Night, NightState, RunAttempt, outcome_of
from fencepost.campaigns.night.register import REGISTER, night_of, read_register
from fencepost.harness.base.errors import UsageError

_APART_MAX: Final = datetime.timedelta(days=1)


def read_night(folder: Path, register: str = REGISTER) -> Night:
    """The night, or the shard of one, that a folder holds; raises UsageError."""
    return night_of(read_register(folder / register))


def shards_below(folders: Sequence[Path], name: str = "") -> list[tuple[Path, Night]]:
    """Read the shards of one night: those in `folders` themselves, and those in the nights of results below them.

    Args:
        name: the night, by its id or by the name that `--night` gave it; empty: the newest one below the folders.

    Raises:
        UsageError: a folder holds no night, or none of this name.
    """
    given: list[tuple[Path, Night]] = []
    kept: list[tuple[Path, Night]] = []
    for folder in folders:
        own = (
            [folder]
            if (folder / REGISTER).is_file()
            else sorted(p.parent for p in folder.glob(f"nights/*/*/{REGISTER}"))
        )
        if not own:
            raise UsageError(f"{folder}: there is no night", hint="give the folder of a night, or one of results")
        (given if own == [folder] else kept).extend((path.resolve(), read_night(path)) for path in own)
    if kept and not name:
        name = max((night for _, night in kept), key=lambda night: night.started_at).id
    chosen = [each for each in kept if name in (each[1].id, each[1].id.removeprefix(f"{each[1].campaign}-"))]
    if kept and not chosen:
        known = ", ".join(sorted({night.id for _, night in kept}))
        raise UsageError(f"there is no night {name} below these folders", hint=f"there are: {known}")
    return given + chosen


def merged_night(shards: Sequence[tuple[Path, Night]], home: Path) -> Night:
    """Merge shards to one night, with paths relative to `home`; raises UsageError for what does not belong together."""
    _refuse_strangers(shards)
    nights = [
        msgspec.structs.replace(night, cells=_rebased(night.cells, Path(os.path.relpath(folder, home))))
        for folder, night in sorted(shards, key=lambda each: each[1].shards_present)
    ]
    first = nights[0]
    by_cell: dict[str, list[CellOutcome]] = {}
    for night in nights:
        for each in night.cells:
            by_cell.setdefault(each.cell.id, []).append(each)
    return msgspec.structs.replace(
        first,
        merged=True,
        started_at=min(night.started_at for night in nights),
        ended_at=max(night.ended_at for night in nights),
        state=_state(nights),
        spent_s=max(night.spent_s for night in nights),
        budget_s=max(night.budget_s for night in nights),
        sessions=max(night.sessions for night in nights),
        shards_present=tuple(n for night in nights for n in night.shards_present),
        known_issues=tuple(dict.fromkeys(issue for night in nights for issue in night.known_issues)),
        impossible=tuple(dict.fromkeys(text for night in nights for text in night.impossible)),
        cells=tuple(_joined(own) for own in by_cell.values()),
    )


def _refuse_strangers(shards: Sequence[tuple[Path, Night]]) -> None:
    (where, first), *rest = shards
    seen = {first.shards_present: where}
    for folder, night in rest:
        if night.digest != first.digest or night.campaign != first.campaign:
            raise UsageError(
                f"{folder} is of another campaign file than {where}",
                hint="shards of one night run the same file with the same content",
            )
        if night.shards != first.shards:
            raise UsageError(f"{folder} is a shard of {night.shards}, {where} one of {first.shards}")
        if night.shards_present in seen:
            numbers = ", ".join(map(str, night.shards_present))
            raise UsageError(
                f"{folder} is shard {numbers}, and so is {seen[night.shards_present]}", hint="leave one of them out"
            )
        seen[night.shards_present] = folder
    began = [datetime.datetime.fromisoformat(night.started_at) for _, night in shards]
    if max(began) - min(began) > _APART_MAX:
        raise UsageError(
            "these shards began more than a day apart, so they are of different nights",
            hint="give the shards of one night; resume or leave out what is older",
        )


def _state(nights: Sequence[Night]) -> NightState:
    order = (NightState.INTERRUPTED, NightState.RUNNING, NightState.STOPPED, NightState.FINISHED)
    return min((night.state for night in nights), key=order.index)


def _rebased(cells: Sequence[CellOutcome], below: Path) -> tuple[CellOutcome, ...]:
    def rebased(a: RunAttempt) -> RunAttempt:
        report = (below / a.report).as_posix() if a.report else ""
        return msgspec.structs.replace(a, folder=(below / a.folder).as_posix(), report=report)

    return tuple(msgspec.structs.replace(each, attempts=tuple(map(rebased, each.attempts))) for each in cells)


def _joined(own: Sequence[CellOutcome]) -> CellOutcome:
    """One cell of several shards, as canaries are; a cell of one shard stays what it is."""
    if len(own) == 1:
        return own[0]
    attempts = tuple(a for each in own for a in each.attempts)
    if not attempts:
        return own[0]
    return outcome_of(own[0].cell, attempts)
