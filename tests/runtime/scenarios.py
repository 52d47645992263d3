"""What the tests of the lab do inside it."""

from typing import Any

from harness.runtime.lab import Lab
from harness.runtime.links import all_links


async def probe_all(lab: Lab, args: dict[str, Any]) -> Any:
    found = await lab.network.probe(all_links(lab.nodes))
    return {str(link): reach for link, reach in found.items()}
