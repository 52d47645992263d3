"""Partitions between the roles of Kafka's nodes: those of KIP-500, and the one that it leaves out.

They cut links between nodes only, so clients reach both sides. Here "controller" is the name of a shape; for other
faults it is the active controller. To cut that node off from every other node, write `total:of=controller`.

Source: KIP-500, "Network partitions". "Kafka needs no keeper" (QCon 2019) has the same four (the first is `total`); its
fourth is the broker that keeps its session, while the controller cannot push metadata to it.
"""

import random
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from fencepost.harness.base.errors import Refusal
from fencepost.harness.faults.kind import NODE_TARGETS, FaultSpec, Resolved, Skip, View, choose_nodes
from fencepost.harness.runtime.network import Effect
from fencepost.harness.runtime.node import Member
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.network.partition import TOTAL, PartitionOptions
from fencepost.systems.kafka.client.sessions import LEADER_WORD

_BROKER: Final = "broker"


@dataclass(frozen=True, slots=True)
class Shape:
    """One of them, as a target of the fault `partition`."""

    name: str
    about: str

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        members = placement.cluster
        lacks = self.lacks(members)
        if lacks:
            possible = [TOTAL, *(shape.name for shape in SHAPES if shape.lacks(members) is None)]
            others = ", ".join([*possible, *NODE_TARGETS])
            return Refusal(f"no such partition here, {lacks}", f"choose from: {others}, or a node's name")
        options = spec.own(PartitionOptions)
        if options.links != "node":
            return Refusal(f"{self.name} cuts links between nodes only", "leave out links=")
        choices = [] if self is CONTROLLER else [member.name for member in members if _BROKER in member.roles]
        if options.of is UNSET or options.of in choices:
            return None
        return Refusal(f"of={options.of!r} is not a choice", f"choose from: {', '.join(choices) or 'none'}")

    def lacks(self, members: tuple[Member, ...]) -> str | None:
        """Return why these members cannot be partitioned in this shape; None when they can."""
        brokers = [member for member in members if _BROKER in member.roles]
        if not brokers:
            return "since no node is a broker"
        if self is CONTROLLER:
            return None
        if any(member.votes for member in brokers):
            return "since each node is broker and controller at once, and a link belongs to both"
        if self is BROKER_BROKER and len(brokers) < 2:
            return "since there is only one broker"
        if self is BROKER_CONTROLLER and len(brokers) < 2 and not any(LEADER_WORD in m.roles for m in members):
            return "since the only broker is the active controller"
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        """Choose the node that is cut off, and cut its links to the other side."""
        options = spec.own(PartitionOptions)
        if self is BROKER_CONTROLLER:
            return _broker_and_controller(options, view, draw)
        default = "leader" if self is CONTROLLER else _BROKER
        chosen = choose_nodes(default if options.of is UNSET else options.of, view, draw)
        if isinstance(chosen, Skip):
            return chosen
        outer = view.with_role(_BROKER) if self is BROKER_BROKER else view.voters
        links = options.between(chosen, [node for node in outer if node not in chosen])
        return Resolved(nodes=chosen, links=dict.fromkeys(links, Effect.DROP))


BROKER_BROKER: Final = Shape(
    "broker-broker", "one broker is cut off from every other broker, but not from controllers or ZooKeepers"
)
BROKER_METADATA: Final = Shape(
    "broker-metadata", "one broker is cut off from every controller (or ZooKeeper), but not from brokers"
)
BROKER_CONTROLLER: Final = Shape(
    "broker-controller",
    "one broker is cut off from the active controller alone: its session and the other brokers stay in reach",
)
#: The case that KIP-500 leaves out: a controller that its brokers still follow.
CONTROLLER: Final = Shape(
    "controller", "the active controller is cut off from its quorum (or the ZooKeepers), but not from brokers"
)
SHAPES: Final = (BROKER_BROKER, BROKER_METADATA, BROKER_CONTROLLER, CONTROLLER)


def _broker_and_controller(options: PartitionOptions, view: View, draw: random.Random) -> Resolved | Skip:
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
