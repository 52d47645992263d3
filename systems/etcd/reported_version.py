"""The release that a member of etcd reports, by GET /version on the client port, in every release of 3.x.

Also the changes of release that etcd does not allow. An upgrade goes one minor release at a time (etcd.io/docs,
Upgrading etcd clusters and applications). A member of an older minor release than the cluster's version ends at its
start (membership's mustDetectDowngrade: "invalid downgrade"), and the cluster's version rises by itself once all
members are newer. etcd's own downgrade (`etcdctl downgrade`) is not used here.
"""

import json
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.releases import minor
from fencepost.harness.http.connection import ask as get

_SOURCE: Final = "etcd.io/docs: Upgrading etcd clusters and applications"


async def ask(address: str, port: int) -> str:
    """Ask the member for its release. Raises OSError or ValueError; the caller bounds the wait."""
    version = json.loads((await get(address, port, "/version")).body)["etcdserver"]
    if not version:
        raise ValueError("it does not report its version")
    return str(version)


def refuse_change(start: str, to: str, *, back: bool) -> Refusal | None:
    """Why members cannot change from release `start` to `to` one by one; None when they can.

    `back` says whether they return to `start` once all have changed.
    """
    old, new = minor(start), minor(to)
    if old is None or new is None or old == new:
        return None
    if new < old:
        return Refusal(
            f"a member of etcd {to} ends at its start in a cluster of {start}",
            f"choose a release of {_minor_releases(old)}",
        )
    if new[0] != old[0] or new[1] > old[1] + 1:
        return Refusal(
            f"etcd goes up one minor release at a time ({_SOURCE})",
            f"from {start} choose {_minor_releases((old[0], old[1] + 1))}",
        )
    if back:
        return Refusal(
            f"once all members run {to}, the cluster's version is {to} and a member of {start} ends at its start",
            "leave out back=yes, or choose a release of the same minor version",
        )
    return None


def _minor_releases(numbers: tuple[int, ...]) -> str:
    return f"{'.'.join(map(str, numbers))}.x"
