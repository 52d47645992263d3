"""The part of the comparison with `h2` that is measured inside the lab."""

import asyncio
from typing import Any, Final
from unittest.mock import patch

from bench.etcd_inside import first_write, run_register
from bench.http2_by_h2 import H2Connection, RememberingH2Connection
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.systems.etcd import ETCD
from fencepost.harness.systems.etcd.wire import http2

CONNECTIONS: Final[dict[str, type[http2.Connection]]] = {
    "own": http2.Connection,
    "h2": H2Connection,
    "h2, remembering": RememberingH2Connection,
}
#: How the register workload differs from its defaults at each pace.
PACES: Final[dict[str, dict[str, Any]]] = {
    "closed loop": {"rate": 1e6, "active_per_node": 3, "seldom_per_node": 0},
    "paced": {},
}


async def take_turns(lab: Lab, args: dict[str, Any]) -> list[dict[str, Any]]:
    """Run each pace on each connection in turn, `rounds` times, all on the same servers."""
    await first_write(lab, args)
    async with asyncio.timeout(20):
        while await ETCD.healthy(lab.layout) is not None:
            await asyncio.sleep(0.05)
    runs = []
    for _ in range(args["rounds"]):
        for pace, changed in PACES.items():
            for name, connection in CONNECTIONS.items():
                with patch.object(http2, "Connection", connection):
                    cost = await run_register(lab, args["seconds"][pace], changed)
                runs.append({"pace": pace, "connection": name, **cost})
    return runs
