"""Which nodes led each epoch, by their claims and by the lines of their own logs.

Where a node's log has lines about its reigns, a claim counts only when the log names that epoch too: a node that is
about to lead may, for a moment, say that it leads while its state still stands in the epoch before.
"""

import msgspec

from fencepost.checkers.facts.logged_elections import logged_elections
from fencepost.checkers.facts.reigns import Reigns
from fencepost.harness.history import History


class Leading(msgspec.Struct, frozen=True):
    """The first event that says so: a line of the node's own log if `logged`, else its answer."""

    event: int
    logged: bool


def leaders_by_epoch(history: History, reigns: Reigns) -> dict[int, dict[str, Leading]]:
    """Map each epoch to the nodes that led it, each with what says so."""
    elections = logged_elections(history)
    leaders: dict[int, dict[str, Leading]] = {}
    for line in elections.lines:
        leaders.setdefault(line.epoch, {}).setdefault(line.node, Leading(line.index, logged=True))
    for reign in reigns.reigns:
        own = elections.by_server.get((reign.node, reign.incarnation))
        if own is None or any(line.epoch == reign.epoch for line in own):
            by_node = leaders.setdefault(reign.epoch, {})
            by_node.setdefault(reign.node, Leading(reign.samples[0].index, logged=False))
    return leaders
