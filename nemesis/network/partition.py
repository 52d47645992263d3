"""Network partitions: directed links that carry no packets, proven by a probe of every link of the cluster.

`links=` says which links of the chosen nodes are cut: to the other nodes, to the clients, or both. `direction=out`
cuts what the chosen nodes send, `in` what they receive. `ring` and `bridge` need five nodes: with three, no two
nodes of a ring could hold a connection.

Where nodes have roles, the four partitions of KIP-500 are shapes of their own: `total`, `broker-broker`,
`broker-metadata` and `broker-controller`; so is `controller`, which the KIP leaves out. They cut links between nodes
only, so clients reach both sides (except with `total:links=all`). Here "controller" is the name of a shape; for other
faults it is the active controller. To cut that node off from every other node, write `total:of=controller`.
"""

import random
from collections.abc import Callable, Mapping
from typing import Annotated, Final

from msgspec import UNSET, UnsetType

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import about
from fencepost.harness.faults.kind import Cluster, FaultKind, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.faults.link_choice import LinkChoice, reversed_links
from fencepost.harness.faults.targets import CONTROLLER, NODE_TARGETS, choose_nodes
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach
from fencepost.harness.runtime.node import Member, Runtime
from fencepost.harness.runtime.provider import Placement

_WIDE: Final = {
    "ring": "every node sees a majority, and no two nodes see the same one (needs 5 nodes)",
    "bridge": "two halves, and one node that sees both (needs 5 nodes)",
}
#: KIP-500, "Network partitions", and the case that it leaves out: a controller that its brokers still follow.
#: "Kafka needs no keeper" (QCon 2019) has the same four; its fourth is the broker that keeps its session, while the
#: controller cannot push metadata to it.
_BY_ROLE: Final = {
    "total": "one broker (where none is, one node) is cut off from every other node: drawn at random, or named by of=",
    "broker-broker": "one broker is cut off from every other broker, but not from controllers or ZooKeepers",
    "broker-metadata": "one broker is cut off from every controller (or ZooKeeper), but not from brokers",
    "broker-controller": (
        "one broker is cut off from the active controller alone: its session and the other brokers stay in reach"
    ),
    "controller": "the active controller is cut off from its quorum (or the ZooKeepers), but not from brokers",
}
_BROKER: Final = "broker"
_SECOND_PROBE_S: Final = 1.0
_OPPOSITE: Final = {Effect.DROP: Reach.DROPPED, Effect.RESET: Reach.RESET}


class PartitionOptions(LinkChoice, frozen=True, kw_only=True):
    of: Annotated[
        str | UnsetType, about("which node a partition by roles cuts off: a node, a role or a target above")
    ] = UNSET


class Partition(FaultKind):
    name = "partition"
    about = "a network partition: chosen links carry no packets"
    targets: Mapping[str, str] = {**NODE_TARGETS, **_WIDE, **_BY_ROLE}
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
        *(f"partition:{shape}" for shape in (*_WIDE, *_BY_ROLE)),
    )

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(cuts=True)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        if spec.target in _BY_ROLE:
            return _refuse_shape(spec, placement)
        options = spec.own(PartitionOptions)
        if options.of is not UNSET:
            return Refusal(f"of= goes only with {', '.join(name for name in _BY_ROLE if name != 'controller')}")
        if spec.target not in _WIDE:
            return None
        if placement.nodes < 5:
            return Refusal(f"{spec.target} needs at least 5 nodes, the plan has {placement.nodes}")
        if options.links != "node":
            return Refusal(f"{spec.target} cuts links between nodes only", "leave out links=")
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        if spec.target in _BY_ROLE:
            return _resolve_shape(spec, view, draw)
        if spec.target in _WIDE:
            order = list(view.nodes)
            draw.shuffle(order)
            links = _ring(order) if spec.target == "ring" else _bridge(order)
            return Resolved(nodes=view.nodes, links=dict.fromkeys(sorted(links | reversed_links(links)), Effect.DROP))
        chosen = choose_nodes(spec.target, view, draw)
        if isinstance(chosen, Skip):
            return chosen
        links_cut = spec.own(PartitionOptions).between(chosen, [node for node in view.nodes if node not in chosen])
        return Resolved(nodes=chosen, links=dict.fromkeys(links_cut, Effect.DROP))

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        await cluster.runtime.network.apply(fault_id, resolved.links)
        return await prove_links(resolved.links, cluster.runtime, lambda: cluster.disturbed(fault_id))

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        await cluster.runtime.network.withdraw(fault_id)
        # Another fault may still cut some of these links: only the others must be open.
        freed = [link for link in resolved.links if link not in cluster.runtime.network.blocked]
        disturbed = cluster.disturbed(fault_id)
        reaches = await cluster.runtime.network.probe(freed, _SECOND_PROBE_S)
        disturbed |= cluster.disturbed(fault_id)
        closed = sorted(link for link, reach in reaches.items() if reach is not Reach.OPEN)
        shut = [str(link) for link in closed if not disturbed & {*link}]
        if shut:
            return Proof(FaultOutcome.INDETERMINATE, f"still shut after healing: {', '.join(shut)}")
        others = f"; shut while other faults are at work there: {', '.join(map(str, closed))}" if closed else ""
        return Proof(
            FaultOutcome.HEALED, f"{len(freed) - len(closed)} of {len(resolved.links)} links open again{others}"
        )


def _refuse_shape(spec: FaultSpec, placement: Placement) -> Refusal | None:
    shape = spec.target
    possible = [name for name in _BY_ROLE if _lacks(name, placement.cluster) is None]
    lacks = _lacks(shape, placement.cluster)
    if lacks:
        others = ", ".join([*possible, *NODE_TARGETS])
        return Refusal(f"no such partition here, {lacks}", f"choose from: {others}, or a node's name")
    options = spec.own(PartitionOptions)
    if shape != "total" and options.links != "node":
        return Refusal(f"{shape} cuts links between nodes only", "leave out links=")
    choices = _subjects(shape, placement.cluster)
    if options.of is UNSET or options.of in choices:
        return None
    return Refusal(f"of={options.of!r} is not a choice", f"choose from: {', '.join(choices) or 'none'}")


def _lacks(shape: str, members: tuple[Member, ...]) -> str | None:
    """Return why these members cannot be partitioned in this shape; None when they can."""
    brokers = [member for member in members if _BROKER in member.roles]
    if shape == "total":
        return None
    if not brokers:
        return "since no node is a broker"
    if shape == "controller":
        return None
    if any(member.votes for member in brokers):
        return "since each node is broker and controller at once, and a link belongs to both"
    if shape == "broker-broker" and len(brokers) < 2:
        return "since there is only one broker"
    if shape == "broker-controller" and len(brokers) < 2 and not any(CONTROLLER in m.roles for m in members):
        return "since the only broker is the active controller"
    return None


def _subjects(shape: str, members: tuple[Member, ...]) -> list[str]:
    """Return what of= may name."""
    if shape == "controller":
        return []
    if shape != "total":
        return [member.name for member in members if _BROKER in member.roles]
    roles = dict.fromkeys(role for member in members for role in member.roles)
    kinds = dict.fromkeys([*roles, "controller"]) if _BROKER in roles else {}
    return [*NODE_TARGETS, *kinds, *(member.name for member in members)]


def _resolve_shape(spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
    """Choose the node that is cut off (or the few that of= means), and cut its links to the other side."""
    shape = spec.target
    whole = _BROKER if view.with_role(_BROKER) else "one"
    default = {"total": whole, "controller": "leader"}.get(shape, _BROKER)
    options = spec.own(PartitionOptions)
    if shape == "broker-controller":
        return _resolve_broker_and_controller(options, view, draw)
    chosen = choose_nodes(default if options.of is UNSET else options.of, view, draw)
    if isinstance(chosen, Skip):
        return chosen
    outer = {"total": view.nodes, "broker-broker": view.with_role(_BROKER)}.get(shape, view.voters)
    links = options.between(chosen, [node for node in outer if node not in chosen])
    return Resolved(nodes=chosen, links=dict.fromkeys(links, Effect.DROP))


def _resolve_broker_and_controller(options: PartitionOptions, view: View, draw: random.Random) -> Resolved | Skip:
    """Cut the links between one broker and the active controller, which may be a broker itself (ZooKeeper mode)."""
    brokers = [name for name in view.with_role(_BROKER) if name != view.leader]
    drawn = draw.choice(brokers) if brokers else None
    if view.leader is None:
        return Skip("no node was known to be the active controller")
    broker = drawn if options.of is UNSET else str(options.of)
    if broker is None or broker == view.leader:
        return Skip(f"{broker or 'the only broker'} is the active controller itself")
    links = options.between((broker,), [view.leader])
    details = {"controller": view.leader}
    return Resolved(nodes=(broker,), links=dict.fromkeys(links, Effect.DROP), details=details)


async def prove_links(
    links: Mapping[Link, Effect], runtime: Runtime, disturbed: Callable[[], frozenset[str]] = frozenset
) -> Proof:
    """Probe every link of the cluster: each of `links` must be shut as intended, every link that no fault cuts open.

    Args:
        links: the links that were just cut, with the effect of each.
        disturbed: returns the nodes on which other faults act. A link that ends there need not be open.

    Returns:
        INSTALLED with the counts, or INDETERMINATE with the links that are not as they should be.
    """
    names = [*runtime.nodes, CLIENT]
    every = [Link(a, b) for a in names for b in names if a != b]
    excused = disturbed()
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
    excused |= disturbed()
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
