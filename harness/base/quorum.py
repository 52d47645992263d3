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
from itertools import product

#: A directed link, (from, to).
Pair = tuple[str, str]


class QuorumView(StrEnum):
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


def majority(voters: Collection[str]) -> int:
    """Return how many of these voters are a majority."""
    return len(voters) // 2 + 1


def quorum_of(voters: Sequence[str], damage: Damage) -> QuorumView:
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
        return QuorumView.MUTUAL
    return QuorumView.STAR if any(len(reached) + 1 >= least for reached in peers.values()) else QuorumView.NONE


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


def worst(groups: Sequence[Sequence[str]], together: Iterable[Iterable[Damage]]) -> QuorumView:
    """Return the worst state of any quorum under faults in force at the same time.

    Args:
        groups: the nodes that elect, by electorate.
        together: for each fault its alternative damages, of which one holds at a time.
    """
    order = list(QuorumView)
    worst_state = QuorumView.MUTUAL
    for choice in product(*together):
        total = Damage()
        for damage in choice:
            total |= damage
        worst_state = max([worst_state, *(quorum_of(voters, total) for voters in groups)], key=order.index)
        if worst_state is QuorumView.NONE:
            break
    return worst_state


def adds_up(voters: Sequence[str], together: Sequence[Sequence[Damage]]) -> bool:
    """Decide whether faults in force at the same time may take more of a quorum than one of them takes alone."""
    order = list(QuorumView)
    alone = max((worst([voters], [one]) for one in together), key=order.index, default=QuorumView.MUTUAL)
    return order.index(worst([voters], together)) > order.index(alone)


def as_pair(link: str) -> Pair:
    """ "n1>n2" as (from, to)."""
    source, _, target = link.partition(">")
    return source, target
