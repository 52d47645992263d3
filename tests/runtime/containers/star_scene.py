"""A star of three small servers around Toxiproxy, without the runtime: each echoes, and dials the others when told to.

The servers run in the side-car's image, which has a Python. Each scene has an own prefix, removes what it made, and
fails when something is left.
"""

import asyncio
import contextlib
import platform
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from fencepost.harness.runtime.containers.engine.fabric import Site
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach
from fencepost.harness.runtime.node import members_alike
from tests.runtime.containers.links_scene import LABEL, engine, left_behind
from tests.runtime.links.exact_probe import probe_exactly

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from fencepost.harness.runtime.containers.toxiproxy.star import StarFabric

CLIENT_PORT = 5000
PEER_PORT = 6000
#: "HOST PORT TEXT SECONDS" to the client's port: what HOST answers to TEXT within these. Anything to the peers' port
#: comes back.
_SERVER = """
import socket, socketserver, sys, threading
class Peer(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
class Client(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            host, port, text, wait_s = line.decode().split()
            try:
                with socket.create_connection((host, int(port)), float(wait_s)) as dialled:
                    dialled.sendall(text.encode() + b"\\n")
                    answer = dialled.makefile().readline().strip() or "closed"
            except TimeoutError:
                answer = "nothing"
            except OSError as error:
                answer = type(error).__name__
            self.wfile.write(answer.encode() + b"\\n")
socketserver.ThreadingTCPServer.allow_reuse_address = True
peer = socketserver.ThreadingTCPServer(("", int(sys.argv[2])), Peer)
threading.Thread(target=peer.serve_forever, daemon=True).start()
socketserver.ThreadingTCPServer(("", int(sys.argv[1])), Client).serve_forever()
"""


class Star:
    def __init__(self, client: "DockerClient", fabric: "StarFabric", image: str, prefix: str) -> None:
        self.client = client
        self.fabric = fabric
        self.network = fabric.network
        self.streams = fabric.streams
        self.prefix = prefix
        self.containers: dict[str, Container] = {}
        #: What a fault looks at in a runtime.
        self.nodes = dict.fromkeys(fabric.layout)
        self._image = image

    @property
    def every_link(self) -> list[Link]:
        ends = [*self.nodes, CLIENT]
        return [Link(a, b) for a in ends for b in ends if a != b]

    async def start(self, name: str) -> None:
        """Start the server of a node, for the first time or again, and attach it, as the runtime does."""
        place = self.fabric.layout[name]

        def run() -> None:
            if name not in self.containers:
                self.containers[name] = self.client.containers.create(
                    self._image,
                    ["-c", _SERVER, str(CLIENT_PORT), str(place.peer(PEER_PORT)[1])],
                    entrypoint=["python3"],
                    name=f"{self.prefix}-{name}",
                    labels={LABEL: self.prefix},
                    **self.fabric.joining(name),
                )
            self.containers[name].start()

        await asyncio.to_thread(run)
        await self.fabric.attach(name, self.containers[name].id or "", None)

    async def ask(self, source: str, target: str, *, wait_s: float = 30.0, timeout_s: float = 60.0) -> str:
        """What a client of `source` is told that `target` answered to it: "hello", or the kind of silence.

        "nothing" is that of `target` towards `source`, after `wait_s`; "silence" that of `source` towards the client,
        after `timeout_s`. Only where one of them is expected may its time be short.
        """
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(*self.fabric.layout[source].dial(CLIENT_PORT))
                try:
                    host, port = self.fabric.layout[target].peer(PEER_PORT)
                    writer.write(f"{host} {port} hello {wait_s}\n".encode())
                    return (await reader.readline()).decode().strip() or "ended"
                finally:
                    writer.close()
        except TimeoutError:
            return "silence"
        except OSError as error:
            return type(error).__name__

    async def until_served(self) -> None:
        async with asyncio.timeout(60.0):
            for a in self.nodes:
                for b in self.nodes:
                    while a != b and await self.ask(a, b, wait_s=0.4, timeout_s=1.0) != "hello":
                        await asyncio.sleep(0.02)

    async def prove(self, links: dict[Link, Effect]) -> None:
        """The whole probe matrix is as `links` say, and so is our memory."""
        wanted = dict.fromkeys(self.every_link, Reach.OPEN)
        wanted |= {link: Reach.RESET if how is Effect.RESET else Reach.DROPPED for link, how in links.items()}
        found = await probe_exactly(self.network, wanted)
        assert {str(link): found[link] for link in wanted if found[link] is not wanted[link]} == {}
        assert self.network.blocked == links


@contextlib.asynccontextmanager
async def star(folder: Path, *, publish: bool = False, starts: bool = True) -> AsyncIterator[Star]:
    """A star with its servers running, all links found open."""
    from fencepost.harness.runtime.containers.images import ensure, own
    from fencepost.harness.runtime.containers.toxiproxy.star import StarFabric

    client = engine()
    prefix = f"fencepost-t{uuid.uuid4().hex[:8]}"
    facts = SimpleNamespace(kind="docker", rootless=False, same_kernel=True, architecture=platform.machine())
    images = {name: await asyncio.to_thread(ensure, client, own()[name]) for name in ("toxiproxy", "sidecar")}
    site = Site(
        client=client,
        engine=facts,  # type: ignore[arg-type]  # what fabrics look at
        prefix=prefix,
        labels={LABEL: prefix},
        folder=folder,
        members=members_alike(3),
        listeners={CLIENT: CLIENT_PORT, "peer": PEER_PORT},
        image=images.__getitem__,
        publish=publish,
    )
    made: Star | None = None
    fabric: StarFabric | None = None
    try:
        fabric = await StarFabric.open(site)
        made = Star(client, fabric, images["sidecar"], prefix)
        if starts:
            await asyncio.gather(*(made.start(name) for name in made.nodes))
            await fabric.await_links(40.0)
            await made.until_served()
        yield made
    finally:
        for container in (made.containers if made else {}).values():
            await asyncio.to_thread(container.remove, force=True, v=True)
        if fabric is not None:
            await fabric.close()
            await fabric.close()
    assert left_behind(client, prefix) == []
    client.close()
