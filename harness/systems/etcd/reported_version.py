"""What release a member of etcd is, by its own word: GET /version on the port of its clients, in every release of 3.x.

And which changes of release cannot be. Up it goes one minor release at a time (etcd.io/docs, Upgrading etcd clusters
and applications). A member of an older minor release than the cluster's version ends at its start (membership's
mustDetectDowngrade: "invalid downgrade"), and that version goes up by itself once all members are newer. etcd's own way
back (`etcdctl downgrade`) is not gone here.
"""

import asyncio
import json
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.systems.contract.reported_version import minor

_SOURCE: Final = "etcd.io/docs: Upgrading etcd clusters and applications"


async def ask(address: str, port: int) -> str:
    """Raises OSError or ValueError; the caller bounds the wait."""
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(f"GET /version HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
        _, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    said = json.loads(body)["etcdserver"] if body else ""
    if not said:
        raise ValueError("it does not say its version")
    return str(said)


def refuse_change(start: str, to: str, *, back: bool) -> Refusal | None:
    """Why members cannot be changed so, one by one; None where they can."""
    old, new = minor(start), minor(to)
    if old is None or new is None or old == new:
        return None
    if new < old:
        return Refusal(
            f"a member of etcd {to} ends at its start in a cluster of {start}", f"choose a release of {_line(old)}"
        )
    if new[0] != old[0] or new[1] > old[1] + 1:
        return Refusal(
            f"etcd goes up one minor release at a time ({_SOURCE})",
            f"from {start} choose {_line((old[0], old[1] + 1))}",
        )
    if back:
        return Refusal(
            f"once all members are {to} the cluster's version is, and one of {start} ends at its start",
            "leave out back=yes, or choose a release of the same minor version",
        )
    return None


def _line(numbers: tuple[int, ...]) -> str:
    return f"{'.'.join(map(str, numbers))}.x"
