"""The containers: a cluster of real servers on Docker or Podman, the same to every fault and workload as the lab.

A run makes, in this order: a note of its id in the run's folder, the fabric (networks, side-cars or a proxy), a volume
per node, and a container per start of a server. All of it is labelled (`harness.runtime.ownership`), so that whatever
a crash leaves behind is known and removed. Nothing is pulled while a run is open.
"""

import asyncio
import json
import os
import shlex
import sys
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.errors import FencepostError, HarnessError, MachineError
from harness.runtime import engine as engines
from harness.runtime import ownership
from harness.runtime.container_node import ContainerNode, Habitat
from harness.runtime.engine import EngineFacts, asking
from harness.runtime.engine_calls import EngineCalls
from harness.runtime.engine_events import EngineEvents
from harness.runtime.fabric import INSIDE_DATA, Fabric, Site
from harness.runtime.node import Exit, Layout, Network, NodeSpec, Streams
from harness.runtime.provider import Check, Links, Say, Setting

if TYPE_CHECKING:
    from docker import DockerClient
    from harness.systems.system import Artifacts, System

FABRICS: Final = {
    Links.RULES: "harness.runtime.container_rules:RulesFabric",
    Links.SIDECAR: "harness.runtime.container_sidecar:SidecarFabric",
    Links.TOXIPROXY: "harness.runtime.toxiproxy_star:StarFabric",
}
#: In the run's folder, from before the first thing is made until everything is gone.
NOTE: Final = "engine.json"
#: Keeps a tmpfs volume mounted while no server runs.
_HOLD: Final = ("python3", "-c", "import signal; signal.pause()")
_DRAIN_TIMEOUT_S: Final = 30.0
#: Of a request to an engine that stopped answering during the run.
_GONE_TIMEOUT_S: Final = 5
_NODES_MAX: Final = 99


class Containers:
    """A cluster's place for the length of one run; see `harness.runtime.node.Runtime`. Made by `Containers.open`."""

    def __init__(self, client: "DockerClient", facts: EngineFacts, folder: Path, setting: Setting) -> None:
        self._client, self._facts, self._setting = client, facts, setting
        self._folder = folder.resolve()
        self._run_id = ownership.new_run_id()
        self._labels = ownership.labels(self._run_id)
        self._calls = EngineCalls()
        self._events: EngineEvents | None = None
        self._fabric: Fabric | None = None
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
        setting: Setting,
        listeners: Mapping[str, int],
        image: str,
        *,
        fabric: str = "",
    ) -> "Containers":
        """Connect `setting.nodes` places; `image` is what servers run in, `fabric` ("module:class") for tests.

        A cancelled `open` first comes to its end and then removes what it made: an engine cannot be called back.
        """
        if not 1 <= setting.nodes <= _NODES_MAX:
            raise ValueError(f"a cluster has 1 to {_NODES_MAX} nodes, not {setting.nodes}")
        cluster = cls(client, facts, folder, setting)
        building = asyncio.ensure_future(cluster._build(listeners, image, fabric or FABRICS[setting.links]))
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

    async def _build(self, listeners: Mapping[str, int], image: str, fabric: str) -> None:
        note = {"run": self._run_id, "engine": self._facts.address}
        (self._folder / NOTE).write_text(json.dumps(note) + "\n", encoding="utf-8")
        self._events = EngineEvents(self._client, self._run_id, self._calls)
        self._image, self._of_ours = image, await self._calls(self._is_of_ours, image)
        module, _, name = fabric.partition(":")
        kind = getattr(await self._calls(import_module, module), name)
        site = Site(
            client=self._client,
            engine=self._facts,
            prefix=self._prefix,
            labels=self._labels,
            folder=self._folder,
            node_count=self._setting.nodes,
            listeners=listeners,
            image=self._image_of_ours,
            publish=not self._facts.reachable,
        )
        self._fabric = await kind.open(site)
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
        self._nodes = {
            name: ContainerNode(place, habitat, f"{self._prefix}-{name}-data")
            for name, place in self._fabric.layout.items()
        }

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
    def _made(self) -> Fabric:
        assert self._fabric is not None, "made by Containers.open"
        return self._fabric

    @property
    def _prefix(self) -> str:
        return f"fencepost-{self._run_id}"

    def _is_of_ours(self, image: str) -> bool:
        from harness.runtime.images.plans import LABEL_IMAGE

        with asking(f"looking at the image {image}", MachineError, hint="fencepost images build"):
            return LABEL_IMAGE in self._client.images.get(image).labels

    def _image_of_ours(self, name: str) -> str:
        from harness.runtime import images

        return images.ensure(self._client, name, progress=_say)

    async def realise(self, specs: Iterable[NodeSpec]) -> None:
        by_name = {spec.name: spec for spec in specs}
        if by_name.keys() != self._nodes.keys():
            raise HarnessError(f"specs for {sorted(by_name)}, but the nodes are {sorted(self._nodes)}")
        for name, node in self._nodes.items():
            node.realise(by_name[name])
        holder = await self._calls(self._image_of_ours, "sidecar") if self._setting.limited_data else ""
        await asyncio.gather(
            *(self._calls(self._make_volume, name, by_name[name].data_limit_bytes, holder) for name in self._nodes)
        )

    def _make_volume(self, name: str, limit_bytes: int, holder: str) -> None:
        """Runs in a thread. A volume of limited size is a tmpfs, which would be lost with its last container."""
        volume = f"{self._prefix}-{name}-data"
        with asking(f"making the data volume of {name}", MachineError, hint=ownership.SWEEP_COMMAND):
            if not holder:
                self._client.volumes.create(name=volume, labels=self._labels)
                return
            options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={limit_bytes}"}
            self._client.volumes.create(name=volume, driver="local", driver_opts=options, labels=self._labels)
            held = self._client.containers.create(
                holder,
                name=f"{self._prefix}-{name}-holder",
                labels=self._labels,
                entrypoint=list(_HOLD),
                network_mode="none",
                volumes={volume: {"bind": str(INSIDE_DATA), "mode": "rw"}},
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
            )
            held.start()

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
        await self._calls(self._copy, container_id, node_name, target)

    def _copy(self, container_id: str, node_name: str, target: Path) -> None:
        part = target.with_name(target.name + ".part")
        with asking(f"copying the data of {node_name}"):
            pieces, _ = self._client.api.get_archive(container_id, str(INSIDE_DATA))
            reader: Any = _Reader(pieces)
            with (
                tarfile.open(fileobj=reader, mode="r|") as source,
                tarfile.open(part, "w:gz", compresslevel=1) as archive,
            ):
                for member in source:
                    # The engine's archive begins with the folder's own name.
                    member.name = "/".join((node_name, *Path(member.name).parts[1:]))
                    archive.addfile(member, source.extractfile(member) if member.isreg() else None)
        os.replace(part, target)

    async def close(self) -> None:
        """Everything away, whatever of it was made; raises HarnessError that names what stayed, and the commands."""
        if self._closed:
            return
        self._closed = True
        failure = self._events.failure if self._events is not None else None
        await self._calls.drain(_DRAIN_TIMEOUT_S if failure is None else 0.0)
        problems: list[str] = []
        if failure is not None:
            # It may be back by now, but is not waited for long.
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
                f"something of run {self._run_id} is still there: {'; '.join([*left, *problems])}",
                hint=removal(self._run_id),
            )
        (self._folder / NOTE).unlink(missing_ok=True)

    def _sweep(self) -> list[str]:
        """What nobody remembers, and what could not be removed before, by its label."""
        try:
            with asking("looking for what is left"):
                return ownership.sweep(self._client, self._run_id)
        except FencepostError as error:
            return [error.message]


class ContainersProvider:
    """`harness.runtime.provider.Provider`."""

    name: Final = "containers"
    about: Final = "containers of Docker or Podman; the images that you ship, or ours"
    in_namespaces: Final = False

    def refuse(self, setting: Setting) -> str | None:
        if not 1 <= setting.nodes <= _NODES_MAX:
            return f"a cluster has 1 to {_NODES_MAX} nodes, not {setting.nodes}"
        return None

    def checks(self) -> list[Check]:
        from harness.runtime.engine_checks import all_checks

        return all_checks()

    def refuse_if_impossible(self, setting: Setting) -> Setting:
        client = engines.connect()
        try:
            return replace(setting, links=chosen_links(setting.links, engines.facts(client)))
        finally:
            client.close()

    def resolve(self, system: "System", version: str, setting: Setting, say: Say) -> "Artifacts":
        from harness.runtime import images
        from harness.runtime.container_images import image_facts, present

        client = engines.connect()
        try:
            if setting.image:
                found = present(client, setting.image, say)
            else:
                reference = images.ensure(client, system.name, version=version, progress=say)
                found = image_facts(client, reference)
            return system.in_image(found)
        finally:
            client.close()

    async def open(
        self, folder: Path, setting: Setting, listeners: Mapping[str, int], artifacts: "Artifacts"
    ) -> Containers:
        client = await asyncio.to_thread(engines.connect)
        facts = await asyncio.to_thread(engines.facts, client)
        with asking("removing what dead runs left", MachineError):
            for left in await asyncio.to_thread(ownership.sweep, client):
                _say(left)
        concrete = replace(setting, links=chosen_links(setting.links, facts))
        return await Containers.open(client, facts, folder, concrete, listeners, artifacts.paths["image"])

    def sweep(self, folder: Path | None) -> list[str]:
        if folder is None:
            return self._sweep_all()
        note = folder / NOTE
        if not note.exists():
            return []
        said = json.loads(note.read_text(encoding="utf-8"))
        try:
            client = engines.connect(str(said["engine"]))
            with asking("removing what the run left"):
                left = ownership.sweep(client, str(said["run"]), late=True)
            client.close()
        except FencepostError as error:
            return [f"what run {said['run']} made ({error.message}); remove it with: {removal(said['run'])}"]
        if not left:
            note.unlink()
        return left

    def _sweep_all(self) -> list[str]:
        try:
            client = engines.connect()
        except engines.NoEngine:
            return []
        except MachineError as error:
            return [f"nobody knows what: {error.message}; {error.hint}"]
        try:
            with asking("removing what dead runs left"):
                return ownership.sweep(client)
        finally:
            client.close()


CONTAINERS: Final = ContainersProvider()


def chosen_links(wanted: Links, facts: EngineFacts) -> Links:
    """`auto` made concrete: packet rules from here, else from side-cars, else a proxy. Raises MachineError."""
    for links in (Links.RULES, Links.SIDECAR, Links.TOXIPROXY) if wanted is Links.AUTO else (wanted,):
        reason = links_refusal(links, facts)
        if reason is None:
            return links
        if wanted is not Links.AUTO:
            raise MachineError(
                f"--links {wanted} is not possible with {facts}: {reason}",
                hint="leave --links out to have the best one chosen; fencepost doctor says which there are",
            )
    raise AssertionError("a proxy needs nothing of the engine")


def links_refusal(links: Links, facts: EngineFacts) -> str | None:
    """Why this way of enforcing links is not possible here; None when it is."""
    if links is Links.TOXIPROXY:
        return None
    if links is Links.RULES and not facts.reachable:
        return "the addresses of its containers cannot be reached from this machine"
    module, _, _ = FABRICS[links].partition(":")
    refusal: str | None = import_module(module).refusal(facts)
    return refusal


def removal(run_id: str) -> str:
    """The commands that remove what is left of a run by hand, for an engine that answers again."""
    label = shlex.quote(f"label={ownership.RUN_LABEL}={run_id}")
    parts = (("rm -fv", "ps -aq"), ("volume rm -f", "volume ls -q"), ("network rm", "network ls -q"))
    return "; ".join(f"docker {listing} --filter {label} | xargs -r docker {away}" for away, listing in parts)


def _problems(results: Iterable[Any]) -> list[str]:
    """The words of what failed; anything but an error of ours is a defect and is raised."""
    found = []
    for result in results:
        if isinstance(result, FencepostError):
            found.append(result.message)
        elif isinstance(result, BaseException):
            found.append(f"{type(result).__name__}: {result}")
    return found


def _say(text: str) -> None:
    """To the runner's log: the run is open, or about to be."""
    sys.stderr.write(text + "\n")


class _Reader:
    """The pieces of an archive as a file that is read once."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest += piece
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return taken
