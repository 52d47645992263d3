"""Metadata: acknowledged changes stay, views move forward, nodes converge, epochs never go back.

Settings are read from each node's own copy, which may lag everywhere, so they are judged by what a quorum promises
whatever the lag; how stale answers were is a figure. Four verdicts:
  - "metadata-durable": every acknowledged change is in every final view that is proven to be late enough;
  - "metadata-forward": within one run of a server, no answer goes back behind what the server had shown;
  - "metadata-converges": all nodes say the same at the end (slow: unknown; two answers of one offset: invalid);
  - "epochs-never-go-back", by the nodes' own claims.
"""

from typing import Final

import msgspec

from fencepost.checkers.metadata import converges, durable, epochs, forward
from fencepost.checkers.metadata.changes import Changes, Incarnations
from fencepost.checkers.metadata.staleness import staleness, staleness_evidence, staleness_figures
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict

CHECKER: Final = "metadata"


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all settings and names of a history. Cost: O(n log n)."""
    changes, incarnations = Changes(history, facts), Incarnations(history)
    moved = forward.judge(changes, incarnations, facts, checker=CHECKER)
    stale = staleness(history, facts, changes)
    figures = {**moved.figures, **staleness_figures(stale, len(changes.reads))}
    return [
        durable.judge(history, changes, incarnations, facts, checker=CHECKER),
        msgspec.structs.replace(moved, figures=figures, evidence={**moved.evidence, **staleness_evidence(stale)}),
        converges.judge(history, changes, facts, checker=CHECKER),
        epochs.judge(history, facts, checker=CHECKER),
    ]
