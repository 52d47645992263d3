"""Leases: every violation and every near miss, by constructed histories."""

import sys
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from fencepost.checkers import leases
from fencepost.checkers.leases import findings, leading
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import AttemptEvent, Clock, ClockEvent, History, NodeChange, Outcome, PhaseName
from fencepost.harness.verdict import Facts, LeaseBound, Validity, Verdict
from tests.checkers import build
from tests.checkers.build import MS, Tale, only
from tests.seeds import WHOLE_HISTORIES

GUARANTEES = leases.LIVES, leases.COUNTS, leases.ENDS, leases.STAYS, leases.NO_DEAD
At = tuple[float, float | None]


def facts(**changes: Any) -> Facts:
    """A bound of one second after the time to live."""
    given: dict[str, Any] = {
        "workload": "lease",
        "subjects": ("leader",),
        "leases": LeaseBound(extra_ns=1000 * MS, source="a test", clocks=(Clock.MONOTONIC,)),
    }
    return build.facts(**{**given, **changes})


class Story(Tale):
    """One lease of three seconds, granted at 100 ms and attached at position 10 by 200 ms, in epoch 1."""

    def __init__(self) -> None:
        super().__init__()
        self.claim("n1", 1, 0, 1)
        self.op("grant", "lease-1", at=(90, 100), result=["abc", 3000], position=9, epoch=1)
        self.op("attach", "lease-1", "abc", at=(190, 200), position=10, value_position=10, epoch=1)

    def keep(self, at: At, *, ttl_ms: int = 3000, **more: Any) -> None:
        stamps: dict[str, Any] = {"epoch": 1, "position": 10, **more}
        self.op("keep", "lease-1", "abc", at=at, result=ttl_ms, **stamps)

    def revoke(self, at: At, **more: Any) -> None:
        self.op("revoke", "lease-1", "abc", at=at, **{"position": 20, **more})

    def look(self, there: bool, at: At, *, position: int | None = 10, mode: str = "strong", **more: Any) -> None:
        self.op("look", "bound", mode, at=at, result=[1] if there else [], position=position, **more)

    def judged(self, **changes: Any) -> list[Verdict]:
        self.write("end", 0, at=(60_000, 60_001))
        return leases.check(self.history(), facts(**changes))


def anomalies(verdicts: list[Verdict]) -> dict[str, int]:
    return {name: count for verdict in verdicts for name, count in verdict.anomalies.items()}


# Alive


def test_a_key_that_vanishes_after_an_answered_keep_alive_was_revoked_while_it_lived() -> None:
    story = Story()
    story.keep((1000, 1010), node="n2")
    story.look(True, (1500, 1510), node="n3")
    story.look(False, (1600, 1610), position=11, node="n2")
    verdicts = story.judged()
    assert anomalies(verdicts) == {findings.REVOKED: 1}
    verdict = only(verdicts, leases.LIVES)
    (witness,) = verdict.witnesses
    assert (witness.from_ns, witness.to_ns) == (1500 * MS, 1610 * MS)
    assert witness.key == "lease-1"
    assert "until 4.000000 s at least" in witness.steps[1]
    assert "position 10" in witness.steps[2]
    assert "position 11" in witness.steps[3]
    assert "2.4 s before the lease could end" in witness.steps[3]
    assert witness.steps[4] == (
        "So its end took effect between 1.500000 s and 1.610000 s, at a position after 10 and not after 11."
    )
    # The proof is of few rows: grant, attach, the keep-alive, the last look with it, the first one without.
    assert len(witness.events) == 10
    assert verdict.evidence[f"anomalies.{findings.REVOKED}"] == (witness.events[-1],)


@pytest.mark.parametrize(
    ("gone", "found"),
    [
        # The keep-alive may have been served as soon as it was sent, so three seconds from there.
        ((3900, 3999), {findings.REVOKED: 1}),
        ((3900, 4000), {}),
        ((4500, 4600), {}),
    ],
)
def test_a_lease_lives_for_its_time_after_the_last_keep_alive_was_sent(gone: At, found: dict[str, int]) -> None:
    story = Story()
    story.keep((1000, 1500))
    story.look(True, (2000, 2010))
    story.look(False, gone, position=11)
    assert anomalies(story.judged()) == found


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.INFO])
def test_a_keep_alive_that_was_not_answered_promises_nothing(outcome: Outcome) -> None:
    story = Story()
    story.keep((1000, 1010), type=outcome)
    story.look(True, (3000, 3010))
    story.look(False, (3500, 3510), position=11)
    assert anomalies(story.judged()) == {}


def test_each_answer_promises_as_long_as_it_says() -> None:
    story = Story()
    story.keep((1000, 1010), ttl_ms=500)
    story.look(True, (3000, 3010))
    story.look(False, (3200, 3210), position=11)
    assert anomalies(story.judged()) == {}
    longer = Story()
    longer.keep((1000, 1010), ttl_ms=9000)
    longer.look(True, (3000, 3010))
    longer.look(False, (9000, 9010), position=11)
    assert anomalies(longer.judged()) == {findings.REVOKED: 1}


def test_what_was_seen_after_the_end_does_not_move_the_end() -> None:
    story = Story()
    story.clock("n3", Clock.MONOTONIC, (1200, 1210), rate=1.0)
    story.look(False, (1500, 1510), position=11)
    story.look(True, (1600, 1610), position=12)
    verdicts = story.judged()
    assert anomalies(verdicts) == {findings.REVOKED: 1, findings.BACK: 1}
    clock = next(e.index for e in story.history().events if type(e) is ClockEvent)
    assert clock in only(verdicts, leases.LIVES).witnesses[0].events, "it may have ended since it was attached"


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.INFO])
def test_who_was_asked_to_revoke_may_from_then_on(outcome: Outcome) -> None:
    story = Story()
    story.keep((1000, 1010))
    story.revoke((1400, 1700), type=outcome)
    story.look(True, (1450, 1460))
    story.look(False, (1500, 1510), position=11)
    assert anomalies(story.judged()) == {}


def test_a_revoke_that_was_refused_excuses_nobody() -> None:
    story = Story()
    story.keep((1000, 1010))
    story.revoke((1400, 1410), type=Outcome.FAIL, error="not-connected")
    story.look(True, (1450, 1460))
    story.look(False, (1500, 1510), position=11)
    assert anomalies(story.judged()) == {findings.REVOKED: 1}


def test_a_key_that_was_gone_before_anybody_asked_to_revoke_was_revoked_by_a_server() -> None:
    story = Story()
    story.look(False, (1000, 1010), position=11)
    story.revoke((1400, 1410), type=Outcome.FAIL, error="lease-expired")
    assert anomalies(story.judged()) == {findings.REVOKED: 1}


def test_a_look_from_before_the_key_was_attached_says_nothing() -> None:
    story = Story()
    story.look(False, (150, 205), position=9)
    story.look(False, (210, 220), position=9, mode="plain", node="n3")
    story.look(True, (300, 310))
    assert anomalies(story.judged()) == {}


def test_an_old_state_that_is_passed_off_as_the_current_one_is_no_end() -> None:
    """That is for those to judge who judge reads."""
    story = Story()
    story.keep((1000, 1010))
    story.look(False, (1500, 1510), position=9)
    story.look(True, (1600, 1610))
    assert anomalies(story.judged()) == {}


def test_a_plain_look_proves_the_end_where_its_position_says_that_it_saw_a_later_state() -> None:
    story = Story()
    story.keep((1000, 1010))
    story.look(False, (1500, 1510), position=11, mode="plain", node="n3")
    assert anomalies(story.judged()) == {findings.REVOKED: 1}
    unplaced = Story()
    unplaced.keep((1000, 1010))
    unplaced.look(False, (1500, 1510), position=None, mode="plain", node="n3")
    assert anomalies(unplaced.judged()) == {}


def test_without_positions_a_current_look_counts_by_time() -> None:
    story = Tale()
    story.op("grant", "lease-1", at=(90, 100), result=["abc", 3000])
    story.op("attach", "lease-1", "abc", at=(190, 200))
    story.op("look", "bound", "barrier", at=(300, 310), result=[])
    verdicts = leases.check(story.history(), facts())
    assert anomalies(verdicts) == {findings.REVOKED: 1}


def test_an_attachment_of_unknown_outcome_counts_once_the_key_was_seen() -> None:
    def told(seen: bool) -> dict[str, int]:
        story = Tale()
        story.op("grant", "lease-1", at=(90, 100), result=["abc", 3000])
        story.op("attach", "lease-1", "abc", at=(190, 1000), type=Outcome.INFO)
        if seen:
            story.op("look", "bound", "strong", at=(300, 310), result=[1], position=10)
        story.op("look", "bound", "strong", at=(400, 410), result=[], position=11)
        return anomalies(leases.check(story.history(), facts()))

    assert told(seen=True) == {findings.REVOKED: 1}
    assert told(seen=False) == {}


def test_a_look_at_a_node_s_own_copy_tells_no_time_at_which_the_key_was_there() -> None:
    story = Tale()
    story.op("grant", "lease-1", at=(90, 100), result=["abc", 3000])
    story.op("attach", "lease-1", "abc", at=(190, 1000), type=Outcome.INFO)
    story.op("look", "bound", "plain", at=(300, 310), result=[1])
    story.op("look", "bound", "strong", at=(400, 410), result=[])
    assert anomalies(leases.check(story.history(), facts())) == {}


# Clocks


def test_a_node_whose_clock_is_fast_ends_it_early_by_right() -> None:
    def told(**change: Any) -> dict[str, int]:
        story = Story()
        story.clock("n3", Clock.MONOTONIC, (500, 510), **change)
        story.keep((1000, 1010))
        story.look(True, (2000, 2010))
        story.look(False, (2600, 2610), position=11)
        return anomalies(story.judged())

    assert told(rate=1.0) == {findings.REVOKED: 1}
    assert told(rate=2.0) == {}
    assert told(certain=False) == {}
    # By these of the nodes' clocks leases are not counted.
    wall = Story()
    wall.clock("n3", Clock.WALL, (500, 510), rate=2.0)
    wall.keep((1000, 1010))
    wall.look(False, (2600, 2610), position=11)
    assert anomalies(wall.judged()) == {findings.REVOKED: 1}


def test_a_node_whose_clock_is_slow_may_let_it_live_for_longer() -> None:
    def told(rate: float) -> dict[str, int]:
        story = Story()
        story.clock("n2", Clock.MONOTONIC, (500, 510), rate=rate)
        story.look(True, (6000, 6010))
        return anomalies(story.judged())

    assert told(1.0) == {findings.OUTLIVED: 1}
    assert told(0.5) == {}


# Superseded leaders


def superseded(story: Story, *, until_ms: float = 5000) -> None:
    """n2 leads epoch 2 from 2 s on; n1 goes on claiming epoch 1 until then."""
    story.claims("n1", 1, [1000, 2000, 3000, 4000, *([until_ms] if until_ms > 4000 else [])])
    story.log("n2", 2, 2000)
    story.claims("n2", 2, [2100, 3000, 5000])


def test_a_live_lease_that_a_superseded_leader_revokes_is_told_with_who_led() -> None:
    story = Story()
    superseded(story)
    story.keep((4000, 4010), node="n2", epoch=2)
    story.look(True, (5000, 5010), node="n2")
    story.look(False, (5100, 5110), position=11, node="n3")
    story.tell(
        AttemptEvent, 5200, node="n1", f="revoke", error="request-timed-out", source="n1's log", key="abc", detail="x"
    )
    verdict = only(story.judged(), leases.LIVES)
    assert verdict.anomalies == {findings.REVOKED: 1}
    assert verdict.figures.plain()["revoked_under_superseded_leader"] == 1
    assert "its own log names 1" in verdict.reason
    steps = verdict.witnesses[0].steps
    assert steps[-3].startswith("n1 led epoch 1. Epoch 2 had begun by 2.000000 s: n2's log said")
    assert "still claimed to lead 3.0 s later" in steps[-3]
    assert "request-timed-out" in steps[-2]
    assert steps[-1] == leading.ASKED
    assert verdict.witnesses[0].nodes[0] == "n1"


def test_without_a_word_of_its_log_a_superseded_leader_is_only_suspected() -> None:
    def last_steps(**about: Any) -> tuple[int, str]:
        story = Story()
        superseded(story)
        story.keep((4000, 4010), node="n2", epoch=2)
        story.look(True, (5000, 5010), node="n2")
        story.look(False, (5100, 5110), position=11, node="n3")
        if about:
            given = {"node": "n1", "f": "revoke", "error": "request-timed-out", "source": "a log", "key": "abc"}
            story.tell(AttemptEvent, 5200, **{**given, **about})
        verdict = only(story.judged(), leases.LIVES)
        return verdict.figures.plain()["revoked_under_superseded_leader"], verdict.witnesses[0].steps[-1]

    suspected = (1, "Who asked for the end of the lease is not known; n1 may have.")
    asked = (1, leading.ASKED)
    assert last_steps() == suspected
    assert last_steps(node="n3") == suspected
    # It asked whether it leads, and was told that it does not.
    assert last_steps(error="not-leader") == suspected
    assert last_steps(node="n1") == asked
    # A revoke that is carried out leaves no line; those of the same queue that are not, do.
    assert last_steps(key="another", error="lease-expired") == asked


@pytest.mark.parametrize(
    ("stopped", "woken"),
    [
        # From before it was superseded until just before the key vanished.
        ((1500, 5050), True),
        ((1500, 4000), True),
        # It ran when it was superseded, or has run for long, or ran again only later.
        ((2500, 5050), False),
        ((1500, 5200), False),
    ],
)
def test_a_leader_that_was_stopped_and_superseded_and_has_just_woken_is_suspected(
    stopped: tuple[float, float], woken: bool
) -> None:
    story = Story()
    story.claims("n1", 1, [500, 1000])
    story.log("n2", 2, 2000)
    story.claims("n2", 2, [2100, 3000, 5000])
    story.pause("n1", *stopped)
    story.keep((4000, 4010), node="n2", epoch=2)
    story.look(True, (5000, 5010), node="n2")
    story.look(False, (5100, 5110), position=11, node="n3")
    verdict = only(story.judged(), leases.LIVES)
    assert verdict.anomalies == {findings.REVOKED: 1}
    assert verdict.figures.plain()["revoked_under_superseded_leader"] == int(woken)
    steps = " ".join(verdict.witnesses[0].steps)
    assert ("had been stopped at 1.500000 s, as its leader" in steps) == woken


@pytest.mark.parametrize("read_ms", [5200, 20_109, 20_111])
def test_a_line_about_the_lease_that_is_read_long_after_it_is_not_of_its_end(read_ms: float) -> None:
    story = Story()
    superseded(story)
    story.keep((4000, 4010), node="n2", epoch=2)
    story.look(True, (5000, 5010), node="n2")
    story.look(False, (5100, 5110), position=11, node="n3")
    story.tell(AttemptEvent, read_ms, node="n1", f="revoke", error="timeout", source="a log", key="abc")
    steps = only(story.judged(), leases.LIVES).witnesses[0].steps
    assert (steps[-1] == leading.ASKED) == (read_ms <= 20_110)


def _suspects(story: Story, at_ms: float, *, epoch: int = 2) -> int:
    """How many findings are laid at a superseded leader's door, of one at `at_ms`."""
    story.keep((at_ms - 1000, at_ms - 990), node="n3", epoch=epoch)
    story.look(True, (at_ms - 100, at_ms - 90), node="n2")
    story.look(False, (at_ms, at_ms + 10), position=11, node="n3")
    verdict = only(story.judged(), leases.LIVES)
    assert verdict.anomalies == {findings.REVOKED: 1}
    return int(verdict.figures.plain()["revoked_under_superseded_leader"])


def test_whoever_was_superseded_only_later_or_has_long_been_silent_is_not_suspected() -> None:
    later = Story()
    later.claims("n1", 1, [1000, 4900])
    later.log("n2", 2, 8000)
    later.claims("n1", 1, [9000])
    assert _suspects(later, 5100, epoch=1) == 0
    for at_ms, suspected in ((5100, 1), (14_900, 1), (15_200, 0)):
        silent = Story()
        superseded(silent)
        assert _suspects(silent, at_ms) == suspected, at_ms


@pytest.mark.parametrize(("denied", "at_ms", "suspected"), [(False, 5100, 1), (True, 5100, 0), (False, 15_100, 0)])
def test_a_stopped_node_is_suspected_only_soon_after_and_if_it_led_then(
    denied: bool, at_ms: float, suspected: int
) -> None:
    story = Story()
    story.claims("n1", 1, [500, 1000])
    if denied:
        story.deny("n1", 1200, 1210)
    story.log("n2", 2, 2000)
    story.claims("n2", 2, [2100, 3000, 5000])
    story.pause("n1", 1500, 4900)
    assert _suspects(story, at_ms) == suspected


def test_where_nobody_outlived_an_epoch_nobody_is_suspected() -> None:
    story = Story()
    story.keep((4000, 4010))
    story.look(True, (4100, 4110))
    story.look(False, (5100, 5110), position=11, node="n3")
    verdict = only(story.judged(), leases.LIVES)
    assert verdict.figures.plain()["revoked_under_superseded_leader"] == 0
    assert verdict.witnesses[0].steps[-2].endswith("and nobody had asked to revoke it.")


def test_a_keep_alive_that_only_a_superseded_leader_heard_was_in_vain() -> None:
    story = Story()
    superseded(story)
    story.keep((4000, 4010), node="n1", epoch=1)
    story.look(True, (5000, 5010), node="n2")
    story.look(False, (5100, 5110), position=11, node="n3")
    verdicts = story.judged()
    assert anomalies(verdicts) == {findings.IN_VAIN: 1}
    verdict = only(verdicts, leases.COUNTS)
    assert verdict.exposure == 1
    assert "Epoch 2 had begun by 2.000000 s" in verdict.witnesses[0].steps[5]
    assert only(verdicts, leases.LIVES).validity is not Validity.INVALID


@pytest.mark.parametrize(("answered_ms", "doubts"), [(990, 0), (1010, 1)])
def test_what_was_answered_just_before_a_log_named_the_next_epoch_is_in_doubt(answered_ms: float, doubts: int) -> None:
    story = Story()
    superseded(story)
    story.keep((950, answered_ms), epoch=1)
    story.look(True, (1500, 1510), node="n2")
    assert only(story.judged(), leases.COUNTS).exposure == doubts


@pytest.mark.parametrize(
    ("look", "mode", "chances"),
    [
        ((1500, 1510), "strong", 1),
        ((1500, 1510), "plain", 0),  # a copy may lag
        ((1000, 1020), "strong", 0),  # asked for before the answer
        ((3940, 3951), "strong", 0),  # by then it may have ended by right
        (None, "", 0),
    ],
)
def test_a_doubtful_keep_alive_is_a_chance_if_its_key_was_looked_for(look: Any, mode: str, chances: int) -> None:
    story = Story()
    superseded(story)
    story.keep((950, 1010), epoch=1)
    if look is not None:
        story.look(True, look, mode=mode, node="n2")
    verdict = only(story.judged(), leases.COUNTS)
    (rule,) = verdict.rules
    assert (rule.name, rule.chances, verdict.exposure) == (findings.IN_VAIN, chances, chances)
    assert bool(rule.lacks) is (chances == 0) is (verdict.validity is Validity.UNKNOWN)


def test_without_a_stamp_the_epoch_that_the_node_last_named_tells_who_may_have_answered() -> None:
    def told(node: str) -> dict[str, int]:
        story = Story()
        superseded(story)
        story.keep((4500, 4510), node=node, epoch=None)
        story.look(True, (5000, 5010), node="n2")
        story.look(False, (5100, 5110), position=11, node="n3")
        return anomalies(story.judged())

    assert told("n1") == {findings.IN_VAIN: 1}
    assert told("n2") == {findings.REVOKED: 1}


# Over


def test_a_key_that_is_seen_after_the_bound_outlived_its_lease() -> None:
    def told(at_ms: float) -> list[Verdict]:
        story = Story()
        story.keep((1000, 1010))
        story.look(True, (at_ms, at_ms + 10))
        return story.judged()

    # 3 s to live and 1 s of the bound, counted from the answer.
    assert anomalies(told(5010)) == {}
    late = told(5011)
    assert anomalies(late) == {findings.OUTLIVED: 1}
    assert only(late, leases.ENDS).exposure == 1
    assert only(told(5010), leases.ENDS).exposure == 0


def test_a_lease_is_over_by_the_longest_time_to_live_that_was_answered() -> None:
    for at_ms, found in ((6000, {}), (11_010, {}), (11_011, {findings.OUTLIVED: 1})):
        story = Story()
        story.keep((1000, 1010), ttl_ms=9000)
        story.look(True, (at_ms, at_ms + 10))
        assert anomalies(story.judged()) == found, at_ms


def test_what_may_have_renewed_it_at_any_time_keeps_it_from_being_over() -> None:
    story = Story()
    story.keep((1000, 1200), type=Outcome.INFO, error="timeout")
    story.look(True, (9000, 9010))
    assert anomalies(story.judged()) == {}
    refused = Story()
    refused.keep((1000, 1200), type=Outcome.FAIL, error="not-connected")
    refused.look(True, (9000, 9010))
    assert anomalies(refused.judged()) == {findings.OUTLIVED: 1}


@pytest.mark.parametrize("mode", ["plain", "sync"])
def test_a_look_that_may_be_old_proves_no_life(mode: str) -> None:
    story = Story()
    story.look(True, (9000, 9010), mode=mode)
    assert anomalies(story.judged()) == {}


def test_after_whatever_disturbed_the_cluster_the_bound_counts_anew() -> None:
    def told(disturb: Any, at_ms: float) -> dict[str, int]:
        story = Story()
        disturb(story)
        story.look(True, (at_ms, at_ms + 10))
        return anomalies(story.judged())

    def fault(story: Story) -> None:
        story.fault("partition", ("n1",), (2000, 2100, 4000, 4100))

    def election(story: Story) -> None:
        story.log("n2", 2, 4100)

    def claim(story: Story) -> None:
        story.claim("n2", 2, 4050, 4100)

    def restart(story: Story) -> None:
        story.node("n3", NodeChange.STARTED, 4100, incarnation=1)

    for disturb in (fault, election, claim, restart):
        assert told(disturb, 8100) == {}, disturb.__name__
        assert told(disturb, 8101) == {findings.OUTLIVED: 1}, disturb.__name__
    assert told(lambda story: story.fault("partition", ("n1",), (2000, 2100, None, None)), 50_000) == {}


def test_a_stopped_node_counts_nothing() -> None:
    story = Story()
    story.pause("n2", 1000, 1500)
    story.look(True, (5400, 5410))
    # The pause counts as a disturbance first of all.
    assert anomalies(story.judged()) == {}


def test_a_key_that_is_seen_after_its_end_came_back() -> None:
    story = Story()
    story.look(False, (4000, 4010), position=11)
    story.look(True, (4100, 4110), position=12)
    assert anomalies(story.judged()) == {findings.BACK: 1}
    concurrent = Story()
    concurrent.look(False, (4000, 4010), position=11)
    concurrent.look(True, (4005, 4110))
    assert anomalies(concurrent.judged()) == {}


def test_a_key_that_is_seen_after_an_acknowledged_revoke_came_back() -> None:
    story = Story()
    story.revoke((1000, 1010))
    story.look(True, (1020, 1030))
    assert anomalies(story.judged()) == {findings.BACK: 1}
    for outcome in (Outcome.INFO, Outcome.FAIL):
        unknown = Story()
        unknown.revoke((1000, 1010), type=outcome)
        unknown.look(True, (1020, 1030))
        assert anomalies(unknown.judged()) == {}


def test_what_comes_after_an_acknowledged_revoke_came_back_though_a_look_shows_the_end_later() -> None:
    story = Story()
    story.revoke((1000, 1010))
    story.look(True, (1020, 1030), position=21)
    story.look(False, (1100, 1110), position=22)
    verdicts = story.judged()
    assert anomalies(verdicts) == {findings.BACK: 1}
    # Somebody asked for the end: how soon it came says nothing of the lease's time.
    assert "gone_after_last_answer_ns_max" not in only(verdicts, leases.LIVES).figures.plain()


def test_only_what_could_have_shown_a_violation_counts_as_exposure() -> None:
    story = Story()
    story.look(True, (195, 205))
    story.look(False, (4000, 4010), position=11)
    story.look(False, (4100, 4110), position=11, mode="plain")
    story.keep((4200, 4210), type=Outcome.FAIL, error="not-connected")
    verdicts = story.judged()
    exposures = {v.guarantee: v.exposure for v in verdicts}
    assert (exposures[leases.LIVES], exposures[leases.STAYS], exposures[leases.NO_DEAD]) == (0, 0, 0)


def test_a_keep_alive_that_is_answered_after_the_end_is_one_of_the_dead() -> None:
    story = Story()
    story.look(False, (4000, 4010), position=11)
    story.keep((4100, 4110))
    verdicts = story.judged()
    assert anomalies(verdicts) == {findings.DEAD: 1}
    assert only(verdicts, leases.NO_DEAD).exposure == 1
    refused = Story()
    refused.look(False, (4000, 4010), position=11)
    refused.keep((4100, 4110), type=Outcome.FAIL, error="lease-expired")
    verdicts = refused.judged()
    assert anomalies(verdicts) == {}
    assert only(verdicts, leases.NO_DEAD).exposure == 1


def test_a_keep_alive_after_an_acknowledged_revoke_is_one_of_the_dead_but_not_one_beside_it() -> None:
    after = Story()
    after.revoke((1000, 1010))
    after.keep((1011, 1020))
    assert anomalies(after.judged()) == {findings.DEAD: 1}
    beside = Story()
    beside.revoke((1000, 1010))
    beside.keep((1005, 1020))
    assert anomalies(beside.judged()) == {}


def test_a_keep_alive_of_what_may_have_ended_by_right_before_it_is_one_of_the_dead() -> None:
    """It ended between 3.1 s, by right, and 3.5 s; one that was sent in between cannot have been served alive."""
    story = Story()
    story.look(True, (3000, 3010))
    story.keep((3300, 3310))
    story.look(False, (3490, 3500), position=11)
    verdicts = story.judged()
    assert anomalies(verdicts) == {findings.DEAD: 1}
    # Where it was alive for certain until then, it was the end that was wrong.
    kept = Story()
    kept.keep((2000, 2010))
    kept.look(True, (3000, 3010))
    kept.keep((3300, 3310))
    kept.look(False, (3490, 3500), position=11)
    assert anomalies(kept.judged()) == {findings.REVOKED: 1}


# What can be said at all


def test_what_was_not_put_to_the_test_is_unknown() -> None:
    verdicts = leases.check(Tale().history(), facts())
    assert {v.guarantee: v.validity for v in verdicts} == dict.fromkeys(GUARANTEES, Validity.UNKNOWN)
    story = Story()
    story.keep((1000, 1010))
    story.look(True, (1500, 1510))
    verdicts = story.judged()
    lives = only(verdicts, leases.LIVES)
    assert (lives.validity, lives.exposure) == (Validity.VALID, 1)
    assert lives.evidence["exposure"]
    assert only(verdicts, leases.ENDS).validity is Validity.UNKNOWN


def test_where_nobody_says_when_a_lease_is_over_nothing_is_called_late() -> None:
    story = Story()
    story.look(True, (50_000, 50_010))
    verdicts = story.judged(leases=None)
    assert anomalies(verdicts) == {}
    assert only(verdicts, leases.ENDS).validity is Validity.UNKNOWN
    assert "does not say" in only(verdicts, leases.ENDS).reason


def test_the_figures_have_their_rows() -> None:
    story = Story()
    story.phase(PhaseName.MAIN, 0)
    story.keep((1000, 1010), node="n2")
    story.keep((1100, 1110), type=Outcome.FAIL, error="not-connected")
    story.claim("n2", 2, 2000, 2010)
    story.look(True, (2500, 2510))
    story.look(False, (4500, 4510), position=11)
    verdict = only(story.judged(), leases.LIVES)
    figures = verdict.figures.plain()
    assert (figures["grant_ok"], figures["attach_ok"], figures["keep_ok"], figures["keep_fail"]) == (1, 1, 1, 1)
    assert (figures["kept_through_other_nodes"], figures["alive_across_elections"], figures["seen_gone"]) == (1, 1, 1)
    assert figures["gone_after_last_answer_ns_max"] == 3500 * MS
    for name, value in figures.items():
        rows = verdict.evidence[name]
        assert len(rows) == (2 if name.startswith("gone_after") else value), name


@pytest.mark.parametrize(
    ("f", "result"),
    [("look", "x"), ("look", [1, "2"])],
)
def test_answers_of_another_form_are_named(f: str, result: Any) -> None:
    story = Tale()
    story.op(f, "bound", "strong", at=(1, 2), result=result)
    with pytest.raises(MalformedHistory, match="list of numbers"):
        leases.check(story.history(), facts())


def test_a_number_that_is_granted_twice_is_named() -> None:
    story = Story()
    story.op("grant", "lease-1", at=(300, 310), result=["def", 3000])
    with pytest.raises(MalformedHistory, match="lease 1 was granted before"):
        leases.check(story.history(), facts())


def test_a_look_that_was_answered_before_the_key_was_asked_for_shows_no_end() -> None:
    story = Story()
    story.look(False, (150, 180), position=12)
    story.look(True, (300, 310), position=12)
    assert anomalies(story.judged()) == {}


def test_the_cost_grows_with_the_keys_that_looks_showed_not_with_leases_times_looks() -> None:
    """Leases that follow each other: ten times as many leases and looks, each look shows one key."""
    steps = []
    for leases_granted in (40, 400):
        tale = Tale()
        for number in range(leases_granted):
            at = 1000.0 * number
            tale.op("grant", f"lease-{number}", at=(at, at + 1), result=[f"h{number}", 500])
            tale.op("attach", f"lease-{number}", f"h{number}", at=(at + 2, at + 3), position=2 * number)
            tale.op("look", "bound", "strong", at=(at + 100, at + 101), result=[number], position=2 * number)
            tale.op("look", "bound", "strong", at=(at + 900, at + 901), result=[], position=2 * number + 1)
        tale.write("end", 0, at=(1000.0 * leases_granted, 1000.0 * leases_granted + 1))
        history = tale.history()
        counted = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            leases.check(history, facts())
        finally:
            sys.setprofile(None)
        steps.append(counted)
    assert steps[1] < 15 * steps[0]


# Properties


@st.composite
def kept_leases(draw: st.DrawFn) -> History:
    """One lease as a correct server counts it: kept alive at drawn times, looked at all the time, ended in time."""
    story = Story()
    until = 0.0
    now = 200.0
    served = draw(st.floats(min_value=90, max_value=100)) + 3000
    for _ in range(draw(st.integers(min_value=0, max_value=6))):
        now += draw(st.floats(min_value=10, max_value=2500))
        if now >= served:
            break
        sent, took = now, draw(st.floats(min_value=1, max_value=400))
        at = sent + took * draw(st.floats(min_value=0, max_value=1))
        if at >= served:
            story.keep((sent, sent + took), type=Outcome.FAIL, error="lease-expired")
            break
        served = at + 3000
        story.keep((sent, sent + took))
        now = sent + took
    until = served + draw(st.floats(min_value=0, max_value=900))
    look = 205.0
    while look < until + 2000:
        seen = look + draw(st.floats(min_value=0, max_value=40))
        there = seen < until
        story.look(there, (look, look + 50), position=10 if there else 11)
        look += 150
    return story.history()


@WHOLE_HISTORIES
@hypothesis.given(kept_leases())
def test_a_lease_that_is_counted_as_promised_is_never_called_broken(history: History) -> None:
    assert anomalies(leases.check(history, facts())) == {}
