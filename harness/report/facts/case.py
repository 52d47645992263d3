"""What a report is made from: one run, already judged, as plain data."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Validity, Verdict


class ReportCase(msgspec.Struct, frozen=True, kw_only=True):
    """One judged run.

    `validity` is the run's merged verdict and `headline` says it in one sentence. `run` is `run.json` (seed, system,
    version, sha256 of the binaries, kernel, git commit, started_at, ...). `command` repeats the run. `derived` holds
    the tables of facts by name; empty where they could not be derived.
    `files` names what else lies in the run's folder, by what it is; empty means the usual names. `effect_free` are the
    workload's functions that change nothing. `folder` is where the run is kept; None for one that is not.
    """

    history: History
    facts: Facts
    verdicts: tuple[Verdict, ...]
    validity: Validity
    headline: str
    run: dict[str, Any]
    command: str
    plan_toml: str
    derived: Mapping[str, Any] = {}
    files: dict[str, str] = {}
    effect_free: frozenset[str] = frozenset()
    folder: str | None = None

    def deciding(self) -> tuple[Verdict, ...]:
        """The verdicts on guarantees that can make this run invalid."""
        return tuple(v for v in self.verdicts if self.facts.decides(v.guarantee))

    def not_deciding(self) -> tuple[Verdict, ...]:
        """The verdicts that are reported with their counts only."""
        return tuple(v for v in self.verdicts if not self.facts.decides(v.guarantee))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table of facts; none where it was not derived."""
        table = self.derived.get(name)
        return [] if table is None else table.to_pylist()

    def fact(self, name: str) -> Any:
        """A fact of `run.json`, wherever it stands there: `version`, `seed`, `kernel`, ...; None when it is absent."""
        machine = self.run.get("machine")
        places = (self.run, machine if isinstance(machine, dict) else {})
        names = (f"system_{name}", name) if name == "version" else (name,)
        return next((place[n] for place in places for n in names if place.get(n) is not None), None)

    @property
    def settings(self) -> Settings:
        """What was set on the servers themselves."""
        given = self.run.get("settings")
        return given.get("asked", {}) if isinstance(given, dict) else {}

    @property
    def name(self) -> str:
        """system-workload-nemesis, as the results folder is called."""
        return "-".join((self.facts.system, self.facts.workload, "+".join(self.facts.nemesis) or "none"))
