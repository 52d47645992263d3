"""The part of the starts of Consul, NATS and Cassandra that is measured inside the lab."""

import asyncio
import time
from typing import Any, Final, cast

from fencepost.harness.base.options import parse
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Definite, Indefinite, Interface, Keys, KeyValue, prepare
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.lab.lab import Lab

_START_S: Final = 120.0
_WRITE_S: Final = 2.0


async def first_write(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds from the first server's exec to the first write that `args["system"]` acknowledges."""
    system: System = registry.system(args["system"])
    options = parse(args["system"], args["options"], system.profile.options())
    artifacts = system.releases.resolve(args["version"] or system.releases.default)
    await lab.realise(system.specs(lab.layout, artifacts, options))
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for node in lab.nodes.values():
            group.create_task(node.start())
    async with asyncio.timeout(_START_S):
        # A server of NATS that knows no leader yet leaves a request for a stream unanswered.
        while not await _takes_a_write(lab, system, options):
            await asyncio.sleep(0.005)
    took_s = time.monotonic() - began
    return {"s": took_s, "version": artifacts.version, "archive": "archive" in artifacts.paths}


async def _takes_a_write(lab: Lab, system: System, options: Any) -> bool:
    try:
        if not await system.ready(lab.nodes["n1"]):
            return False
        place = lab.layout["n1"]
        client = cast(
            KeyValue, await system.open_client(place, Interface.STORAGE, connect_timeout_s=1.0, options=options)
        )
    except (Definite, Indefinite, TimeoutError):
        return False
    try:
        await prepare(client, Keys(("k",)))
        async with asyncio.timeout(_WRITE_S):
            await client.write("k", b"v")
        return True
    except (Definite, Indefinite, TimeoutError):
        return False
    finally:
        await client.close()
