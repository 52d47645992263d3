"""Starts and removes one node's Toxiproxy server, in the network namespace that the node's container joins."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.engine.fabric import Site
from fencepost.harness.runtime.containers.toxiproxy.server import ToxiproxyServer
from fencepost.harness.runtime.containers.toxiproxy.wiring import ProxySpec
from fencepost.harness.runtime.links.redirects import CONTROL, USER
from fencepost.harness.runtime.node import Place

#: The time limit from the start of the container to the first answer of its control interface.
_READY_TIMEOUT_S: Final = 10.0


def start_server(
    site: Site, image: str, place: Place, joining: Mapping[str, Any], proxies: Iterable[ProxySpec]
) -> ToxiproxyServer:
    """Start the server and make its proxies."""
    with asking(f"starting the proxies of {place.name}", MachineError):
        container = site.client.containers.create(
            image,
            [f"-host={place.address}", f"-port={CONTROL}"],
            name=_name(site, place.name),
            labels=dict(site.labels),
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            read_only=True,
            user=f"{USER}:{USER}",
            **joining,
        )
        container.start()
    server = ToxiproxyServer(*place.dial(CONTROL))
    try:
        server.await_ready(_READY_TIMEOUT_S)
        server.make(proxies)
    except HarnessError as error:
        with asking(f"reading the log of {container.name}"):
            log = container.logs(tail=20).decode(errors="replace").strip()
        raise HarnessError(f"{error.message}; the Toxiproxy server of {place.name} said: {log or 'nothing'}") from None
    return server


def remove_server(site: Site, node: str) -> None:
    """Remove the server, if it was made."""
    from docker.errors import NotFound

    name = _name(site, node)
    with asking(f"removing {name}", hint=f"docker rm -f {name}"), contextlib.suppress(NotFound):
        site.client.api.remove_container(name, force=True, v=True)


def _name(site: Site, node: str) -> str:
    return f"{site.prefix}-{node}-proxies"
