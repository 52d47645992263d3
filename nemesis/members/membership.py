"""Members removed and added again: another member is asked to remove a node, whose server then ends and is wiped.

Healing adds the node as a new member without data, and waits until it serves and votes. In between the cluster has one
member fewer. Both steps are proven by the list of voters that the other members have: an answer to a request does not
prove that it was done, and a missing answer does not prove that it failed. The proof lists every request and its
answer. A server is ended only when it is certainly no member any more, and wiped when nobody lists it: groups of data
may name a removed member for as long as its server runs.

Only one member is out at a time, since a system makes one change at a time. With 3 or 5 voters that leaves the size of
the majority as it was (2 of 2, 3 of 4), so the harness counts the node as one that is down.
"""

import asyncio
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Final, cast

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import about, seconds
from fencepost.harness.contract.members import Membership
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    Act,
    FaultKind,
    FaultSpec,
    NotUndone,
    Proof,
    Resolved,
    Skip,
    View,
    choose_nodes,
)
from fencepost.harness.faults.member_requests import Look, MemberRequests
from fencepost.harness.faults.restarts import until
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Placement

#: A removed leader is replaced first, and etcd wants its members to have been connected for 5 s.
_REMOVED_S: Final = 12.0
#: etcd needs a second to end.
_ENDED_S: Final = 3.0
#: A server may have to be started, to catch up and to be added. The last request may end a little later.
_REJOINED_S: Final = 20.0
#: The same when a person ends the run: then the healing may end unproven.
_HURRIED_S: Final = 2.0
_SERVES_S: Final = 1.0
_POLL_S: Final = 0.05
_ONE_MEMBER: Final = ("one", "leader", "follower", "restarted")


@dataclass(slots=True)
class _Departure:
    """One removal: of which node and member id, and how far it came. `steps` become the text of the proof."""

    node: Node
    membership: Membership
    member_id: str
    #: The number of the new data directory, for systems that give it an id; None: the data stays.
    life: int | None
    was_killed: bool = False
    is_out: bool = False
    has_joined: bool = False
    steps: list[str] = field(default_factory=list)

    def proof(self, outcome: FaultOutcome, *more: str) -> Proof:
        return Proof(outcome, "; ".join([*self.steps, *more]))

    async def take_out(self, voters: Collection[str]) -> bool:
        """End the server that is no member any more, and wipe its data; return whether the process is gone.

        From now on every start of this node joins a cluster that exists already.
        """
        await self._end()
        seen = await self.node.evidence()
        if seen.state is not NodeState.DEAD:
            self.steps.append(f"its server is not gone: {seen.text}")
            return False
        await self._make_joiner(voters)
        if self.life is not None:
            self.steps.append("its data was wiped")
        self.is_out = True
        return True

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        if self.membership.ends_removed:
            await until(lambda: self.node.state is NodeState.DEAD, _ENDED_S)
        if self.node.state is not NodeState.DEAD:
            await self.node.kill()
            self.was_killed = True
            self.steps.append("its server was killed")
        elif not self.was_killed:
            self.steps.append(f"its server ended by itself, {loop.time() - began_s:.1f} s later")

    async def end_lingering(self) -> None:
        """End the server that was removed, and is named by other groups still; its data stays until nobody lists it."""
        if not self.was_killed:
            self.steps.append(f"{self.node.name} was removed, and went on in other groups")
            await self._end()

    async def run(self, voters: Collection[str]) -> None:
        """Start the server unless it runs: to join these voters, or as the member that it still is."""
        if self.node.state in (NodeState.DEAD, NodeState.NEW):
            if self.is_out:
                await self._make_joiner(voters)
            await self.node.start()
            self.steps.append(f"its server was started as process {self.node.pid}")

    async def _make_joiner(self, voters: Collection[str]) -> None:
        self.node.respec(self.membership.joining(self.node.spec, voters, life=self.life))
        if self.life is not None and not self.has_joined:
            await self.node.wipe()


class MembershipOptions(FaultOptions, frozen=True, kw_only=True):
    wipe: Annotated[bool, about("whether the removed member's data is deleted")] = True
    learner: Annotated[bool, about("whether it comes back as a learner, which votes once it has caught up")] = False


class MembershipChange(FaultKind):
    name = "membership"
    about = "a member is removed and its data wiped; later it is added again, empty"
    targets: Mapping[str, str] = {target: NODE_TARGETS[target] for target in _ONE_MEMBER} | {
        "one": "one voter, drawn at random"
    }
    options = MembershipOptions(for_=seconds(4))
    holds = frozenset({"process", "membership", "disk"})
    needs = frozenset({"member-changes"})
    for_all = ("membership:one", "membership:leader", "membership:one:learner=yes")
    alone = True
    act_deadline_s = 25.0

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE, changes_members=True)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        changes = None if placement.system is None else placement.system.member_changes
        fixed = changes and changes.fixed(placement.version, placement.system_options)
        if fixed:
            return cast(Refusal, fixed)
        voters = [member.name for member in placement.cluster if member.votes]
        if len(voters) < 3:
            return Refusal("with fewer than three voters the rest of the cluster could not go on", "give --nodes 3")
        others = [member for member in placement.cluster if not member.votes]
        if spec.target in {word for member in others for word in (member.name, *member.roles)}:
            return Refusal(f"{spec.target} does not vote", f"voters are {', '.join(voters)}")
        options = spec.own(MembershipOptions)
        if changes and options.learner and changes.learners is None:
            return Refusal(f"{placement.system_name} has no learners", "leave out learner=")
        return changes.wiped if changes and not options.wipe else None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        chosen = choose_nodes(spec.target, replace(view, nodes=view.voters), draw)
        if isinstance(chosen, Skip):
            return chosen
        if not chosen:
            return Skip("the chosen node does not vote")
        wipes = spec.own(MembershipOptions).wipe
        return Resolved(nodes=chosen, details={"wipe": wipes, "led": chosen[0] == view.leader})

    async def inject(self, act: Act) -> Proof:
        (node,), cluster = act.nodes, act.cluster
        changes = cluster.system.member_changes
        assert changes is not None, "refused before the run"
        of = changes.learners if act.options(MembershipOptions).learner else None
        membership = (of or changes.of)(cluster.runtime.layout, cluster.artifacts)
        requests = MemberRequests(membership, cluster, node.name)
        look = await requests.look()
        if not look.member_id:
            return Proof(FaultOutcome.INDETERMINATE, f"nothing was done: nobody lists {node.name}: {look}")
        departure = _Departure(
            node=node,
            membership=membership,
            member_id=look.member_id,
            life=node.incarnation + 1 if act.options(MembershipOptions).wipe else None,
        )
        act.undo(partial(_bring_back, departure, act))
        gone = await requests.until_removed(_REMOVED_S)
        departure.steps.append(f"{node.name} ({departure.member_id}) is to be removed: {requests.summary}")
        if gone is None:
            lingers = await requests.lingers()
            if lingers:
                await departure.end_lingering()
            gone = await requests.until_gone(_REMOVED_S if lingers else 0)
        if gone is None:
            left = f"its server was left alone, since it may still be a member: {await requests.look()}"
            return departure.proof(FaultOutcome.INDETERMINATE, left)
        departure.steps.append(str(gone))
        is_out = await departure.take_out(gone.voters)
        return departure.proof(FaultOutcome.INSTALLED if is_out else FaultOutcome.INDETERMINATE)

    async def heal(self, act: Act) -> Proof:
        return Proof(FaultOutcome.HEALED, "")


async def _bring_back(departure: _Departure, act: Act) -> str:
    departure.steps, cluster = [], act.cluster
    requests = MemberRequests(departure.membership, cluster, departure.node.name)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    lacks = "nobody was asked"
    while (took_s := loop.time() - began_s) < (_HURRIED_S if cluster.hurried() else _REJOINED_S):
        look, missing = await _come_nearer(departure, requests)
        if missing is None:
            back = _back(departure, requests, look, loop.time() - began_s)
            return "; ".join([*departure.steps, back])
        lacks = missing
        await asyncio.sleep(_POLL_S)
    late = f"not back after {took_s:.1f} s: {lacks}; to add it: {requests.summary}"
    raise NotUndone("; ".join([*departure.steps, late]))


async def _come_nearer(departure: _Departure, requests: MemberRequests) -> tuple[Look, str | None]:
    """Take one step towards a member that serves; return the voters as the others list them, and what is missing."""
    node, membership = departure.node, departure.membership
    itself = departure.has_joined and not membership.only_leader_answers
    look = await requests.look(itself=itself)
    if look.is_gone:
        # This includes a removal that was in doubt and happened after all.
        if not departure.is_out and not await departure.take_out(look.voters):
            return look, "its server is not gone"
        if membership.votes_last:
            if not departure.has_joined and not await requests.admitted(node.spec):
                return look, f"{node.name} is no learner yet: {look}"
            await departure.run(look.voters)
            departure.has_joined = True
        await requests.ask_to_add(node.spec)
        return look, f"{node.name} is no voter yet: {look}"
    if node.name not in look.voters:
        return look, str(look)
    if not departure.is_out and await requests.lingers():
        await departure.end_lingering()
        return look, f"other groups still name {node.name}: {look}"
    await departure.run(look.voters)
    departure.has_joined = True
    if not look.is_listed or not (itself or membership.only_leader_answers):
        return look, str(look)
    return look, await membership.lacks(node.name, timeout_s=_SERVES_S)


def _back(departure: _Departure, requests: MemberRequests, look: Look, took_s: float) -> str:
    """Return how the member came back, in one sentence."""
    before, now = departure.member_id, look.member_id
    if not departure.is_out:
        return f"{departure.node.name} ({now}) is still the same member: {look}"
    name = f"as {now}, no longer {before}" if now != before else f"as {now}, as before"
    return f"to add it: {requests.summary}; {look}, {departure.node.name} {name}; it serves after {took_s:.1f} s"
