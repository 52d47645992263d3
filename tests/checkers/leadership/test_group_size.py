"""The size of a group and its quorum, as each node answers."""

import pytest

from fencepost.checkers import leadership
from fencepost.checkers.leadership import GROUP_SIZE, NO_MAJORITY, OTHER_SIZE
from fencepost.harness.history import Claim, Effects
from fencepost.harness.verdict import Guarantee, Standing, Validity, Verdict
from tests.checkers.build import Tale, facts

STATED = Guarantee(name=GROUP_SIZE, standing=Standing.PROMISED, text="", source="")


def tale(*said: tuple[str, int, str]) -> Tale:
    """n1 leads 2 of 3; then nodes answer: name, number of the start, and what they say of the size."""
    told = Tale()
    told.belief("n1", Claim.YES, 100, 101, epoch=1, detail="2 of 3")
    for at, (node, incarnation, detail) in enumerate(said, start=1):
        told.belief(node, Claim.NO, 1000 * at, 1000 * at + 1, epoch=1, detail=detail, incarnation=incarnation)
    return told


def judged(told: Tale) -> list[Verdict]:
    return [v for v in leadership.check(told.history(), facts(guarantees=(STATED,))) if v.guarantee == GROUP_SIZE]


@pytest.mark.parametrize(
    ("detail", "anomaly"), [("1 of 1", OTHER_SIZE), ("3 of 5", OTHER_SIZE), ("1 of 3", NO_MAJORITY)]
)
def test_a_server_that_comes_back_with_another_group_is_told(detail: str, anomaly: str) -> None:
    (verdict,) = judged(tale(("n2", 0, "2 of 3"), ("n2", 1, detail), ("n2", 1, detail)))
    assert verdict.validity is Validity.INVALID and verdict.anomalies == {anomaly: 1}
    assert detail in verdict.witnesses[0].steps[1]


def test_a_server_that_comes_back_to_its_group_puts_it_to_the_test() -> None:
    (verdict,) = judged(tale(("n2", 1, "2 of 3"), ("n3", 1, "no replica here"), ("n3", 2, "2 of 3")))
    assert verdict.validity is Validity.VALID and verdict.exposure == 2


def test_without_a_restart_nothing_was_tested() -> None:
    (verdict,) = judged(tale(("n2", 0, "2 of 3")))
    assert verdict.validity is Validity.UNKNOWN and verdict.exposure == 0


def test_nothing_is_said_where_nobody_tells_a_size_or_the_system_states_nothing() -> None:
    assert not [v for v in leadership.check(tale().history(), facts()) if v.guarantee == GROUP_SIZE]
    silent = Tale()
    silent.belief("n1", Claim.YES, 100, 101, epoch=1)
    assert judged(silent) == []


def test_nothing_is_tested_while_a_fault_changes_members() -> None:
    told = tale(("n2", 1, "1 of 1"))
    told.fault("membership", ("n2",), (200, 210, 1500, 1510), effects=Effects(changes_members=True))
    (verdict,) = judged(told)
    assert verdict.validity is Validity.UNKNOWN and verdict.exposure == 0


def changed(*said: tuple[float, str, str]) -> Tale:
    """n1 leads 2 of 3, from 1 s to 11 s it leads 3 of 5; the others answer at these times in ms."""
    told = Tale()
    told.belief("n1", Claim.YES, 100, 101, epoch=1, detail="2 of 3")
    told.fault("reassign", ("n1",), (1000, 1100, 11000, 11100), effects=Effects(changes_members=True))
    for at in (1200, 3200, 10900):
        told.belief("n1", Claim.YES, at, at + 1, epoch=1, detail="3 of 5")
    for at in (11200, 13200):
        told.belief("n1", Claim.YES, at, at + 1, epoch=1, detail="2 of 3")
    for at_ms, node, detail in said:
        told.belief(node, Claim.NO, at_ms, at_ms + 1, epoch=1, detail=detail)
    return told


def test_a_member_that_does_not_learn_of_the_others_is_told() -> None:
    (verdict,) = judged(changed((3300, "n4", "2 of 3"), (3300, "n5", "3 of 5"), (13300, "n2", "2 of 3")))
    assert verdict.validity is Validity.INVALID and verdict.anomalies == {OTHER_SIZE: 1}
    assert "members had been changed at least 2 s before" in verdict.witnesses[0].steps[2]


def test_a_member_may_learn_of_a_change_a_little_later() -> None:
    (verdict,) = judged(changed((1500, "n4", "2 of 3"), (3300, "n4", "3 of 5"), (11300, "n4", "3 of 5")))
    assert verdict.validity is Validity.VALID and verdict.exposure == 1


def test_a_member_that_another_fault_may_have_kept_from_learning_is_not_judged() -> None:
    told = changed((3300, "n4", "2 of 3"))
    told.fault("partition", ("n4",), (900, 1000, 1150, 1160), effects=Effects(cuts=True))
    (verdict,) = judged(told)
    assert verdict.validity is Validity.UNKNOWN and verdict.exposure == 0
