"""Containers on a fabric without the runtime: small servers that echo, started by the docker SDK through `joining`.

The servers run in the side-car's image, which has a Python. Each test has an own prefix and removes what it made.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.containers.engine.engine import connect, facts
from fencepost.harness.runtime.containers.engine.fabric import Site
from fencepost.harness.runtime.containers.rules.by_sidecar import SidecarFabric
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach
from fencepost.harness.runtime.node import members_alike
from tests.lab_scenario import refuse
from tests.runtime.links.exact_probe import probe_exactly

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

PORT = 5000
PEER_PORT = 6000
LABEL = "org.fencepost.test"
#: Echoes, but to "HOST SECONDS": what the echo there answers to the peers' port within these, and after how many ms.
_SERVER = f"""
import socket, socketserver, threading, time
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            words = line.decode().split()
            self.wfile.write(line if len(words) == 1 else told(*words).encode() + b"\\n")
def told(host, wait_s):
    begun = time.monotonic()
    try:
        with socket.create_connection((host, {PEER_PORT}), float(wait_s)) as dialled:
            dialled.sendall(b"hello\\n")
            answer = dialled.makefile().readline().strip() or "closed"
    except TimeoutError:
        answer = "nothing"
    except OSError as error:
        answer = type(error).__name__
    return f"{{answer}} {{(time.monotonic() - begun) * 1000:.0f}}"
socketserver.ThreadingTCPServer.allow_reuse_address = True
peers = socketserver.ThreadingTCPServer(("", {PEER_PORT}), Echo)
threading.Thread(target=peers.serve_forever, daemon=True).start()
socketserver.ThreadingTCPServer(("", {PORT}), Echo).serve_forever()
"""

#: Whether container addresses are taken as out of reach.
KINDS = {"addresses": False, "published": True}


def engine() -> "DockerClient":
    """The engine of this machine; skips the calling test where there is none."""

    try:
        return connect()
    except MachineError as error:
        refuse(f"{error.message}; remedy: {error.hint}")
        raise


class Scene:
    def __init__(self, client: "DockerClient", fabric: SidecarFabric, image: str, prefix: str) -> None:
        self.client = client
        self.fabric = fabric
        self.containers: dict[str, Container] = {}
        #: What a fault looks at in a runtime.
        self.nodes = dict.fromkeys(fabric.layout)
        self._image = image
        self._prefix = prefix

    @property
    def network(self) -> Any:
        return self.fabric.network

    @property
    def streams(self) -> Any:
        return self.fabric.streams

    @property
    def names(self) -> list[str]:
        return list(self.fabric.layout)

    async def start(self, name: str) -> None:
        """Start the server of a node, for the first time or again."""

        def run() -> None:
            if name not in self.containers:
                self.containers[name] = self.client.containers.create(
                    self._image,
                    ["-c", _SERVER],
                    entrypoint=["python3"],
                    name=f"{self._prefix}-{name}",
                    labels={LABEL: self._prefix},
                    **self.fabric.joining(name),
                )
            self.containers[name].start()

        await asyncio.to_thread(run)

    async def kill(self, name: str) -> None:
        await asyncio.to_thread(self.containers[name].kill)
        await asyncio.to_thread(self.containers[name].wait, timeout=60)

    async def start_all(self) -> None:
        await asyncio.gather(*(self.start(name) for name in self.names))
        await self.fabric.await_links(40.0)

    async def ask(self, name: str, text: str = "hello", timeout_s: float = 40.0) -> str:
        """What a client that sends a line over a new connection gets: the line, or the kind of silence.

        Only where "nothing" is expected may `timeout_s` be short.
        """
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(*self.fabric.layout[name].dial(PORT))
                try:
                    writer.write(text.encode() + b"\n")
                    return (await reader.readline()).decode().strip() or "closed"
                finally:
                    writer.close()
        except TimeoutError:
            return "nothing"
        except OSError as error:
            return type(error).__name__

    async def ask_through(self, name: str, peer: str, wait_s: float = 30.0) -> tuple[str, int]:
        """What a server is answered by its peer within `wait_s`, and how many milliseconds it took."""
        answer, took_ms = (await self.ask(name, f"{self.fabric.layout[peer].address} {wait_s}")).split()
        return answer, int(took_ms)

    async def until_served(self, name: str) -> None:
        async with asyncio.timeout(60.0):
            while await self.ask(name, timeout_s=1.0) != "hello":
                await asyncio.sleep(0.02)

    async def read_back(self) -> dict[Link, Effect]:
        found = self.network.read_back()
        return dict(await found if asyncio.iscoroutine(found) else found)

    async def prove(self, links: dict[Link, Effect]) -> None:
        """The whole probe matrix is as `links` say, and so are the kernels' maps and our memory."""
        wanted = dict.fromkeys(all_links(self.names), Reach.OPEN)
        wanted |= {link: Reach.RESET if how is Effect.RESET else Reach.DROPPED for link, how in links.items()}
        found = await probe_exactly(self.network, wanted)
        wrong = {str(link): found[link] for link in wanted if found[link] is not wanted[link]}
        assert not wrong, f"{wrong} while {links}"
        assert await self.read_back() == links == self.network.blocked


@contextlib.asynccontextmanager
async def scene(kind: str, folder: Path, nodes: int = 3, *, streams: bool = False) -> AsyncIterator[Scene]:
    """A fabric of this kind with no server started yet."""
    from fencepost.harness.runtime.containers.images import ensure, own

    client = engine()
    prefix = f"fencepost-t{uuid.uuid4().hex[:8]}"
    found = facts(client)
    publish = KINDS[kind]
    why = None if publish or found.reachable else "container addresses cannot be reached from here"
    refuse(why and f"{why}; remedy: run the tests with the engine on this machine")
    image = await asyncio.to_thread(ensure, client, own()["sidecar"])
    site = Site(
        client=client,
        engine=found,
        prefix=prefix,
        labels={LABEL: prefix},
        folder=folder,
        members=members_alike(nodes),
        listeners={"client": PORT, "peer": PEER_PORT},
        image=lambda name: ensure(client, own()[name]),
        publish=publish,
    )
    made: Scene | None = None
    fabric: SidecarFabric | None = None
    try:
        fabric = await SidecarFabric.open(site, streams=streams)
        made = Scene(client, fabric, image, prefix)
        yield made
    finally:
        for container in (made.containers if made else {}).values():
            await asyncio.to_thread(container.remove, force=True, v=True)
        if fabric is not None:
            await fabric.close()
        client.close()


def between(left: list[str], right: list[str], effect: Effect) -> dict[Link, Effect]:
    return {link: effect for a in left for b in right for link in (Link(a, b), Link(b, a))}


def left_behind(client: "DockerClient", prefix: str) -> list[str]:
    filters: dict[str, Any] = {"label": f"{LABEL}={prefix}"}
    containers = [
        container.name or "" for container in client.containers.list(all=True, filters=filters, ignore_removed=True)
    ]
    return containers + [network.name or "" for network in client.networks.list(filters=filters)]


__all__ = ["CLIENT", "PORT", "Scene", "between", "engine", "left_behind", "scene"]
