"""Links through Toxiproxy on a real engine: every direction alone, every toxic felt, no way around, nothing left."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.faults.kind import View
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.containers.toxiproxy.addresses import Star
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach
from fencepost.harness.runtime.provider import Links, Placement
from tests.fakes import acting
from tests.fakes.fakes_runtime import cluster_of
from tests.runtime.containers.star_scene import star
from tests.runtime.links.exact_probe import probe_exactly

pytestmark = pytest.mark.containers

DROP, RESET = Effect.DROP, Effect.RESET


def between(left: list[str], right: list[str]) -> dict[Link, Effect]:
    return {link: DROP for a in left for b in right for link in (Link(a, b), Link(b, a))}


def test_every_direction_of_every_link_is_cut_alone_and_heals(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with star(tmp_path) as scene:
            await scene.prove({})
            # The split of one node, with the servers' own traffic as a third witness.
            cut = between(["n1"], ["n2", "n3"])
            await scene.network.apply(1, cut)
            await scene.prove(cut)
            assert await scene.ask("n1", "n2", wait_s=0.4) == "nothing"
            assert await scene.ask("n3", "n1", wait_s=0.4) == "nothing"
            assert await scene.ask("n2", "n3") == "hello"
            # Two faults share links: what the second holds stays shut when the first heals.
            await scene.network.apply(2, {Link("n1", "n2"): DROP, Link("n3", CLIENT): DROP})
            await scene.network.withdraw(1)
            await scene.prove({Link("n1", "n2"): DROP, Link("n3", CLIENT): DROP})
            # Nothing that n1 sends reaches n2: no request, and no answer to what n2 asked.
            assert await scene.ask("n1", "n2", wait_s=0.4) == "nothing"
            assert await scene.ask("n2", "n1", wait_s=0.4) == "nothing"
            assert await scene.ask("n1", "n3") == "hello"
            assert await scene.ask("n3", "n1", timeout_s=1.0) == "silence", "the answer to the client is swallowed"
            await scene.network.apply(2, {Link(CLIENT, "n2"): RESET})
            await scene.prove({Link(CLIENT, "n2"): RESET})
            assert await scene.ask("n2", "n3") in ("ConnectionResetError", "ended")
            await scene.network.heal_all()
            await scene.prove({})
            await scene.until_served()
            # A killed node that starts again is behind the same cut.
            await scene.network.apply(3, {Link("n2", "n3"): DROP})
            await asyncio.to_thread(scene.containers["n2"].kill)
            await asyncio.to_thread(scene.containers["n2"].wait, timeout=60)
            await scene.prove({Link("n2", "n3"): DROP})
            await scene.start("n2")
            assert await _settled(scene, "n2", "n1") == "hello"
            assert await scene.ask("n2", "n3", wait_s=0.4) == "nothing"
            # Somebody opens the link behind our back: the probe says so.
            await asyncio.to_thread(scene.fabric.network._links.control.reset)
            opened = {Link("n2", "n3"): Reach.OPEN}
            assert await probe_exactly(scene.network, opened) == opened
            await scene.network.heal_all()
            await scene.until_served()

    asyncio.run(scenario())


async def _settled(scene: Any, source: str, target: str) -> str:
    async with asyncio.timeout(60.0):
        while (said := await scene.ask(source, target, wait_s=0.4, timeout_s=1.0)) != "hello":
            await asyncio.sleep(0.02)
    return str(said)


@pytest.mark.parametrize("publish", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["addresses", "published"])
def test_each_toxic_is_installed_felt_and_healed(tmp_path: Path, publish: bool) -> None:
    placement = Placement(runtime="containers", links=Links.TOXIPROXY)
    view = View(nodes=("n1", "n2", "n3"), leader="n2", epoch=4)
    kinds = [
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
        async with star(tmp_path, publish=publish) as scene:
            for number, kind in enumerate(kinds):
                faults = registry.faults()
                (spec,) = parse_faults(f"toxic:leader:kind={kind}:links=all:direction=in", faults, placement)
                resolved = acting.aimed(faults["toxic"], spec, view, random.Random(0))
                injected = await acting.inject(faults["toxic"], number, resolved, cluster_of(scene))
                assert injected.outcome is FaultOutcome.INSTALLED, injected.text
                if kind == "black-hole":
                    assert await scene.ask("n1", "n2", wait_s=0.4) == "nothing"
                    assert await scene.ask("n1", "n3") == "hello"
                healed = await acting.heal(faults["toxic"], number, resolved, cluster_of(scene))
                assert healed.outcome is FaultOutcome.HEALED, healed.text
            await scene.prove({})
            await scene.until_served()

    asyncio.run(scenario())


def test_a_way_around_the_proxies_is_found_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a second address that each network does lead to, its own server on another port, counts as forbidden."""
    planted = Star.forbidden

    def forbidden(self: Star, number: int) -> list[tuple[str, int]]:
        own = [spec.listen.rpartition(":") for spec in self.proxies() if spec.listen.startswith(self.server(number))]
        return [*planted(self, number), (own[-1][0], int(own[-1][2]))]

    monkeypatch.setattr(Star, "forbidden", forbidden)

    async def scenario() -> None:
        async with star(tmp_path, starts=False) as scene:
            with pytest.raises(MachineError, match="past Toxiproxy") as caught:
                await scene.fabric.await_links(10.0)
            assert "from the network of n" in caught.value.message

    asyncio.run(scenario())
