"""The cluster of one cell: started, filled with topics, and brought to the same state before every ending.

In that state every node serves, one controller is active, and every partition has all replicas in sync and is led by
its first replica, as every broker knows. Each partition has also just acknowledged a produce, because metadata may be
ahead of brokers that still create the logs of thousands of partitions. So a node that ends as a broker, too,
always leads a third of the partitions.
"""

import asyncio
import sys
import time
from collections.abc import Container, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.contract.system import Question
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import Claim
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node, Place
from fencepost.harness.runtime.provider import Placement
from fencepost.systems.kafka.client.client import open_node
from fencepost.systems.kafka.client.elect_leaders import elect_preferred_leaders
from fencepost.systems.kafka.failover.cell import NODES, REPLICAS, FailoverCell, topics
from fencepost.systems.kafka.failover.measurable import failover_of, system_of
from fencepost.systems.kafka.failover.probes import Address, Partition, ProduceLine, ProduceProbe
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.wire.errors import TOPIC_ALREADY_EXISTS, ServerDoubt, ServerRefusal
from fencepost.systems.kafka.wire.values import TopicView

_START_S: Final = 90.0
_CREATE_S: Final = 120.0
_SETTLE_S: Final = 150.0
_DIAL_S: Final = 1.0
_ASK_S: Final = 5.0
_CREATE_PATIENCE_S: Final = 60.0
_ELECT_MS: Final = 20_000
#: Pause between two checks of a recovering cluster: each check costs the nodes and this process some work.
_LOOK_EVERY_S: Final = 0.3
#: Long, since nothing is measured meanwhile: with the 100 ms of the probe, thousands of partitions would need many
#: requests each.
_PRODUCE_WAIT_MS: Final = 5000

_Failed = (Definite, Indefinite, TimeoutError, OSError)


class FailoverCluster:
    """A running cluster; `open_cluster` makes it. Of `all_nodes` those in `nodes` run; `later` ones do not yet."""

    def __init__(
        self,
        cell: FailoverCell,
        nodes: Mapping[str, Node],
        layout: Mapping[str, Place],
        artifacts: Artifacts,
        *,
        later: Container[str] = (),
    ) -> None:
        self.cell = cell
        self.all_nodes = nodes
        self.nodes = {name: node for name, node in nodes.items() if name not in later}
        self.layout = layout
        self.artifacts = artifacts
        self.system = system_of(cell.system)
        self.failover = failover_of(cell.system)
        self.topics = topics(cell.partitions)
        self.filled = False
        #: Kept open: a question may read its node's log, which grows by a line per partition with every ending.
        self._questions: dict[str, Question] = {}

    async def close(self) -> None:
        """Close the connections of the questions; the runtime stops the nodes."""
        for question in self._questions.values():
            await question.close()

    @property
    def partitions(self) -> list[Partition]:
        return [(topic, number) for topic, count in self.topics.items() for number in range(count)]

    @property
    def brokers(self) -> dict[str, Address]:
        """The address of every broker for produce requests."""
        return {name: place.dial(CLIENT_PORT) for name, place in self.layout.items() if "broker" in place.roles}

    @property
    def controllers(self) -> dict[str, Address]:
        """The address at which every possible controller takes changes itself and forwards none."""
        port = self.system.profile.listeners[self.failover.controller]
        if self.failover.migrates:
            roles = {"broker", "controller"}
            return {name: self.layout[name].dial(port) for name in self.nodes if roles & {*self.layout[name].roles}}
        own = [name for name, place in self.layout.items() if "controller" in place.roles]
        return {name: self.layout[name].dial(port) for name in own or self.brokers}

    async def active(self) -> str | None:
        """Ask which node acts as the controller now; returns None unless it is exactly one."""
        claims = await asyncio.gather(*(self._acts(name) for name in self.controllers))
        claimants = [name for name, acts in zip(self.controllers, claims, strict=True) if acts]
        return claimants[0] if len(claimants) == 1 else None

    async def _acts(self, name: str) -> bool:
        question = self._questions.get(name) or self.system.question(self.layout[name], "controller")
        assert question is not None
        self._questions[name] = question
        try:
            async with asyncio.timeout(_ASK_S):
                return (await question.ask()).claims is Claim.YES
        except _Failed:
            return False

    async def fill(self) -> None:
        """Create the topics one after the other; raises HarnessError when that takes too long."""
        deadline = time.monotonic() + _CREATE_S
        for name, count in self.topics.items():
            while True:
                try:
                    await self._create(name, count)
                    break
                except _Failed as error:
                    if time.monotonic() > deadline:
                        raise HarnessError(f"topic {name} with {count} partitions was not created: {error}") from error
                    await asyncio.sleep(_LOOK_EVERY_S)
        self.filled = True

    async def _create(self, name: str, count: int) -> None:
        active = await self.active()
        if active is None:
            raise Definite("no-controller", "no node, or several, act as the controller")
        node = await open_node(*self.controllers[active], connect_timeout_s=_DIAL_S)
        try:
            async with asyncio.timeout(_CREATE_PATIENCE_S):
                await node.create_topic(
                    name, partitions=count, replication=REPLICAS, timeout_ms=round(_CREATE_PATIENCE_S * 1000)
                )
        except (ServerRefusal, ServerDoubt) as error:
            if error.number != TOPIC_ALREADY_EXISTS:
                raise
        finally:
            node.close()

    async def remove(self, names: set[str]) -> None:
        """Delete the topics of the probes, so that the number of partitions stays as stated; errors are ignored."""
        active = await self.active()
        if active is None or not names:
            return
        try:
            node = await open_node(*self.controllers[active], connect_timeout_s=_DIAL_S)
        except Definite:
            return
        try:
            for name in sorted(names):
                try:
                    async with asyncio.timeout(_ASK_S):
                        await node.delete_topic(name)
                except (ServerRefusal, ServerDoubt):
                    continue  # never created, or being created
        except _Failed:
            return
        finally:
            node.close()

    async def settle(self) -> None:
        """Wait for the state that the module describes; raises HarnessError with what is still wrong."""
        began = time.monotonic()
        deadline = began + _SETTLE_S
        wrong: str | None = "not checked yet"
        while time.monotonic() < deadline:
            wrong = await self._wrong()
            if wrong is None:
                wrong = None if not self.filled else await self._unavailable(deadline - time.monotonic())
            # The cell's log: where the time between two endings goes.
            print(f"settling for {time.monotonic() - began:.1f} s: {wrong or 'settled'}", file=sys.stderr, flush=True)
            if wrong is None:
                return
            await asyncio.sleep(_LOOK_EVERY_S)
        raise HarnessError(f"{self.cell.name}: not settled after {_SETTLE_S:g} s: {wrong}")

    async def serves(self) -> None:
        """Wait until the cluster is healthy, whoever leads; raises HarnessError with what is still wrong."""
        deadline = time.monotonic() + _SETTLE_S
        while (wrong := await self._unhealthy()) is not None:
            if time.monotonic() > deadline:
                raise HarnessError(f"{self.cell.name}: not healthy after {_SETTLE_S:g} s: {wrong}")
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _unhealthy(self) -> str | None:
        try:
            async with asyncio.timeout(_ASK_S):
                return await self.system.healthy(self.layout)
        except _Failed as error:
            return str(error) or "a node does not answer in time"

    async def _wrong(self) -> str | None:
        dead = [name for name, node in self.nodes.items() if node.pid is None]
        if dead:
            raise HarnessError(f"{', '.join(dead)} ended; the end of its log:\n{self.nodes[dead[0]].log_tail(8)}")
        try:
            wrong = await self._replicas_wrong()
            if wrong is not None:
                return wrong
            wrong = await self.system.healthy(self.layout)
            return wrong if wrong is not None else await self._leaders_wrong()
        except _Failed as error:
            return str(error) or "a node does not answer in time"

    async def _unavailable(self, left_s: float) -> str | None:
        """Produce to every partition once; returns what is wrong, or None."""
        lines = [ProduceLine(address, _PRODUCE_WAIT_MS) for address in self.brokers.values()]
        probe = ProduceProbe(lines, self.partitions)
        try:
            async with asyncio.timeout(max(left_s, 1.0)):
                await probe.run()
        except TimeoutError:
            return f"{len(probe.pending)} partitions acknowledge nothing"
        finally:
            probe.close()
        return None

    async def _views(self, address: Address) -> tuple[TopicView, ...]:
        async with asyncio.timeout(_ASK_S):
            node = await open_node(*address, connect_timeout_s=_DIAL_S)
            try:
                return (await node.metadata(None)).topics
            finally:
                node.close()

    async def _replicas_wrong(self) -> str | None:
        """Ask one broker only: asking all for thousands of partitions would slow down their recovery."""
        for topic in await self._views(next(iter(self.brokers.values()))):
            for view in topic.partitions:
                if view.leader < 0 or len(view.isr) < len(view.replicas):
                    return f"{topic.name}-{view.partition} has leader {view.leader}, in sync {view.isr}"
        return None

    async def _leaders_wrong(self) -> str | None:
        strays: list[str] = []
        for name, address in self.brokers.items():
            known = [topic for topic in await self._views(address) if topic.name in self.topics]
            led = [(topic.name, view) for topic in known for view in topic.partitions]
            # Before the topics are created there is nothing to know.
            if self.filled and len(led) < self.cell.partitions:
                return f"{name} knows of {len(led)} partitions"
            strays += [f"{topic}-{view.partition}" for topic, view in led if view.leader != view.replicas[0]]
        if not strays:
            return None
        active = await self.active()
        if active is not None:
            node = await open_node(*self.controllers[active], connect_timeout_s=_DIAL_S)
            try:
                async with asyncio.timeout(_ELECT_MS / 1000 + 1):
                    await elect_preferred_leaders(node, timeout_ms=_ELECT_MS)
            finally:
                node.close()
        election = "was requested" if active else "is impossible: no node, or several, act as the controller"
        return f"{len(strays)} partitions are not led by their first replica ({strays[0]}); an election {election}"


async def open_cluster(cell: FailoverCell, folder: Path, stack: AsyncExitStack) -> FailoverCluster:
    """Start the cell's cluster in the lab, settled and filled; closing `stack` stops it."""
    system = system_of(cell.system)
    options = failover_of(cell.system).options
    artifacts = Artifacts(**cell.artifacts)
    placement = Placement(runtime="lab", nodes=NODES, members=system.members(NODES, options))
    runtime = await registry.runtime("lab").open(folder, placement, system.profile.listeners, artifacts)
    stack.push_async_callback(runtime.close)
    await runtime.realise(system.specs(runtime.layout, artifacts, options))
    later = {member.name for member in placement.members if member.joins_later}
    cluster = FailoverCluster(cell, runtime.nodes, runtime.layout, artifacts, later=later)
    async with asyncio.timeout(_START_S):
        await asyncio.gather(*(node.start() for node in cluster.nodes.values()))
        await runtime.await_links()
    stack.push_async_callback(cluster.close)
    await cluster.settle()
    await cluster.fill()
    await cluster.settle()
    return cluster
