"""Network partitions: directed links that carry no packets, proven by a probe of every link of the cluster.

`links=` says which links of the chosen nodes are cut: to the other nodes, to the clients, or both. `direction=out`
cuts what the chosen nodes send, `in` what they receive. `ring` and `bridge` need five nodes: with three, no two
nodes of a ring could hold a connection.

`total` cuts one node off from every other node; the first partition of KIP-500. A system whose nodes have roles may add
shapes of its own.
"""

import random
from collections.abc import Collection, Mapping
from typing import Annotated, Final

from msgspec import UNSET, UnsetType

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import about
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    SERVING,
    Act,
    FaultKind,
    FaultSpec,
    Proof,
    Resolved,
    Skip,
    View,
    choose_nodes,
    role_targets,
)
from fencepost.harness.faults.link_choice import LinkChoice, reversed_links
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach
from fencepost.harness.runtime.provider import Placement

_WIDE: Final = {
    "ring": "every node sees a majority, and no two nodes see the same one (needs 5 nodes)",
    "bridge": "two halves, and one node that sees both (needs 5 nodes)",
}
TOTAL: Final = "total"
_CUT_OFF: Final = {
    TOTAL: "one node that serves clients is cut off from every other node: drawn at random, or named by of=",
}
_SECOND_PROBE_S: Final = 1.0
_OPPOSITE: Final = {Effect.DROP: Reach.DROPPED, Effect.RESET: Reach.RESET}


class PartitionOptions(LinkChoice, frozen=True, kw_only=True):
    of: Annotated[
        str | UnsetType, about("which node total, or a partition by roles, cuts off: a node, a role or a target above")
    ] = UNSET


class PartitionFault(FaultKind):
    name = "partition"
    about = "a network partition: chosen links carry no packets"
    targets: Mapping[str, str] = {**NODE_TARGETS, **_WIDE, **_CUT_OFF}
    options = PartitionOptions()
    any_length = True
    of_leadership = True
    for_all = (
        "partition:leader",
        "partition:leader:direction=out",
        "partition:follower:direction=in",
        "partition:minority",
        "partition:majority",
        "partition:one:links=client",
        *(f"partition:{shape}" for shape in (*_WIDE, TOTAL)),
    )
    on_return = ("partition:returned", "partition:returned:direction=in")

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(cuts=True)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        options = spec.own(PartitionOptions)
        if options.of is not UNSET:
            if spec.target != TOTAL:
                return Refusal(f"of= goes only with {', '.join((TOTAL, *self.added))}", "leave out of=")
            if options.of not in (choices := _subjects(placement)):
                return Refusal(f"of={options.of!r} is not a choice", f"choose from: {', '.join(choices)}")
        if spec.target not in _WIDE:
            return None
        if placement.nodes < 5:
            return Refusal(f"{spec.target} needs at least 5 nodes, the plan has {placement.nodes}", "give --nodes 5")
        if options.links != "node":
            return Refusal(f"{spec.target} cuts links between nodes only", "leave out links=")
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        if spec.target in _WIDE:
            order = list(view.nodes)
            draw.shuffle(order)
            links = _ring(order) if spec.target == "ring" else _bridge(order)
            return Resolved(nodes=view.nodes, links=dict.fromkeys(sorted(links | reversed_links(links)), Effect.DROP))
        options, target = spec.own(PartitionOptions), spec.target
        if target == TOTAL:
            target = SERVING if options.of is UNSET else options.of
        chosen = choose_nodes(target, view, draw)
        if isinstance(chosen, Skip):
            return chosen
        links_cut = options.between(chosen, [node for node in view.nodes if node not in chosen])
        return Resolved(nodes=chosen, links=dict.fromkeys(links_cut, Effect.DROP))

    async def inject(self, act: Act) -> Proof:
        await act.cluster.runtime.network.apply(act.fault_id, act.resolved.links)
        return await prove_links(act)

    async def heal(self, act: Act) -> Proof:
        await act.cluster.runtime.network.withdraw(act.fault_id)
        return await prove_open(act.resolved.links, act)


async def prove_open(links: Collection[Link], act: Act) -> Proof:
    """Prove that every link is open that no other fault cuts. Nodes on which another fault acts prove nothing."""
    network, disturbed = act.cluster.runtime.network, act.disturbed()
    freed = [link for link in links if link not in network.blocked]
    reaches = await network.probe(freed, _SECOND_PROBE_S)
    disturbed |= act.disturbed()
    closed = sorted(link for link, reach in reaches.items() if reach is not Reach.OPEN)
    shut = [str(link) for link in closed if not disturbed & {*link} and link not in network.blocked]
    if shut:
        return Proof(FaultOutcome.INDETERMINATE, f"still shut after healing: {', '.join(shut)}")
    others = f"; shut while other faults are at work there: {', '.join(map(str, closed))}" if closed else ""
    return Proof(FaultOutcome.HEALED, f"{len(freed) - len(closed)} of {len(links)} links open again{others}")


def _subjects(placement: Placement) -> list[str]:
    """Return what of= may name."""
    return [*NODE_TARGETS, *role_targets(placement), *(member.name for member in placement.cluster)]


async def prove_links(act: Act) -> Proof:
    """Probe every link of the cluster: those just cut must be shut as intended, those that no fault cuts open.

    A link that ends at a node on which another fault acts need not be open.

    Returns:
        INSTALLED with the counts, or INDETERMINATE with the links that are not as they should be.
    """
    runtime, links = act.cluster.runtime, act.resolved.links
    names = [*runtime.nodes, CLIENT]
    every = [Link(a, b) for a in names for b in names if a != b]
    excused = act.disturbed()
    blocked = dict(runtime.network.blocked)
    reaches = await runtime.network.probe(every)
    # Another fault may have begun or ended meanwhile: its links may have been shut at any moment of the probe.
    blocked |= runtime.network.blocked
    slow = [link for link in every if link not in blocked and reaches[link] is not Reach.OPEN]
    # A refusal may need longer than the first probe waits, too.
    slow += [link for link in links if blocked.get(link) is Effect.RESET and reaches[link] is Reach.DROPPED]
    if slow:
        # On a busy machine a datagram may need longer than the first probe waits; a shut link stays shut.
        reaches = {**reaches, **await runtime.network.probe(slow, _SECOND_PROBE_S)}
        blocked |= runtime.network.blocked
    excused |= act.disturbed()
    leaking = sorted(str(link) for link, effect in links.items() if reaches[link] is not _OPPOSITE[effect])
    closed = [link for link in every if link not in blocked and reaches[link] is not Reach.OPEN]
    dead = sorted(str(link) for link in closed if not excused & {*link})
    text = f"{len(links) - len(leaking)} of {len(links)} links shut, {len(every) - len(blocked) - len(closed)} open"
    if leaking or dead:
        detail = [f"not shut: {', '.join(leaking)}"] * bool(leaking) + [f"also shut: {', '.join(dead)}"] * bool(dead)
        return Proof(FaultOutcome.INDETERMINATE, f"{text}; {'; '.join(detail)}")
    return Proof(FaultOutcome.INSTALLED, text)


def _ring(order: list[str]) -> set[Link]:
    """Pairs that must not talk so that each node sees the majority of its nearest neighbours."""
    count, majority = len(order), len(order) // 2 + 1
    reach = (majority - 1) // 2 + (majority - 1) % 2
    near = {frozenset((order[i], order[(i + d) % count])) for i in range(count) for d in range(1, reach + 1)}
    return {Link(a, b) for i, a in enumerate(order) for b in order[i + 1 :] if frozenset((a, b)) not in near}


def _bridge(order: list[str]) -> set[Link]:
    """Pairs across the two halves; the middle node sees both."""
    half = len(order) // 2
    return {Link(a, b) for a in order[:half] for b in order[half + 1 :]}
