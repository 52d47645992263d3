"""The order in which a night runs its cells: what it would be worst not to know comes first.

Canaries, then required cells, then the others; among equals: never run, changed version, failed last, few exposures,
then round robin, the one that was run longest ago first. What is known of a cell comes from the registers of earlier
nights, of any campaign, by the cell's id.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.night import RunAttempt
from fencepost.campaigns.night.register import REGISTER, night_of, read_register
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import UsageError

#: A guarantee that was tested less often than this, over all nights, has few exposures.
EXPOSURES_FEW: Final = 100
#: Runs of these classes say nothing of how long a run takes: they were refused, or ended before their time.
_NO_LENGTH: Final = (RunClass.LOST, RunClass.MACHINE)


class Value(IntEnum):
    """Why a cell is worth running; smaller is worth more."""

    NEVER_RUN = 0
    CHANGED_VERSION = 1
    FAILED_LAST = 2
    FEW_EXPOSURES = 3
    ROUND_ROBIN = 4


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier nights know of a cell: last class, build and time, how often it was tested, how long it takes.

    `seconds` is the median of its runs, `last_s` how long the newest of them took.
    """

    last: RunClass
    build: str
    at: str
    exposures: int
    seconds: float
    last_s: float = 0.0


def read_past(nights: Path) -> dict[str, Past]:
    """What the registers below a folder know, by cell; a register that cannot be read is left out."""
    attempts: list[RunAttempt] = []
    for path in sorted(nights.glob(f"**/{REGISTER}")):
        try:
            attempts += night_of(read_register(path)).attempts
        except UsageError:
            continue
    return past_of(attempts)


def past_of(attempts: Iterable[RunAttempt]) -> dict[str, Past]:
    """What attempts at runs say of their cells; runs that were lost or never judged tell nothing but that they were."""
    by_cell: dict[str, list[RunAttempt]] = {}
    for attempt in attempts:
        if attempt.run_class is not None:
            by_cell.setdefault(attempt.cell, []).append(attempt)
    past = {}
    for cell, own in by_cell.items():
        own.sort(key=lambda a: a.began_at)
        names = {name for a in own for name in a.exposures}
        lengths = [a.seconds for a in own if a.seconds and a.run_class not in _NO_LENGTH]
        past[cell] = Past(
            last=own[-1].run_class or RunClass.LOST,
            build=own[-1].build,
            at=own[-1].began_at,
            exposures=min((sum(a.exposures.get(name, 0) for a in own) for name in names), default=0),
            seconds=median(lengths or [0.0]),
            last_s=lengths[-1] if lengths else 0.0,
        )
    return past


def value_of(cell: NightCell, past: Past | None, build: str) -> Value:
    """Why a cell is worth running now that `build` is what its servers would be."""
    if past is None:
        return Value.NEVER_RUN
    if build and past.build and past.build != build:
        return Value.CHANGED_VERSION
    if not (past.last is RunClass.INVALID if cell.canary else past.last.is_green):
        return Value.FAILED_LAST
    return Value.FEW_EXPOSURES if past.exposures < EXPOSURES_FEW else Value.ROUND_ROBIN


def by_value(cells: Sequence[NightCell], past: Mapping[str, Past], builds: Mapping[str, str]) -> list[NightCell]:
    """The cells in the order in which a night runs them."""

    def key(cell: NightCell) -> tuple[int, Value, str, str]:
        known = past.get(cell.id)
        return tier_of(cell), value_of(cell, known, builds.get(cell.id, "")), known.at if known else "", cell.id

    return sorted(cells, key=key)


def tier_of(cell: NightCell) -> int:
    """0 for canaries, 1 for required cells, 2 for others."""
    return 0 if cell.canary else 1 if cell.required else 2
