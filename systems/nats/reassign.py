"""Replicas reassigned: data get more or fewer replicas, or the replica of one node moves to another server.

`reassign:more` and `reassign:fewer` change the number of replicas; healing brings back the number of the plan. With
`reassign:leader`, `follower`, `one` or a node's name that node loses its replica, and the system places another one on
a server that had none; then there is nothing to bring back, so healing waits until every replica has all data.

What an answer to a request says is no proof. Injected means: whoever leads names the wanted members, each of them says
that it has a replica, and no other node that answers has one. Healed means: the number of replicas is that of the plan,
by the same test, and each replica is current. What the replicas themselves believe of the size of their group goes into
the history by the questions about the leader, and the checkers judge it.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Annotated, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import about, seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    Act,
    Cluster,
    FaultKind,
    FaultSpec,
    Proof,
    Resolved,
    Skip,
    View,
    choose_nodes,
)
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.provider import Placement
from fencepost.systems.nats.placing import PlacesReplicas
from fencepost.systems.nats.replica_requests import ReplicaRequests

_MORE: Final = "more"
_FEWER: Final = "fewer"
_ONE_NODE: Final = ("one", "leader", "follower", "restarted")
#: A leader that is moved away is replaced first, and a new replica copies the data.
_CHANGED_S: Final = 15.0
_BACK_S: Final = 20.0
#: The same when a person ends the run: then the healing may end unproven.
_HURRIED_S: Final = 2.0


class ReassignOptions(FaultOptions, frozen=True, kw_only=True):
    to: Annotated[int, about("how many replicas; 0: two more, or two fewer", least=0)] = 0


class Reassign(FaultKind):
    name = "reassign"
    about = "data get more or fewer replicas, or the replica of a node moves to another server"
    targets: Mapping[str, str] = {
        _MORE: "two replicas more, or to=",
        _FEWER: "two replicas fewer, or to=, of 5 or more",
        **{target: NODE_TARGETS[target] for target in _ONE_NODE},
    }
    default_target = "leader"
    options = ReassignOptions(for_=seconds(4))
    #: Whoever has one of three replicas must keep its disk until there are others.
    holds = frozenset({"disk"})
    needs = frozenset({"replicas"})
    for_all = ("reassign:leader", "reassign:more", "reassign:fewer")
    alone = True
    act_deadline_s = 25.0

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(changes_members=True)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        now = placement.system.replica_count(placement.system_options)
        nodes, to = len(placement.cluster), spec.own(ReassignOptions).to
        if spec.target not in (_MORE, _FEWER):
            if to:
                return Refusal(
                    "to= is a number of replicas, and this moves one", f"reassign:{_MORE}, reassign:{_FEWER}"
                )
            if now < 3:
                return Refusal(f"with {now} replica{'s' * (now != 1)} no other one could go on", "more replicas")
            if nodes <= now:
                return Refusal(f"each of the {nodes} nodes has a replica", "more --nodes than replicas")
            return None
        wanted = to or (now + 2 if spec.target == _MORE else now - 2)
        if wanted == now or (wanted > now) is not (spec.target == _MORE):
            return Refusal(f"{now} replicas become {wanted}, which is not {spec.target}", "change to=")
        if wanted % 2 == 0:
            return Refusal(f"{wanted} replicas are an even number", "give an odd one")
        if wanted < 3 or now < 3:
            return Refusal(
                f"{now} replicas become {wanted}: a single replica has no group, and the next group counts its terms"
                " from the beginning",
                "3 replicas and 5, with --nodes 5",
            )
        if wanted > nodes:
            return Refusal(f"{wanted} replicas do not fit on {nodes} nodes", f"--nodes {wanted}")
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        if spec.target in (_MORE, _FEWER):
            if view.leader is None:
                return Skip("no node was known to lead")
            to = spec.own(ReassignOptions).to
            details: dict[str, str | int] = {"replicas": spec.target, **({"to": to} if to else {})}
            return Resolved(nodes=(view.leader,), means=spec.target, details=details)
        chosen = choose_nodes(spec.target, view, draw)
        if isinstance(chosen, Skip):
            return chosen
        return Resolved(nodes=chosen, details={"led": chosen[0] == view.leader})

    async def inject(self, act: Act) -> Proof:
        requests, count = _requests(act.cluster)
        if (how := act.resolved.means) is not None:
            wanted = act.options(ReassignOptions).to or count + (2 if how == _MORE else -2)
            return await requests.scaled(wanted, _CHANGED_S)
        (node,) = act.resolved.nodes
        if node not in (await requests.look()).members:
            return Proof(FaultOutcome.SKIPPED, f"{node} has no replica")
        return await requests.moved_away(node, count, _CHANGED_S)

    async def heal(self, act: Act) -> Proof:
        """Bring back the number of replicas, whatever the injection came to, and wait until each has all data."""
        requests, count = _requests(act.cluster)
        timeout_s = _HURRIED_S if act.cluster.hurried() else _BACK_S
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        proof = await requests.scaled(count, timeout_s)
        if proof.outcome is not FaultOutcome.INSTALLED:
            return proof
        lacks = await requests.until_current(count, deadline_s - loop.time())
        if lacks is not None:
            return Proof(FaultOutcome.INDETERMINATE, f"{proof.text}; {lacks}")
        return Proof(FaultOutcome.HEALED, f"{proof.text}; each replica has all data")


def _requests(cluster: Cluster) -> tuple[ReplicaRequests, int]:
    """Return what asks about the replicas, and the plan's number of them."""
    system = cluster.system
    assert isinstance(system, PlacesReplicas), "refused before the run"
    replicas = system.replicas(cluster.runtime.layout, cluster.artifacts)
    return ReplicaRequests(replicas, cluster), system.replica_count(cluster.options)
