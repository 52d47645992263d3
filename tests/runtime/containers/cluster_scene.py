"""A small cluster of containers with a server of a few lines, for tests of what the runtime does to servers.

`python -m tests.runtime.containers.cluster_scene FOLDER` opens one, says its run's id on stdout and waits: for tests
that kill it.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from fencepost.harness.runtime.containers import images
from fencepost.harness.runtime.containers.cluster import Containers
from fencepost.harness.runtime.containers.engine import engine as engines
from fencepost.harness.runtime.node import NodeSpec
from fencepost.harness.runtime.provider import Placement

#: Says its arguments, counts its starts on the volume, then burns a little processor time for ever.
SERVER = """
import pathlib, sys, time
print("arguments", *sys.argv[1:], flush=True)
data = pathlib.Path("/data")
starts = data / "starts"
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
print("start", len(starts.read_text()), "conf", pathlib.Path("/fencepost/deep/conf").read_text(),
      "data", (data / "myid").read_text(), flush=True)
if "--fail" in sys.argv:
    sys.exit(3)
while True:
    sum(range(20000))
    time.sleep(0.005)
"""


def spec(name: str, *arguments: str, conf: str = "one") -> NodeSpec:
    return NodeSpec(
        name=name,
        argv=("python3", "-c", SERVER, *arguments),
        listeners={"client": 9000},
        files={"deep/conf": conf},
        data_files={"myid": name},
        data_limit_bytes=8 << 20,
    )


@contextlib.asynccontextmanager
async def cluster(
    folder: Path, *, nodes: int = 1, limited: bool = False, streams: bool = False, address: str = ""
) -> AsyncIterator[Containers]:
    """Opened, not realised; closed at the end, which must not fail."""
    client = engines.connect(address, timeout_s=20.0)
    facts = engines.facts(client)
    placement = Placement(runtime="containers", nodes=nodes, streams=streams, limited_data=limited)
    image = await asyncio.to_thread(images.ensure, client, images.own()["sidecar"])
    opened = await Containers.open(client, facts, folder, placement, {"client": 9000}, image)
    try:
        yield opened
    finally:
        await opened.close()


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        await asyncio.sleep(0.01)


async def _be_killed(folder: Path) -> None:
    async with cluster(folder, nodes=2, limited=True) as it:
        await it.realise([spec(name) for name in it.nodes])
        await asyncio.gather(*(node.start() for node in it.nodes.values()))
        await it.nodes["n1"].pause()
        sys.stdout.write(it.run_id + "\n")
        sys.stdout.flush()
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(_be_killed(Path(sys.argv[1])))
