"""Members of a cluster that is none: who votes as each node knows it, and nodes that refuse, lie or do not answer.

members = FakeMembers(runtime)
cluster = replace(cluster_of(runtime), system=FakeSystem(members))
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.members import MemberChanges
from fencepost.harness.contract.profile import Profile
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import NodeSpec, NodeState
from tests.fakes.fakes_runtime import FakeRuntime
from tests.fakes.profile import FAKE_PROFILE, NoParts


@dataclass
class FakeMembers:
    """`harness.contract.members.Membership`. A change is done, refused ("no") or of unknown outcome ("in
    doubt").

    `answers` are those of the next requests, in order; after them every one is done. One in doubt is done all the same
    when `doubts_are_done`. `lagging` nodes list the voters as they were at the beginning, `mute` ones tell nothing.
    `lingering` ones are named by other groups after their removal, until their server ends (`NamesRemovedMembers`).
    """

    runtime: FakeRuntime
    votes_last: bool = False
    only_leader_answers: bool = False
    ends_removed: bool = False
    leader: str = "n1"
    answers: list[str] = field(default_factory=list)
    doubts_are_done: bool = False
    lagging: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    lingering: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    #: What a node lacks of a member that serves.
    lacking: str | None = None

    def __post_init__(self) -> None:
        self.current = {name: f"{name}-0" for name in self.runtime.nodes}
        self.first = dict(self.current)
        self.lives = 0

    def prepared(self, spec: NodeSpec) -> NodeSpec:
        return replace(spec, environment={"PREPARED": "yes"})

    async def voters(self, at: str, *, timeout_s: float) -> Mapping[str, str]:
        await asyncio.sleep(0)
        if at in self.mute:
            raise Indefinite("timeout", "no answer")
        if self.only_leader_answers and at != self.leader:
            raise Definite("not-leader")
        held = {name: self.first[name] for name in self.lingering if self._runs(name)}
        return self.first if at in self.lagging else held | self.current

    async def is_removed(self, node: str, *, at: str, timeout_s: float) -> bool:
        return node in await self.voters(at, timeout_s=timeout_s) and node not in self.current

    def _runs(self, node: str) -> bool:
        return self.runtime.nodes[node].state is NodeState.RUNNING

    async def remove(self, node: str, *, through: str, timeout_s: float) -> None:
        self._answer(f"remove {node} through {through}")
        self.current.pop(node, None)
        if self.ends_removed:
            self.runtime.nodes[node].state = NodeState.DEAD

    async def add(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        node = spec.name
        assert self._runs(node) is self.votes_last, (
            "a server is started before it votes, or after, as its system wants it"
        )
        self._answer(f"add {node} through {through}")
        self.lives += 1
        self.current[node] = f"{node}-{self.lives}"

    def _answer(self, what: str) -> None:
        self.asked.append(what)
        answer = self.answers.pop(0) if self.answers else "done"
        if answer == "no":
            raise Definite("refused", "not now")
        if answer == "in doubt":
            if self.doubts_are_done:
                self.current.pop("n3", None)
            raise Indefinite("timeout", "no answer")

    def joining(self, spec: NodeSpec, voters: Collection[str], *, life: int | None) -> NodeSpec:
        return replace(spec, argv=("join", *sorted(voters), f"life {life}"))

    async def lacks(self, node: str, *, timeout_s: float) -> str | None:
        await asyncio.sleep(0)
        return self.lacking


class FakeLearners(FakeMembers):
    """`AdmitsLearners` too."""

    async def admit(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        assert not self._runs(spec.name), "a server runs only once it is known as a learner"
        self._answer(f"admit {spec.name} through {through}")


@dataclass
class FakeSystem(NoParts):
    """A system of which nothing is known but its members."""

    members: FakeMembers
    profile: Profile[Any] = FAKE_PROFILE

    @property
    def member_changes(self) -> MemberChanges[Any]:
        return MemberChanges(
            of=lambda *_: self.members,
            learners=(lambda *_: self.members) if isinstance(self.members, FakeLearners) else None,
            wiped=Refusal("it forgets", "wipe it") if self.members.ends_removed else None,
            fixed=lambda version, _: None if version else Refusal("an image", "name a release"),
        )
