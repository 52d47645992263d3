"""A reign ends when the node's own log says that it resigned."""

import pytest

from fencepost.checkers import leadership
from fencepost.checkers.derived.claims import claimed_spans
from fencepost.checkers.derived.reigns import reigns_of
from fencepost.harness.history import LogEvent, Logged
from tests.checkers.build import MS, Tale, bound, facts


def _resigned(tale: Tale, node: str, after_ms: int, at_ms: int, epoch: int | None = None) -> None:
    tale.tell(
        LogEvent,
        at_ms,
        node=node,
        incarnation=0,
        change=Logged.RESIGNED,
        asked_ns=after_ms * MS,
        source="log",
        subject="leader",
        epoch=epoch,
    )


def _tale() -> Tale:
    """n1 leads epoch 1, n2 leads epoch 2 from 500 ms on; n1 is last asked at 100 ms."""
    tale = Tale()
    tale.claim("n1", 1, 100, 101)
    tale.claim("n2", 2, 499, 500)
    return tale


@pytest.mark.parametrize(("after_ms", "at_ms", "claimed"), [(900, 950, True), (450, 510, False), (200, 250, False)])
def test_a_leader_went_on_until_its_log_says_that_it_resigned(after_ms: int, at_ms: int, claimed: bool) -> None:
    tale = _tale()
    _resigned(tale, "n1", after_ms, at_ms, epoch=1)
    reigns = reigns_of(tale.history(), "leader")
    (first, _) = reigns.reigns
    assert (first.over_ns, first.until_ns) == (at_ms * MS, after_ms * MS)
    spans = claimed_spans(reigns)
    assert [(s.reign.node, s.reign.claimed, s.to_ns) for s in spans] == ([("n1", (), after_ms * MS)] if claimed else [])


def test_a_line_without_an_epoch_ends_the_last_one_that_the_log_had_begun() -> None:
    tale = _tale()
    tale.log("n1", 1, 90)
    _resigned(tale, "n1", 600, 610)
    _resigned(tale, "n2", 700, 710)
    first, second = reigns_of(tale.history(), "leader").reigns
    assert first.over_ns == 610 * MS
    # Its log never said that it led: it was another node's line, or one of a node that did not lead.
    assert second.resigned is None


def test_an_answer_after_the_resignation_is_of_no_epoch_before_it() -> None:
    tale = Tale()
    tale.log("n1", 1, 50)
    tale.claim("n1", None, 100, 101, epoch_exact=False)
    _resigned(tale, "n1", 200, 250)
    tale.claim("n1", None, 300, 301, epoch_exact=False)
    assert [s.epoch for s in reigns_of(tale.history(), "leader").samples] == [1, None]


def test_a_cut_off_leader_claimed_until_it_resigned() -> None:
    tale = _tale()
    tale.claim("n1", 1, 350, 351)
    tale.cut("n1", 400, 9000)
    tale.health(0, 9500)
    _resigned(tale, "n1", 2300, 2340, epoch=1)
    tale.deny("n1", 2400, 2401)
    verdicts = leadership.check(tale.history(), facts(leadership=bound(2000)))
    (figures,) = [v.figures for v in verdicts if "bound_ns" in v.figures]
    assert figures["running_ns_max_when_claimed"].value == 1900 * MS
