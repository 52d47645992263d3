"""Clocks of the lab's nodes: as root and as an ordinary user, with a /proc of its own and with the outer one."""

import pytest

from fencepost.harness.runtime.clocks.process import why_not_here
from tests.lab_scenario import User, run_scenario
from tests.runtime.lab.test_ordinary_user import user

__all__ = ["user"]

TWO_HOURS = 720

pytestmark = pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here()))


def assert_skewed(*, outer_proc: bool, user: User | None = None) -> None:
    found = run_scenario(
        "tests.runtime.clocks.clock_scenarios:skewed", {"outer_proc": outer_proc}, nodes=2, timeout_s=90, user=user
    )
    assert found == {
        "uid": 0,
        "before": 0,
        "during": TWO_HOURS,
        "other": 0,
        "failures": [],
        "reading": [2, []],
        "first_line": TWO_HOURS,
        "again": TWO_HOURS,
        "restarted": [2, []],
        "release": [],
        "after": 0,
        "wraps": 0,
    }


@pytest.mark.parametrize("outer_proc", [False, True], ids=["own /proc", "outer /proc"])
def test_a_node_is_skewed_restarted_and_healed(outer_proc: bool) -> None:
    assert_skewed(outer_proc=outer_proc)


@pytest.mark.parametrize("outer_proc", [False, True], ids=["own /proc", "outer /proc"])
def test_a_node_is_skewed_restarted_and_healed_without_any_right(user: User | None, outer_proc: bool) -> None:
    assert_skewed(outer_proc=outer_proc, user=user)
