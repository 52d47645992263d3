"""One cluster of containers, for the length of a run: made, connected, filled, and removed without a trace.

A run makes, in this order: a note of its id in the run's folder, the fabric (a network, side-cars), a volume
per node, and a container for each start of a server. All of it is labelled (`engine/ownership.py`), so that leftovers
of a crash can be found and removed. No image is pulled while a run is open.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.base.errors import FencepostError, HarnessError, MachineError
from fencepost.harness.runtime.containers import data as container_data
from fencepost.harness.runtime.containers.engine import ownership
from fencepost.harness.runtime.containers.engine.calls import EngineCalls
from fencepost.harness.runtime.containers.engine.engine import EngineFacts, asking
from fencepost.harness.runtime.containers.engine.events import EngineEvents
from fencepost.harness.runtime.containers.engine.fabric import Site
from fencepost.harness.runtime.containers.node import ContainerNode, Habitat
from fencepost.harness.runtime.containers.rules.by_sidecar import SidecarFabric
from fencepost.harness.runtime.network import Network, Streams
from fencepost.harness.runtime.node import Exit, Layout, NodeSpec
from fencepost.harness.runtime.provider import Placement

if TYPE_CHECKING:
    from docker import DockerClient

#: The note in the run's folder; it exists from before the first thing is made until everything is gone.
NOTE: Final = "engine.json"
NODES_MAX: Final = 99
_DRAIN_TIMEOUT_S: Final = 30.0
#: Time limit of a request to an engine that stopped answering during the run.
_GONE_TIMEOUT_S: Final = 5


class Containers:
    """A cluster's place for the length of one run; see `harness.runtime.node.Runtime`. Made by `Containers.open`."""

    def __init__(self, client: "DockerClient", facts: EngineFacts, folder: Path, placement: Placement) -> None:
        self._client, self._facts, self._placement = client, facts, placement
        self._folder = folder.resolve()
        self._run_id = ownership.new_run_id()
        self._labels = ownership.labels(self._run_id)
        self._calls = EngineCalls()
        self._events: EngineEvents | None = None
        self._fabric: SidecarFabric | None = None
        self._nodes: dict[str, ContainerNode] = {}
        self._image = ""
        self._of_ours = False
        self._closed = False

    @classmethod
    async def open(
        cls,
        client: "DockerClient",
        facts: EngineFacts,
        folder: Path,
        placement: Placement,
        listeners: Mapping[str, int],
        image: str,
    ) -> "Containers":
        """Make a cluster of `placement.nodes` nodes. Servers run in `image`.

        A cancelled `open` is first finished and then removes what it made: an engine request cannot be cancelled.
        """
        if not 1 <= placement.nodes <= NODES_MAX:
            raise ValueError(f"a cluster has 1 to {NODES_MAX} nodes, not {placement.nodes}")
        cluster = cls(client, facts, folder, placement)
        building = asyncio.ensure_future(cluster._build(listeners, image))
        try:
            await asyncio.shield(building)
        except asyncio.CancelledError:
            await asyncio.wait({building}, timeout=_DRAIN_TIMEOUT_S)
            building.cancel()
            await cluster.close()
            raise
        except BaseException as error:
            try:
                await cluster.close()
            except FencepostError as left:
                error.add_note(f"{left.message}\nhint: {left.hint}")
            raise
        return cluster

    async def _build(self, listeners: Mapping[str, int], image: str) -> None:
        note = {"run": self._run_id, "engine": self._facts.address}
        (self._folder / NOTE).write_text(json.dumps(note) + "\n", encoding="utf-8")
        self._events = EngineEvents(self._client, self._run_id, self._calls)
        self._image, self._of_ours = image, await self._calls(self._is_of_ours, image)
        site = Site(
            client=self._client,
            engine=self._facts,
            prefix=self._prefix,
            labels=self._labels,
            folder=self._folder,
            members=self._placement.cluster,
            listeners=listeners,
            image=self._image_of_ours,
            publish=not self._facts.reachable,
        )
        self._fabric = await SidecarFabric.open(site, streams=self._placement.streams)
        habitat = Habitat(
            client=self._client,
            engine=self._facts,
            prefix=self._prefix,
            labels=self._labels,
            image=self._image,
            of_ours=self._of_ours,
            fabric=self._fabric,
            events=self._events,
            calls=self._calls,
        )
        self._nodes = {name: ContainerNode(place, habitat) for name, place in self._fabric.layout.items()}

    @property
    def run_id(self) -> str:
        return self._run_id

    @property
    def nodes(self) -> Mapping[str, ContainerNode]:
        return self._nodes

    @property
    def layout(self) -> Layout:
        return self._made.layout

    @property
    def network(self) -> Network:
        return self._made.network

    @property
    def streams(self) -> Streams | None:
        return self._made.streams

    @property
    def _made(self) -> SidecarFabric:
        assert self._fabric is not None, "made by Containers.open"
        return self._fabric

    @property
    def _prefix(self) -> str:
        return f"fencepost-{self._run_id}"

    def _is_of_ours(self, image: str) -> bool:
        from fencepost.harness.runtime.containers.images.plans import LABEL_IMAGE

        with asking(f"looking at the image {image}", MachineError, hint="fencepost images build"):
            return LABEL_IMAGE in self._client.images.get(image).labels

    def _image_of_ours(self, name: str) -> str:
        from fencepost.harness.runtime.containers import images

        return images.ensure(self._client, images.own()[name], progress=say)

    async def realise(self, specs: Iterable[NodeSpec]) -> None:
        by_name = {spec.name: spec for spec in specs}
        if by_name.keys() != self._nodes.keys():
            raise HarnessError(f"specs for {sorted(by_name)}, but the nodes are {sorted(self._nodes)}")
        holder = await self._calls(self._image_of_ours, "sidecar") if self._placement.limited_data else ""
        volumes = {
            name: container_data.Volume(
                client=self._client,
                node_prefix=f"{self._prefix}-{name}",
                labels=self._labels,
                option=container_data.limit(self._facts, spec.data_limit_bytes),
                holder=holder,
            )
            for name, spec in by_name.items()
        }
        for name, node in self._nodes.items():
            node.realise(by_name[name], volumes[name])
        await asyncio.gather(*(self._calls(volume.make) for volume in volumes.values()))

    async def await_links(self, timeout_s: float = 5.0) -> None:
        await self._made.await_links(timeout_s)

    async def next_exit(self) -> Exit:
        assert self._events is not None, "made by Containers.open"
        return await self._events.next()

    async def copy_data(self, node_name: str, target: Path) -> None:
        """Write the node's volume as a tar.gz to `target`, out of its last container, which has ended."""
        container_id = self._nodes[node_name].container_id
        if not container_id:
            raise HarnessError(f"node {node_name} was never started, so it has no data")
        await self._calls(container_data.copy, self._client, container_id, node_name, target)

    async def close(self) -> None:
        """Remove everything that was made; raise HarnessError with what is left, and the commands that remove it."""
        if self._closed:
            return
        self._closed = True
        failure = self._events.failure if self._events is not None else None
        await self._calls.drain(_DRAIN_TIMEOUT_S if failure is None else 0.0)
        problems: list[str] = []
        if failure is not None:
            # The engine may be back by now, but this does not wait long for it.
            self._client.api.timeout = _GONE_TIMEOUT_S
            for node in self._nodes.values():
                node.leave()
        else:
            problems += _problems(
                await asyncio.gather(*(node.remove() for node in self._nodes.values()), return_exceptions=True)
            )
        if self._fabric is not None:
            problems += _problems(await asyncio.gather(self._fabric.close(), return_exceptions=True))
        if self._events is not None:
            await self._events.close()
        left = await asyncio.to_thread(self._sweep)
        self._calls.close()
        self._client.close()
        if left:
            raise HarnessError(
                f"not everything of run {self._run_id} could be removed: {'; '.join([*left, *problems])}",
                hint=ownership.removal(self._run_id),
            )
        (self._folder / NOTE).unlink(missing_ok=True)

    def _sweep(self) -> list[str]:
        """Remove by label what is still there; return what could not be removed."""
        try:
            with asking(f"removing what is left of run {self._run_id}"):
                return ownership.sweep(self._client, self._run_id)
        except FencepostError as error:
            return [error.message]


def _problems(results: Iterable[Any]) -> list[str]:
    """Return the message of each failure."""
    messages = []
    for result in results:
        if isinstance(result, FencepostError):
            messages.append(result.message)
        elif isinstance(result, BaseException):
            messages.append(f"{type(result).__name__}: {result}")
    return messages


def say(text: str) -> None:
    """Write one line to the runner's log."""
    sys.stderr.write(text + "\n")
