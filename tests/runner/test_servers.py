"""What the servers of a run are given before the first of them starts."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.plugins import registry
from fencepost.harness.runner.servers import Servers
from tests.fakes.fakes_runtime import FakeNode


class Unmade:
    """A runtime with one node, whose servers cannot be made: whatever comes before that has been done."""

    def __init__(self) -> None:
        self.nodes = {"n1": FakeNode("n1")}
        self.layout = {"n1": self.nodes["n1"].place}

    async def realise(self, specs: Any) -> None:
        raise HarnessError("not made")


@pytest.mark.parametrize(("system", "waits"), [("kafka-zk", 1), ("kafka-bridge", 1), ("kraft", 0)])
def test_a_system_that_waits_to_start_is_asked_before_every_start(system: str, waits: int) -> None:
    runtime: Any = Unmade()
    workload = SimpleNamespace(nodes=lambda members: ())
    checked: Any = SimpleNamespace(system=registry.system(system), workload=workload, members=())
    servers = Servers(Path(), checked, artifacts=None, runtime=runtime, recorder=None)  # type: ignore[arg-type]
    cluster: Any = SimpleNamespace(specs=dict, retired=set())
    background: Any = SimpleNamespace(spawn=lambda coroutine: coroutine.close())
    with pytest.raises(HarnessError, match="not made"):
        asyncio.run(servers.start(cluster, background, lambda: False))
    assert len(runtime.nodes["n1"].before_start) == waits
