"""The zombie table: what deposed leaders did, told apart as claimed, served, attempted, self-fencing failed, acted.

The counts are the leadership checker's own `figures` and `anomalies`, and with them those of what controllers tried by
the logs on disk; what nobody counted is said to be so.
"""

from collections import Counter
from typing import Any, Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.tables.table import Table, generic
from fencepost.harness.report.words.evidence import traced
from fencepost.harness.report.words.wording import count
from fencepost.harness.verdict import Verdict

_CHECKERS: Final = ("leadership", "zombie-controllers")
#: Row, the figures that may hold its count (a number, or a list of cases), the anomalies that may, what it means.
_ROWS: Final = (
    ("claimed", ("claimed_count", "claimed"), (), "said that it leads, after a later one had certainly begun"),
    ("possibly claimed", ("possible_claims",), (), "the question straddles that moment, so it proves nothing"),
    ("asked", ("asked_of_superseded_leader",), (), "operations that were sent to it while superseded"),
    ("served", ("served_by_superseded_leader", "served"), (), "of these, answered while it still led its own epoch"),
    ("attempted but fenced", ("attempted_but_fenced",), (), "refused for its epoch or role, and without effect"),
    ("attempted, outcome unknown", ("attempted_outcome_unknown",), (), "timed out, or the connection broke"),
    (
        "self-fencing failed",
        ("self_fencing_failed",),
        ("self-fencing-failed",),
        "cut off from every majority, claimed for longer than the bound",
    ),
    (
        "acted",
        ("acted",),
        ("stale-answer-by-superseded-leader", "lost-acknowledgement", "stamped-effect"),
        "answered stale where current was due, or acknowledged what was lost",
    ),
)


def zombies(case: ReportCase) -> tuple[Table, Table | None, list[Table]] | None:
    """The counts, the claims that outlived their epoch, and all figures; None when no leadership verdict is there."""
    verdicts = [v for v in case.verdicts if any(name in v.checker for name in _CHECKERS)]
    if not verdicts:
        return None
    # Only where nodes are asked about several things does it matter of which a figure speaks.
    subjects = sorted({str(v.figures["subject"]) for v in verdicts if "subject" in v.figures})
    groups = {s: [v for v in verdicts if v.figures.get("subject", subjects[0]) == s] for s in subjects}
    found = [_Subject("", verdicts)] if len(subjects) < 2 else [_Subject(s, own) for s, own in groups.items()]
    rows = tuple(
        (name, *(_counted(one, keys, names) for one in found), meaning) for name, keys, names, meaning in _ROWS
    )
    counts = tuple(one.name or "count" for one in found)
    table = Table(caption="What deposed leaders did", columns=("kind", *counts, "meaning"), rows=rows)
    claims = [({"subject": one.name} if one.name else {}) | row for one in found for row in one.claims]
    claimed = generic("claims that outlived their epoch, at least so long", claims)[0] if claims else None
    details: list[Table] = []
    for one in found:
        figures = {key: value for key, value in one.figures.items() if key != "claimed"}
        name = "figures of the leadership checker" + (f", {one.name}" if one.name else "")
        details += generic(name, figures, one.evidence) if figures else []
    return table, claimed, details


class _Subject:
    """The figures and anomalies of all verdicts about one subject together."""

    def __init__(self, name: str, verdicts: list[Verdict]) -> None:
        self.name = name
        self.figures: dict[str, Any] = {}
        self.anomalies: Counter[str] = Counter()
        self.evidence: dict[str, tuple[int, ...]] = {}
        for verdict in verdicts:
            self.anomalies.update(verdict.anomalies)
            for key, value in verdict.figures.items():
                before = self.figures.get(key)
                self.figures[key] = _sum(before, value)
                # What is not summed stays the first one's, and so do its rows.
                if before is None or self.figures[key] is not before:
                    self._add(key, verdict)
            for name in verdict.anomalies:
                self._add(f"anomalies.{name}", verdict)

    def _add(self, key: str, verdict: Verdict) -> None:
        self.evidence[key] = (*self.evidence.get(key, ()), *verdict.evidence.get(key, ()))

    @property
    def claims(self) -> list[dict[str, Any]]:
        found = self.figures.get("claimed")
        return list(found) if isinstance(found, list | tuple) and _rows_of(found) else []


def _rows_of(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(row, dict) for row in value)


def _sum(before: Any, value: Any) -> Any:
    """Counts and lists of several verdicts together; of anything else the first."""
    if before is None:
        return value
    if isinstance(before, list) and isinstance(value, list):
        return before + value
    if isinstance(before, int) and isinstance(value, int):
        return before + value
    return before


def _counted(one: _Subject, keys: tuple[str, ...], names: tuple[str, ...]) -> str:
    for key in keys:
        found = one.figures.get(key)
        if isinstance(found, bool):
            continue
        if isinstance(found, int):
            return traced(count(found), one.evidence.get(key))
        if isinstance(found, list | tuple):
            return count(len(found))
    counted = sum(one.anomalies[name] for name in names)
    rows = tuple(i for name in names for i in one.evidence.get(f"anomalies.{name}", ()))
    return traced(count(counted), rows) if counted else "0" if names else "not counted"
