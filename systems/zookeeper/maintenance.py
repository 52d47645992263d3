"""What an operator asks of ZooKeeper while it serves: a reconfiguration that changes nothing.

A snapshot on demand (3.9) needs the admin server, whose jars of Jetty a server here goes without; servers take
snapshots as often as `--set zookeeper.snapCount=` says.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import Final

from fencepost.harness.contract.system import MaintenanceRequest
from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.node import Node
from fencepost.systems.zookeeper.configuration import CLIENT_PORT
from fencepost.systems.zookeeper.health import SHORT_SESSION_MS, open_session
from fencepost.systems.zookeeper.question import four_letter_word
from fencepost.systems.zookeeper.wire import reconfiguration
from fencepost.systems.zookeeper.wire.jute import Op
from fencepost.systems.zookeeper.wire.session import zxid_of

_DIAL_S: Final = 2.0


async def _update_member(node: Node) -> str:
    """Give this server the addresses and the role that it has; the members are committed, and written to files."""
    try:
        conf = await four_letter_word(*node.place.dial(CLIENT_PORT), b"conf")
    except OSError as error:
        raise Definite("not-told", str(error)) from None
    own = reconfiguration.read_servers(conf).get(node.place.number)
    if own is None:
        raise Definite("no-such-member", f"{node.name} does not list itself")
    line = f"server.{node.place.number}={own}"
    with closing(await open_session(node.place, _DIAL_S, SHORT_SESSION_MS, keep_alive=False)) as session:
        zxid = await session.ask(Op.RECONFIG, reconfiguration.joining(line), zxid_of)
    return f"{line} since zxid 0x{zxid:x}"


REQUESTS: Final[Mapping[str, MaintenanceRequest]] = {"update-member": MaintenanceRequest(_update_member)}
