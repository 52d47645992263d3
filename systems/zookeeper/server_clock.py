"""The times that a ZooKeeper server reports: when it accepted a connection (`cons`), and its uptime (`mntr`).

`est` in `cons` is System.currentTimeMillis when the connection began (ServerCnxn.established), printed only for
connections with a session. `zk_uptime` in `mntr` is the System.nanoTime that has passed since the server began to serve
(ServerStats.getUptime).
"""

import re
from typing import Final

from fencepost.harness.contract.system import ReportedTime
from fencepost.systems.zookeeper.question import four_letter_word
from fencepost.systems.zookeeper.wire.connection import open_connection

_MS: Final = 10**6
_SESSION_MS: Final = 4000
_CONNECT_S: Final = 2.0


async def wall(address: str, port: int) -> ReportedTime:
    """Read the wall clock, with a session that is opened for it; the caller bounds the wait."""
    connection = await open_connection(
        address, port, session_timeout_ms=_SESSION_MS, connect_timeout_s=_CONNECT_S, keep_alive=False
    )
    try:
        text = await four_letter_word(address, port, b"cons")
        match = re.search(rf"sid=0x{connection.session_id:x},.*?est=(\d+)", text)
    finally:
        connection.close()
    if match is None:
        raise ValueError(f"cons does not list this session: {text[:200]!r}")
    return ReportedTime(int(match[1]) * _MS, _MS, "when it accepted a connection")


async def monotonic(address: str, port: int) -> ReportedTime:
    """Read the monotonic clock, as the time since the server began to serve; the caller bounds the wait."""
    text = await four_letter_word(address, port, b"mntr")
    match = re.search(r"^zk_uptime\s+(\d+)$", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"mntr reports no uptime: {text[:200]!r}")
    return ReportedTime(int(match[1]) * _MS, _MS, "its uptime")
