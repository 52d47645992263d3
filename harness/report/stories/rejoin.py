"""A voter that came back and deposed a healthy leader: how soon, for how long nobody led, how many epochs it cost."""

from typing import Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story, some
from fencepost.harness.report.words.evidence import Traced, rows_of
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict.figures import FaultCost, rows_among

_CHECKER: Final = FaultCost.checker


def rejoins(case: ReportCase, word: str) -> list[Story]:
    """One for each fault after which a healthy leader was deposed (`faults` of rejoin)."""
    told = [(cost, cost.deposed_after_ns) for cost in rows_among(case.verdicts, FaultCost)]
    return [_story(cost, after_ns, word) for cost, after_ns in told if after_ns is not None]


def _story(cost: FaultCost, after_ns: int, word: str) -> Story:
    back = ", ".join(cost.came_back)
    epochs = some(cost.deposed_epochs, word, f"{word}s", count(cost.deposed_epochs))
    clauses = [
        Traced(f"{back} came back at {clock(cost.to_ns)} from a {cost.fault}", rows_of(cost, "to_ns")),
        Traced(f"{cost.healthy_leader} led then, untouched by any fault", rows_of(cost, "healthy_leader")),
        Traced(f"{length(after_ns)} later it led no more", rows_of(cost, "deposed_after_ns")),
        Traced(f"nobody led for up to {length(cost.deposed_leaderless_ns)}", rows_of(cost, "deposed_leaderless_ns")),
        Traced(f", and {epochs} were used up", rows_of(cost, "deposed_epochs")),
    ]
    if cost.stalled:
        clauses.append(Traced("the machine stalled meanwhile", ()))
    to_ns = cost.to_ns + after_ns
    return Story(
        checker=_CHECKER, node=cost.healthy_leader or "", from_ns=cost.to_ns, to_ns=to_ns, clauses=tuple(clauses)
    )
