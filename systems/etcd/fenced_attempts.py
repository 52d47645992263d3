"""Revokes of leases that a member tried as the leader and could not do, as its log records them.

A revoke that was proposed and not answered may still be committed by a later leader: "request-timed-out". From 3.4.31
and 3.5.13 on a member asks a quorum first, where a superseded leader learns that it leads no more.

Source: EtcdServer.revokeExpiredLeases (server/etcdserver/server.go) of 3.5.
"""

import json
import re
from typing import Final

from fencepost.harness.contract.logs import Attempt, Rows
from fencepost.systems.etcd.wire import errors

REVOKE: Final = "revoke"
NOT_LEADER: Final = "not-leader"

#: The lessor's error for a lease that is gone, without the prefix "etcdserver: ".
_GONE: Final = "lease not found"


def _failed(match: re.Match[str]) -> Attempt | None:
    line = match.string
    try:
        fields = json.loads(line[line.index("{") :])
        lease, why = str(fields["lease-id"]), str(fields["error"])
    except (ValueError, KeyError):
        return None
    code = errors.LEASE_EXPIRED if why == _GONE else errors.outcome("UNAVAILABLE", why).code
    return Attempt(REVOKE, code, key=lease.lstrip("0"), detail=why)


ATTEMPTED: Final[Rows[Attempt]] = {
    '"msg":"Ignore the lease revoking request because current member isn\'t a leader"': (
        lambda _: Attempt(REVOKE, NOT_LEADER)
    ),
    '"msg":"failed to revoke lease"': _failed,
}
