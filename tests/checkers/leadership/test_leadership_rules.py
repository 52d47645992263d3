"""Which rule about superseded leaders could have fired: what counts as a chance, and what each rule then finds."""

from typing import Any

import msgspec
import pytest

from fencepost.checkers import leadership
from fencepost.harness.history import Effects, NodeChange, Outcome, PhaseName
from fencepost.harness.verdict import Facts, Validity, Verdict
from tests.checkers.build import Tale, bound, facts, only

NO_ACT = "superseded-leader-does-not-act"
LOST, STAMPED, ACKNOWLEDGED = "lost-acknowledgement", "stamped-effect", "acknowledged-while-superseded"


def refusing(**changes: Any) -> Facts:
    """Facts of a system whose maker rules out that a superseded leader acknowledges anything."""
    held = msgspec.structs.replace(bound(None), superseded_acknowledges_nothing=True)
    return facts(leadership=held, **changes)


def judged(tale: Tale, given: Facts | None = None) -> Verdict:
    return only(leadership.check(tale.history(), given or refusing()), NO_ACT)


def chances(verdict: Verdict) -> dict[str, int]:
    return {rule.name: rule.chances for rule in verdict.rules}


def lacks(verdict: Verdict) -> dict[str, str]:
    return {rule.name: rule.lacks for rule in verdict.rules}


def lingering(*, exact: bool = False) -> Tale:
    """n1 leads epoch 1 and still claims it at 40 ms; n2 has begun epoch 2 by 10 ms."""
    tale = Tale()
    tale.log("n1", 1, 0)
    tale.log("n2", 2, 10)
    tale.claims("n1", 1, [2, 20, 40], epoch_exact=exact)
    tale.claim("n2", 2, 9, 10, epoch_exact=exact)
    return tale


def cut_off(tale: Tale | None = None) -> Tale:
    """n1 leads epoch 1, is cut off from 100 to 900 ms, claims until 200; n2 leads epoch 2 from 300 ms on."""
    tale = tale or Tale()
    tale.log("n1", 1, 0)
    tale.claims("n1", 1, [2, 50, 200], epoch_exact=False)
    tale.cut("n1", 100, 900)
    tale.deny("n1", 240, 250)
    tale.log("n2", 2, 300)
    tale.claim("n2", 2, 301, 302, epoch_exact=False)
    return tale


def asleep(tale: Tale | None = None, *, exact: bool = False) -> Tale:
    """n1 leads epoch 1 and is paused from 100 to 900 ms; n2 leads epoch 2 from 300 ms on, and writes at 350."""
    tale = tale or Tale()
    tale.log("n1", 1, 0)
    tale.claims("n1", 1, [2, 50], epoch_exact=exact)
    tale.pause("n1", 100, 900)
    tale.deny("n1", 950, 955)
    tale.log("n2", 2, 300)
    tale.claim("n2", 2, 301, 302, epoch_exact=exact)
    tale.write("a", 7, at=(340, 350), node="n2", position=20, epoch=2)
    return tale


# A write that was acknowledged although a later epoch had begun


def test_a_write_that_a_superseded_leader_acknowledged_is_the_act_where_its_maker_rules_that_out() -> None:
    tale = lingering()
    tale.write("a", 7, at=(25, 30), node="n1")
    tale.phase(PhaseName.FINAL, 100)
    tale.read("a", None, at=(110, 115), node="n2")
    verdict = judged(tale)
    assert (verdict.validity, verdict.anomalies) == (Validity.INVALID, {ACKNOWLEDGED: 1})
    (witness,) = verdict.witnesses
    assert "n1 (epoch 1) answered" in witness.steps[-1]
    assert verdict.figures.plain()["acted"] == 1


def test_without_that_word_the_same_history_proves_nothing() -> None:
    tale = lingering()
    tale.write("a", 7, at=(25, 30), node="n1")
    verdict = judged(tale, facts())
    assert verdict.validity is Validity.UNKNOWN
    assert chances(verdict) == {LOST: 0, STAMPED: 0, ACKNOWLEDGED: 0}
    assert lacks(verdict)[ACKNOWLEDGED] == "the maker does not rule out that it acknowledges a change"


@pytest.mark.parametrize(("f", "acted"), [("write", 1), ("cas", 1), ("critical", 1), ("act", 1), ("renew", 0)])
def test_changes_that_a_store_orders_count_and_no_others(f: str, acted: int) -> None:
    """Leaders keep leases alive by themselves."""
    tale = lingering()
    tale.op(f, "a", [1, 2], at=(25, 30), node="n1")
    assert judged(tale).anomalies == ({ACKNOWLEDGED: 1} if acted else {})


@pytest.mark.parametrize(("completed", "acted"), [(39, 1), (41, 0)])
def test_only_an_answer_before_a_later_claim_is_certainly_its_own(completed: float, acted: int) -> None:
    tale = lingering()
    tale.write("a", 7, at=(25, completed), node="n1")
    verdict = judged(tale)
    assert verdict.anomalies == ({ACKNOWLEDGED: 1} if acted else {})
    assert chances(verdict)[ACKNOWLEDGED] == 1


# What puts the guarantee to the test


def test_reads_put_no_rule_about_effects_to_the_test() -> None:
    tale = lingering()
    tale.read("a", 3, at=(25, 30), node="n1")
    verdict = judged(tale)
    assert (verdict.validity, verdict.exposure) == (Validity.UNKNOWN, 0)
    assert set(lacks(verdict).values()) == {"only reads were sent to a superseded leader"}


@pytest.mark.parametrize(
    ("type", "error", "ended", "chance"),
    [
        (Outcome.INFO, "timeout", 2000, 1),
        (Outcome.INFO, "connection-lost", 30, 1),
        (Outcome.FAIL, "not-serving", 30, 1),
        (Outcome.FAIL, "not-leader", 30, 1),
        (Outcome.INFO, None, None, 1),
        (Outcome.FAIL, "not-connected", 30, 0),
        (Outcome.FAIL, "unsupported-api", 30, 0),
        (Outcome.FAIL, "open-timeout", 2000, 0),
        (Outcome.INFO, "shutdown", 30, 0),
    ],
)
def test_what_was_refused_or_not_answered_counts_only_if_it_reached_the_node(
    type: Outcome, error: str | None, ended: float | None, chance: int
) -> None:
    tale = lingering()
    tale.write("a", 7, at=(25, ended), node="n1", type=type, error=error)
    tale.sample(3000)
    verdict = judged(tale)
    assert (chances(verdict)[ACKNOWLEDGED], verdict.exposure) == (chance, chance)
    assert verdict.validity is (Validity.VALID if chance else Validity.UNKNOWN)
    if not chance:
        assert "none of 1 changes that were sent to a superseded leader reached it" in verdict.reason


def test_the_reason_says_how_the_changes_ended() -> None:
    tale = lingering()
    tale.write("a", 6, at=(25, 30), node="n1", type=Outcome.FAIL, error="not-leader")
    tale.write("a", 7, at=(26, 900), node="n1", type=Outcome.INFO, error="timeout")
    tale.write("a", 8, at=(27, 900), node="n1", epoch=2)
    tale.write("a", 9, at=(28, 30), node="n1", type=Outcome.FAIL, error="not-serving")
    assert judged(tale).reason == (
        "4 changes reached superseded leaders: 2 were refused (1 with every client, since it served nobody), 1 not "
        "answered, 1 passed on to the successor; none took effect by its hand"
    )


# A leader that was cut off, and may have stepped down


@pytest.mark.parametrize(
    ("invoked", "completed", "acted", "chance"),
    [
        (400, 410, 1, 1),  # nobody can have made this answer but n1
        (299, 410, 0, 0),  # sent before the next epoch had begun
        (400, 901, 0, 1),  # the cut was over when it was acknowledged
        (901, 910, 0, 0),
    ],
)
def test_an_acknowledgement_inside_a_cut_is_the_cut_off_node_s_own(
    invoked: float, completed: float, acted: int, chance: int
) -> None:
    tale = cut_off()
    tale.write("a", 7, at=(invoked, completed), node="n1")
    verdict = judged(tale)
    assert verdict.anomalies == ({ACKNOWLEDGED: 1} if acted else {})
    assert chances(verdict)[ACKNOWLEDGED] == chance


def test_a_deposed_leader_that_keeps_silent_inside_its_cut_has_been_tested() -> None:
    tale = cut_off()
    tale.write("a", 7, at=(400, 700), node="n1", type=Outcome.INFO, error="timeout")
    verdict = judged(tale)
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


def test_a_node_that_never_led_is_no_deposed_leader_in_its_cut() -> None:
    tale = cut_off()
    tale.cut("n3", 100, 900)
    tale.write("a", 7, at=(400, 410), node="n3")
    assert judged(tale).anomalies == {}


def test_what_clients_could_not_send_did_not_reach_the_node() -> None:
    tale = cut_off()
    tale.fault("partition", ("n1",), (350, 350, 950, 950), severed=("client>n1", "n1>client"))
    tale.write("a", 7, at=(400, 700), node="n1", type=Outcome.INFO, error="timeout")
    assert judged(tale).validity is Validity.UNKNOWN


def test_a_cut_isolates_nobody_while_members_change() -> None:
    tale = cut_off()
    tale.fault("membership", ("n2",), (1, 2, 3, 4), effects=Effects(changes_members=True))
    tale.write("a", 7, at=(400, 410), node="n1")
    assert (judged(tale).anomalies, judged(tale).exposure) == ({}, 0)


def test_a_server_that_was_started_again_in_the_cut_is_no_leader_any_more() -> None:
    tale = cut_off()
    tale.node("n1", NodeChange.EXITED, 350)
    tale.node("n1", NodeChange.STARTED, 360, incarnation=1)
    tale.write("a", 7, at=(400, 410), node="n1")
    assert (judged(tale).anomalies, judged(tale).exposure) == ({}, 0)


# A leader that was superseded in its sleep


@pytest.mark.parametrize(
    ("position", "epoch", "acted"),
    [
        (19, 1, 1),  # in front of what its successor had acknowledged before it was sent
        (20, 1, 1),
        (21, 1, 0),
        (19, 2, 0),  # stamped by the successor
        (None, 1, 0),
    ],
)
def test_a_woken_leader_s_write_in_front_of_its_successor_s(position: int | None, epoch: int, acted: int) -> None:
    tale = asleep()
    tale.write("b", 8, at=(400, 905), node="n1", position=position, epoch=epoch)
    verdict = judged(tale, facts())
    assert verdict.anomalies == ({STAMPED: 1} if acted else {})
    assert chances(verdict)[STAMPED] == 1
    if acted:
        assert "in front of what had been acknowledged before" in verdict.witnesses[0].steps[-1]


@pytest.mark.parametrize(
    ("invoked", "ended", "error", "chance"),
    [
        (400, 1500, "timeout", 1),
        (400, 905, "connection-lost", 1),
        (400, 890, "timeout", 0),  # given up before it woke
        (345, 1500, "timeout", 0),  # nothing of the new epoch had been acknowledged
        (905, 1500, "timeout", 0),  # awake, and nobody knows what it was
    ],
)
def test_a_write_to_a_sleeping_leader_counts_if_it_is_there_when_it_wakes(
    invoked: float, ended: float, error: str, chance: int
) -> None:
    tale = asleep()
    tale.write("b", 8, at=(invoked, ended), node="n1", type=Outcome.INFO, error=error)
    assert chances(judged(tale))[STAMPED] == chance


def test_a_node_that_did_not_lead_when_it_was_stopped_wakes_as_no_leader() -> None:
    tale = Tale()
    tale.deny("n1", 90, 95)
    asleep(tale)
    tale.write("b", 8, at=(400, 1500), node="n1", type=Outcome.INFO, error="timeout")
    assert judged(tale).exposure == 0


@pytest.mark.parametrize(("epoch", "acted"), [(1, 1), (2, 0)])
def test_an_exact_stamp_on_a_write_is_its_leader_s_own(epoch: int, acted: int) -> None:
    """Nobody but the leader of an epoch orders writes under it, whenever that was."""
    tale = asleep(exact=True)
    tale.write("b", 8, at=(400, 905), node="n1", epoch=epoch)
    verdict = judged(tale)
    assert verdict.anomalies == ({ACKNOWLEDGED: 1} if acted else {})
    assert chances(verdict)[ACKNOWLEDGED] == 1


# Adds, whose effect nothing overwrites


@pytest.mark.parametrize(("mode", "validity"), [("strong", Validity.INVALID), ("plain", Validity.UNKNOWN)])
def test_a_weak_final_read_proves_no_loss(mode: str, validity: Validity) -> None:
    tale = lingering()
    tale.op("add", "s", 5, at=(25, 30), node="n1")
    tale.phase(PhaseName.FINAL, 2000)
    tale.op("members", "s", at=(2001, 2002), node="n3", result=[])
    verdict = judged(tale, facts(workload="set", options={"members": mode}))
    assert verdict.validity is validity
    assert chances(verdict)[LOST] == (mode == "strong")
    if mode == "plain":
        assert "may lag: nothing is proven" in lacks(verdict)[LOST]


def test_a_lost_add_is_counted_once() -> None:
    tale = lingering()
    tale.op("add", "s", 5, at=(25, 30), node="n1")
    tale.phase(PhaseName.FINAL, 2000)
    tale.op("members", "s", at=(2001, 2002), node="n3", result=[])
    assert judged(tale, refusing(workload="set")).anomalies == {LOST: 1}


@pytest.mark.parametrize(("final", "why"), [(False, "no final strong read"), (True, "")])
def test_an_add_that_was_not_answered_is_a_chance_where_a_final_read_would_show_the_loss(final: bool, why: str) -> None:
    tale = lingering()
    tale.op("add", "s", 5, at=(25, 1500), node="n1", type=Outcome.INFO, error="timeout")
    if final:
        tale.phase(PhaseName.FINAL, 2000)
        tale.op("members", "s", at=(2001, 2002), node="n3", result=[])
    verdict = judged(tale, facts(workload="set"))
    assert chances(verdict)[LOST] == final
    assert lacks(verdict)[LOST].startswith(why)


# Stale answers


@pytest.mark.parametrize(
    ("type", "error", "ended", "chance"),
    [
        (Outcome.OK, None, 410, 1),
        (Outcome.FAIL, "not-leader", 410, 1),
        (Outcome.FAIL, "timeout", 890, 1),
        (Outcome.FAIL, "not-connected", 410, 0),
    ],
)
def test_a_fresh_read_is_a_chance_if_it_reached_the_superseded_leader(
    type: Outcome, error: str | None, ended: float, chance: int
) -> None:
    tale = cut_off()
    tale.write("a", 7, at=(340, 350), node="n2", position=20, epoch=2)
    tale.read("a", 7, at=(400, ended), node="n1", type=type, error=error, position=20, epoch=2)
    verdict = only(leadership.check(tale.history(), facts(read_guarantee="fresh-after-sync")), "fresh-after-sync")
    assert [rule.chances for rule in verdict.rules] == [chance]
    assert verdict.validity is (Validity.VALID if chance else Validity.UNKNOWN)


def test_a_stale_answer_inside_a_cut_is_the_deposed_leader_s_own() -> None:
    tale = cut_off()
    tale.write("a", 7, at=(340, 350), node="n2", position=20, epoch=2)
    tale.read("a", 3, at=(400, 410), node="n1", position=9, epoch=1)
    verdict = only(leadership.check(tale.history(), facts()), "linearizable")
    assert verdict.anomalies == {"stale-answer-by-superseded-leader": 1}
