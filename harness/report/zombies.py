"""The zombie table: what deposed leaders did, told apart as claimed, served, attempted, self-fencing failed, acted.

The counts are the leadership checker's own `figures` and `anomalies`; what it did not count is said to be so.
"""

from collections import Counter
from typing import Any, Final

from harness.report.case import ReportCase
from harness.report.tables import Table, generic
from harness.report.wording import count

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
    verdicts = [v for v in case.verdicts if "leadership" in v.checker]
    if not verdicts:
        return None
    figures: dict[str, Any] = {}
    anomalies: Counter[str] = Counter()
    for verdict in verdicts:
        anomalies.update(verdict.anomalies)
        for key, value in verdict.figures.items():
            figures[key] = _sum(figures.get(key), value)
    rows = tuple((name, _counted(figures, anomalies, keys, names), meaning) for name, keys, names, meaning in _ROWS)
    table = Table(caption="What deposed leaders did", columns=("kind", "count", "meaning"), rows=rows)
    claims = figures.get("claimed")
    claimed = generic("claims that outlived their epoch, at least so long", claims)[0] if _rows_of(claims) else None
    figures = {key: value for key, value in figures.items() if key != "claimed"}
    return table, claimed, generic("figures of the leadership checker", figures) if figures else []


def _rows_of(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(row, dict) for row in value)


def _sum(before: Any, value: Any) -> Any:
    """Counts and lists of several subjects together; of anything else the first."""
    if before is None:
        return value
    if isinstance(before, list) and isinstance(value, list):
        return before + value
    if isinstance(before, int) and isinstance(value, int):
        return before + value
    return before


def _counted(figures: dict[str, Any], anomalies: Counter[str], keys: tuple[str, ...], names: tuple[str, ...]) -> str:
    for key in keys:
        found = figures.get(key)
        if isinstance(found, bool):
            continue
        if isinstance(found, int):
            return count(found)
        if isinstance(found, list | tuple):
            return count(len(found))
    counted = [anomalies[name] for name in names if anomalies[name]]
    return count(sum(counted)) if counted else "0" if names else "not counted"
