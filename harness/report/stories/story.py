"""What happened, in sentences of which every clause names its rows: what a page begins with and a witness is told by.

Every figure is a checker's own; lengths are the least that is certain. A story belongs to a node and a stretch of time,
so that a witness finds the one that it is part of.
"""

from typing import Any, Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story
from fencepost.harness.report.facts.lanes import Lanes
from fencepost.harness.report.stories.attempt import attempts
from fencepost.harness.report.stories.partition import partition_leaders
from fencepost.harness.report.stories.reign import reigns
from fencepost.harness.report.stories.rejoin import rejoins
from fencepost.harness.report.stories.topic_name import denials
from fencepost.harness.verdict import Verdict, Witness

_STORIES_MAX: Final = 20


def stories(case: ReportCase, lanes: Lanes, word: str) -> list[Story]:
    """Of leaders that outlived their epoch, of what they tried, of names denied, of rejoins, of partition leaders."""
    kinds = (
        reigns(case, lanes, word),
        attempts(case, word),
        denials(case, word),
        rejoins(case, word),
        partition_leaders(case),
    )
    return [story for told in kinds for story in sorted(told, key=lambda s: s.from_ns)[:_STORIES_MAX]]


def of_witness(witness: Witness, verdict: Verdict, found: list[Story]) -> Story | None:
    """The story that a witness belongs to; None when there is none."""
    about = (
        s
        for s in found
        if s.checker in verdict.checker
        and s.node in witness.nodes
        and s.from_ns <= witness.to_ns
        and s.to_ns >= witness.from_ns
    )
    return next(about, None)


def plain(story: Story, most: int) -> dict[str, Any]:
    """A story as `verdict.json` has it: the whole sentence, and each clause with how many rows, and the first ones."""
    return {
        "node": story.node,
        "from_ns": story.from_ns,
        "to_ns": story.to_ns,
        "said": story.said,
        "clauses": [
            {"said": clause.lstrip(", "), "count": len(clause.rows), "rows": list(clause.rows[:most])}
            for clause in story.clauses
        ],
    }
