"""What the tests of disk faults do inside the lab: real servers that are written to, one fault at a time.

Each scene gives back plain figures; the tests say what they must be.
"""

import asyncio
import os
import random
import sys
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from fencepost.harness.runtime.disks import data_limit
from fencepost.harness.runtime.disks.strace import tracers_of
from fencepost.harness.runtime.disks.sync_mirror import SyncMirror
from fencepost.harness.runtime.disks.traced_node import TracedNode
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.node import Node, NodeSpec, NodeState

_DEADLINE_S = 60.0


async def faults(lab: Lab, args: dict[str, Any]) -> Any:
    """A healthy cluster of `system` under each of `faults` in turn, written to all the time."""
    from fencepost.harness.faults.kind import View
    from fencepost.harness.faults.schedule import parse_faults
    from fencepost.harness.plugins import registry
    from fencepost.harness.runtime.artifacts import Artifacts
    from fencepost.harness.runtime.provider import Placement
    from tests.fakes import acting
    from tests.fakes.fakes_runtime import cluster_of
    from tests.runtime.disks.writers import tracers

    system = registry.system(args["system"])
    artifacts: Artifacts = system.releases.resolve(args.get("version", system.releases.default))
    specs = system.specs(lab.layout, artifacts, system.profile.options())
    await lab.realise([_with(spec, args.get("more", ())) for spec in specs])
    for node in lab.nodes.values():
        await node.start()
    await _healthy(lab, system)
    await _prepare(lab, system)
    # Acknowledged elements, over the whole scene.
    added: set[int] = set()
    writers = [asyncio.create_task(_add(system, lab, name, number, added)) for number, name in enumerate(lab.nodes)]
    known, cluster, steps = registry.faults(), cluster_of(lab, system=args["system"]), []
    try:
        for fault_id, text in enumerate(args["faults"]):
            (spec,) = parse_faults(text, known, Placement(nodes=len(lab.nodes)))
            fault = known[spec.fault]
            view = View(nodes=tuple(lab.nodes), leader="n1", epoch=1)
            resolved = acting.aimed(fault, spec, view, random.Random(fault_id))
            await _more(added)
            injected = await acting.inject(fault, fault_id, resolved, cluster)
            healed = await acting.heal(fault, fault_id, resolved, cluster)
            left = tracers() + [t for node in lab.nodes.values() if node.pid for t in tracers_of(node.pid) if t]
            steps.append(
                {
                    "fault": text,
                    "outcome": str(injected.outcome),
                    "proof": injected.text,
                    "healed": str(healed.outcome),
                    "healed_proof": healed.text,
                    "left": left,
                    "limits_mib": [data_limit.byte_counts(node.place.data)[1] >> 20 for node in lab.nodes.values()],
                }
            )
            await _healthy(lab, system, f"{text}: {healed.text}")
    finally:
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
    lost = sorted(added - await _members(lab, system))
    return {"steps": steps, "added": len(added), "lost": len(lost)}


async def started_after_an_error(lab: Lab, args: dict[str, Any]) -> Any:
    """ZooKeeper's n2 after syncs that failed: it rejoins; then it is killed and started. What became of it."""
    from fencepost.harness.faults.kind import View
    from fencepost.harness.faults.schedule import parse_faults
    from fencepost.harness.plugins import registry
    from fencepost.harness.runtime.provider import Placement
    from tests.fakes import acting
    from tests.fakes.fakes_runtime import cluster_of

    system = registry.system("zookeeper")
    artifacts = system.releases.resolve(args.get("version", system.releases.default))
    await lab.realise(system.specs(lab.layout, artifacts, system.profile.options()))
    for node in lab.nodes.values():
        await node.start()
    await _healthy(lab, system)
    await _prepare(lab, system)
    added: set[int] = set()
    writers = [asyncio.create_task(_add(system, lab, name, number, added)) for number, name in enumerate(lab.nodes)]
    known, cluster, n2 = registry.faults(), cluster_of(lab, system="zookeeper"), lab.nodes["n2"]
    try:
        await _more(added)
        (spec,) = parse_faults("disk:n2:kind=failing", known, Placement(nodes=len(lab.nodes)))
        resolved = acting.aimed(
            known["disk"], spec, View(nodes=tuple(lab.nodes), leader="n1", epoch=1), random.Random(0)
        )
        injected = await acting.inject(known["disk"], 1, resolved, cluster)
        await asyncio.sleep(args["seconds"])
        healed = await acting.heal(known["disk"], 1, resolved, cluster)
        await _healthy(lab, system, healed.text)
        await _more(added)
        first = n2.incarnation
        await n2.kill()
        size = n2.log.stat().st_size
        await n2.start()
        async with asyncio.timeout(_DEADLINE_S):
            while n2.state is not NodeState.DEAD and await system.healthy(lab.layout) is not None:
                await asyncio.sleep(0.1)
    finally:
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
    return {
        "outcomes": [str(injected.outcome), str(healed.outcome)],
        "proofs": [injected.text, healed.text],
        "starts_before": first,
        "state": str(n2.state),
        "has_a_hole": b"Committed proposal cached out of order" in n2.log.read_bytes()[size:],
    }


def _with(spec: NodeSpec, more: tuple[str, ...]) -> NodeSpec:
    from dataclasses import replace

    return replace(spec, argv=(*spec.argv, *more))


async def _healthy(lab: Lab, system: Any, healed: str = "the start") -> None:
    from fencepost.harness.runner.readiness import await_healthy

    wrong = await await_healthy(system, lab.layout, deadline_s=_DEADLINE_S)
    logs = "\n".join(f"{name}: {node.state}\n{node.log_tail()}" for name, node in lab.nodes.items()) if wrong else ""
    assert wrong is None, f"{wrong} after {healed}\n{logs}"


async def _prepare(lab: Lab, system: Any) -> None:
    from fencepost.harness.coordination import Interface, Keys, prepare

    client = await system.open_client(next(iter(lab.layout.values())), Interface.STORAGE, connect_timeout_s=5.0)
    try:
        await prepare(client, Keys(("s",)))
    finally:
        await client.close()


async def _more(added: set[int], count: int = 20) -> None:
    before = len(added)
    async with asyncio.timeout(_DEADLINE_S):
        while len(added) < before + count:
            await asyncio.sleep(0.01)


async def _add(system: Any, lab: Lab, name: str, number: int, added: set[int]) -> None:
    """Add one element after the other through one node; those that were acknowledged are in `added`."""
    element = number
    while True:
        # Whatever goes wrong under a fault: what was not acknowledged is not counted.
        with suppress(Exception):
            client = await system.open_client(lab.layout[name], "key-value", connect_timeout_s=1.0)
            try:
                while True:
                    element += len(lab.nodes)
                    async with asyncio.timeout(2.0):
                        await client.add("s", element)
                    added.add(element)
            finally:
                await client.close()
        await asyncio.sleep(0.05)


async def _members(lab: Lab, system: Any) -> set[int]:
    from fencepost.harness.coordination import ReadMode

    client = await system.open_client(next(iter(lab.layout.values())), "key-value", connect_timeout_s=5.0)
    try:
        async with asyncio.timeout(_DEADLINE_S):
            strong = ReadMode.STRONG if ReadMode.STRONG in system.profile.read_modes else ReadMode.BARRIER
            return set((await client.members("s", strong)).elements)
    finally:
        await client.close()


async def by_hand(lab: Lab, args: dict[str, Any]) -> Any:
    """What faults are made of, on programs that write: needs nothing but Python, so any user can play it."""
    script = Path(__file__).with_name("writer.py")
    modes = {"n1": "sync", "n2": "nosync"}
    argv = (sys.executable, "-S", str(script))
    await lab.realise(
        NodeSpec(name=name, argv=(*argv, str(lab.layout[name].data), mode), listeners={}, data_limit_bytes=4 << 20)
        for name, mode in modes.items()
    )
    n1, n2 = lab.nodes["n1"], lab.nodes["n2"]
    for node in (n1, n2):
        await node.start()
        await _told(node, 10)
    found: dict[str, Any] = {"uid": os.stat(n1.place.kept).st_uid}

    slow = TracedNode(n1, calls="sync", files="*", action="delay_enter=30000", logs=n1.place.kept / "strace.log")
    await slow.begin()
    await _told(n1, 5)
    found["slow_wrong"] = await slow.end()
    found["slow"], found["usual_s"] = slow.calls().count, median(slow.calls().took_s)

    before = data_limit.byte_counts(n1.place.data)[1]
    data_limit.fill(n1.place.data)
    found["refused"] = data_limit.refuses_writes(n1.place.data)
    data_limit.set_limit(n1.place.data, before)
    found["refused_after"] = data_limit.refuses_writes(n1.place.data)
    found["limit_kept"] = data_limit.byte_counts(n1.place.data)[1] == before

    # It may have met the limit, and have yet to end over that; else it writes on.
    file = n1.place.data / "log"
    size = file.stat().st_size
    async with asyncio.timeout(_DEADLINE_S):
        while n1.state is not NodeState.DEAD and file.stat().st_size < size + 3 * 8:
            await asyncio.sleep(0.01)
    if n1.state is NodeState.DEAD:
        await n1.start()
    held = {node.name: SyncMirror(node.pid or 0, node.place.data) for node in (n1, n2)}
    for mirror in held.values():
        await mirror.begin()
    for node in (n1, n2):
        await _told(node, 20)
    found["missed"] = [why for mirror in held.values() if (why := mirror.why_not_whole())]
    for node in (n1, n2):
        await node.kill()
    for node in (n1, n2):
        await held[node.name].restore()
        await held[node.name].close()
        found[f"{node.name}_lines"] = (node.place.data / "log").stat().st_size // 8
        found[f"{node.name}_told"] = int(node.log_tail(1)) + 1
    return found


async def _told(node: Node, count: int) -> None:
    """Wait until the program has told so many lines more."""
    before = len(node.log.read_text().splitlines())
    async with asyncio.timeout(_DEADLINE_S):
        while len(node.log.read_text().splitlines()) < before + count:
            await asyncio.sleep(0.01)
