"""The story of a superseded controller that kept acting: what was refused, and what took effect all the same.

The figures are `elections` and `attempts` of the zombie-controllers checker.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story, some
from fencepost.harness.report.words.evidence import Traced, rows_of
from fencepost.harness.report.words.wording import count
from fencepost.harness.verdict.figure_rows import ControllerAttempt, ControllerElection
from fencepost.harness.verdict.figures import ClientChangeFigures, ControllerFigures
from fencepost.harness.verdict.reading import figures_of

_CHECKER: Final = ControllerAttempt.checker
#: For each kind of refusal: its subject in singular and plural, and the rest of the sentence.
_REFUSALS: Final = {
    "controller-epoch": (
        "write to ZooKeeper was",
        "writes to ZooKeeper were",
        "refused by the version of /controller_epoch",
    ),
    "stale-controller-epoch": ("of its requests was", "of its requests were", "ignored by brokers for its epoch"),
    "session-expired": ("topic was", "topics were", "not created, because its session had expired"),
}
_TOLD_MAX: Final = 3


def attempts(case: ReportCase, word: str) -> list[Story]:
    """Tell one story for each reign whose controller tried anything after the next reign had begun."""
    elections = {row.epoch: row for f in figures_of(case.verdicts, ControllerFigures) for row in f.elections}
    groups: dict[tuple[str, int], list[ControllerAttempt]] = {}
    tried = [v.figures for v in case.verdicts if isinstance(v.figures, ControllerFigures | ClientChangeFigures)]
    for row in (row for figures in tried for row in figures.attempts):
        groups.setdefault((row.node, row.epoch), []).append(row)
    return [_story(case, word, elections, rows) for rows in groups.values()]


def _story(
    case: ReportCase, word: str, elections: Mapping[int, ControllerElection], tried: Sequence[ControllerAttempt]
) -> Story:
    node, epoch, later = tried[0].node, tried[0].epoch, min(row.superseded_by for row in tried)
    clauses = [_elected(elections, word, epoch, node), _elected(elections, word, later, None)]
    for by, (one, more, how) in _REFUSALS.items():
        refused = [row for row in tried if row.refused_by == by]
        if refused:
            summary = f"{some(len(refused), one, more, count(len(refused)))} {how}{_zxids(refused)}"
            clauses.append(Traced(summary, _rows(refused)))
    stands = [row for row in tried if row.refused_by is None]
    if stands:
        what = ", ".join(row.what for row in stands[:_TOLD_MAX])
        rest = f" and {count(len(stands) - _TOLD_MAX)} more" if len(stands) > _TOLD_MAX else ""
        clauses.append(Traced(f"this took effect after that: {what}{rest}{_zxids(stands)}", _rows(stands)))
    times = [case.history.events[i].time_ns for clause in clauses for i in clause.rows]
    return Story(
        checker=_CHECKER,
        node=node,
        from_ns=min(times, default=0),
        to_ns=max(times, default=case.history.end_ns),
        clauses=tuple(clauses),
    )


def _elected(elections: Mapping[int, ControllerElection], word: str, epoch: int, node: str | None) -> Traced:
    row = elections.get(epoch)
    if row is None:
        return Traced(f"{node or 'another'} led {word} {epoch}", ())
    return Traced(f"{row.node} was elected in {word} {epoch} (zxid {row.zxid})", rows_of(row, "zxid"))


def _zxids(rows: Sequence[ControllerAttempt]) -> str:
    zxids = [str(row.zxid) for row in rows if row.zxid is not None]
    more = ", ..." if len(zxids) > _TOLD_MAX else ""
    return f" (zxid {', '.join(zxids[:_TOLD_MAX])}{more})" if zxids else ""


def _rows(rows: Sequence[ControllerAttempt]) -> tuple[int, ...]:
    return tuple(sorted({index for row in rows for index in rows_of(row, "what")}))
