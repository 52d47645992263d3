"""Registers: what is asked after a write whose outcome nobody knows."""

import pytest

from fencepost.harness.history import Operation, Outcome
from fencepost.workloads.register import RegisterWorkload
from tests.fakes.runs import run_fake

SETTLE_NS = 2_000_000_000
OPTIONS = {"settle": "2s", "keys": 40, "probes_per_node": 0}


def operations(seed: int) -> list[Operation]:
    return list(run_fake("register", None, seed, options=OPTIONS).operations)


@pytest.mark.parametrize("seed", range(3))
def test_a_key_with_an_unknown_write_is_read_and_not_written(seed: int) -> None:
    asked = operations(seed)
    unknown = [o for o in asked if o.type is Outcome.INFO and o.f != "read" and o.ended_ns is not None]
    assert unknown
    for write in unknown:
        since_ns = write.ended_ns or 0
        after = [o for o in asked if o.key == write.key and since_ns < o.invoked_ns < since_ns + SETTLE_NS]
        assert [o.f for o in after if o.f != "read"] == []
    reads = [o for o in asked if o.f == "read" and any(o.key == w.key for w in unknown)]
    assert len(reads) > len(unknown)


def test_by_default_nothing_waits() -> None:
    assert RegisterWorkload.options().settle == 0
