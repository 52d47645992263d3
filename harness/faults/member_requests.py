"""Requests to the members of a cluster about one of them: list the voters, remove the member, add it.

Every request for a change is kept with its answer, refusals and missing answers included, so that a proof can say that
a change took three attempts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from fencepost.harness.base.quorum import majority
from fencepost.harness.contract.membership import Membership
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.change_requests import ChangeRequests
from fencepost.harness.faults.kind import Cluster
from fencepost.harness.runtime.node import NodeSpec, NodeState

T = TypeVar("T")

_ASK_S = 2.5
_LOOK_S = 1.0
_POLL_S = 0.05
#: How long the voters are watched for a change before it is requested again.
_SEEN_S = 3.0
#: The same after a refusal: its reason (a member that was just away) takes a while to pass.
_REFUSED_S = 0.3


@runtime_checkable
class LetsGoLate(Protocol):
    """A membership whose other groups may name a removed member for as long as its server runs."""

    async def is_removed(self, node: str, *, at: str, timeout_s: float) -> bool:
        """Ask the node `at` whether the group that decides who is a member has removed it, while others name it.

        Raises:
            Definite, Indefinite: the node does not answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The lists of voters at one time, by the node that answered; `silent` says why other nodes did not."""

    member: str
    needed: int
    #: Only the leader answers, which may be the member itself.
    by_leader: bool = False
    lists: Mapping[str, Mapping[str, str]]
    silent: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_gone(self) -> bool:
        """Whether enough of the other nodes answered, and none of them lists the member."""
        return self._others >= self.needed and not any(self.member in voters for voters in self.lists.values())

    @property
    def is_listed(self) -> bool:
        """Whether enough nodes answered, the member too if it was asked, and all of them list it."""
        counted = len(self.lists) if self.by_leader else self._others
        listed = all(self.member in voters for voters in self.lists.values())
        return counted >= self.needed and listed and self.member not in self.silent

    @property
    def member_id(self) -> str:
        return next((voters[self.member] for voters in self.lists.values() if self.member in voters), "")

    @property
    def voters(self) -> frozenset[str]:
        return frozenset(name for voters in self.lists.values() for name in voters)

    @property
    def _others(self) -> int:
        return sum(name != self.member for name in self.lists)

    def __str__(self) -> str:
        lists: dict[str, list[str]] = {}
        for name, voters in self.lists.items():
            lists.setdefault(", ".join(sorted(voters)), []).append(name)
        parts = [f"{', '.join(names)} list{'' if names[1:] else 's'} {voters}" for voters, names in lists.items()]
        parts += [f"{name} gave no list ({why})" for name, why in self.silent.items()]
        return "; ".join(parts) or "no node could be asked"


class MemberRequests:
    """The requests of one act about one member."""

    def __init__(self, membership: Membership, cluster: Cluster, member: str) -> None:
        self._membership, self._cluster, self._member = membership, cluster, member
        self._requests = ChangeRequests()

    @property
    def summary(self) -> str:
        """Every request for a change with its result."""
        return self._requests.summary

    async def look(self, *, itself: bool = False) -> Look:
        """Ask every other running voter for its list of voters; with `itself` the member too."""
        by_leader, others = self._membership.only_leader_answers, self._others()
        wanted = [*others, self._member] if itself or by_leader else others
        running = [name for name in wanted if self._is_up(name)]
        answers = dict(zip(running, await asyncio.gather(*(self._voters(name) for name in running)), strict=True))
        lists = {name: answer for name, answer in answers.items() if not isinstance(answer, str)}
        silent = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
        silent |= {name: "it does not run" for name in others if name not in running}
        return Look(
            member=self._member,
            needed=1 if by_leader else majority(others),
            by_leader=by_leader,
            lists=lists,
            # Where the leader answers for all, the others need not.
            silent={} if by_leader and lists else silent,
        )

    async def until_removed(self, timeout_s: float) -> Look | None:
        """Request the removal until no node lists the member; None when that was not seen in time, or it lingers."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while loop.time() < deadline_s:
            refused = await self._ask(partial(self._membership.remove, self._member))
            look_until_s = loop.time() + (_REFUSED_S if refused else _SEEN_S)
            while True:
                look = await self.look()
                if look.is_gone:
                    return look
                if loop.time() >= min(look_until_s, deadline_s):
                    break
                await asyncio.sleep(_POLL_S)
            if await self.lingers():
                break
        return None

    async def lingers(self) -> bool:
        """Whether enough of the other nodes say that the member was removed, and is named by other groups still."""
        membership, others = self._membership, self._others()
        if not isinstance(membership, LetsGoLate):
            return False
        running = [name for name in others if self._is_up(name)]
        questions = (membership.is_removed(self._member, at=name, timeout_s=_LOOK_S) for name in running)
        answers = await asyncio.gather(*(_answer(question) for question in questions))
        return sum(answer is True for answer in answers) >= majority(others) and False not in answers

    async def until_gone(self, timeout_s: float) -> Look | None:
        """Look until no node lists the member, without another request; None when that was not seen in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while not (look := await self.look()).is_gone:
            if loop.time() >= deadline_s:
                return None
            await asyncio.sleep(_POLL_S)
        return look

    async def ask_to_add(self, spec: NodeSpec) -> None:
        """Send one request to add the member; wait a moment after a refusal."""
        if await self._ask(partial(self._membership.add, spec)):
            await asyncio.sleep(_REFUSED_S)

    async def _ask(self, change: Callable[..., Awaitable[None]]) -> bool:
        """Send the change to the next node in turn; return whether it certainly refused."""
        return await self._requests.ask(self._candidates(), lambda through: change(through=through, timeout_s=_ASK_S))

    def _candidates(self) -> list[str]:
        """Return the nodes to ask for changes: the leader first; the member itself only if no other can do it."""
        leader = self._cluster.view().leader
        others = [name for name in self._others() if self._is_up(name)]
        if leader == self._member and self._membership.only_leader_answers and self._is_up(leader):
            return [leader, *others]
        return sorted(others, key=lambda name: name != leader)

    def _others(self) -> list[str]:
        return [name for name in self._cluster.view().voters if name != self._member]

    def _is_up(self, name: str) -> bool:
        return self._cluster.runtime.nodes[name].state is NodeState.RUNNING

    async def _voters(self, name: str) -> Mapping[str, str] | str:
        """Return this node's list of voters, or why it gave none."""
        return await _answer(self._membership.voters(name, timeout_s=_LOOK_S))


async def _answer(question: Awaitable[T]) -> T | str:
    """The answer, or why there is none."""
    try:
        return await question
    except (Definite, Indefinite) as error:
        return str(error)
