"""The network of a cluster's containers: a subnet that nothing else uses, fixed addresses, no way out.

Every network that we make is a /24 of 10.78.0.0/16, or of FENCEPOST_SUBNET (such as 10.99): the first one that overlaps
no network of the engine and no route of this machine. A wider route (a VPN's 10.0.0.0/8) is no obstacle, since the
network's own route is more specific. When two runs choose the same subnet at once, the engine refuses one of them.
"""

import contextlib
import errno
import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import MachineError, UsageError
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.engine.fabric import INSIDE_DATA, INSIDE_FOLDER, Site
from fencepost.harness.runtime.network import CLIENT
from fencepost.harness.runtime.node import Place

if TYPE_CHECKING:
    from docker import DockerClient

#: Sets the first two numbers of every address, where ours are in use.
SUBNET_VARIABLE: Final = "FENCEPOST_SUBNET"
_SUBNET: Final = "10.78"
NODES_MAX: Final = 99
#: Refused subnets before we give up: each refusal is another run that was faster.
_REFUSALS_MAX: Final = 16
#: Node i has the address with this much more; the gateway, which is the harness, has the first of the subnet.
_BEFORE_NODES: Final = 9
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class EngineNetwork:
    """A network that was made. `gateway` is this machine's address in it, where its kernel is the engine's."""

    name: str
    id: str
    subnet: ipaddress.IPv4Network
    gateway: str

    def address(self, number: int) -> str:
        """Of node `number`, counted from 1."""
        return str(self.subnet[number + _BEFORE_NODES])


def make_network(
    client: "DockerClient", name: str, labels: Mapping[str, str], *, internal: bool, masquerade: bool = False
) -> EngineNetwork:
    """Make a network in a free subnet. `internal`: it has no way out, and none of its ports is published.

    Raises MachineError when every subnet of the pool is taken.
    """
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    options = {} if internal or masquerade else {"com.docker.network.bridge.enable_ip_masquerade": "false"}
    refused: list[str] = []
    with asking(f"making the network {name}", MachineError, "fencepost doctor --sweep removes what earlier runs left"):
        for subnet in free_subnets(client):
            gateway = str(subnet[1])
            try:
                made = client.networks.create(
                    name,
                    driver="bridge",
                    check_duplicate=True,
                    internal=internal,
                    enable_ipv6=False,
                    labels=dict(labels),
                    options=options,
                    ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet), gateway=gateway)]),
                )
            except APIError as error:
                if not is_overlap(str(error)):
                    raise
                refused.append(str(subnet))
                if len(refused) == _REFUSALS_MAX:
                    break
            else:
                return EngineNetwork(name, made.id or "", subnet, gateway)
    raise MachineError(
        f"no subnet of {pool()} is free for a network"
        + (f"; the engine refused {', '.join(refused)}" if refused else ""),
        hint="remove unused networks (docker network ls; fencepost doctor --sweep; docker network rm NAME), "
        f"or use other addresses: {SUBNET_VARIABLE}=10.99",
    )


def pool() -> ipaddress.IPv4Network:
    """Return the block of addresses for our networks; raise UsageError when the variable names no network."""
    numbers = os.environ.get(SUBNET_VARIABLE) or _SUBNET
    try:
        return ipaddress.IPv4Network(f"{numbers}.0.0/16")
    except ValueError:
        raise UsageError(
            f"{SUBNET_VARIABLE}={numbers} names no network", hint="give the first two numbers, such as 10.99"
        ) from None


def remove_network(client: "DockerClient", network: EngineNetwork) -> None:
    """Remove the network, if it still exists."""
    from docker.errors import NotFound

    hint = f"docker network rm {network.name}"
    with asking(f"removing the network {network.name}", hint=hint), contextlib.suppress(NotFound):
        client.networks.get(network.id).remove()


def is_overlap(message: str) -> bool:
    """Whether an engine's refusal means that the subnet is in use, in the words of Docker or Podman, old or new."""
    text = message.lower()
    return any(phrase in text for phrase in ("overlap", "already used", "already in use on the host", "conflicts with"))


def free_subnets(client: "DockerClient") -> Iterator[ipaddress.IPv4Network]:
    """Yield the subnets of the pool that no known network or route uses, in order."""
    used = [*_engine_subnets(client), *_routes()]
    for subnet in pool().subnets(new_prefix=24):
        if not any(subnet.overlaps(other) for other in used):
            yield subnet


def _engine_subnets(client: "DockerClient") -> Iterator[ipaddress.IPv4Network]:
    for network in client.networks.list():
        for pool in (network.attrs.get("IPAM") or {}).get("Config") or []:
            subnet = ipaddress.ip_network(pool.get("Subnet") or "0.0.0.0/32", strict=False)
            if isinstance(subnet, ipaddress.IPv4Network):
                yield subnet


def _routes() -> Iterator[ipaddress.IPv4Network]:
    """Destinations of this machine's routes that lie in the pool, or are the whole of it."""
    table = Path("/proc/net/route")  # not there where this machine is no Linux; the engine's networks are known then
    lines = table.read_text(encoding="ascii").splitlines()[1:] if table.exists() else []
    for line in lines:
        fields = line.split()
        # Eight hexadecimal digits in the machine's byte order.
        destination, mask = (int(fields[column], 16).to_bytes(4, "little") for column in (1, 7))
        route = ipaddress.IPv4Network((destination, socket.inet_ntoa(mask)))
        if route.subnet_of(pool()):
            yield route


def make_layout(
    site: Site, network: EngineNetwork, published: Mapping[str, Mapping[int, int]] | None = None
) -> dict[str, Place]:
    """Where each node lives. `published`: per node, the port of this machine that leads to each port of the node."""
    layout = {}
    for number, member in enumerate(site.members, 1):
        name = member.name
        ports = published[name] if published is not None else {}
        layout[name] = Place(
            name=name,
            number=number,
            address=network.address(number),
            folder=INSIDE_FOLDER,
            data=INSIDE_DATA,
            kept=site.folder / "nodes" / name,
            roles=member.roles,
            endpoints={inside: (_LOOPBACK, outside) for inside, outside in ports.items()},
        )
    return layout


def extra_hosts(layout: Mapping[str, Place], gateway: str) -> dict[str, str]:
    """Names and addresses of all ends, for the hosts file of every container."""
    return {name: place.address for name, place in layout.items()} | {CLIENT: gateway}


def free_ports(count: int) -> list[int]:
    """Ports of this machine's loopback address on which neither TCP nor UDP listens now.

    The engine binds them a moment later; somebody may be faster, which its refusal then says.
    """
    chosen: list[int] = []
    with contextlib.ExitStack() as held:
        while len(chosen) < count:
            stream = held.enter_context(socket.socket())
            stream.bind((_LOOPBACK, 0))
            port = stream.getsockname()[1]
            datagrams = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            try:
                datagrams.bind((_LOOPBACK, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            chosen.append(port)
    return chosen
