"""The training run for Cassandra's start-up archive: one node that is asked what runs ask."""

import asyncio
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, ReadMode
from fencepost.harness.java.archive_training import LOOPBACK, held_ports, running
from fencepost.harness.runtime.artifacts.java import Java
from fencepost.harness.runtime.node import Place
from fencepost.systems.cassandra import configuration
from fencepost.systems.cassandra.client import CassandraClient
from fencepost.systems.cassandra.options import CassandraOptions
from fencepost.systems.cassandra.versions import release_of
from fencepost.systems.cassandra.wire.connection import connect

_READY_TIMEOUT_S: Final = 90.0
_ASK_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1


def train(java: Java, jars: list[Path], flags: list[str]) -> None:
    """Run the node with these further `flags`. Raises TimeoutError when it does not come up."""
    options = CassandraOptions()
    with tempfile.TemporaryDirectory(prefix="fencepost-training-") as name, held_ports(2) as (client, peer):
        home = Path(name)
        place = Place(name="n1", number=1, address=LOOPBACK, folder=home, data=home, kept=home)
        ports = {"client": client, "peer": peer}
        written = configuration.files(place, {"n1": place}, options, release=release_of(jars), ports=ports)
        for relative, text in written.items():
            (home / relative).write_text(text, encoding="utf-8")
        classpath = ":".join(map(str, jars))
        command = configuration.argv(str(java.binary), classpath, place, options.heap_mib, flags)
        with running(list(command), home / "log") as process, ThreadPoolExecutor(1) as pool:
            try:
                # On a loop of its own, also when the caller is on one.
                pool.submit(lambda: asyncio.run(_converse(client))).result()
            except (Definite, Indefinite) as error:
                raise TimeoutError(f"the node of the training run answered {error}") from error
            process.stop()


async def _converse(port: int) -> None:
    client = await _once_it_serves(port)
    try:
        async with asyncio.timeout(_ASK_TIMEOUT_S):
            await client.prepare(("k",))
            await client.write("k", b"1")
            await client.cas("k", b"1", b"2")
            await client.add("s", 1)
            for mode in ReadMode.STRONG, ReadMode.QUORUM, ReadMode.PLAIN:
                await client.read("k", mode)
                await client.members("s", mode)
    finally:
        await client.close()


async def _once_it_serves(port: int) -> CassandraClient:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            return CassandraClient(await connect(LOOPBACK, port, 2.0), CassandraOptions())
        except Definite:
            await asyncio.sleep(_POLL_S)
    raise TimeoutError(f"the node of the training run does not serve within {_READY_TIMEOUT_S:g} s")
