"""The smallest plan that still shows a finding, as the searches of `fencepost shrink` left it."""

import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fencepost.campaigns.replay.shrinking import DOCUMENT, SMALLER
from fencepost.harness.verdict.fingerprint import violation_of


class ShrunkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A smaller plan: its file, its faults before and after, its length, and in how many fresh runs it showed."""

    plan: str
    faults_before: int
    faults_after: int
    time_limit: str
    confirmed: bool
    shown: int = 0
    of: int = 0


class _Faults(msgspec.Struct, frozen=True):
    before: int
    after: int


class _Shown(msgspec.Struct, frozen=True):
    shown: int
    of: int


class _Search(msgspec.Struct, frozen=True):
    """What is read of shrink.json."""

    fingerprint: str
    faults: _Faults
    confirmed: bool = False
    smaller: str | None = None
    confirmation: _Shown | None = None


def smallest(fingerprint: str, folders: Iterable[str]) -> ShrunkPlan | None:
    """The smallest plan of these searches: a confirmed one first, then fewest faults, then the shortest path.

    A search whose files are gone or of another form is left out: the page says then that nobody has shrunk it.
    """
    plans = [plan for folder in folders if (plan := _read(fingerprint, Path(folder))) is not None]
    return min(plans, key=lambda plan: (not plan.confirmed, plan.faults_after, plan.plan), default=None)


def _read(fingerprint: str, folder: Path) -> ShrunkPlan | None:
    try:
        search = msgspec.json.decode((folder / DOCUMENT).read_bytes(), type=_Search)
        plan = tomllib.loads((folder / SMALLER).read_text(encoding="utf-8"))
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    if violation_of(search.fingerprint) != violation_of(fingerprint) or search.smaller is None:
        return None
    return ShrunkPlan(
        plan=str(folder / SMALLER),
        faults_before=search.faults.before,
        faults_after=search.faults.after,
        time_limit=str(plan.get("time_limit", "")),
        confirmed=search.confirmed,
        shown=search.confirmation.shown if search.confirmation else 0,
        of=search.confirmation.of if search.confirmation else 0,
    )
