"""The zombie table: what deposed leaders did, told apart as claimed, served, attempted, self-fencing failed, acted.

The figures are those of the leadership checker, whatever their exact names: the table is made from the verdicts'
`figures` and `anomalies`; where no checker counted something, the table says so.
"""

from typing import Any, Final

from harness.report.case import ReportCase
from harness.report.tables import Table, generic
from harness.report.wording import count

#: Row, the figures that may hold its count (a number, or a list of cases), the anomalies that may, what it means.
_ROWS: Final = (
    ("claimed", ("claimed_count", "claimed"), (), "said that it leads, after a later epoch had certainly begun"),
    ("served", ("served_count", "served"), ("served",), "answered an operation while superseded"),
    (
        "attempted but fenced",
        ("attempted_fenced", "attempted_count", "fenced_count", "attempted", "fenced"),
        (),
        "tried to act and was refused for its epoch or role",
    ),
    (
        "attempted, outcome unknown",
        ("attempted_unknown", "attempted_unknown_count", "unknown_count"),
        (),
        "an operation sent to it timed out",
    ),
    (
        "self-fencing failed",
        ("self_fencing_failed", "self_fencing_failed_count", "self_fencing_count"),
        ("self-fencing-failed", "self-fencing failed"),
        "cut off from every majority, it claimed for longer than the system's own bound",
    ),
    (
        "acted",
        ("acted_count", "acted"),
        ("acted", "stale-answer", "lost-acknowledgement", "stamped-effect", "stale answer", "lost acknowledgement"),
        "answered stale where current was due, or acknowledged what was lost",
    ),
)


def zombies(case: ReportCase) -> tuple[Table, list[Table]] | None:
    """The six counts, and every list of cases that the figures hold; None when no leadership verdict is there."""
    verdicts = [v for v in case.verdicts if "leadership" in v.checker]
    if not verdicts:
        return None
    figures: dict[str, Any] = {}
    anomalies: dict[str, int] = {}
    for verdict in verdicts:
        figures.update({k: v for k, v in verdict.figures.items() if k not in figures or not figures[k]})
        for name, number in verdict.anomalies.items():
            anomalies[name] = anomalies.get(name, 0) + number
    rows = tuple((name, _counted(figures, anomalies, keys, names), meaning) for name, keys, names, meaning in _ROWS)
    table = Table(caption="What deposed leaders did", columns=("kind", "count", "meaning"), rows=rows)
    details = [t for t in generic("figures of the leadership checker", figures) if t.rows]
    return table, details


def _counted(figures: dict[str, Any], anomalies: dict[str, int], keys: tuple[str, ...], names: tuple[str, ...]) -> str:
    for key in keys:
        found = figures.get(key)
        if isinstance(found, bool):
            continue
        if isinstance(found, int):
            return count(found)
        if isinstance(found, list | tuple):
            return count(len(found))
    counted = [anomalies[name] for name in names if name in anomalies]
    return count(sum(counted)) if counted else "none reported" if names else "not counted"
