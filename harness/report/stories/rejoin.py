"""A voter that came back and deposed a healthy leader: how soon, for how long nobody led, how many epochs it cost."""

from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story, figures, some
from fencepost.harness.report.words.evidence import Traced, rows_of
from fencepost.harness.report.words.wording import clock, count, length

_CHECKER: Final = "rejoin"


def rejoins(case: ReportCase, word: str) -> list[Story]:
    """One for each fault after which a healthy leader was deposed (`faults` of rejoin)."""
    told = [cost for cost in figures(case, _CHECKER, "faults") if cost.get("deposed_after_ns") is not None]
    return [_story(cost, word) for cost in told]


def _story(cost: Mapping[str, Any], word: str) -> Story:
    back = ", ".join(cost["came_back"])
    epochs = some(cost["deposed_epochs"], word, f"{word}s", count(cost["deposed_epochs"]))
    clauses = [
        Traced(f"{back} came back at {clock(cost['to_ns'])} from a {cost['fault']}", rows_of(cost, "to_ns")),
        Traced(f"{cost['healthy_leader']} led then, untouched by any fault", rows_of(cost, "healthy_leader")),
        Traced(f"{length(cost['deposed_after_ns'])} later it led no more", rows_of(cost, "deposed_after_ns")),
        Traced(f"nobody led for up to {length(cost['deposed_leaderless_ns'])}", rows_of(cost, "deposed_leaderless_ns")),
        Traced(f", and {epochs} were used up", rows_of(cost, "deposed_epochs")),
    ]
    if cost["stalled"]:
        clauses.append(Traced("the machine stalled meanwhile", ()))
    to_ns = cost["to_ns"] + cost["deposed_after_ns"]
    return Story(
        checker=_CHECKER, node=cost["healthy_leader"], from_ns=cost["to_ns"], to_ns=to_ns, clauses=tuple(clauses)
    )
