"""Which faults cut the leader off from every majority, and for how long such a cut must hold to be worth something.

Only a cut in both directions puts self-fencing to the test, and only answers from later than the bound's limit count
(`LeadershipBound.limit_ns`). Held for three times that limit, two thirds of the cut are left to look at.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fencepost.harness.faults.kind import FaultKind, FaultSpec, Skip, View
from fencepost.harness.runtime.network import Link
from fencepost.harness.runtime.node import Member
from fencepost.harness.verdict import LeadershipBound

#: Guarantees that only a leader cut off so can break or keep.
NEED_A_CUT: Final = frozenset({"leader-self-fencing"})
#: Targets are drawn this often to see whom they may mean: a cluster has fewer nodes.
_DRAWS: Final = 32
_LIMITS_HELD: Final = 3
#: Quiet times vary by a fifth.
_QUIET_SHARE_MAX: Final = 1.2


def may_cut_off_leader(spec: FaultSpec, fault: FaultKind, members: tuple[Member, ...], subject: str) -> bool:
    """Whether this fault can cut off the leader: aimed at it, or drawn so."""
    return any(_cases(spec, fault, members, subject))


def cuts_off_leader(spec: FaultSpec, fault: FaultKind, members: tuple[Member, ...], subject: str) -> bool:
    """Whether this fault cuts off the leader whoever that is and whatever is drawn."""
    return all(_cases(spec, fault, members, subject))


def with_holds(
    specs: Sequence[FaultSpec],
    faults: Mapping[str, FaultKind],
    *,
    members: tuple[Member, ...],
    subject: str,
    bound: LeadershipBound,
    time_limit_ns: int,
    quiet_ns: int,
) -> list[FaultSpec]:
    """`specs` with `for=` where a cut of the leader was given none: three times the bound's limit.

    Less where a round of all faults would not fit into `time_limit_ns`, but never less than the fault's own default.
    """
    limit_ns = bound.limit_ns
    if limit_ns is None:
        return list(specs)
    chosen = ["for" not in spec.given and cuts_off_leader(spec, faults[spec.fault], members, subject) for spec in specs]
    others_ns = sum(s.duration_ns for s, long in zip(specs, chosen, strict=True) if not long)
    quiet_in_all_ns = quiet_ns // 2 + round((len(specs) - 1) * quiet_ns * _QUIET_SHARE_MAX)
    room_ns = (time_limit_ns - quiet_in_all_ns - others_ns) // max(1, sum(chosen))
    hold_ns = min(_LIMITS_HELD * limit_ns, room_ns)
    return [
        spec.lasting(max(hold_ns, spec.duration_ns)) if long else spec for spec, long in zip(specs, chosen, strict=True)
    ]


def _cases(spec: FaultSpec, fault: FaultKind, members: tuple[Member, ...], subject: str) -> list[bool]:
    """For every possible leader and some draws: is it cut off?"""
    nodes = tuple(member.name for member in members)
    voters = [member.name for member in members if member.votes]
    cases = []
    for leader in voters:
        view = View(nodes=nodes, leader=leader, epoch=1, members=members, subject=subject)
        for seed in range(_DRAWS):
            resolved = fault.resolve(spec, view, random.Random(seed))
            cases.append(not isinstance(resolved, Skip) and _is_cut_off(leader, voters, resolved.links))
    return cases


def _is_cut_off(node: str, voters: Sequence[str], links: Collection[Link]) -> bool:
    """Whether less than a majority, itself included, is reached by `node` and reaches it."""
    others = [voter for voter in voters if voter != node]
    majority = len(voters) // 2 + 1
    out = 1 + sum(Link(node, other) not in links for other in others)
    back = 1 + sum(Link(other, node) not in links for other in others)
    return out < majority and back < majority
