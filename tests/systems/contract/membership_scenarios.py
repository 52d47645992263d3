"""Members of real clusters removed and added in the lab, by the fault itself; judged by `test_membership_cluster`."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from fencepost.harness.coordination import Definite, Indefinite, Interface, Keys, prepare
from fencepost.harness.faults.kind import Cluster, Proof, View
from fencepost.harness.history import Claim
from fencepost.harness.plugins import registry
from fencepost.harness.runner.readiness import await_healthy
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.nemesis.members import membership
from fencepost.nemesis.members.membership import MembershipChange
from tests.fakes import acting
from tests.fakes.fakes_runtime import cluster_of
from tests.systems.contract.patience import PATIENCE_S

T = TypeVar("T")

KEY: Final = "k0"
_HEALTHY_S: Final = 60.0
_ASK_S: Final = 0.5
_LEADER_S: Final = 30.0


class Scene:
    """A cluster that was started so that its members can change, and who leads it as its nodes say."""

    def __init__(self, lab: Lab, system: str) -> None:
        self.lab, self.system = lab, registry.system(system)
        self.members = self.system.members(3, self.system.profile.options())
        self.cluster: Cluster = cluster_of(lab, system=system, view=self.view)
        self.leader: str | None = None

    @property
    def stores(self) -> bool:
        return Interface.STORAGE in self.system.profile.interfaces

    def view(self) -> View:
        return View(nodes=tuple(self.lab.nodes), leader=self.leader, epoch=None, members=self.members)

    async def start(self) -> None:
        artifacts = self.system.releases.resolve(self.system.releases.default)
        self.cluster = replace(self.cluster, artifacts=artifacts, changes_members=True)
        await self.lab.realise(self.cluster.specs().values())
        for node in self.lab.nodes.values():
            await node.start()
        await self.healthy()
        # Whoever leads may lead the data alone, as in NATS: there is nobody before there are any.
        if self.stores:
            async with self._client(next(iter(self.lab.nodes))):
                pass

    async def healthy(self) -> None:
        wrong = await await_healthy(self.system, self.lab.layout, deadline_s=_HEALTHY_S)
        tails = "\n".join(f"--- {name}\n{node.log_tail(15)}" for name, node in self.lab.nodes.items())
        assert wrong is None, f"not healthy: {wrong}\n{tails}"

    async def follow(self) -> None:
        """Who leads, asked again and again of everybody who votes."""
        while True:
            voters = [member.name for member in self.members if member.votes]
            found = await asyncio.gather(*(self._leads(name) for name in voters))
            claims = [(epoch, name) for epoch, name in zip(found, voters, strict=True) if epoch is not None]
            self.leader = max(claims)[1] if claims else None
            await asyncio.sleep(0.05)

    async def _leads(self, name: str) -> int | None:
        """The epoch in which this node says that it leads."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_ASK_S):
                question = self.system.question(self.lab.layout[name], self.system.profile.subjects[0])
                assert question is not None
                try:
                    answer = await question.ask()
                finally:
                    await question.close()
                return (answer.epoch or 0) if answer.claims is Claim.YES else None
        return None

    async def led(self) -> str:
        async with asyncio.timeout(_LEADER_S):
            while self.leader is None:
                await asyncio.sleep(0.05)
        return self.leader

    async def lists(self) -> dict[str, dict[str, str]]:
        """Who votes, by every node that tells."""
        assert self.system.member_changes is not None
        membership = self.system.member_changes.of(self.lab.layout, self.cluster.artifacts)
        found = {}
        for member in self.members:
            with contextlib.suppress(Definite, Indefinite):
                if member.votes:
                    found[member.name] = dict(await membership.voters(member.name, timeout_s=PATIENCE_S))
        return found

    async def write(self, name: str, value: str) -> None:
        async with self._client(name) as client:
            await self._until_taken(lambda: client.write(KEY, value.encode()))

    async def read(self, name: str) -> str | None:
        """In the strongest mode that the system has."""
        async with self._client(name) as client:
            mode = max(self.system.profile.read_modes, key=["plain", "leader", "sync", "strong", "barrier"].index)
            value = (await self._until_taken(lambda: client.read(KEY, mode))).value
            return None if value is None else value.decode()

    async def _until_taken(self, request: Callable[[], Awaitable[T]]) -> T:
        """A new leader may not lead yet."""
        async with asyncio.timeout(_LEADER_S):
            while True:
                try:
                    return await request()
                except (Definite, Indefinite):
                    await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def _client(self, name: str) -> Any:
        options = self.system.profile.options()
        client = await self.system.open_client(
            self.lab.layout[name], Interface.STORAGE, connect_timeout_s=PATIENCE_S, options=options
        )
        try:
            await prepare(client, Keys((KEY,)))
            yield client
        finally:
            await client.close()


async def changes(lab: Lab, args: dict[str, Any]) -> Any:
    """For each target: the proofs, the lists before, between and after, and what became of the data.

    At last all nodes are restarted at once: who votes is not to hang on anybody's memory.
    """
    # A server that was removed ends by itself, but not at once on a busy machine.
    membership._ENDED_S = PATIENCE_S  # type: ignore[misc]  # a constant elsewhere
    scene = Scene(lab, args["system"])
    await scene.start()
    following = asyncio.create_task(scene.follow())
    try:
        found = [await _change(scene, fault_id, text) for fault_id, text in enumerate(args["targets"])]
        await asyncio.gather(*(node.kill() for node in lab.nodes.values()))
        await asyncio.gather(*(node.start() for node in lab.nodes.values()))
        await scene.healthy()
        return {"changes": found, "restarted": await scene.lists()}
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _change(scene: Scene, fault_id: int, text: str) -> dict[str, Any]:
    import random

    target, _, wipe = text.partition(":wipe=")
    fault = MembershipChange()
    leader = await scene.led()
    spec = fault.spec(target, {"wipe": wipe} if wipe else {})
    resolved = acting.aimed(fault, spec, scene.view(), random.Random(1))
    (name,) = resolved.nodes
    node, others = scene.lab.nodes[name], [m.name for m in scene.members if m.votes and m.name != name]
    before = await scene.lists()
    (node.place.data / "mark").write_text("of the first life")
    injected = await acting.inject(fault, fault_id, resolved, scene.cluster)
    between = await scene.lists()
    if scene.stores:
        await scene.write(others[0], f"while {name} was out")
    healed = await acting.heal(fault, fault_id, resolved, scene.cluster)
    again = await acting.heal(fault, fault_id, resolved, scene.cluster)
    await scene.healthy()
    return {
        "node": name,
        "led": name == leader,
        "injected": _told(injected),
        "healed": _told(healed),
        "again": _told(again),
        "before": before,
        "between": between,
        "after": await scene.lists(),
        "marked": (node.place.data / "mark").exists(),
        "read": await scene.read(name) if scene.stores else None,
        "incarnation": node.incarnation,
    }


def _told(proof: Proof) -> list[str]:
    return [proof.outcome.value, proof.text]
