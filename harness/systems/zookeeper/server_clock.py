"""What a ZooKeeper server says of its time: when it accepted a session of ours (`cons`), and its uptime (`mntr`).

`est` in `cons` is System.currentTimeMillis at the connection's beginning (ServerCnxn.established), printed for
connections with a session only. `zk_uptime` in `mntr` is Time.currentElapsedTime, which is System.nanoTime, less what
that was when the server began to serve (ServerStats.getUptime).
"""

import re
from typing import Final

from fencepost.harness.systems.contract.server_clock import ToldTime
from fencepost.harness.systems.zookeeper.question import four_letter_word
from fencepost.harness.systems.zookeeper.wire.connection import open_connection

_MS: Final = 10**6
_SESSION_MS: Final = 4000
_CONNECT_S: Final = 2.0


async def wall(address: str, port: int) -> ToldTime:
    """Through a session of its own, closed at once; the caller bounds the wait."""
    connection = await open_connection(
        address, port, session_timeout_ms=_SESSION_MS, connect_timeout_s=_CONNECT_S, keep_alive=False
    )
    try:
        said = await four_letter_word(address, port, b"cons")
        found = re.search(rf"sid=0x{connection.session_id:x},.*?est=(\d+)", said)
    finally:
        connection.close()
    if found is None:
        raise ValueError(f"cons does not tell of our session: {said[:200]!r}")
    return ToldTime(int(found[1]) * _MS, _MS, "when it accepted a connection")


async def monotonic(address: str, port: int) -> ToldTime:
    said = await four_letter_word(address, port, b"mntr")
    found = re.search(r"^zk_uptime\s+(\d+)$", said, re.MULTILINE)
    if found is None:
        raise ValueError(f"mntr does not tell the uptime: {said[:200]!r}")
    return ToldTime(int(found[1]) * _MS, _MS, "its uptime")
