"""A client's session with a node whose mode changes during a run.

In ZooKeeper mode a broker that is not the controller refuses a change before it does anything. In migration mode it
passes the change on, so the same refusal may come from a controller that made the change before it lost its role. Both
offer the same requests. Only the configuration tells them apart, as it was before the connection and after it.
"""

from pathlib import Path
from typing import Final

from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.client.client import ListenerRole
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.client.sessions import open_session as open_at
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.server.configuration import MIGRATES
from fencepost.systems.kafka.server.start import PROPERTIES
from fencepost.systems.kafka.wire.errors import RequestKind

_MIGRATES: Final = f"{MIGRATES}=true\n"


async def open_session(place: Place, interface: str, *, connect_timeout_s: float) -> KafkaSession:
    """Open a session with this node; raises `Definite("not-connected")`."""
    before = _migrates(place.kept / PROPERTIES)
    session = await open_at(place.dial(CLIENT_PORT), place.number, interface, connect_timeout_s=connect_timeout_s)
    if session.node.role is ListenerRole.ZOOKEEPER_BROKER and (before or _migrates(place.kept / PROPERTIES)):
        session.node.change = RequestKind.FORWARDED
    return session


def _migrates(properties: Path) -> bool:
    """Whether a broker with this configuration may pass changes on; also when the file cannot be read."""
    try:
        return _MIGRATES in properties.read_text(encoding="utf-8")
    except OSError:
        return True
