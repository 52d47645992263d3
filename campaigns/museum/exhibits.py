"""What the museum shows: published bugs, each with a plan that brings it up and a control that must not show it.

A system that has some keeps them in a `museum.toml` beside its `guarantees.toml`:

    format = 1

    [[exhibit]]
    id = "loses-writes"                     # also the name of its page in docs/findings; `page` says another one
    title = "Acknowledged writes are lost under kills"
    known = ["#123"]                        # how others call it; none: nobody reported it
    source = "https://..."
    affected = "1.0"                        # the release that is run
    fixed = "1.1"                           # the first fixed one that is known; none: there is none
    kind = "tuned"                          # see PlanKind
    guarantee = "no-lost-acknowledged-writes"
    anomalies = ["lost-write"]              # one of these; none: any anomaly of the guarantee
    measured = [{ bug = [3, 4], control = [0, 2], date = 2026-11-29, commit = "1a2b3c4" }]
    control = { version = "1.1" }           # keys of the plan that differ
    cause_away = "the same without kills"   # what a control of the same release changes
    control_guarantee = "linearizable"      # what the control is judged by, where not by the bug's guarantee

    [exhibit.plan]                          # keys of a plan, or `file = "..."`: a plan, relative to museum.toml
    workload = "set"
    nemesis = "kill"

`unjudged` says why no verdict can show the bug: it is listed, and never counted as reproduced.
"""

import datetime
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.base.toml_file import TomlFile, merged, read_toml
from fencepost.harness.contract.system import BaseSystem, System
from fencepost.harness.findings.findability import chance_unseen
from fencepost.harness.findings.rate import Rate
from fencepost.harness.plan import Plan
from fencepost.harness.plugins import registry

#: The file of a system with its exhibits.
FILE: Final = "museum.toml"
FORMAT: Final = 1
#: A bug is tried so often at most.
TRIES_MAX: Final = 10
#: A bug is lost when its silence would be this unlikely at its measured rate.
_LOST_AT: Final = 0.05
_HINT: Final = "the docstring of campaigns/museum/exhibits.py shows such a file"


class PlanKind(StrEnum):
    """How much a plan knows of the bug.

    `BROAD`: a fault at the workload's own settings. `TUNED`: rates, options or settings are chosen for the bug.
    `SCRIPTED`: faults begin at moments, calls or triggers that were chosen for it.
    """

    BROAD = "broad"
    TUNED = "tuned"
    SCRIPTED = "scripted"


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often the bug showed, and how often its control did; `commit` is that of fencepost, empty if not recorded."""

    bug: tuple[int, int]
    control: tuple[int, int]
    date: datetime.date | None = None
    commit: str = ""


class Exhibit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published bug; `system`, and the `folder` to which its file is relative, are those of its museum.toml."""

    id: str
    title: str
    affected: str
    kind: PlanKind
    known: tuple[str, ...] = ()
    source: str = ""
    fixed: str = ""
    page: str | None = None
    guarantee: str = ""
    anomalies: tuple[str, ...] = ()
    measured: tuple[Measurement, ...] = ()
    control: dict[str, Any] | None = None
    cause_away: str = ""
    control_guarantee: str = ""
    unjudged: str = ""
    plan: dict[str, Any] = {}
    file: str = ""
    system: str = ""
    folder: Path = Path()

    @property
    def bug_rate(self) -> Rate:
        """How often it showed, over all measurements of its file."""
        return sum((Rate(*each.bug) for each in self.measured), Rate(0, 0))

    @property
    def control_rate(self) -> Rate:
        return sum((Rate(*each.control) for each in self.measured), Rate(0, 0))

    def is_lost_after(self, runs: int) -> bool:
        """Whether so many runs without it are unlikely at its measured rate; never where none was measured."""
        return bool(self.bug_rate.seen) and chance_unseen(self.bug_rate, runs) <= _LOST_AT

    @property
    def tries(self) -> int:
        """So many runs are made at most, until it shows."""
        return next((runs for runs in range(1, TRIES_MAX) if self.is_lost_after(runs)), TRIES_MAX)

    def is_shown_by(self, guarantee: str, anomaly: str) -> bool:
        """Whether this is the exhibit's fingerprint: its guarantee, and one of its anomalies."""
        return guarantee == self.guarantee and (not self.anomalies or anomaly in self.anomalies)

    def bug_plan(self) -> Plan:
        """The plan that brings it up; raises UsageError, also where its file is not there."""
        return self._plan({})

    def control_plan(self) -> Plan:
        """The plan of the control; raises UsageError."""
        return self.as_control()._plan(self.control or {})

    def as_control(self) -> "Exhibit":
        """The exhibit with the guarantee by which its control is judged."""
        return msgspec.structs.replace(self, guarantee=self.control_guarantee or self.guarantee)

    def on(self, version: str) -> Plan:
        """The plan that brings it up, on another release or build."""
        return self._plan({"version": version})

    def _plan(self, over: dict[str, Any]) -> Plan:
        keys, home = self.plan, self.folder
        if self.file:
            path = (self.folder / self.file).resolve()
            if not path.is_file():
                raise UsageError(
                    f"there is no file {path}", hint="run it from a checkout of fencepost, which has docs/"
                )
            keys, home = dict(read_toml(path, hint=_HINT).data), path.parent
        schedule = over.get("schedule", keys.get("schedule", ""))
        if schedule:
            keys = merged(keys, {"schedule": str(((self.folder if "schedule" in over else home) / schedule).resolve())})
        table = merged({"version": self.affected}, keys)
        table = merged(table, {key: value for key, value in over.items() if key != "schedule" or not value})
        # What the bug breaks decides the run also where nobody promises it.
        table["require"] = list(dict.fromkeys([*table.get("require", ()), self.guarantee]))
        try:
            return msgspec.convert({**table, "system": self.system, "seed": 0}, Plan)
        except msgspec.ValidationError as error:
            raise UsageError(f"the plan of the exhibit {self.id}: {error}", hint=_HINT) from None


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    exhibit: tuple[Exhibit, ...]


def all_exhibits() -> tuple[Exhibit, ...]:
    """The exhibits of every system that is installed, by id; raises UsageError for a malformed file."""
    exhibits = [each for name, system in registry.systems().items() for each in exhibits_of(name, system)]
    return tuple(sorted(exhibits, key=lambda each: each.id))


def exhibits_of(name: str, system: System) -> tuple[Exhibit, ...]:
    """The exhibits of one system; none without a museum.toml."""
    path = system.guarantees.with_name(FILE).resolve() if isinstance(system, BaseSystem) else None
    return read_exhibits(path, name) if path is not None and path.exists() else ()


def read_exhibits(path: Path, system: str) -> tuple[Exhibit, ...]:
    """Read a museum.toml; raises UsageError that names file, line, key and remedy."""
    source = read_toml(path, hint=_HINT)
    file = source.convert(_File)
    if file.format != FORMAT:
        raise source.error(["format"], f"this fencepost reads format {FORMAT}, not {file.format}")
    for number, each in enumerate(file.exhibit):
        _refuse_incomplete(source, number, each)
        if any(each.id == other.id for other in file.exhibit[:number]):
            raise source.error(["exhibit", number, "id"], f"{each.id!r} stands there before", "give it another id")
    return tuple(msgspec.structs.replace(each, system=system, folder=path.parent) for each in file.exhibit)


def chosen(exhibits: Sequence[Exhibit], ids: Iterable[str]) -> tuple[Exhibit, ...]:
    """Those with these ids, or all where none is named; raises UsageError for an id that there is not."""
    by_id = {each.id: each for each in exhibits}
    wanted = list(dict.fromkeys(ids))
    for one in wanted:
        if one not in by_id:
            raise unknown_choice("exhibit", one, list(by_id))
    return tuple(by_id[one] for one in wanted) if wanted else tuple(exhibits)


def _refuse_incomplete(source: TomlFile, number: int, each: Exhibit) -> None:
    if bool(each.plan) == bool(each.file):
        raise source.error(["exhibit", number], "expected a plan or a file, one of them", _HINT)
    if each.unjudged:
        return
    if not each.guarantee or each.control is None:
        missing = "guarantee" if not each.guarantee else "control"
        raise source.error(["exhibit", number], f"it has no {missing}", "or say in `unjudged` why no verdict shows it")
    if not each.fixed and not each.cause_away:
        rule = "there is no fixed release, and its control takes nothing away"
        raise source.error(["exhibit", number], rule, "write cause_away")
