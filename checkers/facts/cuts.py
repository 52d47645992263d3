"""When a node was certainly cut off from every majority, and when it may not have run."""

from collections.abc import Sequence
from itertools import pairwise

from fencepost.checkers.facts.intervals import Intervals, merged
from fencepost.checkers.facts.servers import stopped
from fencepost.harness.base.quorum import majority
from fencepost.harness.history import FaultOutcome, FaultSpan, History
from fencepost.harness.verdict.figures import Cut


def cuts(history: History, nodes: Sequence[str], voters: Sequence[str] = ()) -> list[Cut]:
    """Return the times in which a node was certainly cut off from every majority of `voters`.

    Args:
        history: one run; a fault counts while it was certainly in force, and faults that overlap add up.
        nodes: the nodes to look at.
        voters: the nodes whose majority elects a leader; empty: `nodes`.

    Returns:
        The cuts, by beginning and node; times in nanoseconds since the run began.
    """
    voters = voters or nodes
    proven = [f for f in history.faults if f.severed and f.certain_from_ns is not None and f.certain_to_ns is not None]
    times = sorted({t for f in proven for t in (f.certain_from_ns, f.certain_to_ns) if t is not None})
    closed: list[Cut] = []
    open_cuts: dict[str, Cut] = {}
    for start_ns, end_ns in pairwise(times):
        active = [f for f in proven if _covers(f, start_ns, end_ns)]
        links = {link for fault in active for link in fault.severed}
        ids = tuple(f.fault_id for f in active)
        for node in nodes:
            if not _severed(node, voters, links):
                if node in open_cuts:
                    closed.append(open_cuts.pop(node))
                continue
            before = open_cuts.get(node)
            open_cuts[node] = Cut(
                node=node,
                from_ns=before.from_ns if before else start_ns,
                to_ns=end_ns,
                fault_ids=tuple(sorted({*(before.fault_ids if before else ()), *ids})),
            )
    return sorted([*closed, *open_cuts.values()], key=lambda c: (c.from_ns, c.node))


def _covers(fault: FaultSpan, start_ns: int, end_ns: int) -> bool:
    assert fault.certain_from_ns is not None
    assert fault.certain_to_ns is not None
    return fault.certain_from_ns <= start_ns and end_ns <= fault.certain_to_ns


def _severed(node: str, voters: Sequence[str], links: set[str]) -> bool:
    least = majority(voters)
    others = [n for n in voters if n != node]
    own = int(node in voters)
    out = own + sum(f"{node}>{other}" not in links for other in others)
    back = own + sum(f"{other}>{node}" not in links for other in others)
    return out < least and back < least


def severed(history: History, one: str, other: str) -> Intervals:
    """Return when nothing certainly passed between two nodes, in either direction."""
    ways = (_closed(history, f"{one}>{other}"), _closed(history, f"{other}>{one}"))
    shared = [(max(a, c), min(b, d)) for a, b in ways[0] for c, d in ways[1]]
    return [(start, end) for start, end in shared if start < end]


def _closed(history: History, link: str) -> Intervals:
    """Return when a link was certainly cut."""
    spans = (history.certain(fault) for fault in history.faults if link in fault.severed)
    return merged([span for span in spans if span is not None])


def possibly_stopped(history: History, node: str) -> Intervals:
    """Return when `node` may not have run: from before a fault stopped it until after the fault was undone."""
    tried = [
        history.possible(f)
        for f in history.faults
        if f.effects.may_stop and node in f.nodes and f.outcome is not FaultOutcome.SKIPPED
    ]
    return merged([*tried, *stopped(history, node)])
