"""Which epoch an inexact claim is of, by the node's own log. The verdicts are in `tests/cases/leadership.case`."""

from typing import Any

import pytest

from fencepost.checkers.derived.reigns import reigns_of
from tests.checkers.build import Tale


def inexact(tale: Tale, asked: float, answered: float, low: int) -> None:
    tale.claim("n1", low, asked, answered, epoch_exact=False)


@pytest.mark.parametrize(
    ("lines", "epoch"),
    [
        ([(1, 100)], 1),
        ([(1, 100), (3, 3211)], 1),  # read later than the answer's end and the log's delay
        ([(1, 100), (3, 3210)], None),  # may have been written before the answer
        ([(1, 100), (3, 1999)], 3),
        ([(1, 100), (3, 2001)], None),  # within the window
        ([(3, 2100)], 3),  # its only line, read a little late
        ([(3, 3300)], None),  # too late to be of this claim
        ([], None),
    ],
)
def test_an_inexact_claim_takes_its_epoch_from_its_own_log(lines: Any, epoch: Any) -> None:
    tale = Tale()
    for number, read_at in lines:
        tale.log("n1", number, read_at)
    inexact(tale, 2000, 2210, 1)
    (sample,) = reigns_of(tale.history(), "leader").samples
    assert sample.epoch == epoch


def test_the_log_of_another_incarnation_or_node_says_nothing() -> None:
    tale = Tale()
    tale.log("n1", 2, 100, incarnation=1)
    tale.log("n2", 2, 100)
    inexact(tale, 2000, 2010, 1)
    (sample,) = reigns_of(tale.history(), "leader").samples
    assert sample.epoch is None


def test_a_lower_bound_above_the_log_makes_the_epoch_uncertain() -> None:
    tale = Tale()
    tale.log("n1", 1, 100)
    inexact(tale, 2000, 2010, 2)
    (sample,) = reigns_of(tale.history(), "leader").samples
    assert sample.epoch is None


def test_a_late_harness_may_have_read_the_log_late() -> None:
    tale = Tale()
    tale.log("n1", 1, 100)
    tale.log("n1", 3, 3500)
    tale.sample(4000, lag_ms=600)
    inexact(tale, 2000, 2010, 1)
    (sample,) = reigns_of(tale.history(), "leader").samples
    assert sample.epoch is None
