"""Is there a quorum? Computed from which voters run and which links carry packets; nothing else is asked.

Three answers. `MUTUAL`: some majority of the voters runs, and each of them reaches each other in both directions.
`STAR`: no such majority, but some voter reaches a majority (itself counted) both ways, which is enough for a leader of
Raft or Zab (a ring of five nodes is one). `NONE`: not even that, so nobody can lead for long.

A schedule *keeps the quorum* when it stays `MUTUAL`: the strictest reading, under which any protocol can work.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise, product
from typing import Final

from fencepost.harness.history import History

#: What a fault holds of a node (`Fault.holds`) that leaves the node unable to vote, or may: a server whose disk fails
#: ends itself. Clocks and links are no part of it; links count for themselves. A member that was removed is one that is
#: down: of an odd number of voters one less has the same majority, and one is out at a time.
UNABLE: Final = frozenset({"process", "membership", "disk"})

#: A directed link, (from, to).
Pair = tuple[str, str]


class Quorum(StrEnum):
    MUTUAL = "mutual"
    STAR = "star"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What is taken from a cluster at one time: voters that do not run, directed links that carry nothing."""

    absent: frozenset[str] = frozenset()
    severed: frozenset[Pair] = frozenset()

    def __or__(self, other: "Damage") -> "Damage":
        return Damage(absent=self.absent | other.absent, severed=self.severed | other.severed)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSpan:
    """A stretch of a run in which the quorum was proven to be less than `MUTUAL`, and the faults that did it."""

    quorum: Quorum
    from_ns: int
    to_ns: int
    fault_ids: tuple[int, ...]
    absent: tuple[str, ...]


def majority(voters: Collection[str]) -> int:
    return len(voters) // 2 + 1


def quorum_of(voters: Sequence[str], damage: Damage) -> Quorum:
    """Of these voters under this damage. Cost: exponential in the voters at worst, of which there are a few."""
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
    """Whether `size` chosen voters, all peers of every candidate, grow to `least` by mutual peers."""
    if size >= least:
        return True
    for place, voter in enumerate(candidates):
        if size + len(candidates) - place < least:
            return False
        if _has_clique(size + 1, [c for c in candidates[place + 1 :] if c in peers[voter]], peers, least):
            return True
    return False


def worst(voters: Sequence[str], together: Iterable[Iterable[Damage]]) -> Quorum:
    """The worst that can come of faults in force at the same time, each doing one of its damages."""
    order = list(Quorum)
    found = Quorum.MUTUAL
    for choice in product(*together):
        total = Damage()
        for damage in choice:
            total |= damage
        found = max(found, quorum_of(voters, total), key=order.index)
        if found is Quorum.NONE:
            break
    return found


def quorum_spans(history: History, voters: Sequence[str]) -> list[QuorumSpan]:
    """When the quorum was less than mutual for certain: by cuts and stops that were proven, and servers that were dead.

    Under-approximated: a server that was started again counts as running before it serves.
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
    """Join it to the last one where nothing changes between them."""
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
