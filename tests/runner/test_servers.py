"""What the servers of a run are given before the first of them starts."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.plugins import registry
from fencepost.harness.runner import servers as servers_module
from fencepost.harness.runner.servers import Servers
from fencepost.harness.runtime.node import Exit, NodeState
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


def test_whoever_ended_by_itself_is_started_again_unless_it_is_to_stay_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(name: str, *, expected: bool = False) -> FakeNode:
        return FakeNode(name, state=NodeState.DEAD, last_exit=Exit(name, 0, 1, expected))

    monkeypatch.setattr(servers_module, "_START_AGAIN_S", (0.01,))
    monkeypatch.setattr(servers_module, "_is_full", lambda data: data.parent.name == "n4")
    runtime: Any = Unmade()
    runtime.nodes = {n.name: n for n in (ended("n1"), ended("n2", expected=True), ended("n3"), ended("n4"))}
    checked: Any = SimpleNamespace(
        system=None, workload=SimpleNamespace(nodes=lambda members: ()), members=(), plan=SimpleNamespace()
    )
    servers = Servers(Path(), checked, artifacts=None, runtime=runtime, recorder=None)  # type: ignore[arg-type]
    servers._retired = {"n3"}
    asyncio.run(servers._start_the_ended(asyncio.Event()))
    assert [name for name, node in runtime.nodes.items() if node.actions == ["start"]] == ["n1"]
    over = asyncio.Event()
    over.set()
    runtime.nodes = {"n1": ended("n1")}
    asyncio.run(servers._start_the_ended(over))
    assert runtime.nodes["n1"].actions == []
