"""Links of real containers: each shape enforced, proven exactly, undone."""

import asyncio
from itertools import permutations
from pathlib import Path

import pytest
import uvloop

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.network import CLIENT, Effect, Link
from tests.runtime.containers.links_scene import KINDS, between, engine, left_behind, scene

pytestmark = pytest.mark.containers

DROP, RESET = Effect.DROP, Effect.RESET

SHAPES: dict[str, dict[Link, Effect]] = {
    "isolated, drop": between(["n1"], ["n2", "n3"], DROP),
    "isolated, reset": between(["n1"], ["n2", "n3"], RESET),
    "one way, drop": {Link("n1", "n2"): DROP},
    "one way, reset": {Link("n1", "n2"): RESET},
    "reset one way, drop the other": {Link("n1", "n2"): RESET, Link("n2", "n1"): DROP},
    "client, drop": between(["n2"], [CLIENT], DROP),
    "client to node, drop": {Link(CLIENT, "n3"): DROP},
    "client to node, reset": {Link(CLIENT, "n3"): RESET},
    "node to client, drop": {Link("n3", CLIENT): DROP},
    "node to client, reset": {Link("n3", CLIENT): RESET},
    "reset among nodes, client dropped": {Link("n1", "n2"): RESET, **between(["n1"], [CLIENT], DROP)},
    "everything": {Link(a, b): DROP for a, b in permutations(["n1", "n2", "n3", CLIENT], 2)},
}


@pytest.mark.long  # the conformance suite plays single shapes on every runtime; here one cluster meets all in a row
@pytest.mark.parametrize("kind", KINDS)
def test_every_shape_is_enforced_proven_and_undone(kind: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(kind, tmp_path) as it:
            await it.start_all()
            await asyncio.gather(*(it.until_served(name) for name in it.names))
            for number, links in enumerate(SHAPES.values()):
                await it.network.apply(number, links)
                await it.prove(links)
                await it.network.withdraw(number)
                await it.prove({})
            # Two faults on one link: it opens when the last of them withdraws.
            await it.network.apply(1, {Link("n1", "n2"): RESET, Link(CLIENT, "n1"): DROP})
            await it.network.apply(2, {Link("n1", "n2"): DROP})
            await it.prove({Link("n1", "n2"): DROP, Link(CLIENT, "n1"): DROP})
            await it.network.withdraw(2)
            await it.prove({Link("n1", "n2"): RESET, Link(CLIENT, "n1"): DROP})
            assert await it.ask("n1", timeout_s=0.5) == "nothing"
            assert await it.ask("n2") == "hello"
            await it.network.heal_all()
            await it.network.heal_all()
            await it.prove({})
            assert await it.ask("n1") == "hello"
            with pytest.raises(HarnessError, match="there is no link n1>n9"):
                await it.network.apply(3, {Link("n1", "n9"): DROP})

    # The loop that runs have; the other tests have asyncio's own.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_starts_again_finds_its_links_as_they_are(kind: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(kind, tmp_path) as it:
            await it.start_all()
            await it.network.apply(1, between(["n1"], ["n2", "n3"], DROP))
            await it.kill("n1")
            # While it is down one more link is cut, and one that is not of its own.
            await it.network.apply(2, {Link(CLIENT, "n1"): RESET, Link("n2", "n3"): DROP})
            links = {**between(["n1"], ["n2", "n3"], DROP), Link(CLIENT, "n1"): RESET, Link("n2", "n3"): DROP}
            await it.start("n1")
            await it.prove(links)
            await it.network.heal_all()
            await it.prove({})
            await it.until_served("n1")

    asyncio.run(run())


def test_a_dead_sidecar_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene("addresses", tmp_path) as it:
            await it.start_all()
            await asyncio.to_thread(it.client.containers.get(it.fabric.sidecars["n2"]).kill)
            async with asyncio.timeout(60):
                while it.fabric._connections["n2"]._transport is not None:
                    await asyncio.sleep(0.01)
            with pytest.raises(HarnessError, match="the side-car of n2 has ended"):
                await it.network.apply(1, between(["n1"], ["n2", "n3"], DROP))
            # The other nodes were put back, and are healed although the dead one cannot be.
            assert await it.network._read("n3") == {}
            assert it.network.blocked == {}
            with pytest.raises(HarnessError, match="n2"):
                await it.network.heal_all()

    asyncio.run(run())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_and_closing_twice_is_once(kind: str, tmp_path: Path) -> None:
    async def run() -> str:
        async with scene(kind, tmp_path, nodes=2) as it:
            await it.start("n1")
            prefix = it.fabric._site.prefix
            assert left_behind(it.client, prefix)
        await it.fabric.close()
        return prefix

    prefix = asyncio.run(run())
    client = engine()
    assert left_behind(client, prefix) == []
    client.close()


def test_sidecars_end_with_the_harness(tmp_path: Path) -> None:
    """The connection to a side-car's stdin is cut, as when the harness is killed: it ends by itself."""

    async def run() -> None:
        async with scene("addresses", tmp_path, nodes=1) as it:
            sidecar = it.client.containers.get(it.fabric.sidecars["n1"])
            it.fabric._connections["n1"].close()
            assert (await asyncio.to_thread(sidecar.wait, timeout=60))["StatusCode"] == 0

    asyncio.run(run())
