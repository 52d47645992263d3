"""Session order by position: each anomaly, and the neighbour that is none."""

from typing import Any

import pytest

from fencepost.checkers.storage import sessions
from fencepost.harness.history import Outcome
from fencepost.harness.verdict import Validity, Verdict
from tests.checkers.build import Tale, facts

S = {"session": 0x10}


def judged(tale: Tale) -> Verdict:
    (verdict,) = sessions.check(tale.history(), facts())
    return verdict


def anomalies(tale: Tale) -> set[str]:
    return set(judged(tale).anomalies)


def at(position: int, value_position: int | None = None, **more: Any) -> dict[str, Any]:
    return {"position": position, "value_position": position if value_position is None else value_position, **more}


@pytest.mark.parametrize(("second", "found"), [(9, {"position-went-back"}), (10, set()), (11, set())])
def test_replies_of_a_session_never_go_back(second: int, found: set[str]) -> None:
    tale = Tale()
    tale.read("a", None, at=(1, 2), **at(10, 3, **S))
    tale.read("b", None, at=(3, 4), **at(second, 2, **S))
    assert anomalies(tale) == found


def test_sessions_are_told_apart_and_a_process_stands_for_an_unnamed_one() -> None:
    tale = Tale()
    tale.read("a", None, at=(1, 2), **at(10, 3, session=1))
    tale.read("a", None, at=(3, 4), **at(9, 3, session=2))
    tale.read("a", None, at=(5, 6), process=5, **at(10, 3))
    tale.read("a", None, at=(7, 8), process=6, **at(9, 3))
    assert anomalies(tale) == set()
    tale.read("a", None, at=(9, 10), process=5, **at(9, 3))
    assert anomalies(tale) == {"position-went-back"}


def test_a_session_sees_its_own_write() -> None:
    tale = Tale()
    tale.write("a", 1, at=(1, 2), **at(5, **S))
    tale.write("a", 2, at=(3, 4), **at(8, **S))
    tale.read("a", 1, at=(5, 6), **at(9, 5, **S))
    assert anomalies(tale) == {"value-went-back", "skipped-write"}


def test_a_read_before_its_own_write_in_position() -> None:
    tale = Tale()
    tale.write("a", 2, at=(3, 4), **at(8, **S))
    tale.read("b", None, at=(5, 6), **at(7, 1, **S))
    assert anomalies(tale) == {"position-went-back"}


@pytest.mark.parametrize(
    ("position", "seen", "found"),
    [(8, 5, {"skipped-write"}), (7, 5, set()), (8, 8, set()), (9, 5, {"skipped-write"})],
)
def test_an_answer_holds_every_write_up_to_its_position(position: int, seen: int, found: set[str]) -> None:
    tale = Tale()
    tale.write("a", 1, at=(1, 2), **at(5))
    tale.write("a", 2, at=(3, 4), **at(8))
    tale.read("a", 1 if seen == 5 else 2, at=(5, 6), node="n2", **at(position, seen))
    assert anomalies(tale) == found


def test_late_is_allowed() -> None:
    tale = Tale()
    tale.write("a", 1, at=(1, 2), **at(5))
    tale.write("a", 2, at=(3, 4), **at(8))
    tale.read("a", 1, at=(500, 501), node="n2", **at(6, 5))
    verdict = judged(tale)
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


def test_a_position_has_one_value() -> None:
    tale = Tale()
    tale.write("a", 1, at=(1, 2), **at(5))
    tale.read("a", 1, at=(3, 4), **at(6, 5))
    assert anomalies(tale) == set()
    tale.read("a", 2, at=(5, 6), **at(6, 5))
    assert anomalies(tale) == {"two-values"}


def test_two_reads_of_one_position_agree() -> None:
    tale = Tale()
    tale.write("a", 9, at=(1, 900), type=Outcome.INFO)
    tale.write("a", 8, at=(1, 900), type=Outcome.INFO)
    tale.read("a", 9, at=(3, 4), **at(6, 5))
    tale.read("a", 8, at=(5, 6), **at(6, 5))
    assert anomalies(tale) == {"two-values"}


@pytest.mark.parametrize(
    ("type", "invoked", "value", "found"),
    [
        (Outcome.INFO, 3, 2, set()),
        (Outcome.INFO, 3, 7, {"value-from-nowhere"}),  # nobody wrote it
        (Outcome.INFO, 7, 2, {"value-from-nowhere"}),  # not yet invoked
        (Outcome.FAIL, 3, 2, {"value-from-nowhere"}),  # certainly never happened
        (Outcome.OK, 3, 2, {"renumbered-write"}),  # stands elsewhere
    ],
)
def test_a_value_comes_from_a_write_that_can_have_put_it_there(
    type: Outcome, invoked: float, value: int, found: set[str]
) -> None:
    tale = Tale()
    tale.write("a", 1, at=(1, 2), **at(5))
    tale.write("a", 2, at=(invoked, 50), type=type, **(at(9) if type is Outcome.OK else {}))
    tale.read("a", value, at=(5, 6), **at(8, 8))
    assert anomalies(tale) == found


def renumbered(tale: Tale) -> None:
    """n2 numbers by two more than n1 does: the write that it acknowledged at 9 is read at 7 through n1."""
    tale.write("b", 1, at=(1, 2), node="n2", **at(9))
    tale.read("b", 1, at=(3, 4), node="n1", **at(7, 7))


def test_positions_of_servers_that_number_differently_are_not_compared() -> None:
    tale = Tale()
    renumbered(tale)
    # As n1 numbers them, 2 follows on 1: by both servers' numbers, 1 stands at 12, and 2 at 11.
    tale.write("a", 1, at=(10, 20), node="n2", **at(12))
    tale.op("cas", "a", [1, 2], at=(15, 30), node="n1", **at(11))
    tale.op("cas", "a", [2, 3], at=(25, 40), node="n2", **at(14))
    # It has the write at 12, by its own number.
    tale.read("a", 1, at=(16, 18), node="n1", **at(12, 10))
    # A session that moved from n2 to n1.
    tale.read("a", 3, at=(50, 51), node="n2", **at(14, 14, **S))
    tale.read("a", 3, at=(52, 53), node="n1", **at(12, 12, **S))
    assert anomalies(tale) == {"renumbered-write", "two-values"}


def test_what_one_server_says_is_judged_whatever_the_others_number() -> None:
    tale = Tale()
    renumbered(tale)
    tale.read("a", None, at=(5, 6), node="n1", **at(10, 3, **S))
    tale.read("c", None, at=(7, 8), node="n1", **at(9, 2, **S))
    tale.read("b", 8, at=(9, 10), node="n1", **at(12, 11))
    assert anomalies(tale) == {"renumbered-write", "position-went-back", "value-from-nowhere"}


def test_values_from_before_the_first_write_are_the_prepared_ones() -> None:
    tale = Tale()
    tale.read("a", 0, at=(1, 2), **at(4, 3))
    tale.write("a", 1, at=(3, 4), **at(5))
    assert anomalies(tale) == set()


def test_values_of_sets_are_not_judged_as_registers() -> None:
    tale = Tale()
    tale.op("add", "a", 1, at=(1, 2), **at(5))
    tale.read("a", [1], at=(3, 4), **at(5, 5))
    assert anomalies(tale) == set()


@pytest.mark.parametrize(
    ("invoked", "position", "found"),
    [
        (3, 4, {"write-order"}),
        (3, 5, {"write-order"}),
        (3, 6, set()),
        (2, 4, set()),  # overlapping: either order is right
        (2, 5, {"write-order"}),  # but not the same position
    ],
)
def test_writes_stand_in_real_time_order(invoked: float, position: int, found: set[str]) -> None:
    tale = Tale()
    tale.write("a", 1, at=(1, 2), **at(5))
    tale.write("b", 2, at=(invoked, 9), **at(position))
    assert anomalies(tale) == found


@pytest.mark.parametrize("old", [1, 2])
@pytest.mark.parametrize("unanswered", [None, 2, 3])
def test_a_compare_and_set_follows_on_the_value_it_compared_with(old: int, unanswered: int | None) -> None:
    tale = Tale()
    tale.write("a", 1, at=(1, 2), **at(5))
    if unanswered is not None:
        tale.write("a", unanswered, at=(2, 900), type=Outcome.INFO)
    tale.op("cas", "a", [old, 9], at=(3, 4), **at(7))
    explained = old == 1 or unanswered == old
    assert anomalies(tale) == (set() if explained else {"cas-on-wrong-value"})


def test_no_exposure_is_unknown() -> None:
    tale = Tale()
    tale.write("a", 1, at=(1, 2), process=4, **at(5))
    tale.read("a", 1, at=(3, 4), process=4, **at(6, 5))
    assert judged(tale).validity is Validity.UNKNOWN
    tale.read("a", 1, at=(2, 4), process=5, **at(6, 5))
    assert judged(tale).exposure == 0  # invoked at the very moment of the acknowledgement
    tale.read("a", 1, at=(5, 6), process=6, **at(6, 5))
    assert (judged(tale).exposure, judged(tale).validity) == (1, Validity.VALID)


def test_witnesses_are_few_and_name_their_events() -> None:
    tale = Tale()
    for i in range(10):
        tale.read("a", None, at=(10 * i, 10 * i + 1), **at(100 - i, 1, **S))
    verdict = judged(tale)
    assert verdict.anomalies == {"position-went-back": 9}
    assert len(verdict.witnesses) == 2
    assert verdict.witnesses[0].events == (0, 1, 2, 3)
