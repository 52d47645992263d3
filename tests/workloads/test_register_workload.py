"""Registers: what is asked after a write whose outcome nobody knows, and values of many sizes."""

import pytest

from fencepost.harness.history import Operation, Outcome
from fencepost.harness.plugins.workload import padded, unpadded
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


def test_values_are_filled_up_to_sizes_that_differ_and_told_as_numbers() -> None:
    assert [len(padded(number, 1024)) for number in range(1000, 1009)] == [*(1024 >> n for n in range(8)), 1024]
    assert padded(7, 0) == b"7" and unpadded(padded(7, 9000), 9000) == 7 and unpadded(b"7 ", 9000) == -7
    done = [o for o in run_fake("register", None, 1, options={"value_bytes": 4096}).operations if o.type is Outcome.OK]
    assert {type(o.value) for o in done if o.f == "read"} <= {int, type(None)} and any(o.f == "cas" for o in done)
