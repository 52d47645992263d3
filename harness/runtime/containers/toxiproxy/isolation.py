"""Checks from inside each node's network that it leads nowhere but to the node's own proxies.

The engine promises to isolate its networks. With a way around the proxy no fault would be real, so a container that
lives for a second tries every address that must not answer, and one that must.
"""

import contextlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from docker.errors import NotFound

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.engine.fabric import Site
from fencepost.harness.runtime.containers.toxiproxy.addresses import Star

_WITNESS_TIMEOUT_S: Final = 20.0
#: Runs in the container: tries the addresses that it gets as JSON, and prints those that it reached.
_WITNESS: Final = """
import json, selectors, socket, sys, time
waiting, reached = selectors.DefaultSelector(), []
for host, port in json.loads(sys.argv[1]):
    s = socket.socket(); s.setblocking(False)
    if s.connect_ex((host, port)) in (0, 115):
        waiting.register(s, selectors.EVENT_WRITE, (host, port))
end = time.monotonic() + 0.5
while waiting.get_map() and time.monotonic() < end:
    for key, _ in waiting.select(end - time.monotonic()):
        waiting.unregister(key.fileobj)
        if key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            reached.append(key.data)
print(json.dumps(reached))
"""


def check_isolation(site: Site, star: Star, networks: Mapping[int, str]) -> None:
    """Try from within every node's network to reach what must not be reached.

    Args:
        networks: the name of each node's network, by the node's number (from 1).

    Raises:
        MachineError: something other than the node's own proxies answered: faults would not hold on this engine.
        HarnessError: not even the node's own proxies answered, so silence proves nothing.
    """
    image = site.image("sidecar")
    numbers = [number for number in networks if star.allowed(number) is not None]
    if not numbers:
        return
    with ThreadPoolExecutor(len(numbers), thread_name_prefix="witness") as pool:
        reached = list(pool.map(lambda number: _reached(site, star, number, networks[number], image), numbers))
    for number, addresses in zip(numbers, reached, strict=True):
        name, allowed = star.name(number), star.allowed(number)
        bypass = [f"{host}:{port}" for host, port in addresses if (host, port) != allowed]
        if bypass:
            raise MachineError(
                f"the engine does not keep its networks apart: from the network of {name}, "
                f"{', '.join(bypass)} answered, past Toxiproxy",
                hint="faults would not hold there; use --links sidecar or an engine that isolates bridge networks",
            )
        if not addresses:
            raise HarnessError(f"from the network of {name} nothing was reached, not even its own proxies")


def _reached(site: Site, star: Star, number: int, network: str, image: str) -> list[tuple[str, int]]:
    """Return those of the tried addresses that answer from within this network."""
    allowed, name = star.allowed(number), star.name(number)
    addresses = [*star.forbidden(number), *([allowed] if allowed else [])]
    with asking(f"checking that the network of {name} leads nowhere else"):
        witness = site.client.containers.create(
            image,
            ["-c", _WITNESS, json.dumps(addresses)],
            entrypoint=["python3"],
            name=f"{site.prefix}-witness-{name}",
            labels=dict(site.labels),
            network=network,
            networking_config={network: site.client.api.create_endpoint_config(ipv4_address=star.witness(number))},
            cap_drop=["ALL"],
        )
        try:
            witness.start()
            ended = witness.wait(timeout=_WITNESS_TIMEOUT_S)
            status, output = int(ended["StatusCode"]), witness.logs().decode(errors="replace").strip()
        finally:
            with contextlib.suppress(NotFound):
                witness.remove(force=True, v=True)
    if status != 0:
        raise HarnessError(f"the check of network isolation failed in the network of {name}: {output}")
    return [(host, port) for host, port in json.loads(output)]
