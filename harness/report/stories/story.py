"""Stories: sentences whose every clause names its rows. A page begins with them, and a witness quotes its own.

Every figure comes from a checker; every length is a lower bound. A story belongs to a node and a stretch of time: by
these a witness finds its story.
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
    """Tell of leaders that outlived their epoch, their attempts, false answers on names, rejoins, partition leaders."""
    kinds = (
        reigns(case, lanes, word),
        attempts(case, word),
        denials(case, word),
        rejoins(case, word),
        partition_leaders(case),
    )
    return [story for of_kind in kinds for story in sorted(of_kind, key=lambda s: s.from_ns)[:_STORIES_MAX]]


def of_witness(witness: Witness, verdict: Verdict, candidates: list[Story]) -> Story | None:
    """Return the story that a witness belongs to; None when there is none."""
    about = (
        s
        for s in candidates
        if s.checker in verdict.checker
        and s.node in witness.nodes
        and s.from_ns <= witness.to_ns
        and s.to_ns >= witness.from_ns
    )
    return next(about, None)


def plain(story: Story, most: int) -> dict[str, Any]:
    """Return a story as `verdict.json` has it: the sentence, and each clause with its number of rows and the first."""
    return {
        "node": story.node,
        "from_ns": story.from_ns,
        "to_ns": story.to_ns,
        "said": story.sentence,
        "clauses": [
            {"said": clause.lstrip(", "), "count": len(clause.rows), "rows": list(clause.rows[:most])}
            for clause in story.clauses
        ],
    }
