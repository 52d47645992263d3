"""The zombie table: what deposed leaders did, in the rows claimed, served, attempted, self-fencing failed, acted.

The counts come from `figures` and `anomalies` of the leadership checker, and of those of leaves that count attempts of
superseded leaders by other means, such as the logs on disk. A kind that no checker counted says so.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.tables.table import Table, generic
from fencepost.harness.report.words.evidence import traced
from fencepost.harness.report.words.wording import count
from fencepost.harness.verdict import Verdict
from fencepost.harness.verdict.by_guarantee import figures_of, plain_figures
from fencepost.harness.verdict.figures import Figures, LeadershipFigures

_CHECKER: Final = "leadership"


class _Kind(msgspec.Struct, frozen=True):
    """A row of the table: the figure that counts it, by its name among the evidence, or the anomalies that do."""

    name: str
    meaning: str
    figure: str = ""
    count: Callable[[Figures], int | None] = lambda _: None
    anomalies: tuple[str, ...] = ()


def _of_leaders(read: Callable[[LeadershipFigures], int]) -> Callable[[Figures], int | None]:
    return lambda figures: read(figures) if isinstance(figures, LeadershipFigures) else None


def _fenced(figures: Figures) -> int | None:
    return getattr(figures, "attempted_but_fenced", None)


def _acted(figures: Figures) -> int | None:
    return getattr(figures, "acted", None)


_KINDS: Final = (
    _Kind(
        "claimed",
        "claimed to lead after a later epoch had certainly begun",
        "claimed_count",
        _of_leaders(lambda f: f.claimed_count),
    ),
    _Kind(
        "possibly claimed",
        "polled before the new epoch began, answered after: not counted",
        "possible_claims",
        _of_leaders(lambda f: f.possible_claims),
    ),
    _Kind(
        "asked",
        "operations sent to it while it was superseded",
        "asked_of_superseded_leader",
        _of_leaders(lambda f: f.asked_of_superseded_leader),
    ),
    _Kind(
        "served",
        "of these, answered while it still led its old epoch",
        "served_by_superseded_leader",
        _of_leaders(lambda f: f.served_by_superseded_leader),
    ),
    _Kind(
        "attempted but fenced",
        "refused because of its epoch or role, without effect",
        "attempted_but_fenced",
        _fenced,
    ),
    _Kind(
        "attempted, outcome unknown",
        "timed out, or the connection broke",
        "attempted_outcome_unknown",
        _of_leaders(lambda f: f.attempted_outcome_unknown),
    ),
    _Kind(
        "self-fencing failed",
        "claimed to lead for longer than the bound after it was cut off from every majority",
        anomalies=("self-fencing-failed",),
    ),
    _Kind(
        "acted",
        "gave a stale answer although the guarantee forbids it, or acknowledged a write that was lost",
        "acted",
        _acted,
        ("stale-answer-by-superseded-leader", "lost-acknowledgement", "stamped-effect"),
    ),
)


def zombies(case: ReportCase) -> tuple[Table, Table | None, list[Table]] | None:
    """Tabulate the counts, the claims that outlived their epoch, and all figures; None without a leadership verdict."""
    verdicts = [v for v in case.verdicts if _CHECKER in v.checker or _fenced(v.figures) is not None]
    if not verdicts:
        return None
    # The subject of a figure matters only if the nodes report on several subjects.
    subjects = sorted({v.subject for v in verdicts if v.subject is not None})
    groups = {s: [v for v in verdicts if (v.subject or subjects[0]) == s] for s in subjects}
    by_subject = [_Subject("", verdicts)] if len(subjects) < 2 else [_Subject(s, own) for s, own in groups.items()]
    rows = tuple((kind.name, *(_counted(one, kind) for one in by_subject), kind.meaning) for kind in _KINDS)
    counts = tuple(one.name or "count" for one in by_subject)
    table = Table(caption="What deposed leaders did", columns=("kind", *counts, "meaning"), rows=rows)
    claims = [({"subject": one.name} if one.name else {}) | row for one in by_subject for row in one.claims]
    claimed = (
        generic("Leaders that still claimed to lead after a newer epoch began (minimum time)", claims)[0]
        if claims
        else None
    )
    details: list[Table] = []
    for one in by_subject:
        figures = {key: value for key, value in one.figures.items() if key != "claimed"}
        name = "figures of the leadership checker" + (f", {one.name}" if one.name else "")
        details += generic(name, figures, one.evidence) if figures else []
    return table, claimed, details


class _Subject:
    """The combined figures and anomalies of all verdicts about one subject."""

    def __init__(self, name: str, verdicts: list[Verdict]) -> None:
        self.name = name
        self.verdicts = verdicts
        self.figures: dict[str, Any] = {}
        self.anomalies: Counter[str] = Counter()
        self.evidence: dict[str, tuple[int, ...]] = {}
        for verdict in verdicts:
            self.anomalies.update(verdict.anomalies)
            for key, value in plain_figures(verdict).items():
                before = self.figures.get(key)
                self.figures[key] = _sum(before, value)
                # A figure that is not summed keeps the first verdict's value and rows.
                if before is None or self.figures[key] is not before:
                    self._add(key, verdict)
            for name in verdict.anomalies:
                self._add(f"anomalies.{name}", verdict)

    def _add(self, key: str, verdict: Verdict) -> None:
        self.evidence[key] = (*self.evidence.get(key, ()), *verdict.evidence.get(key, ()))

    @property
    def claims(self) -> list[dict[str, Any]]:
        spans = [span for f in figures_of(self.verdicts, LeadershipFigures) for span in f.claimed]
        return [msgspec.to_builtins(span) for span in spans]


def _sum(before: Any, value: Any) -> Any:
    """Add counts and join lists of several verdicts; keep the first of anything else."""
    if before is None:
        return value
    if isinstance(before, list) and isinstance(value, list):
        return before + value
    if isinstance(before, int) and isinstance(value, int):
        return before + value
    return before


def _counted(one: _Subject, kind: _Kind) -> str:
    counts = [number for v in one.verdicts if (number := kind.count(v.figures)) is not None]
    if counts:
        return traced(count(sum(counts)), one.evidence.get(kind.figure))
    counted = sum(one.anomalies[name] for name in kind.anomalies)
    rows = tuple(i for name in kind.anomalies for i in one.evidence.get(f"anomalies.{name}", ()))
    return traced(count(counted), rows) if counted else "0" if kind.anomalies else "not counted"
