"""Toxics on a real engine: the servers' own connections meet them, each is felt and healed, cuts go on as ever."""

import asyncio
import random
from pathlib import Path

import pytest

from fencepost.harness.faults.kind import View
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Toxic
from fencepost.harness.runtime.provider import Placement
from tests.fakes import acting
from tests.fakes.fakes_runtime import cluster_of
from tests.runtime.containers.links_scene import between, scene

pytestmark = pytest.mark.containers


def test_the_servers_own_connections_meet_toxics_and_cuts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scene("addresses", tmp_path, streams=True) as it:
            await it.start_all()
            await asyncio.gather(*(it.until_served(name) for name in it.names))
            assert (await it.ask_through("n1", "n2"))[0] == "hello"
            # Two faults share a link; each direction of it alone; an open link is not late.
            slow = Toxic(kind="latency", attributes={"latency": 150})
            await it.streams.apply(1, {Link("n1", "n2"): slow})
            await it.streams.apply(2, {Link("n1", "n2"): slow, Link(CLIENT, "n3"): slow})
            assert (await it.ask_through("n1", "n2"))[1] >= 300
            assert (await it.ask_through("n2", "n1"))[1] >= 300, "what n1 answers to n2 is the same link"
            await it.streams.withdraw(1)
            assert (await it.ask_through("n1", "n2"))[1] >= 150
            assert set(await it.streams.read_back()) == {Link("n1", "n2"), Link(CLIENT, "n3")}
            # Packet rules cut what the proxies say to each other, and the probes prove it as ever.
            cut = between(["n1"], ["n2"], Effect.DROP)
            await it.network.apply(3, cut)
            await it.prove(cut)
            assert (await it.ask_through("n1", "n2", 0.5))[0] == "nothing"
            assert (await it.ask_through("n3", "n2"))[0] == "hello"
            await it.network.apply(4, between(["n3"], [CLIENT], Effect.DROP))
            assert await it.ask("n3", timeout_s=0.5) == "nothing"
            # A proxy is controlled and measured over a link that is cut, and where its node is dead.
            await it.kill("n3")
            assert (await it.streams.measure([Link("n3", "n1")]))[Link("n3", "n1")].round_trips_ms
            await it.network.heal_all()
            assert await it.streams.read_back() == {}
            await it.prove({})
            await it.start("n3")
            await it.until_served("n3")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "kind", ["addresses", pytest.param("published", marks=pytest.mark.slow)], ids=["addresses", "published"]
)
def test_each_toxic_is_installed_felt_and_healed(tmp_path: Path, kind: str) -> None:
    placement = Placement(runtime="containers", why_not=lambda _: None)
    view = View(nodes=("n1", "n2", "n3"), leader="n2", epoch=4)
    toxics = [
        "latency:latency=60ms:jitter=10ms",
        "bandwidth:rate=100",
        "slow-close:delay=200ms",
        "timeout:timeout=150ms",
        "black-hole",
        "reset",
        "slicer:size=200:delay=100us",
        "limit-data:bytes=1000",
    ]

    async def scenario() -> None:
        async with scene(kind, tmp_path, streams=True) as it:
            await it.start_all()
            await asyncio.gather(*(it.until_served(name) for name in it.names))
            for number, toxic in enumerate(toxics):
                faults = registry.faults()
                (spec,) = parse_faults(f"toxic:leader:kind={toxic}:links=all:direction=in", faults, placement)
                resolved = acting.aimed(faults["toxic"], spec, view, random.Random(0))
                injected = await acting.inject(faults["toxic"], number, resolved, cluster_of(it))
                assert injected.outcome is FaultOutcome.INSTALLED, injected.text
                if toxic == "black-hole":
                    assert (await it.ask_through("n1", "n2", 0.4))[0] == "nothing"
                    assert (await it.ask_through("n1", "n3"))[0] == "hello"
                healed = await acting.heal(faults["toxic"], number, resolved, cluster_of(it))
                assert healed.outcome is FaultOutcome.HEALED, healed.text

    asyncio.run(scenario())
