"""A real etcd cluster on any runtime, as the scenarios of the suite meet it: whole and healthy, and made so again."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.base.options import seconds
from fencepost.harness.coordination import Definite, Indefinite, Interface, ReadMode
from fencepost.harness.faults.kind import View
from fencepost.harness.runner.readiness import await_healthy
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach
from fencepost.harness.runtime.node import Exit, Node, NodeSpec, NodeState, Runtime
from fencepost.systems.etcd.options import EtcdOptions
from fencepost.systems.etcd.system import ETCD
from tests.runtime.conformance.kinds import Difference
from tests.runtime.links.exact_probe import probe_exactly

#: Elections are the longest part of a scenario.
OPTIONS: Final = EtcdOptions(election=seconds(0.5))
#: Nothing takes this long where nothing is wrong, however busy the machine is.
DEADLINE_S: Final = 40.0
_REACH: Final = {Effect.DROP: Reach.DROPPED, Effect.RESET: Reach.RESET}


class Cluster:
    def __init__(self, kind: str, runtime: Runtime, artifacts: Artifacts, folder: Path) -> None:
        self.kind = kind
        self.runtime = runtime
        self.network = runtime.network
        self.nodes = runtime.nodes
        self.names = list(runtime.nodes)
        self.folder = folder
        self.system = ETCD
        self._artifacts = artifacts

    def specs(self, **changes: Any) -> list[NodeSpec]:
        """etcd's own, with a file beside the server and one in its data directory."""
        files = {"files": {"conf/note": "as it was"}, "data_files": {"first": "1"}}
        specs = self.system.specs(self.runtime.layout, self._artifacts, OPTIONS)
        return [replace(spec, **(files | changes)) for spec in specs]

    async def start(self, **changes: Any) -> None:
        """Specs that do not fit are refused before; specs are given once, so no scenario can try that."""
        error = await refused(self.runtime.realise(self.specs()[:-1]))
        assert error.message == f"specs for {self.names[:-1]}, but the nodes are {self.names}"
        error = await refused(self.runtime.realise(self.specs(files={"../x": ""})))
        assert "'../x'" in error.message
        await self.runtime.realise(self.specs(**changes))
        await asyncio.gather(*(node.start() for node in self.nodes.values()))
        await self.runtime.await_links()
        await self.until_healthy()

    async def restore(self) -> None:
        """Whatever a scenario left behind: healed, thawed, started, healthy, its exits heard."""
        await self.network.heal_all()
        for node in self.nodes.values():
            node.wrap_argv.clear()
            node.before_start.clear()
            node.on_start.clear()
            await node.resume()
            if (await node.evidence()).state is not NodeState.RUNNING:
                # Its exit may be on its way to us.
                await node.kill()
                await node.start()
        await self.until_healthy()
        await self.exits(0.01)

    async def until_healthy(self) -> None:
        wrong = await await_healthy(self.system, self.runtime.layout, deadline_s=DEADLINE_S)
        assert wrong is None, f"the cluster is not healthy after {DEADLINE_S:g} s: {wrong}"

    async def until_ready(self, node: Node) -> None:
        await self.until(lambda: self.system.ready(node), f"{node.name} to be ready")

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> float:
        """Seconds for which it certainly took: to the last look that did not find it. How late we look is no matter."""
        began, missed_s = time.monotonic(), 0.0
        while True:
            looked_s = time.monotonic() - began
            if await condition():
                return missed_s
            missed_s = looked_s
            assert looked_s < DEADLINE_S, f"waited {DEADLINE_S:g} s for {what}"
            await asyncio.sleep(0.01)

    async def believed(self, name: str) -> str | None:
        """Whom this node takes for the leader; None when it does not answer, or knows none."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(1.0):
                question = self.system.question(self.runtime.layout[name], "leader")
                try:
                    return (await question.ask()).leader
                finally:
                    await question.close()
        return None

    async def leader(self, among: Iterable[str] = ()) -> str:
        """The node that all of these (everybody) agree on."""
        asked = list(among) or self.names
        found = ""

        async def agreed() -> bool:
            nonlocal found
            said = set(await asyncio.gather(*(self.believed(name) for name in asked)))
            found = next(iter(said)) or ""
            return len(said) == 1 and found in asked

        await self.until(agreed, f"{', '.join(asked)} to agree on a leader")
        return found

    async def follower(self, leader: str = "") -> Node:
        """The last one beside `leader` (the present one); to kill it costs no election."""
        leader = leader or await self.leader()
        return [node for name, node in self.nodes.items() if name != leader][-1]

    async def view(self) -> View:
        return View(nodes=tuple(self.names), leader=await self.leader(), epoch=None)

    async def write(self, name: str, key: str, value: str) -> None:
        """Through this node, again until it is acknowledged: servers that had to wait for the processor elect anew."""

        async def acknowledged() -> bool:
            with contextlib.suppress(Definite, Indefinite, TimeoutError):
                await self.write_once(name, key, value)
                return True
            return False

        await self.until(acknowledged, f"{name} to acknowledge a write")

    async def write_once(self, name: str, key: str, value: str, timeout_s: float = 5.0) -> None:
        """Through a new connection to this node alone; raises what the client raises, or TimeoutError."""
        async with asyncio.timeout(timeout_s), self._client(name, timeout_s) as client:
            await client.write(key, value.encode())

    async def read(self, name: str, key: str) -> str | None:
        """What a current read of this node gives, as soon as it gives one."""
        found: str | None = None

        async def answered() -> bool:
            nonlocal found
            with contextlib.suppress(Definite, Indefinite, TimeoutError):
                found = await self.read_once(name, key)
                return True
            return False

        await self.until(answered, f"{name} to answer a current read")
        return found

    async def read_once(self, name: str, key: str, timeout_s: float = 5.0) -> str | None:
        """Through a new connection to this node alone; raises what the client raises, or TimeoutError."""
        async with asyncio.timeout(timeout_s), self._client(name, timeout_s) as client:
            value = (await client.read(key, ReadMode.STRONG)).value
            return None if value is None else value.decode()

    @contextlib.asynccontextmanager
    async def _client(self, name: str, timeout_s: float) -> Any:
        client = await self.system.open_client(
            self.runtime.layout[name], Interface.STORAGE, connect_timeout_s=timeout_s, options=OPTIONS
        )
        try:
            yield client
        finally:
            await client.close()

    async def serves(self, name: str, timeout_s: float = 2.0) -> bool:
        """Whether a client of this node gets a current answer within the time."""
        try:
            await self.read_once(name, "served", timeout_s)
        except Exception:
            return False
        return True

    async def prove(self, links: Mapping[Link, Effect]) -> None:
        """The probe of every directed link of the cluster finds exactly these shut, each as meant; so is our memory."""
        assert self.network.blocked == links, f"blocked: {self.network.blocked}"
        wanted = dict.fromkeys(all_links(self.names), Reach.OPEN) | {link: _REACH[how] for link, how in links.items()}
        found = await probe_exactly(self.network, wanted)
        assert found.keys() == wanted.keys()
        wrong = {str(link): (found[link], wanted[link]) for link in wanted if found[link] is not wanted[link]}
        assert not wrong, f"found, wanted: {wrong}"

    async def exits(self, wait_s: float = 0.3) -> list[Exit]:
        """All that are told until nothing more came for so long."""
        told = []
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(wait_s):
                    told.append(await self.runtime.next_exit())
        return told

    async def next_exit(self) -> Exit:
        async with asyncio.timeout(DEADLINE_S):
            return await self.runtime.next_exit()

    def expected(self, difference: Difference) -> object:
        return difference.expected(self.kind)


def both_ways(left: Iterable[str], right: Iterable[str], effect: Effect = Effect.DROP) -> dict[Link, Effect]:
    links = [Link(a, b) for a in left for b in right if a != b]
    return {way: effect for link in links for way in (link, Link(link.target, link.source))}


async def refused(work: Awaitable[object]) -> FencepostError:
    """The error of ours that this raises."""
    try:
        await work
    except FencepostError as error:
        return error
    raise AssertionError("nothing was refused")


__all__ = ["CLIENT", "Cluster", "both_ways", "refused"]
