"""Decides which faults cut the leader off from every majority, and how long such a cut must last.

Only a cut in both directions tests self-fencing, and only answers that come later than the bound's limit count
(`LeadershipBound.limit_ns`). A cut of three times that limit leaves two thirds of it for such answers.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fencepost.harness.faults.kind import FaultKind, FaultSpec, Skip, View
from fencepost.harness.runtime.network import Link
from fencepost.harness.runtime.node import Member
from fencepost.harness.verdict import LeadershipBound

#: Guarantees that only such a cut can test.
NEED_A_CUT: Final = frozenset({"leader-self-fencing"})
#: Draws per target to see which nodes it may mean; more than a cluster has nodes.
_DRAWS: Final = 32
_LIMITS_HELD: Final = 3
#: Quiet times vary by a fifth.
_QUIET_SHARE_MAX: Final = 1.2


def may_cut_off_leader(
    spec: FaultSpec, fault: FaultKind, members: tuple[Member, ...], leader_names: tuple[str, ...]
) -> bool:
    """Decide whether this fault can cut off the leader, for some leader and some draw."""
    return any(_cases(spec, fault, members, leader_names))


def cuts_off_leader(
    spec: FaultSpec, fault: FaultKind, members: tuple[Member, ...], leader_names: tuple[str, ...]
) -> bool:
    """Decide whether this fault always cuts off the leader, for every leader and every draw."""
    return all(_cases(spec, fault, members, leader_names))


def with_holds(
    specs: Sequence[FaultSpec],
    faults: Mapping[str, FaultKind],
    *,
    members: tuple[Member, ...],
    leader_names: tuple[str, ...],
    bound: LeadershipBound,
    time_limit_ns: int,
    quiet_ns: int,
) -> list[FaultSpec]:
    """Give every cut of the leader without a `for=` a length: three times the bound's limit.

    Args:
        bound: how long a cut-off leader may go on claiming to lead, as the system promises.
        time_limit_ns: the length of the main phase. Cuts are shorter where one round of all faults would not fit, but
            never shorter than the fault's own default.
        quiet_ns: the mean time without a fault between two faults.

    Returns:
        The specs in the same order.
    """
    limit_ns = bound.limit_ns
    if limit_ns is None:
        return list(specs)
    chosen = [
        "for" not in spec.given and cuts_off_leader(spec, faults[spec.fault], members, leader_names) for spec in specs
    ]
    others_ns = sum(s.duration_ns for s, long in zip(specs, chosen, strict=True) if not long)
    quiet_in_all_ns = quiet_ns // 2 + round((len(specs) - 1) * quiet_ns * _QUIET_SHARE_MAX)
    room_ns = (time_limit_ns - quiet_in_all_ns - others_ns) // max(1, sum(chosen))
    hold_ns = min(_LIMITS_HELD * limit_ns, room_ns)
    return [
        spec.lasting(max(hold_ns, spec.duration_ns)) if long else spec for spec, long in zip(specs, chosen, strict=True)
    ]


def _cases(spec: FaultSpec, fault: FaultKind, members: tuple[Member, ...], leader_names: tuple[str, ...]) -> list[bool]:
    """Return, for every possible leader and a number of draws, whether the fault cuts that leader off."""
    nodes = tuple(member.name for member in members)
    voters = [member.name for member in members if member.votes]
    cases = []
    for leader in voters:
        view = View(nodes=nodes, leader=leader, epoch=1, members=members, leader_names=leader_names)
        for seed in range(_DRAWS):
            resolved = fault.choose(spec, view, random.Random(seed))
            cases.append(not isinstance(resolved, Skip) and _is_cut_off(leader, voters, resolved.links))
    return cases


def _is_cut_off(node: str, voters: Sequence[str], links: Collection[Link]) -> bool:
    """Decide whether `node`, itself included, reaches less than a majority, and less than a majority reaches it."""
    others = [voter for voter in voters if voter != node]
    majority = len(voters) // 2 + 1
    out = 1 + sum(Link(node, other) not in links for other in others)
    back = 1 + sum(Link(other, node) not in links for other in others)
    return out < majority and back < majority
