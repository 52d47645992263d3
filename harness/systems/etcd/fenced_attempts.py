"""What a member's log tells of leases that it tried to revoke as their leader, and could not.

Where the revoke was proposed and not answered it may still be committed, by whoever leads then: "request-timed-out".
From 3.4.31 and 3.5.13 on a member asks a quorum first, and a superseded leader learns there that it is none.

Source: EtcdServer.revokeExpiredLeases (server/etcdserver/server.go) of 3.5.
"""

import json
from typing import Final

from fencepost.harness.systems.contract.fenced_attempts import Attempt
from fencepost.harness.systems.etcd.wire import errors

REVOKE: Final = "revoke"
NOT_LEADER: Final = "not-leader"

#: What the lessor says of a lease that is gone, without "etcdserver: " before it.
_GONE: Final = "lease not found"

_FAILED: Final = '"msg":"failed to revoke lease"'
_IGNORED: Final = '"msg":"Ignore the lease revoking request because current member isn\'t a leader"'


class LeaseAttempts:
    """`harness.systems.contract.fenced_attempts.AttemptReader`."""

    def read(self, line: str) -> Attempt | None:
        if _IGNORED in line:
            return Attempt(REVOKE, NOT_LEADER)
        if _FAILED not in line:
            return None
        try:
            told = json.loads(line[line.index("{") :])
            lease, why = str(told["lease-id"]), str(told["error"])
        except (ValueError, KeyError):
            return None
        code = errors.LEASE_EXPIRED if why == _GONE else errors.row_of("UNAVAILABLE", why).code
        return Attempt(REVOKE, code, key=lease.lstrip("0"), detail=why)
