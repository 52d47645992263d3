"""Three workers of the nemesis on real processes and real links, inside the lab."""

import asyncio
import random
from typing import Any

from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.kind import View
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults
from fencepost.harness.history import FaultOutcome, FaultStage
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import Reach
from fencepost.harness.runtime.provider import Placement
from tests.fakes.fakes_runtime import KeptRecords, cluster_of
from tests.runtime.lab.scenarios import start_all, until_serving
from tests.runtime.links.exact_probe import HEARD_S

#: Each with how long it is in force, in ms.
_FAULTS = {
    "kill:one": 300,
    "kill:all": 200,
    "pause:leader": 500,
    "partition:one": 400,
    "partition:minority:direction=out": 400,
    "gray:one:period=50ms": 200,
    "flapping:leader:period=600ms": 1500,
}


async def meet(lab: Lab, args: dict[str, Any]) -> Any:
    """A seeded schedule of three workers; says what was proven, and what differs from before."""
    await start_all(lab)
    before = await _state(lab)
    draw, faults, placement = random.Random(args["seed"]), registry.faults(), Placement(nodes=len(lab.nodes))
    entries = []
    for worker in range(3):
        texts = draw.sample(list(_FAULTS), len(_FAULTS))[: args["each"]]
        for number, text in enumerate(texts):
            (spec,) = parse_faults(text, faults, placement)
            entries.append(
                ScheduledFault(
                    spec=spec,
                    inject_ns=draw.randrange(200) * 10**6,
                    duration_ns=_FAULTS[text] * 10**6,
                    draw_seed=draw.getrandbits(32),
                    worker=worker,
                    number=number,
                )
            )
    records = KeptRecords()
    view = View(nodes=tuple(lab.nodes), leader="n2", epoch=1)
    conductor = Conductor(
        cluster=cluster_of(lab, records=records, view=lambda: view), faults=faults, schedule_sink=lambda row: None
    )
    await conductor.run(entries, stop=asyncio.Event())
    for node in lab.nodes.values():
        await until_serving(lab, node)
    ends = [e for e in records.events if e.stage is FaultStage.END]
    return {
        "outcomes": sorted({str(e.outcome) for e in ends}),
        "doubtful": [f"{e.action} of {e.fault}: {e.proof}" for e in ends if e.outcome is FaultOutcome.INDETERMINATE],
        "installed": sum(e.outcome is FaultOutcome.INSTALLED for e in ends),
        "before": before,
        "after": await _state(lab),
    }


async def _state(lab: Lab) -> dict[str, Any]:
    """What faults change: rules, links, processes and how their threads stand."""
    # All are to be open: it ends as soon as they were found so.
    found = await lab.network.probe(list(all_links(lab.nodes)), timeout_s=HEARD_S)
    return {
        "rules": len(lab.network.read_back()),
        "shut": sorted(str(link) for link, reach in found.items() if reach is not Reach.OPEN),
        "states": {name: str(node.state) for name, node in lab.nodes.items()},
        "stopped": {name: sum(s in "Tt" for s in node.thread_states().values()) for name, node in lab.nodes.items()},
    }
