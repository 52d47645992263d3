"""The election checker on constructed histories, on both sides of each rule.

In these, positions are small numbers, and the token of a term is the position of its grant.
"""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.checkers.elections import elections
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import Outcome, PhaseName
from fencepost.harness.verdict import Validity, Verdict
from tests.checkers.build import Tale, facts, ns, only

ACTING, GROW, BELIEVED = "one-acting-leader", "terms-grow", "one-believed-leader"
RESIGNED = "resign-ends-own-term"
KEPT = "no-lost-acknowledged-writes"
SETTLED, AGAIN = "unknown-campaign-is-settled", "somebody-leads-again"
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


class Vote(Tale):
    """A tale of one election; times in milliseconds."""

    def grant(self, token: int, at: tuple[float, float | None], **more: Any) -> int:
        given: dict[str, Any] = {"result": [token, "h"], "position": token, **more}
        return self.op("campaign", "election", at=at, **given)

    def act(
        self, token: int, number: int, at: tuple[float, float | None], position: int | None = None, **more: Any
    ) -> int:
        return self.op("act", "trail", [token, "h", number], at=at, position=position, value_position=position, **more)

    def refused(self, token: int, number: int, at: tuple[float, float], error: str = "fenced") -> int:
        return self.act(token, number, at, type=FAIL, error=error)

    def resign(self, token: int, at: tuple[float, float], position: int | None, **more: Any) -> int:
        return self.op("resign", "election", [token, "h"], at=at, position=position, **more)

    def see(self, token: int | None, at: tuple[float, float], **more: Any) -> int:
        return self.op("observe", "election", at=at, result=token, **more)

    def trail(self, *deeds: tuple[int, int], at: tuple[float, float] = (1010, 1020), node: str = "n1") -> int:
        return self.op("members", "trail", at=at, node=node, result=[[token, "h", n] for token, n in deeds])

    def judged(self, **options: Any) -> list[Verdict]:
        for phase, at_ms in ((PhaseName.MAIN, 0), (PhaseName.SETTLE, 1000), (PhaseName.FINAL, 1000)):
            self.phase(phase, at_ms)
        return elections.check(self.history(), facts(workload="election", options=options))

    def verdict(self, guarantee: str, **options: Any) -> Verdict:
        return only(self.judged(**options), guarantee)


class Epochs(Vote):
    """Terms without positions, as on Kafka: tokens grow, positions are those of acts among acts."""

    def grant(self, token: int, at: tuple[float, float | None], **more: Any) -> int:
        return super().grant(token, at, position=None, **more)


def two_epochs(sent_ms: float = 30, **late: Any) -> Epochs:
    """Epoch 1 acts at 0 and is followed by epoch 3, which acts at 2; act 9 of epoch 1 is sent at `sent_ms`."""
    vote = Epochs()
    vote.grant(1, (10, 12), process=1)
    vote.act(1, 1, (20, 22), 0, process=1)
    vote.grant(3, (100, 102), process=2)
    vote.act(3, 2, (110, 112), 2, process=2)
    vote.act(1, 9, (sent_ms, sent_ms + 2), process=1, **late)
    return vote


@pytest.mark.parametrize(
    ("sent_ms", "late", "deeds", "wanted"),
    [
        # Positions are far below tokens, and far above: they are not compared.
        (30, {"position": 1}, ((1, 1), (1, 9), (3, 2)), {}),
        (101, {"position": 1}, ((1, 1), (1, 9), (3, 2)), {}),
        (30, {"type": FAIL, "error": "fenced"}, ((1, 1), (3, 2)), {}),
        (103, {"type": FAIL, "error": "fenced"}, ((1, 1), (3, 2)), {}),
        (30, {"type": INFO}, ((1, 1), (1, 9), (3, 2)), {}),
        (103, {"type": INFO}, ((1, 1), (3, 2)), {}),
        # Its successor had begun when it was sent, although nobody had acted in between.
        (103, {"position": 1}, ((1, 1), (1, 9), (3, 2)), {"acted-after-its-term": 1}),
        (103, {"type": INFO}, ((1, 1), (1, 9), (3, 2)), {"acted-after-its-term": 1}),
        # Whenever it was sent, it took effect behind an act of its successor.
        (30, {"position": 3}, ((1, 1), (3, 2), (1, 9)), {"old-term-acted": 1}),
        (30, {"type": INFO}, ((1, 1), (3, 2), (1, 9)), {"old-term-acted": 1}),
        (103, {"position": 3}, ((1, 1), (3, 2), (1, 9)), {"old-term-acted": 1}),
        (30, {"type": FAIL, "error": "fenced"}, ((1, 1), (1, 9), (3, 2)), {"refused-act-took-effect": 1}),
    ],
)
def test_where_grants_have_no_position_order_on_the_trail_and_in_time_decide(
    sent_ms: float, late: dict[str, Any], deeds: tuple[tuple[int, int], ...], wanted: dict[str, int]
) -> None:
    vote = two_epochs(sent_ms, **late)
    vote.trail(*deeds)
    check_acting(vote, wanted)


def test_an_acknowledged_act_that_was_sent_too_late_needs_no_trail_to_be_found() -> None:
    verdict = check_acting(two_epochs(103, position=1), {"acted-after-its-term": 1})
    (witness,) = verdict.witnesses
    assert "Term 3 was granted to process 2" in witness.steps[0]
    assert "was sent after that" in witness.steps[1]
    assert two_epochs(101, position=1).verdict(ACTING).validity is Validity.UNKNOWN


def test_terms_without_positions_grow_and_are_kept_apart_from_positions() -> None:
    vote = two_epochs(103, type=FAIL, error="fenced")
    vote.resign(3, (200, 202), None, process=2)
    vote.trail((1, 1), (3, 2))
    verdicts = {v.guarantee: v for v in vote.judged()}
    assert {verdicts[name].validity for name in (ACTING, GROW, KEPT)} == {Validity.VALID}
    backwards = Epochs()
    backwards.grant(3, (10, 12), process=1)
    backwards.grant(1, (100, 102), process=2)
    assert backwards.verdict(GROW).anomalies == {"term-went-back": 1}


def two_terms() -> Vote:
    """Term 10 acts twice and is followed by term 20, which refuses it; nothing is wrong."""
    vote = Vote()
    vote.grant(10, (10, 12), process=1)
    vote.act(10, 1, (20, 22), 11, process=1)
    vote.act(10, 2, (30, 32), 12, process=1)
    vote.grant(20, (100, 102), process=2)
    vote.act(20, 3, (110, 112), 21, process=2)
    vote.refused(10, 4, (120, 122))
    vote.resign(10, (124, 126), None, process=1, type=FAIL, error="not-held")
    for process, token in ((7, 10), (7, 20)):
        vote.see(token, (25 if token == 10 else 115, 27 if token == 10 else 117), process=process)
    return vote


def test_two_terms_in_order_are_valid_in_every_respect() -> None:
    vote = two_terms()
    vote.trail((10, 1), (10, 2), (20, 3))
    verdicts = {v.guarantee: v for v in vote.judged()}
    assert {name for name, v in verdicts.items() if v.validity is Validity.VALID} == {
        ACTING, GROW, RESIGNED, "session-order", KEPT,
    }  # fmt: skip
    assert {name: v.exposure for name, v in verdicts.items()} == {
        ACTING: 1, GROW: 1, RESIGNED: 1, BELIEVED: 1, "session-order": 1, KEPT: 3, SETTLED: 0, AGAIN: 0,
    }  # fmt: skip
    assert verdicts[ACTING].figures.plain() == {
        "fencing": "on", "superseded_acts": 1, "superseded_fenced": 1, "overtaken_acts": 0,
    }  # fmt: skip


def check_acting(vote: Vote, wanted: dict[str, int]) -> Verdict:
    verdict = vote.verdict(ACTING)
    assert verdict.anomalies == wanted, [w.steps for w in verdict.witnesses]
    assert (verdict.validity is Validity.INVALID) is bool(wanted)
    return verdict


@pytest.mark.parametrize(
    ("deeds", "wanted"),
    [
        (((10, 1), (10, 2), (10, 5), (20, 3)), {}),
        (((10, 1), (10, 5), (10, 2), (20, 3)), {}),
        (((10, 1), (10, 2), (20, 3)), {}),
        (((10, 1), (10, 2), (20, 3), (10, 5)), {"old-term-acted": 1}),
    ],
)
def test_an_act_of_unknown_outcome_may_take_effect_in_its_term_only(
    deeds: tuple[tuple[int, int], ...], wanted: dict[str, int]
) -> None:
    vote = two_terms()
    vote.act(10, 5, (40, None))
    vote.trail(*deeds)
    check_acting(vote, wanted)


def test_interleaved_terms_are_shown_with_the_act_before_and_the_read() -> None:
    vote = two_terms()
    vote.act(10, 5, (40, 300), 22)
    vote.act(20, 6, (310, 312), 23)
    vote.trail((10, 1), (10, 2), (20, 3), (10, 5), (20, 6))
    verdict = check_acting(vote, {"old-term-acted": 1})
    (witness,) = verdict.witnesses
    assert "Act 5 of term 10" in witness.steps[1]
    assert len(witness.events) == 6
    assert verdict.figures.plain()["overtaken_acknowledged"] == 1


@pytest.mark.parametrize(("position", "wanted"), [(19, {}), (21, {"acted-after-its-term": 1})])
@pytest.mark.parametrize("read", [True, False])
def test_an_act_stands_before_the_next_grant_though_nobody_acted_after_it(
    position: int, wanted: dict[str, int], read: bool
) -> None:
    vote = Vote()
    vote.grant(10, (10, 12))
    vote.grant(20, (100, 102))
    vote.act(10, 1, (30, 130), position)
    if read:
        vote.trail((10, 1))
    verdict = vote.verdict(ACTING)
    assert verdict.anomalies == wanted
    if wanted:
        assert "granted at 20" in verdict.witnesses[0].steps[1]
    else:
        # Positions alone cannot show that all was well.
        assert verdict.validity is (Validity.VALID if read else Validity.UNKNOWN)


@pytest.mark.parametrize(("position", "wanted"), [(14, {}), (16, {"acted-after-its-term": 1})])
def test_an_act_stands_before_the_resignation_of_its_leader(position: int, wanted: dict[str, int]) -> None:
    vote = two_terms()
    vote.resign(10, (40, 42), 15)
    vote.act(10, 9, (33, 60), position)
    vote.trail((10, 1), (10, 2), (10, 9), (20, 3))
    check_acting(vote, wanted)


def test_a_resignation_from_a_term_that_was_over_is_an_act_of_an_old_term() -> None:
    vote = two_terms()
    vote.act(10, 9, (150, 160), 22)
    vote.resign(10, (170, 180), 25)
    vote.trail((10, 1), (10, 2), (20, 3), (10, 9))
    verdict = check_acting(vote, {"old-term-acted": 1, "acted-after-its-term": 1})
    assert "The resignation from term 10" in verdict.witnesses[1].steps[0]


def test_of_two_ends_the_first_counts() -> None:
    vote = two_terms()
    vote.act(10, 9, (50, 160), 20.5)  # type: ignore[arg-type]  # between the grant and the first act of term 20
    vote.resign(10, (170, 180), 25)
    vote.trail((10, 1), (10, 2), (10, 9), (20, 3))
    check_acting(vote, {"acted-after-its-term": 2})


def test_a_term_that_only_an_observer_saw_ends_the_one_before_too() -> None:
    vote = Vote()
    vote.grant(10, (10, 12))
    vote.grant(20, (20, 30), type=INFO, error="timeout", result=None)
    vote.act(10, 1, (40, 42), 21)
    vote.trail((10, 1))
    assert vote.verdict(ACTING).anomalies == {}
    again = Vote()
    again.grant(10, (10, 12))
    again.act(10, 1, (40, 42), 21)
    again.see(20, (50, 52))
    again.trail((10, 1))
    assert again.verdict(ACTING).anomalies == {"acted-after-its-term": 1}


def test_a_deed_without_a_position_stands_behind_those_before_it() -> None:
    vote = Vote()
    vote.grant(10, (10, 12))
    vote.grant(20, (100, 102))
    vote.act(10, 1, (30, 130), 25)
    vote.act(10, 2, (140, None))
    vote.trail((10, 1), (10, 2))
    check_acting(vote, {"acted-after-its-term": 2})


def _refused(vote: Vote) -> None:
    vote.trail((10, 1), (10, 2), (10, 4), (20, 3))


def _twice(vote: Vote) -> None:
    vote.trail((10, 1), (10, 2), (10, 2), (20, 3))


def _nobody(vote: Vote) -> None:
    vote.trail((10, 1), (10, 2), (10, 77), (20, 3))


def _sent_later(vote: Vote) -> None:
    vote.trail((10, 1), (10, 2), (20, 3), (20, 8))
    vote.act(20, 8, (1100, 1102), 30)


def _differ(vote: Vote) -> None:
    vote.act(20, 5, (300, None))
    vote.act(20, 6, (300, None))
    vote.trail((10, 1), (10, 2), (20, 3), (20, 5), (20, 6))
    vote.trail((10, 1), (10, 2), (20, 3), (20, 6), node="n2", at=(1030, 1040))


def _against(vote: Vote) -> None:
    vote.trail((10, 2), (10, 1), (20, 3))


@pytest.mark.parametrize(
    ("spoil", "anomaly"),
    [
        (_against, "trail-against-positions"),
        (_refused, "refused-act-took-effect"),
        (_twice, "act-twice"),
        (_nobody, "act-from-nowhere"),
        (_sent_later, "act-from-nowhere"),
        (_differ, "trails-differ"),
    ],
)
def test_a_trail_that_no_correct_store_has(spoil: Callable[[Vote], None], anomaly: str) -> None:
    vote = two_terms()
    spoil(vote)
    verdict = check_acting(vote, {anomaly: 1})
    assert verdict.witnesses[0].steps


def test_an_earlier_read_may_show_the_beginning_of_a_later_one() -> None:
    vote = two_terms()
    vote.trail((10, 1), (10, 2), at=(1001, 1002))
    vote.trail((10, 1), (10, 2), (20, 3), node="n2")
    check_acting(vote, {})


def test_an_acknowledged_act_must_be_on_the_trail() -> None:
    vote = two_terms()
    vote.act(20, 8, (1000.5, 1015), 22)  # acknowledged when the read was on its way
    vote.trail((10, 1), (20, 3))
    verdict = vote.verdict(KEPT)
    assert (verdict.anomalies, verdict.exposure) == ({"lost-act": 1}, 3)


def test_a_weak_read_of_the_trail_proves_nothing() -> None:
    vote = two_terms()
    vote.trail((10, 1))
    verdicts = vote.judged(members="plain")
    assert {only(verdicts, name).validity for name in (ACTING, KEPT)} == {Validity.UNKNOWN}


def test_without_a_read_after_healing_nothing_is_known() -> None:
    verdicts = two_terms().judged()
    assert only(verdicts, ACTING).validity is Validity.UNKNOWN
    assert "no strong read" in only(verdicts, ACTING).reason
    assert only(verdicts, KEPT).validity is Validity.UNKNOWN


def test_leaders_that_were_never_superseded_put_nothing_to_the_test() -> None:
    vote = Vote()
    vote.grant(10, (10, 12))
    vote.act(10, 1, (20, 22), 11)
    vote.trail((10, 1))
    verdict = vote.verdict(ACTING)
    assert (verdict.validity, verdict.exposure) == (Validity.UNKNOWN, 0)


def test_what_became_of_the_acts_of_superseded_leaders() -> None:
    vote = two_terms()
    vote.act(10, 5, (40, None))
    vote.act(10, 6, (50, None))
    vote.refused(10, 7, (60, 110))
    vote.act(10, 8, (130, 160), type=INFO, error="timeout")
    vote.refused(10, 9, (170, 171), error="not-connected")
    vote.trail((10, 1), (10, 2), (10, 5), (20, 3))
    verdict = vote.verdict(ACTING)
    assert verdict.figures.plain() == {
        "fencing": "on",
        "superseded_acts": 3,
        "superseded_fenced": 1,
        "superseded_unknown_and_absent": 1,
        "superseded_refused_otherwise": 1,
        "overtaken_acts": 3,
        "overtaken_fenced": 1,
        "overtaken_unknown_and_absent": 1,
        "overtaken_unknown_and_there": 1,
    }
    assert verdict.exposure == 5


# Terms


@pytest.mark.parametrize(
    ("second", "wanted"),
    [
        ({"token": 21, "at": (103, 104)}, {}),
        ({"token": 19, "at": (103, 104)}, {"term-went-back": 1}),
        ({"token": 19, "at": (101, 104)}, {}),  # asked for before the other was granted
        ({"token": 20, "at": (103, 104)}, {"same-term-twice": 1}),
        ({"token": 20, "at": (101, 104)}, {"same-term-twice": 1}),
    ],
)
def test_terms_grow(second: dict[str, Any], wanted: dict[str, int]) -> None:
    vote = two_terms()
    vote.grant(**second)
    assert vote.verdict(GROW).anomalies == wanted


# Beliefs


@pytest.mark.parametrize(("last_ms", "overlap_ms"), [(101, None), (103, 1), (140, 38)])
def test_two_believe_from_the_grant_of_one_to_the_last_act_of_the_other(
    last_ms: float, overlap_ms: float | None
) -> None:
    vote = Vote()
    vote.grant(10, (10, 12))
    vote.act(10, 1, (last_ms, None))
    vote.grant(20, (100, 102))
    vote.act(20, 2, (200, None))
    verdict = vote.verdict(BELIEVED)
    if overlap_ms is None:
        assert (verdict.validity, verdict.figures.plain()["two_believers"]) == (Validity.VALID, 0)
    else:
        assert verdict.anomalies == {"two-believers": 1}
        assert (
            verdict.figures.plain()["two_believers_ns_max"]
            == verdict.figures.plain()["two_believers_ns"]
            == ns(overlap_ms)
        )
        assert verdict.witnesses[0].steps[-1] == f"For {overlap_ms:.3f} ms both believed that they led."


@pytest.mark.parametrize("error", ["fenced", "lease-expired", "not-held"])
def test_what_a_leader_does_after_it_was_told_is_no_belief(error: str) -> None:
    vote = Vote()
    vote.grant(10, (10, 12))
    vote.act(10, 1, (20, 22), 11)
    vote.op("renew", "election", [10, "h"], at=(30, 90), type=FAIL, error=error)
    vote.grant(20, (100, 102))
    vote.refused(10, 2, (150, 160))
    assert vote.verdict(BELIEVED).anomalies == {}


def test_another_refusal_tells_nothing() -> None:
    vote = Vote()
    vote.grant(10, (10, 12))
    vote.refused(10, 1, (30, 90), error="not-connected")
    vote.grant(20, (100, 102))
    vote.act(20, 2, (200, None))
    vote.refused(10, 3, (150, 160))
    assert vote.verdict(BELIEVED).anomalies == {"two-believers": 1}


def test_without_fencing_beliefs_and_effects_are_one_guarantee() -> None:
    vote = two_terms()
    vote.act(10, 5, (150, 152), 22)
    vote.trail((10, 1), (10, 2), (20, 3), (10, 5))
    verdicts = vote.judged(fencing="off")
    found = [v.anomalies for v in verdicts if v.guarantee == BELIEVED]
    assert {"old-term-acted": 1} in found
    assert not [v for v in verdicts if v.guarantee == ACTING]


# Observers


def seen(*told: tuple[int | None, int], mode: str = "plain", **more: Any) -> Verdict:
    """One session after another observes terms: (token, process)."""
    vote = two_terms()
    for i, (token, process) in enumerate(told):
        vote.see(token, (200 + 10 * i, 205 + 10 * i), process=process, **more)
    guarantee = {"plain": "session-order", "sync": "fresh-after-sync"}.get(mode, "linearizable")
    return vote.verdict(guarantee, observe=mode)


@pytest.mark.parametrize(
    ("told", "mode", "wanted"),
    [
        ([(10, 8), (None, 8), (20, 8)], "plain", 0),
        ([(20, 8), (20, 8), (None, 8), (20, 8)], "plain", 0),
        ([(20, 8), (10, 8)], "plain", 1),
        ([(20, 8), (None, 8), (10, 8), (10, 8)], "plain", 2),
        ([(20, 8), (10, 9)], "plain", 0),
        ([(20, 8), (10, 9)], "strong", 1),
        ([(20, 8), (10, 9)], "sync", 1),
        ([(20, 8), (20, 9)], "barrier", 0),
        ([(20, 8), (10, 8)], "barrier", 1),
        ([(20, 7), (10, 7)], "plain", 1),
    ],
)
def test_no_observer_is_taken_back_in_time(told: list[tuple[int | None, int]], mode: str, wanted: int) -> None:
    verdict = seen(*told, mode=mode)
    assert verdict.anomalies == ({"observed-term-went-back": wanted} if wanted else {})


def test_a_session_is_the_servers_where_it_has_one() -> None:
    vote = two_terms()
    vote.see(20, (200, 201), process=8, session=5)
    vote.see(10, (210, 211), process=8, session=6)
    vote.see(10, (220, 221), process=9, session=5)
    verdict = vote.verdict("session-order")
    assert verdict.anomalies == {"observed-term-went-back": 1}
    assert "process 9" in verdict.witnesses[0].steps[1]


def test_a_leader_knows_its_own_term_and_that_it_resigned() -> None:
    vote = two_terms()
    vote.see(10, (113, 114), process=2)  # acted in term 20 before
    vote.resign(20, (130, 132), 25, process=2)
    vote.see(20, (140, 141), process=2)
    vote.see(None, (150, 151), process=2)
    assert vote.verdict("session-order").anomalies == {"observed-term-went-back": 2}


def confirmed(shown: int | None, *, mode: str = "strong", renewed_at: float | None = None, **options: Any) -> Verdict:
    """The leader of term 20 succeeds that of term 10 and asks who leads; then it renews its lease, or does not."""
    vote = Vote()
    vote.grant(10, (1, 2))
    vote.grant(20, (3, 4), process=1)
    vote.op("confirm", "election", [20, "h"], at=(5, 6), result=[] if shown is None else [shown], process=1)
    if renewed_at is not None:
        vote.op("renew", "election", [20, "h"], at=(renewed_at, renewed_at + 0.1), process=2)
    guarantee = "session-order" if mode == "plain" else "linearizable"
    return vote.verdict(guarantee, observe=mode, **options)


@pytest.mark.parametrize(
    ("verdict", "wanted"),
    [
        (lambda: confirmed(20), {}),
        (lambda: confirmed(30), {}),
        (lambda: confirmed(10), {"leader-unsure": 1}),
        (lambda: confirmed(None), {}),
        (lambda: confirmed(None, renewed_at=5.5), {}),
        (lambda: confirmed(None, renewed_at=7), {"leader-unsure": 1}),
        (lambda: confirmed(10, mode="plain"), {}),
    ],
)
def test_a_leader_that_asks_right_after_its_election_is_shown_itself(
    verdict: Callable[[], Verdict], wanted: dict[str, int]
) -> None:
    assert verdict().anomalies == wanted


def test_how_often_a_leader_asked_is_counted() -> None:
    rules = {rule.name: rule.chances for rule in confirmed(20).rules}
    assert rules["leader-unsure"] == 1
    assert "leader-unsure" not in {rule.name for rule in confirmed(20, mode="plain").rules}


def test_a_reply_does_not_stand_before_an_earlier_one_of_its_session() -> None:
    vote = two_terms()
    vote.see(20, (200, 201), process=8, position=30)
    vote.see(20, (210, 211), process=8, position=29)
    vote.see(20, (210, 211), process=9, position=28)
    assert vote.verdict("session-order").anomalies == {"position-went-back": 1}


def test_how_far_behind_observers_were() -> None:
    verdict = seen((10, 8), (20, 8))
    assert verdict.figures.plain() == {
        "observations": 4, "observed_nobody": 0, "observed_behind": 1, "observed_behind_ns_max": ns(98),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("f", "value", "result"), [("campaign", None, 7), ("campaign", None, ["x", "h"]), ("act", 5, None)]
)
def test_a_term_that_means_nothing_is_named(f: str, value: Any, result: Any) -> None:
    vote = Vote()
    vote.op(f, "election", value, at=(1, 2), result=result)
    with pytest.raises(MalformedHistory, match="carries its term as"):
        vote.judged()


def test_an_empty_history_is_unknown() -> None:
    assert {v.validity for v in Vote().judged()} == {Validity.UNKNOWN}


def test_each_verdict_names_its_rule_and_how_often_it_could_have_fired() -> None:
    vote = two_epochs(101, type=FAIL, error="fenced")
    vote.trail((1, 1), (3, 2))
    rules = {(verdict.guarantee, rule.name): rule for verdict in vote.judged() for rule in verdict.rules}
    assert {names: rule.chances for names, rule in rules.items()} == {
        (ACTING, "acted-after-its-term"): 1,
        (GROW, "term-went-back"): 1,
        (RESIGNED, "deposed-by-stale-resign"): 0,
        (BELIEVED, "two-believers"): 1,
        ("session-order", "observed-term-went-back"): 0,
        (KEPT, "lost-act"): 2,
        (SETTLED, "won-after-settled"): 0,
        (SETTLED, "unexplained-leader"): 0,
        (AGAIN, "no-leader"): 0,
    }
    assert [rule.name for rule in rules.values() if rule.lacks] == [
        "deposed-by-stale-resign",
        "observed-term-went-back",
        "won-after-settled",
        "unexplained-leader",
        "no-leader",
    ]


@pytest.mark.parametrize(
    ("sent_ms", "ended", "validity", "exposure"),
    [
        (110, {}, Validity.INVALID, 1),
        (110, {"type": FAIL, "error": "not-held"}, Validity.VALID, 1),
        # The answer never came, or the later term was granted meanwhile, or the resignation was not sent.
        (110, {"type": INFO}, Validity.UNKNOWN, 0),
        (101, {}, Validity.UNKNOWN, 0),
        (110, {"type": FAIL, "error": "not-sent"}, Validity.UNKNOWN, 0),
    ],
)
def test_who_resigns_late_ends_nobody_elses_term(
    sent_ms: float, ended: dict[str, Any], validity: Validity, exposure: int
) -> None:
    vote = Epochs()
    vote.grant(1, (10, 12), process=1)
    vote.grant(3, (100, 102), process=2)
    vote.resign(1, (sent_ms, sent_ms + 2), None, process=1, **ended)
    verdict = vote.verdict(RESIGNED)
    assert (verdict.validity, verdict.exposure) == (validity, exposure)


def given_up(shown: int | None, *, won_at: int | None = 40) -> Vote:
    """Term 10 lasts when process 2 gives up its campaign at 30 ms; then `shown` is read, and `won_at` at 60 ms."""
    vote = Vote()
    vote.grant(10, (5, 10), process=1)
    vote.op("campaign", "election", at=(20, 30), process=2, type=INFO, error="timeout")
    vote.see(shown, (40, 42), process=3)
    vote.see(won_at, (60, 62), process=3)
    return vote


def test_a_campaign_that_was_given_up_must_not_win_after_another_leader_was_shown() -> None:
    verdict = given_up(10).verdict(SETTLED, observe="strong")
    assert verdict.anomalies == {"won-after-settled": 1}
    assert verdict.exposure == 1
    assert "gave up at 0.030000 s" in verdict.witnesses[0].steps[0]


@pytest.mark.parametrize(
    "vote",
    [given_up(40), given_up(None), given_up(10, won_at=10)],
    ids=["it is shown at once", "nobody is shown before", "it never wins"],
)
def test_a_campaign_that_may_have_won_before_the_read_breaks_nothing(vote: Vote) -> None:
    verdict = vote.verdict(SETTLED, observe="strong")
    assert verdict.anomalies == {}
    assert verdict.validity is Validity.VALID


def test_one_of_two_campaigns_may_have_won_if_no_read_came_after_it() -> None:
    vote = given_up(10)
    vote.op("campaign", "election", at=(45, 70), process=4, type=INFO, error="timeout")
    assert vote.verdict(SETTLED, observe="strong").anomalies == {}


def test_a_leader_whom_nobody_asked_for_is_not_explained() -> None:
    vote = Vote()
    vote.grant(10, (5, 10), process=1)
    vote.op("campaign", "election", at=(20, 30), process=2, type=FAIL, error="held")
    vote.see(40, (60, 62), process=3)
    assert vote.verdict(SETTLED, observe="strong").anomalies == {"unexplained-leader": 1}
    assert vote.verdict(SETTLED, observe="plain").anomalies == {}


def after_a_fault(next_grant_ms: float | None, *, another_ms: float | None = None) -> Vote:
    """A leader is paused from 100 to 200 ms; candidates campaign in vain until a term is granted."""
    vote = Vote()
    vote.grant(10, (5, 10), process=1)
    vote.fault("pause", ("n1",), (100, 101, 199, 200))
    if another_ms is not None:
        vote.fault("pause", ("n2",), (another_ms, another_ms + 1, 900, 901))
    for at_ms in range(210, 800, 50):
        vote.op("campaign", "election", at=(at_ms, at_ms + 1), process=2, type=FAIL, error="held")
    if next_grant_ms is not None:
        vote.grant(40, (next_grant_ms, next_grant_ms + 1), process=2)
    return vote


@pytest.mark.parametrize(
    ("vote", "exposure", "anomalies"),
    [
        (after_a_fault(300), 1, {}),
        (after_a_fault(750), 1, {"no-leader": 1}),
        (after_a_fault(None), 1, {"no-leader": 1}),
        (after_a_fault(None, another_ms=400), 0, {}),
        (after_a_fault(300, another_ms=400), 1, {}),
    ],
    ids=["in time", "too late", "never", "the next fault came too soon", "before the next fault"],
)
def test_somebody_leads_within_the_bound_after_a_fault(vote: Vote, exposure: int, anomalies: dict[str, int]) -> None:
    verdict = vote.verdict(AGAIN, leads_within="400ms")
    assert (verdict.exposure, verdict.anomalies) == (exposure, anomalies)
