"""Requests to the members of a cluster about one of them: list the voters, remove the member, add it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from fencepost.harness.base.quorum import majority
from fencepost.harness.contract.members import AdmitsLearners, Membership, NamesRemovedMembers
from fencepost.harness.faults.change_requests import ASK_S, LOOK_S, Change, ChangeRequests
from fencepost.harness.faults.kind import Cluster
from fencepost.harness.runtime.node import NodeSpec


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


class MemberRequests(ChangeRequests):
    """The requests of one act about one member."""

    def __init__(self, membership: Membership, cluster: Cluster, member: str) -> None:
        super().__init__(cluster)
        self._membership, self._member = membership, member

    async def look(self, *, itself: bool = False) -> Look:
        """Ask every other running voter for its list of voters; with `itself` the member too."""
        by_leader, others = self._membership.only_leader_answers, self._others()
        wanted = [*others, *self.up([self._member])] if itself or by_leader else others
        lists, silent = await self.answers(wanted, lambda at: self._membership.voters(at, timeout_s=LOOK_S))
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
        return await self._until_gone(timeout_s, self._changed(partial(self._membership.remove, self._member)))

    async def until_gone(self, timeout_s: float) -> Look | None:
        """Look until no node lists the member, without another request; None when that was not seen in time."""
        return await self._until_gone(timeout_s, None)

    async def _until_gone(self, timeout_s: float, change: Change | None) -> Look | None:
        look, listed = await self.until(
            self.look, lambda seen: None if seen.is_gone else str(seen), timeout_s, change=change, enough=self.lingers
        )
        return None if listed else look

    async def lingers(self) -> bool:
        """Whether enough of the other nodes say that the member was removed, and is named by other groups still."""
        membership, others = self._membership, self._others()
        if not isinstance(membership, NamesRemovedMembers):
            return False
        answers, _ = await self.answers(others, lambda at: membership.is_removed(self._member, at=at, timeout_s=LOOK_S))
        return sum(answers.values()) >= majority(others) and all(answers.values())

    async def admitted(self, spec: NodeSpec) -> bool:
        """Whether the server may run: where there are learners, once a node has said that it is one."""
        if not isinstance(self._membership, AdmitsLearners):
            return True
        admit, answers = self._changed(partial(self._membership.admit, spec)), list[str]()

        async def ask(through: str) -> None:
            await admit(through)
            answers.append(through)

        await self.ask_calmly(ask)
        return bool(answers)

    async def ask_to_add(self, spec: NodeSpec) -> None:
        """Send one request to add the member; wait a moment after a refusal."""
        await self.ask_calmly(self._changed(partial(self._membership.add, spec)))

    def candidates(self) -> list[str]:
        """Return the nodes to ask for changes: the leader first; the member itself only if no other can do it."""
        leader, others = self.cluster.view().leader, self.up(self._others())
        if leader == self._member and self._membership.only_leader_answers and self.up([leader]):
            return [leader, *others]
        return sorted(others, key=lambda name: name != leader)

    def _others(self) -> list[str]:
        return [name for name in self.cluster.view().voters if name != self._member]

    @staticmethod
    def _changed(change: Callable[..., Awaitable[None]]) -> Change:
        return lambda through: change(through=through, timeout_s=ASK_S)
