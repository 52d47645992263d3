"""The fault `link` inside the lab: injected, proven, healed, proven again."""

import asyncio
import os
import random
import signal
from typing import Any

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.faults.kind import Resolved, View
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.network import CLIENT, Effect, Link, PacketShape
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.network.link import LinkFault
from tests.fakes import acting
from tests.fakes.fakes_runtime import cluster_of
from tests.runtime.links.link_scenarios import stations


async def faults(lab: Lab, args: dict[str, Any]) -> Any:
    """Inject and heal each fault; outcome and proof of both, and what the kernel still holds afterwards."""
    found = []
    for number, text in enumerate(args["faults"]):
        fault, cluster = LinkFault(), cluster_of(lab)
        resolved = _resolved(lab, text, number)
        proof = await acting.inject(fault, number, resolved, cluster)
        healed = await acting.heal(fault, number, resolved, cluster)
        left = [*map(str, await lab.network.shapes.read_back()), *map(str, lab.network.blocked)]
        found.append([text, proof.outcome, proof.text, healed.outcome, healed.text, left])
    return found


async def two_at_once(lab: Lab, args: dict[str, Any]) -> Any:
    """Two faults and a cut on the same links: what each proof says, in and out of order."""
    cluster = cluster_of(lab)
    slow, lossy = LinkFault(), LinkFault()
    first, second = _resolved(lab, "link:n1:latency=20ms", 1), _resolved(lab, "link:n1:latency=30ms:loss=30%", 2)
    said = [await acting.inject(slow, 1, first, cluster), await acting.inject(lossy, 2, second, cluster)]
    await lab.network.apply(3, {Link("n1", "n2"): Effect.DROP})
    merged = lab.network.shapes.in_force[Link("n1", "n3")]
    said += [await acting.heal(slow, 1, first, cluster)]
    await lab.network.withdraw(3)
    left = lab.network.shapes.in_force[Link("n1", "n2")]
    said += [await acting.heal(lossy, 2, second, cluster)]
    return [[proof.outcome for proof in said], merged.delay_ns, round(merged.loss, 3), left.delay_ns, said[2].text]


async def not_as_asked(lab: Lab, args: dict[str, Any]) -> Any:
    """A shaper that does less than it was told must not pass for one that does: the proof is of what is felt."""
    shapes, fault, cluster = lab.network.shapes, LinkFault(), cluster_of(lab)
    resolved = _resolved(lab, "link:n1:latency=20ms:links=client:direction=in", 1)
    await shapes.prepare()
    # The kernel hands packets over, and the process lets them pass.
    await shapes.apply(1, {Link(CLIENT, "n1"): PacketShape()})
    shaper = stations(lab).shaping
    assert shaper is not None
    asked = shaper.ask

    async def ask(do: str, **fields: Any) -> dict[str, Any]:
        return {} if do == "set" else await asked(do, **fields)

    shaper.ask = ask  # type: ignore[method-assign]
    proof = await acting.inject(fault, 1, resolved, cluster)
    del shaper.ask
    return [proof.outcome, proof.text]


async def cut_short(lab: Lab, args: dict[str, Any]) -> Any:
    """Injections that are cut short, and companions that end; each is healed, and the next fault proven."""
    fault, cluster, shapes = LinkFault(), cluster_of(lab), lab.network.shapes
    resolved = _resolved(lab, "link:n1:latency=20ms", 1)
    await shapes.prepare()
    found = []
    for number, after_ms in enumerate(args["after_ms"]):
        injecting = asyncio.create_task(acting.inject(fault, number, resolved, cluster))
        await asyncio.sleep(after_ms / 1e3)
        if args["kills"]:
            companion = (stations(lab).measuring, stations(lab).shaping)[number % 2]
            assert companion is not None
            os.kill(companion.pid, signal.SIGKILL)
        else:
            injecting.cancel()
        await asyncio.wait([injecting])
        try:
            await acting.heal(fault, number, resolved, cluster)
        except HarnessError:
            # What it says is recorded, and the nemesis asks once more.
            await acting.heal(fault, number, resolved, cluster)
        proven = [
            await acting.inject(fault, number, resolved, cluster),
            await acting.heal(fault, number, resolved, cluster),
        ]
        left = [*map(str, await shapes.read_back()), *map(str, shapes.in_force)]
        found.append([*(str(proof.outcome) for proof in proven), *left])
    return found


def _resolved(lab: Lab, text: str, seed: int) -> Resolved:
    (spec,) = parse_faults(text, {"link": LinkFault()}, Placement(nodes=len(lab.nodes)))
    return acting.aimed(LinkFault(), spec, View(nodes=tuple(lab.nodes), leader="n2", epoch=1), random.Random(seed))
