"""Claims, epochs from logs, services, refusals and acts: each verdict on both sides of each bound."""

from typing import Any

import pytest

from fencepost.checkers import leadership
from fencepost.checkers.facts.acts import find_acts
from fencepost.checkers.facts.claims import claimed_spans, overlap_ns, possible_claims
from fencepost.checkers.facts.reigns import reigns_of
from fencepost.harness.history import Claim, FaultOutcome, NodeChange, Outcome, PhaseName
from fencepost.harness.verdict import Validity
from fencepost.harness.verdict.figures import ClaimedSpan
from tests.checkers.build import Tale, bound, facts, ns, only

NO_ACT = "superseded-leader-does-not-act"
STALE = "stale-answer-by-superseded-leader"


def spans(tale: Tale) -> list[ClaimedSpan]:
    return claimed_spans(reigns_of(tale.history(), "leader"))


# Claims and windows


def test_a_span_names_the_events_that_prove_both_its_ends() -> None:
    tale = Tale()
    tale.claim("n2", 2, 190, 200)
    tale.claims("n1", 1, [250, 300], length=5)
    history = tale.history()
    (span,) = claimed_spans(reigns_of(history, "leader"))
    begin, last = (history.events[i] for i in span.indexes)
    assert (begin.time_ns, last.time_ns) == (ns(200), ns(305))


@pytest.mark.parametrize(
    ("asked", "answered", "claimed", "possible"),
    [
        (201, 210, 1, 0),  # asked after epoch 2 had certainly begun, at 200
        (200, 210, 0, 1),  # at that very moment: not after it
        (150, 250, 0, 1),  # straddles it
        (150, 200, 0, 1),
        (150, 199, 0, 0),  # answered before: the old leader in its time
    ],
)
def test_a_claim_counts_only_after_a_higher_epoch_has_begun(
    asked: Any, answered: Any, claimed: Any, possible: Any
) -> None:
    tale = Tale()
    tale.claim("n2", 2, 190, 200)
    tale.claim("n1", 1, asked, answered)
    reigns = reigns_of(tale.history(), "leader")
    assert (len(claimed_spans(reigns)), len(possible_claims(reigns))) == (claimed, possible)


def test_a_claim_lasts_from_the_begin_of_the_next_epoch_to_the_latest_lo() -> None:
    tale = Tale()
    tale.claim("n2", 2, 190, 200)
    tale.claims("n1", 1, [250, 400, 300])
    (span,) = spans(tale)
    assert (span.from_ns, span.to_ns, span.length_ns, span.samples) == (ns(200), ns(400), ns(200), 3)
    assert span.superseded_by == 2


def test_a_claim_asked_in_a_pause_is_of_the_time_after_it() -> None:
    tale = Tale()
    tale.claims("n1", 1, [10])
    tale.pause("n1", 100, 900)
    tale.claim("n2", 2, 490, 500)
    tale.claim("n1", 1, 200, 905)
    (span,) = spans(tale)
    assert (span.from_ns, span.to_ns) == (ns(500), ns(900))
    assert span.length_ns == ns(400)
    assert span.running_ns == 0


def test_a_claim_answered_in_a_pause_is_of_the_time_before_it() -> None:
    tale = Tale()
    tale.claim("n2", 2, 90, 100)
    tale.claim("n1", 1, 80, 300)
    tale.pause("n1", 95, 400)
    assert spans(tale) == []
    assert possible_claims(reigns_of(tale.history(), "leader")) == []


def test_an_answer_wholly_within_a_proven_stop_is_left_out() -> None:
    tale = Tale()
    tale.claim("n2", 2, 40, 50)
    tale.pause("n1", 100, 900)
    tale.claim("n1", 1, 200, 300)
    reigns = reigns_of(tale.history(), "leader")
    assert claimed_spans(reigns) == []
    assert len(reigns.impossible) == 1


def test_an_unproven_pause_narrows_no_window() -> None:
    tale = Tale()
    tale.fault("pause", ("n1",), (100, 110, 900, 910), outcome=FaultOutcome.INDETERMINATE)
    tale.claim("n2", 2, 490, 500)
    tale.claim("n1", 1, 200, 905)
    assert spans(tale) == []


@pytest.mark.parametrize(("completed", "count"), [(249, 1), (250, 0)])
def test_a_stamp_proves_that_an_epoch_has_begun_when_the_operation_completes(completed: Any, count: Any) -> None:
    tale = Tale()
    tale.write("a", 1, at=(100, completed), node="n3", position=5, epoch=2)
    tale.claim("n1", 1, 250, 260)
    assert len(spans(tale)) == count


@pytest.mark.parametrize("type", [Outcome.FAIL, Outcome.INFO])
def test_only_an_ok_stamp_proves_anything(type: Any) -> None:
    tale = Tale()
    tale.write("a", 1, at=(100, 120), node="n3", type=type, epoch=2)
    tale.claim("n1", 1, 250, 260)
    assert spans(tale) == []


@pytest.mark.parametrize(("read_at", "count"), [(249, 1), (250, 0)])
def test_a_log_line_proves_that_an_epoch_has_begun_when_it_is_read(read_at: Any, count: Any) -> None:
    tale = Tale()
    tale.log("n2", 2, read_at)
    tale.claim("n1", 1, 250, 260)
    assert len(spans(tale)) == count


def test_denials_and_silence_claim_nothing() -> None:
    tale = Tale()
    tale.claim("n2", 2, 90, 100)
    tale.belief("n1", Claim.NO, 200, 210, epoch=1)
    tale.belief("n1", Claim.SILENT, 300, 310)
    assert spans(tale) == []


def test_two_leaders_overlap_for_as_long_as_both_certainly_led() -> None:
    tale = Tale()
    tale.claims("n1", 1, [0, 500], length=10)
    tale.claims("n2", 2, [200, 900], length=10)
    # n1 led from 10 to 500 at least, n2 from 210 to 900.
    assert overlap_ns(reigns_of(tale.history(), "leader"), running=False) == ns(290)


def test_two_leaders_run_at_once_only_while_neither_is_stopped() -> None:
    tale = Tale()
    tale.claims("n1", 1, [0, 500], length=10)
    tale.claims("n2", 2, [200, 900], length=10)
    tale.pause("n1", 300, 400)
    tale.pause("n2", 380, 450)
    reigns = reigns_of(tale.history(), "leader")
    assert overlap_ns(reigns, running=False) == ns(290)
    assert overlap_ns(reigns, running=True) == ns(140)


# Epochs from the node's own log


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


def test_a_new_leader_that_still_shows_the_old_term_claims_nothing_false() -> None:
    """etcd's Status: its term is that of the last applied entry."""
    tale = Tale()
    tale.log("n2", 1, 100)
    tale.log("n1", 2, 2000)
    tale.claim("n2", 1, 500, 510, epoch_exact=False)
    inexact(tale, 2100, 2110, 1)
    tale.write("a", 1, at=(2050, 2060), node="n1", position=9, epoch=2)
    assert spans(tale) == []


def test_a_superseded_leader_is_seen_through_its_log() -> None:
    tale = Tale()
    tale.log("n1", 1, 100)
    tale.log("n2", 2, 5000)
    inexact(tale, 6000, 6010, 1)
    (span,) = spans(tale)
    assert (span.node, span.epoch, span.length_ns) == ("n1", 1, ns(1000))


def test_an_uncertain_epoch_is_possible_never_counted() -> None:
    tale = Tale()
    tale.log("n2", 2, 5000)
    inexact(tale, 6000, 6010, 1)
    reigns = reigns_of(tale.history(), "leader")
    assert claimed_spans(reigns) == []
    assert len(possible_claims(reigns)) == 1


# Operations


def superseded(tale: Tale, last: float = 900) -> None:
    """n1 leads epoch 1 and still claims it at `last`; epoch 2 of n2 has begun by 200; a write of it is done by 300."""
    tale.claims("n1", 1, [10, 20, last])
    tale.claim("n2", 2, 190, 200)
    tale.write("a", 7, at=(250, 300), node="n2", position=(2 << 32) + 1, value_position=(2 << 32) + 1, epoch=2)


OLD = {"position": (1 << 32) + 9, "value_position": (1 << 32) + 9, "epoch": 1}


def test_a_stale_answer_of_a_superseded_leader_breaks_the_read_guarantee() -> None:
    tale = Tale()
    superseded(tale)
    tale.read("a", 3, at=(400, 410), node="n1", **OLD)
    verdict = only(leadership.check(tale.history(), facts()), "linearizable")
    assert verdict.validity is Validity.INVALID
    assert verdict.anomalies == {STALE: 1}
    (witness,) = verdict.witnesses
    history = tale.history()
    assert {getattr(history.events[i], "node", None) for i in witness.events} >= {"n1", "n2"}
    assert any("epoch 2 had begun" in step.lower() for step in witness.steps)


def test_a_stale_answer_after_sync_is_held_against_that_guarantee_alone() -> None:
    tale = Tale()
    superseded(tale)
    tale.read("a", 3, at=(400, 410), node="n1", **OLD)
    verdicts = leadership.check(tale.history(), facts(read_guarantee="fresh-after-sync"))
    assert only(verdicts, "fresh-after-sync").validity is Validity.INVALID
    assert only(verdicts, NO_ACT).anomalies == {}
    assert only(verdicts, NO_ACT).figures.plain()["stale_answers"] == 1


def test_reads_that_need_not_be_current_never_count() -> None:
    tale = Tale()
    superseded(tale)
    tale.read("a", 3, at=(400, 410), node="n1", **OLD)
    verdicts = leadership.check(tale.history(), facts(read_guarantee="session-order"))
    assert [v.guarantee for v in verdicts if v.validity is Validity.INVALID] == []
    assert only(verdicts, NO_ACT).figures.plain()["stale_answers"] == 0


@pytest.mark.parametrize(
    ("invoked", "completed", "key", "value_position", "stale", "exposed"),
    [
        (301, 310, "a", (1 << 32) + 9, 1, 1),
        (300, 310, "a", (1 << 32) + 9, 0, 0),  # the write was not done before
        (301, 310, "b", (1 << 32) + 9, 0, 0),  # of another key
        (301, 310, "a", (2 << 32) + 1, 0, 1),  # has the write
        (301, 310, "a", (2 << 32) + 2, 0, 1),
    ],
)
def test_an_answer_is_stale_only_when_it_lacks_a_write_done_before(
    invoked: Any, completed: Any, key: Any, value_position: Any, stale: Any, exposed: Any
) -> None:
    tale = Tale()
    superseded(tale)
    tale.read(key, 3, at=(invoked, completed), node="n1", value_position=value_position, epoch=1)
    acts = find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader"))
    assert (len(acts.stale), len(acts.fresh_reads_exposed)) == (stale, exposed)


def test_an_answer_with_the_value_of_the_write_lacks_it_by_no_number() -> None:
    """Servers may number a write differently: what is wrong then is not that the answer is stale."""
    tale = Tale()
    superseded(tale)
    tale.read("a", 7, at=(301, 310), node="n1", value_position=(1 << 32) + 9, epoch=1)
    acts = find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader"))
    assert (len(acts.stale), len(acts.fresh_reads_exposed)) == (0, 1)


def test_a_compare_and_set_that_does_not_say_its_value_can_be_lacked_too() -> None:
    tale = Tale()
    superseded(tale)
    tale.op("cas", "a", None, at=(310, 350), node="n2", value_position=(2 << 32) + 2, epoch=2)
    tale.read("a", 7, at=(400, 410), node="n1", **OLD)
    acts = find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader"))
    assert [one.write.f for one in acts.stale] == ["cas"]


def test_the_newest_write_by_position_must_be_in_the_answer() -> None:
    tale = Tale()
    superseded(tale)
    tale.write("a", 6, at=(240, 350), node="n2", position=2 << 32, epoch=2)
    tale.read("a", 6, at=(400, 410), node="n1", position=2 << 32, value_position=2 << 32, epoch=1)
    assert only(leadership.check(tale.history(), facts()), "linearizable").anomalies == {STALE: 1}


def test_a_missing_write_of_its_own_epoch_is_no_act_of_a_superseded_leader() -> None:
    tale = Tale()
    tale.claims("n1", 1, [10, 20, 900])
    tale.claim("n2", 2, 190, 200)
    tale.write("a", 7, at=(250, 300), node="n2", position=(1 << 32) + 10, epoch=1)
    tale.read("a", 3, at=(400, 410), node="n1", **OLD)
    acts = find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader"))
    assert (len(acts.served), len(acts.fresh_reads_exposed), len(acts.stale)) == (1, 0, 0)


def test_without_a_position_of_the_value_the_reply_s_own_decides() -> None:
    tale = Tale()
    superseded(tale)
    tale.read("a", None, at=(400, 410), node="n1", position=(1 << 32) + 9, epoch=1)
    assert only(leadership.check(tale.history(), facts()), "linearizable").anomalies == {STALE: 1}


@pytest.mark.parametrize(("invoked", "served"), [(200, 0), (201, 1)])
def test_an_operation_is_served_by_a_superseded_leader_when_invoked_after_the_begin(invoked: Any, served: Any) -> None:
    tale = Tale()
    superseded(tale)
    tale.read("a", 3, at=(invoked, 410), node="n1", **OLD)
    assert len(find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader")).served) == served


@pytest.mark.parametrize(("completed", "served"), [(899, 1), (900, 0)])
def test_without_an_exact_stamp_a_later_claim_of_the_incarnation_must_follow(completed: Any, served: Any) -> None:
    tale = Tale()
    tale.log("n1", 1, 5)
    tale.log("n2", 2, 200)
    tale.claims("n1", 1, [10, 20, 900], epoch_exact=False)
    tale.write("a", 7, at=(250, 300), node="n2", position=5, value_position=5, epoch=2)
    # Stamped with a lower bound, as etcd's replies are: the stamp alone proves nothing.
    tale.read("a", 3, at=(400, completed), node="n1", position=4, value_position=4, epoch=1)
    acts = find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader"))
    assert (len(acts.requests), len(acts.served), len(acts.stale)) == (1, served, served)


def test_a_claim_of_a_later_incarnation_does_not_serve_for_an_earlier_one() -> None:
    tale = Tale()
    tale.claims("n1", 1, [10, 20])
    tale.claim("n2", 2, 190, 200)
    tale.node("n1", NodeChange.EXITED, 390)
    tale.node("n1", NodeChange.STARTED, 395, incarnation=1)
    tale.read("a", 3, at=(400, 410), node="n1", **OLD)
    assert len(find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader")).served) == 0


@pytest.mark.parametrize("denied", [350, 405, 440])
def test_a_former_leader_that_follows_is_no_superseded_leader(denied: float) -> None:
    """The stamp of a read says where the store of its server stands, never that the server leads."""
    tale = Tale()
    tale.claims("n1", 1, [1, 2])
    tale.claim("n2", 2, 10, 20)
    tale.deny("n1", denied - 10, denied)
    tale.read("a", 3, at=(400, 410), node="n1", **OLD)
    verdict = only(leadership.check(tale.history(), facts()), NO_ACT)
    assert (verdict.figures.plain()["served_by_superseded_leader"], verdict.exposure) == (0, 0)
    assert verdict.validity is Validity.UNKNOWN


def test_a_follower_with_an_old_stamp_is_no_leader() -> None:
    tale = Tale()
    superseded(tale)
    tale.read("a", 3, at=(400, 410), node="n3", **OLD)
    verdicts = leadership.check(tale.history(), facts())
    assert [v.guarantee for v in verdicts if v.validity is Validity.INVALID] == []


@pytest.mark.parametrize(("invoked", "asked"), [(900, 1), (901, 0)])
def test_an_operation_is_asked_of_a_superseded_leader_until_its_last_claim(invoked: float, asked: int) -> None:
    tale = Tale()
    superseded(tale)
    tale.read("a", 7, at=(invoked, 910), node="n1", position=(2 << 32) + 1, value_position=(2 << 32) + 1, epoch=2)
    tale.deny("n1", 1000, 1010)
    assert len(find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader")).requests) == asked


def test_operations_of_the_current_leader_are_its_own() -> None:
    tale = Tale()
    superseded(tale)
    tale.read("a", 7, at=(400, 410), node="n2", position=(2 << 32) + 1, value_position=(2 << 32) + 1, epoch=2)
    acts = find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader"))
    assert (len(acts.requests), len(acts.served)) == (0, 0)


@pytest.mark.parametrize(
    ("f", "type", "error", "ended", "final", "fenced", "unknown", "otherwise"),
    [
        ("write", Outcome.FAIL, "not-leader", 410, 7, 1, 0, 0),
        ("write", Outcome.FAIL, "not-leader", 410, 5, 0, 1, 0),  # its effect stands: it was not fenced
        ("write", Outcome.FAIL, "not-leader", 410, None, 0, 1, 0),  # nobody looked
        ("write", Outcome.FAIL, "not-leader", 900, 7, 0, 0, 1),  # no later claim follows
        ("write", Outcome.FAIL, "cas-mismatch", 410, 7, 0, 0, 1),
        ("write", Outcome.INFO, "deadline", 410, 7, 0, 1, 0),
        ("write", Outcome.INFO, "deadline", 1500, 7, 0, 1, 0),
        ("read", Outcome.FAIL, "no-leader", 410, None, 1, 0, 0),
        ("read", Outcome.FAIL, "timeout", 410, None, 0, 1, 0),
        # Kafka: 41 proves nothing about a change asked of KRaft, and everything about a look.
        ("write", Outcome.INFO, "not-controller", 410, 7, 0, 1, 0),
        ("write", Outcome.FAIL, "not-controller", 410, 7, 1, 0, 0),
        ("write", Outcome.FAIL, "not-controller", 410, 5, 0, 1, 0),
        ("exists", Outcome.FAIL, "not-controller", 410, None, 1, 0, 0),
        ("exists", Outcome.FAIL, "not-controller", 900, None, 0, 0, 1),
        ("exists", Outcome.FAIL, "unknown-server-error", 410, None, 0, 0, 1),
        ("exists", Outcome.FAIL, "leader-not-available: error 5", 410, None, 1, 0, 0),
    ],
)
def test_refusals_and_time_outs_are_counted_apart(
    f: Any, type: Any, error: Any, ended: Any, final: Any, fenced: Any, unknown: Any, otherwise: Any
) -> None:
    tale = Tale()
    superseded(tale)
    tale.op(f, "a", 5 if f == "write" else None, at=(400, ended), node="n1", type=type, error=error)
    if final is not None:
        tale.phase(PhaseName.FINAL, 2000)
        tale.read("a", final, at=(2001, 2002), node="n2", epoch=2)
    acts = find_acts(tale.history(), facts(), reigns_of(tale.history(), "leader"))
    assert (len(acts.fenced), len(acts.unknown), len(acts.refused_otherwise)) == (fenced, unknown, otherwise)
    assert len(acts.requests) == 1


@pytest.mark.parametrize(("final", "lost"), [([1, 5], 0), ([1], 1)])
@pytest.mark.parametrize("removed", [False, True])
def test_a_lost_acknowledgement(final: Any, lost: Any, removed: Any) -> None:
    tale = Tale()
    superseded(tale)
    tale.op("add", "s", 5, at=(400, 410), node="n1", epoch=1)
    if removed:
        tale.op("remove", "s", 5, at=(420, 430), node="n2", epoch=2)
    tale.phase(PhaseName.FINAL, 2000)
    tale.op("members", "s", at=(2001, 2002), node="n2", result=final, epoch=2)
    verdict = only(leadership.check(tale.history(), facts(workload="set")), NO_ACT)
    expected = lost and not removed
    assert verdict.anomalies == ({"lost-acknowledgement": 1} if expected else {})
    assert verdict.validity is (Validity.INVALID if expected else Validity.VALID)
    assert len(verdict.witnesses) == expected


@pytest.mark.parametrize(
    ("mode", "earlier", "lost"),
    [
        ("strong", None, 1),
        ("barrier", None, 1),
        ("plain", None, 0),
        ("sync", None, 0),
        ("strong", [5], 0),
        ("plain", [5], 0),
    ],
)
def test_only_a_strong_read_proves_that_an_acknowledgement_was_false(mode: str, earlier: Any, lost: int) -> None:
    """A read that may lag lacks what it has not come to; what a strong one had shown was not lost by the add."""
    tale = Tale()
    superseded(tale)
    tale.op("add", "s", 5, at=(400, 410), node="n1", epoch=1, position=100)
    if earlier is not None:
        tale.op("members", "s", at=(500, 510), node="n2", result=earlier, epoch=2, position=100)
    tale.phase(PhaseName.FINAL, 2000)
    tale.op("members", "s", at=(2001, 2002), node="n3", result=[], epoch=2, position=90)
    verdict = only(leadership.check(tale.history(), facts(workload="set", options={"members": mode})), NO_ACT)
    assert verdict.anomalies.get("lost-acknowledgement", 0) == lost


@pytest.mark.parametrize(("guarantee", "fenced"), [("linearizable", 1), ("session-order", 0)])
def test_a_final_read_that_may_lag_proves_no_fencing(guarantee: str, fenced: int) -> None:
    tale = Tale()
    superseded(tale)
    tale.write("a", 5, at=(400, 410), node="n1", type=Outcome.FAIL, error="not-leader")
    tale.phase(PhaseName.FINAL, 2000)
    tale.read("a", 7, at=(2001, 2002), node="n2", epoch=2)
    acts = find_acts(tale.history(), facts(read_guarantee=guarantee), reigns_of(tale.history(), "leader"))
    assert (len(acts.fenced), len(acts.unknown)) == (fenced, 1 - fenced)


def test_an_add_that_it_passed_on_is_no_act_of_a_superseded_leader() -> None:
    tale = Tale()
    superseded(tale, last=405)
    tale.op("add", "s", 5, at=(400, 410), node="n1", epoch=2, position=(2 << 32) + 9)
    tale.phase(PhaseName.FINAL, 2000)
    tale.op("members", "s", at=(2001, 2002), node="n2", result=[], epoch=2)
    verdict = only(leadership.check(tale.history(), facts()), NO_ACT)
    assert (verdict.exposure, verdict.anomalies) == (1, {})


def test_an_add_lost_by_the_current_leader_is_no_act_of_a_superseded_one() -> None:
    tale = Tale()
    superseded(tale)
    tale.op("add", "s", 5, at=(400, 410), node="n2", epoch=2, position=(2 << 32) + 9)
    tale.phase(PhaseName.FINAL, 2000)
    tale.op("members", "s", at=(2001, 2002), node="n2", result=[], epoch=2)
    assert only(leadership.check(tale.history(), facts()), NO_ACT).anomalies == {}


@pytest.mark.parametrize(
    ("position", "reader_epoch", "exact", "found"),
    [(12, 2, True, 1), (12, 1, True, 0), (12, 2, False, 0)],
)
def test_a_stamped_effect_stands_after_the_first_entry_of_a_higher_epoch(
    position: Any, reader_epoch: Any, exact: Any, found: Any
) -> None:
    tale = Tale()
    tale.claim("n1", 1, 10, 20, epoch_exact=exact)
    tale.log("n1", 1, 5)
    tale.write("a", 1, at=(100, 110), node="n2", position=10, value_position=10, epoch=2)
    tale.write("a", 2, at=(120, 130), node="n1", position=position, value_position=position, epoch=1)
    tale.read("a", 2, at=(140, 150), node="n3", position=20, value_position=position, epoch=reader_epoch)
    verdict = only(leadership.check(tale.history(), facts()), NO_ACT)
    assert verdict.anomalies.get("stamped-effect", 0) == found


# Exposure


def test_no_exposure_is_unknown_and_says_so() -> None:
    tale = Tale()
    tale.claims("n1", 1, [10, 20])
    tale.write("a", 1, at=(30, 40), node="n1", position=1, epoch=1)
    verdicts = leadership.check(tale.history(), facts(read_guarantee="fresh-after-sync"))
    assert [(v.guarantee, v.validity, v.exposure) for v in verdicts] == [
        ("fresh-after-sync", Validity.UNKNOWN, 0),
        (NO_ACT, Validity.UNKNOWN, 0),
    ]
    assert all(v.reason for v in verdicts)


def test_fresh_reads_with_current_answers_are_valid_exposure() -> None:
    tale = Tale()
    superseded(tale)
    tale.read("a", 7, at=(400, 410), node="n1", position=(2 << 32) + 1, value_position=(2 << 32) + 1, epoch=2)
    verdict = only(leadership.check(tale.history(), facts(read_guarantee="fresh-after-sync")), "fresh-after-sync")
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


def test_linearizable_reads_get_no_verdict_here_while_nothing_is_stale() -> None:
    tale = Tale()
    superseded(tale)
    assert [v.guarantee for v in leadership.check(tale.history(), facts())] == [NO_ACT]


def test_an_empty_history_is_unknown() -> None:
    verdicts = leadership.check(Tale().history(), facts())
    assert [(v.guarantee, v.validity) for v in verdicts] == [(NO_ACT, Validity.UNKNOWN)]


# One leader per epoch


@pytest.mark.parametrize(("second", "validity"), [(2, Validity.VALID), (1, Validity.INVALID)])
def test_two_leaders_of_one_epoch(second: Any, validity: Any) -> None:
    tale = Tale()
    tale.claim("n1", 1, 10, 20)
    tale.claim("n2", second, 100, 110)
    given = facts(leadership=bound(1000, one_leader=True))
    assert only(leadership.check(tale.history(), given), "one-leader-per-epoch").validity is validity


def test_one_node_that_speaks_alone_contradicts_nobody() -> None:
    tale = Tale()
    tale.claim("n1", 1, 10, 20)
    tale.belief("n2", Claim.SILENT, 10, 20)
    given = facts(leadership=bound(1000, one_leader=True))
    verdict = only(leadership.check(tale.history(), given), "one-leader-per-epoch")
    assert verdict.validity is Validity.UNKNOWN
    assert "fewer than two nodes said anything of whether they lead" in verdict.reason


def test_two_leaders_are_judged_only_from_sources_that_keep_all_assumptions() -> None:
    tale = Tale()
    tale.claim("n1", 1, 10, 20)
    tale.claim("n2", 1, 100, 110)
    guarantees = {v.guarantee for v in leadership.check(tale.history(), facts(leadership=bound(1000)))}
    assert "one-leader-per-epoch" not in guarantees


def test_a_node_about_to_lead_may_still_stand_in_the_epoch_before() -> None:
    tale = Tale()
    tale.claim("n1", 1, 10, 20)
    tale.log("n2", 2, 105)
    tale.claim("n2", 1, 100, 101)
    tale.claim("n2", 2, 120, 130)
    given = facts(leadership=bound(1000, one_leader=True))
    assert only(leadership.check(tale.history(), given), "one-leader-per-epoch").validity is Validity.VALID
