"""The story of a voter that came back and deposed a healthy leader: how soon, and what it cost."""

from typing import Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story, some
from fencepost.harness.report.words.evidence import Traced, rows_of
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict.figure_rows import FaultCost
from fencepost.harness.verdict.figures import RejoinFigures
from fencepost.harness.verdict.reading import figures_of

_CHECKER: Final = FaultCost.checker


def rejoins(case: ReportCase, word: str) -> list[Story]:
    """Tell one story for each fault after which a healthy leader was deposed (`faults` of the rejoin checker)."""
    costs = [cost for f in figures_of(case.verdicts, RejoinFigures) for cost in f.faults]
    deposals = [(cost, cost.deposed_after_ns) for cost in costs]
    return [_story(cost, after_ns, word) for cost, after_ns in deposals if after_ns is not None]


def _story(cost: FaultCost, after_ns: int, word: str) -> Story:
    back = ", ".join(cost.came_back)
    epochs = some(cost.deposed_epochs, word, f"{word}s", count(cost.deposed_epochs))
    clauses = [
        Traced(f"{back} came back at {clock(cost.to_ns)} from a {cost.fault}", rows_of(cost, "to_ns")),
        Traced(f"{cost.healthy_leader} led then, and no fault touched it", rows_of(cost, "healthy_leader")),
        Traced(f"{length(after_ns)} later it no longer led", rows_of(cost, "deposed_after_ns")),
        Traced(f"nobody led for up to {length(cost.deposed_leaderless_ns)}", rows_of(cost, "deposed_leaderless_ns")),
        Traced(f", and {epochs} were used up", rows_of(cost, "deposed_epochs")),
    ]
    if cost.stalled:
        clauses.append(Traced("the machine stalled in that time", ()))
    to_ns = cost.to_ns + after_ns
    return Story(
        checker=_CHECKER, node=cost.healthy_leader or "", from_ns=cost.to_ns, to_ns=to_ns, clauses=tuple(clauses)
    )
