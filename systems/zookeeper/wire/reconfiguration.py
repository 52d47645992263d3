"""ZooKeeper's bytes for reconfiguration: the request `reconfig`, and a configuration as servers write it.

Source: zookeeper.jute (ReconfigRequest), ZooDefs.OpCode, PrepRequestProcessor and QuorumMaj.toString of 3.9.
"""

import re
from struct import Struct
from typing import Final

from fencepost.systems.zookeeper.wire import jute as wire

_SERVER: Final = re.compile(r"^server\.(\d+)=(\S+)", re.MULTILINE)
_VERSION: Final = Struct(">q")
#: The change applies to whatever configuration is in force.
_ANY_VERSION: Final = _VERSION.pack(-1)
#: An absent string. The other form of the request, which lists all new members, is not used.
_NULL: Final = wire.INT.pack(-1)


def joining(server: str) -> bytes:
    """Record of a `reconfig` that adds the server of this line ("server.3=..."), or changes what it is."""
    return wire.text(server) + _NULL + _NULL + _ANY_VERSION


def leaving(number: int) -> bytes:
    """Record of a `reconfig` that removes the server of this number."""
    return _NULL + wire.text(str(number)) + _NULL + _ANY_VERSION


def server_line(number: int, *, host: str, ports: tuple[int, int], client: str, role: str = "participant") -> str:
    """One server of a dynamic configuration; `ports` are those for peers and for elections."""
    return f"server.{number}={host}:{ports[0]}:{ports[1]}:{role};{client}"


def read_servers(text: str) -> dict[int, str]:
    """Every server of a configuration by its number, as "addresses:role;client address"."""
    return {int(number): rest for number, rest in _SERVER.findall(text)}


def votes(server: str) -> bool:
    return ":observer" not in server
