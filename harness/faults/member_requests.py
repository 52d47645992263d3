"""Requests to members about a member: who votes as each of them knows it, and that one be removed or added.

Whatever is asked is kept in words, also what was refused or not answered: a change that took three attempts says so.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.kind import Cluster
from fencepost.harness.faults.quorum import majority
from fencepost.harness.runtime.node import NodeSpec, NodeState
from fencepost.harness.systems.contract.membership import Membership

_ASK_S = 2.5
_LOOK_S = 1.0
_POLL_S = 0.05
#: A change that was answered, or not, is looked for so long before it is asked for again.
_SEEN_S = 3.0
#: After a refusal: what it rests on (a member that was away a moment ago) takes a while to change.
_REFUSED_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The lists of voters that were told at one time, by who told them; `silent` says of the others why not."""

    member: str
    needed: int
    #: Only who leads tells, which may be the member.
    by_leader: bool = False
    told: Mapping[str, Mapping[str, str]]
    silent: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_gone(self) -> bool:
        """Enough of the others tell, and nobody lists the member."""
        return self._others >= self.needed and not any(self.member in voters for voters in self.told.values())

    @property
    def is_listed(self) -> bool:
        """Enough nodes tell, the member too where it was asked, and all of them list it."""
        counted = len(self.told) if self.by_leader else self._others
        listed = all(self.member in voters for voters in self.told.values())
        return counted >= self.needed and listed and self.member not in self.silent

    @property
    def member_id(self) -> str:
        return next((voters[self.member] for voters in self.told.values() if self.member in voters), "")

    @property
    def voters(self) -> frozenset[str]:
        return frozenset(name for voters in self.told.values() for name in voters)

    @property
    def _others(self) -> int:
        return sum(name != self.member for name in self.told)

    def __str__(self) -> str:
        lists: dict[str, list[str]] = {}
        for name, voters in self.told.items():
            lists.setdefault(", ".join(sorted(voters)), []).append(name)
        words = [f"{', '.join(names)} list{'' if names[1:] else 's'} {voters}" for voters, names in lists.items()]
        words += [f"{name} tells nothing ({why})" for name, why in self.silent.items()]
        return "; ".join(words) or "nobody could be asked"


class MemberRequests:
    """The requests of one act about one member."""

    def __init__(self, membership: Membership, cluster: Cluster, member: str) -> None:
        self._membership, self._cluster, self._member = membership, cluster, member
        self._attempts: list[str] = []
        self._turn = 0

    @property
    def words(self) -> str:
        """Every request for a change and what became of it, in order; equal ones once, with their number."""
        counted = Counter(self._attempts)
        words = (said if count == 1 else f"{said} x {count}" for said, count in counted.items())
        return ", ".join(words) or "nobody was asked"

    async def look(self, *, itself: bool = False) -> Look:
        """Ask every other voter that runs, and the member if wanted, for its list of voters."""
        by_leader, others = self._membership.told_by_leader, self._others()
        wanted = [*others, self._member] if itself or by_leader else others
        asked = [name for name in wanted if self._is_up(name)]
        found = dict(zip(asked, await asyncio.gather(*(self._voters(name) for name in asked)), strict=True))
        told = {name: said for name, said in found.items() if not isinstance(said, str)}
        silent = {name: said for name, said in found.items() if isinstance(said, str)}
        silent |= {name: "it does not run" for name in others if name not in asked}
        return Look(
            member=self._member,
            needed=1 if by_leader else majority(others),
            by_leader=by_leader,
            told=told,
            # Where one tells for all, the others are not missed.
            silent={} if by_leader and told else silent,
        )

    async def until_removed(self, timeout_s: float) -> Look | None:
        """Ask for the removal until nobody lists the member; None when that was not seen within the time."""
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
        return None

    async def ask_to_add(self, spec: NodeSpec) -> None:
        """One request; a refusal is waited out for a moment."""
        if await self._ask(partial(self._membership.add, spec)):
            await asyncio.sleep(_REFUSED_S)

    async def _ask(self, change: Callable[..., Awaitable[None]]) -> bool:
        """Ask the next node in turn; whether it certainly refused."""
        candidates = self._candidates()
        if not candidates:
            self._attempts.append("nobody runs who could be asked")
            return True
        through = candidates[self._turn % len(candidates)]
        self._turn += 1
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            await change(through=through, timeout_s=_ASK_S)
        except Definite as error:
            self._attempts.append(f"{through} refused ({error})")
            return True
        except Indefinite as error:
            self._attempts.append(f"{through} left it in doubt ({error})")
            return False
        self._attempts.append(f"{through} did it in {(loop.time() - began_s) * 1e3:.0f} ms")
        return False

    def _candidates(self) -> list[str]:
        """Who is asked for changes: whoever leads first; the member itself only where nobody else can do it."""
        leader = self._cluster.view().leader
        others = [name for name in self._others() if self._is_up(name)]
        if leader == self._member and self._membership.told_by_leader and self._is_up(leader):
            return [leader, *others]
        return sorted(others, key=lambda name: name != leader)

    def _others(self) -> list[str]:
        return [name for name in self._cluster.view().voters if name != self._member]

    def _is_up(self, name: str) -> bool:
        return self._cluster.runtime.nodes[name].state is NodeState.RUNNING

    async def _voters(self, name: str) -> Mapping[str, str] | str:
        """Its list, or why it tells none."""
        try:
            return await self._membership.voters(name, timeout_s=_LOOK_S)
        except (Definite, Indefinite) as error:
            return str(error)
