"""What a member's log tells of revokes that it could not carry out: lines of real members."""

import pytest

from fencepost.harness.contract.logs import Attempt
from fencepost.systems.etcd.system import ETCD

FAILED = (
    '{"level":"warn","ts":"2026-11-22T02:10:52.705Z","caller":"etcdserver/server.go:1130",'
    '"msg":"failed to revoke lease","lease-id":"5734a2010519ee1a","error":"etcdserver: request timed out"}'
)
IGNORED = (
    '{"level":"warn","ts":"2026-11-22T02:13:00.477147Z","caller":"etcdserver/server.go:1163",'
    '"msg":"Ignore the lease revoking request because current member isn\'t a leader",'
    '"local-member-id":6795977887591028532}'
)


@pytest.mark.parametrize(
    ("line", "attempt"),
    [
        (
            FAILED,
            Attempt("revoke", "request-timed-out", key="5734a2010519ee1a", detail="etcdserver: request timed out"),
        ),
        (
            FAILED.replace("etcdserver: request timed out", "lease not found"),
            Attempt("revoke", "lease-expired", key="5734a2010519ee1a", detail="lease not found"),
        ),
        # As a number with its zeroes; a handle has none.
        (
            FAILED.replace("5734a2010519ee1a", "0034a2010519ee1a").replace("request timed out", "leader changed"),
            Attempt("revoke", "leader-changed", key="34a2010519ee1a", detail="etcdserver: leader changed"),
        ),
        (IGNORED, Attempt("revoke", "not-leader")),
        (FAILED.replace("failed to revoke lease", "revoked expired lease"), None),
        (FAILED[:-20], None),
        ("", None),
    ],
)
def test_a_line_is_an_attempt_or_nothing(line: str, attempt: Attempt | None) -> None:
    assert tuple(ETCD.logs.events([line])) == (() if attempt is None else (attempt,))
