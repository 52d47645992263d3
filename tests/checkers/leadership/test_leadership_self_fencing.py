"""What a fault of disks declares excuses a leader as a pause does. The cases are in `tests/cases/leadership.case`."""

import pytest

from fencepost.checkers import leadership
from fencepost.checkers.leadership.self_fencing import GUARANTEE
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Validity, Verdict
from tests.checkers.build import Tale, bound, facts, only

#: 2000 ms, so that a claim is judged from 4000 ms of running on.
BOUND = bound(2000)


def judged(tale: Tale) -> Verdict:
    return only(leadership.check(tale.history(), facts(leadership=BOUND)), GUARANTEE)


def tale_of(claims: list[float]) -> Tale:
    """n1 leads epoch 1 until it is cut off, n2 leads epoch 2 from 1.5 s on, and n1 claims at `claims`."""
    tale = Tale()
    tale.claims("n1", 1, [100, 200], length=10)
    tale.claim("n2", 2, 1490, 1500)
    tale.claims("n1", 1, claims, length=0)
    tale.cut("n1", 1000, 9000)
    tale.health(0, 12_000)
    return tale


@pytest.mark.parametrize(
    ("kind", "validity"),
    [
        ("slow", Validity.UNKNOWN),
        ("failing", Validity.UNKNOWN),
        ("full", Validity.INVALID),  # refuses writes, and holds no thread
    ],
)
def test_a_disk_fault_that_holds_the_server_s_threads_accuses_no_more_than_a_pause(
    kind: str, validity: Validity
) -> None:
    disk, held, paused = registry.faults()["disk"], tale_of([4000, 4600, 5001]), tale_of([4000, 4600, 5001])
    held.fault("disk", ("n1",), (2000, 2001, 2500, 2501), effects=disk.effects(disk.spec("one", {"kind": kind})))
    paused.pause("n1", 2000, 2501)
    assert (judged(held).validity, judged(paused).validity) == (validity, Validity.UNKNOWN)
