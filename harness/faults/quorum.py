"""Decides whether there is a quorum, from the voters that run and the links that carry packets.

Three answers:
`MUTUAL`  A majority of the voters runs, and all of them reach each other in both directions.
`STAR`    There is no such majority, but one voter reaches a majority (itself included) in both directions. That is
          enough for a leader of Raft or Zab; a ring of five nodes is an example.
`NONE`    Not even that, so no node can lead for long.

A schedule *keeps the quorum* when it stays `MUTUAL`: the strictest meaning, under which every protocol can work.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise, product
from typing import Final

from fencepost.harness.history import History

#: A fault that holds one of these of a node (`FaultKind.holds`) may leave the node unable to vote; a server whose disk
#: fails ends itself. Clocks do not matter, and links are counted separately. A removed member counts as one that is
#: down: an odd number of voters less one has the same majority, and only one is out at a time.
UNABLE: Final = frozenset({"process", "membership", "disk"})

#: A directed link, (from, to).
Pair = tuple[str, str]


class Quorum(StrEnum):
    MUTUAL = "mutual"
    STAR = "star"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What a cluster lacks at one time: voters that do not run, directed links that carry nothing."""

    absent: frozenset[str] = frozenset()
    severed: frozenset[Pair] = frozenset()

    def __or__(self, other: "Damage") -> "Damage":
        return Damage(absent=self.absent | other.absent, severed=self.severed | other.severed)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSpan:
    """A stretch of a run in which the quorum was provably less than `MUTUAL`, and the faults that caused it."""

    quorum: Quorum
    from_ns: int
    to_ns: int
    fault_ids: tuple[int, ...]
    absent: tuple[str, ...]


def majority(voters: Collection[str]) -> int:
    return len(voters) // 2 + 1


def quorum_of(voters: Sequence[str], damage: Damage) -> Quorum:
    """Decide the state of the quorum of these voters under this damage.

    Cost: exponential in the number of voters at worst; there are a few.
    """
    present = [voter for voter in voters if voter not in damage.absent]
    least = majority(voters)
    peers = {
        a: {b for b in present if b != a and (a, b) not in damage.severed and (b, a) not in damage.severed}
        for a in present
    }
    if _has_clique(0, present, peers, least):
        return Quorum.MUTUAL
    return Quorum.STAR if any(len(reached) + 1 >= least for reached in peers.values()) else Quorum.NONE


def _has_clique(size: int, candidates: Sequence[str], peers: dict[str, set[str]], least: int) -> bool:
    """Whether `size` voters, all of them peers of every candidate, can be extended to `least` mutual peers."""
    if size >= least:
        return True
    for place, voter in enumerate(candidates):
        if size + len(candidates) - place < least:
            return False
        if _has_clique(size + 1, [c for c in candidates[place + 1 :] if c in peers[voter]], peers, least):
            return True
    return False


def worst(voters: Sequence[str], together: Iterable[Iterable[Damage]]) -> Quorum:
    """Return the worst state of the quorum under faults in force at the same time.

    Args:
        voters: the nodes that elect.
        together: for each fault its alternative damages, of which one holds at a time.
    """
    order = list(Quorum)
    worst_state = Quorum.MUTUAL
    for choice in product(*together):
        total = Damage()
        for damage in choice:
            total |= damage
        worst_state = max(worst_state, quorum_of(voters, total), key=order.index)
        if worst_state is Quorum.NONE:
            break
    return worst_state


def quorum_spans(history: History, voters: Sequence[str]) -> list[QuorumSpan]:
    """Find the stretches of a run in which the quorum was certainly less than mutual.

    Only proven cuts and stops count, and servers that were dead. The stretches may be too short: a restarted server
    counts as running before it serves.

    Returns:
        The stretches in order of time, in ns of the history; neighbours with the same state are joined.
    """
    cuts = [
        (f.certain_from_ns, f.certain_to_ns if f.certain_to_ns is not None else history.end_ns, f)
        for f in history.faults
        if f.severed and f.certain_from_ns is not None
    ]
    stops = [(start, end, voter) for voter in voters for start, end in history.stopped(voter)]
    times = sorted({t for start, end, _ in (*cuts, *stops) for t in (start, end)})
    spans: list[QuorumSpan] = []
    for start, end in pairwise(times):
        cutting = [f for from_ns, to_ns, f in cuts if from_ns <= start and end <= to_ns]
        absent = frozenset(voter for from_ns, to_ns, voter in stops if from_ns <= start and end <= to_ns)
        severed = frozenset(pair for f in cutting for pair in (as_pair(link) for link in f.severed))
        state = quorum_of(voters, Damage(absent=absent, severed=severed))
        if state is Quorum.MUTUAL:
            continue
        stopping = [
            f.fault_id
            for f in history.faults
            if not f.severed and f.began_ns <= start and absent & set(f.nodes) and (f.ended_ns or history.end_ns) >= end
        ]
        span = QuorumSpan(
            quorum=state,
            from_ns=start,
            to_ns=end,
            fault_ids=tuple(sorted({*(f.fault_id for f in cutting), *stopping})),
            absent=tuple(sorted(absent)),
        )
        _append(spans, span)
    return spans


def _append(spans: list[QuorumSpan], span: QuorumSpan) -> None:
    """Append a span; join it to the last one when the state is the same and no time lies between."""
    if spans and spans[-1].to_ns == span.from_ns and spans[-1].quorum is span.quorum:
        last = spans.pop()
        span = QuorumSpan(
            quorum=span.quorum,
            from_ns=last.from_ns,
            to_ns=span.to_ns,
            fault_ids=tuple(sorted({*last.fault_ids, *span.fault_ids})),
            absent=tuple(sorted({*last.absent, *span.absent})),
        )
    spans.append(span)


def as_pair(link: str) -> Pair:
    """ "n1>n2" as (from, to)."""
    source, _, target = link.partition(">")
    return source, target
