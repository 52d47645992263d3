"""What a run reached, as short texts; whatever no run before it had is new.

    met: leader-moved                       a mechanism that runs of its system can meet
    could show: linearizable/stale-read     a rule of a guarantee had a chance: the guarantee was put to the test
    at once: cuts the leader + stops        the effects of two faults that were certainly in force together
    leaders: a b a                          who led in epochs that follow each other, up to four, without their names

Read from a run's verdict.json and its tables of facts; what cannot be read was not reached.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.launcher import ProcessLauncher, fact_rows
from fencepost.campaigns.night.night import RunAttempt
from fencepost.harness.history import PART_OF, DiskEffect, Stops
from fencepost.harness.verdict.by_guarantee import COVERAGE
from fencepost.harness.verdict.fact_tables import FAULTS, REIGNS

#: Sequences of leaders are told apart up to this length.
LEADERS_MAX: Final = 4
_FLAGS: Final = ("cuts", "holds", "delays", "skews", "changes_members", "ends")
Row = Mapping[str, Any]


class RunFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """What a run reached; `lacks`: what it could have reached, with the reason why it did not where one is known."""

    reached: frozenset[str] = frozenset()
    lacks: dict[str, str] = {}


def features_of(document: Mapping[str, Any], faults: Sequence[Row] = (), reigns: Sequence[Row] = ()) -> RunFeatures:
    """Name what a run reached, by its verdict and the rows of its tables `faults` and `reigns`."""
    reached = {*_at_once(faults), *_leaders(reigns)}
    lacks: dict[str, str] = {}
    for name, count in (document.get("mechanisms") or {}).items():
        reached |= {f"met: {name}"} if count else set()
        lacks |= {} if count else {f"met: {name}": ""}
    for verdict in (v for v in document.get("verdicts", ()) if v["checker"] != COVERAGE):
        for rule in verdict.get("rules", ()):
            feature = f"could show: {verdict['guarantee']}/{rule['name']}"
            reached |= {feature} if rule["chances"] else set()
            lacks |= {} if rule["chances"] else {feature: rule.get("lacks", "")}
    return RunFeatures(
        reached=frozenset(reached), lacks={name: why for name, why in lacks.items() if name not in reached}
    )


def _at_once(faults: Sequence[Row]) -> Iterator[str]:
    """Each pair of effects of two faults, parts left out, that were certainly in force at one moment."""
    whole = [f for f in faults if f["certain_from_ns"] is not None and PART_OF not in json.loads(f["details"] or "{}")]
    for one, two in combinations(whole, 2):
        first, second = sorted((one, two), key=lambda f: f["certain_from_ns"])
        if first["certain_to_ns"] is None or first["certain_to_ns"] >= second["certain_from_ns"]:
            where = ", on one node" if set(one["nodes"] or ()) & set(two["nodes"] or ()) else ""
            yield f"at once: {' + '.join(sorted((_effects(one), _effects(two))))}{where}"


def _effects(fault: Row) -> str:
    effects = ["stops"] * (fault["stops"] != Stops.NO) + [flag for flag in _FLAGS if fault[flag]]
    effects += [f"disk {fault['disk']}"] * (fault["disk"] != DiskEffect.KEPT)
    leads = fault["leader"] is not None and fault["leader"] in (fault["nodes"] or ())
    return "/".join(effects or [fault["fault"]]) + " the leader" * leads


def _leaders(reigns: Sequence[Row]) -> Iterator[str]:
    """Each sequence of leaders of one subject; a node is known by when it first leads in the sequence."""
    nodes: dict[str, dict[int, str]] = {}
    for reign in sorted(reigns, key=lambda r: (r["subject"], r["epoch"], r["first_ns"])):
        nodes.setdefault(reign["subject"], {}).setdefault(reign["epoch"], reign["node"])
    for epochs in nodes.values():
        leaders = list(epochs.values())
        for length in range(2, LEADERS_MAX + 1):
            for begin in range(len(leaders) - length + 1):
                yield f"leaders: {' '.join(_letters(leaders[begin : begin + length]))}"


def _letters(nodes: Iterable[str]) -> Iterator[str]:
    names: dict[str, str] = {}
    for node in nodes:
        yield names.setdefault(node, chr(ord("a") + len(names)))


class FeatureFiles:
    """Reads what the runs of a night's folder reached, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._launcher = folder, ProcessLauncher(folder)
        self._read: dict[str, RunFeatures] = {}

    def __call__(self, attempt: RunAttempt) -> RunFeatures:
        if attempt.folder not in self._read:
            left = self._launcher.left(attempt, attempt.exit_code)
            own = self._folder / attempt.folder
            self._read[attempt.folder] = features_of(
                left.evidence.document or {}, fact_rows(own, FAULTS.name), fact_rows(own, REIGNS.name)
            )
        return self._read[attempt.folder]
