"""Rejoins, leaderless time, epochs used up and attachments, on constructed beliefs. Times are in ms."""

from typing import Any

import pytest

from fencepost.checkers.facts.reigns import reigns_of
from fencepost.harness.history import Claim, Outcome
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.checkers.metadata import rejoin
from fencepost.systems.kafka.checkers.metadata.attachment import attached_words, attachments
from fencepost.systems.kafka.checkers.metadata.changes import Changes
from fencepost.systems.kafka.checkers.metadata.staleness import staleness
from fencepost.systems.kafka.figures import Attachment
from tests.checkers.build import NODES, Tale, facts, ns

FACTS = facts(nodes=(*NODES, "b1"), electorate=NODES)


def judged(tale: Tale) -> Verdict:
    (verdict,) = rejoin.check(tale.history(), FACTS)
    return verdict


def polls(from_ms: int, to_ms: int) -> list[float]:
    return [float(at) for at in range(from_ms, to_ms, 50)]


def cut_and_back(*, deposed_at: int | None, epoch: int = 10, leader: str = "n2") -> Tale:
    """n1 leads epoch 3, is cut off from 1 s to 11 s; n2 leads epoch 4 from 2.5 s; `leader` leads `epoch` in the end."""
    tale = Tale()
    tale.health(0, 20_000)
    tale.claims("n1", 3, polls(0, 2_400), subject="raft")
    tale.cut("n1", 1_000, 11_000)
    tale.claims("n2", 4, polls(2_500, deposed_at or 20_000), subject="raft")
    if deposed_at is not None:
        tale.claims(leader, epoch, polls(deposed_at + 700, 20_000), subject="raft")
    return tale


def test_a_voter_that_comes_back_quietly_is_well() -> None:
    verdict = judged(cut_and_back(deposed_at=None))
    assert verdict.validity is Validity.VALID
    assert verdict.exposure == 1
    (cost,) = verdict.figures.plain()["faults"]
    assert (cost["leader"], cost["epoch_before"], cost["epoch_when_healed"], cost["epoch_after"]) == ("n1", 3, 4, 4)
    assert cost["leaderless_ns"] == ns(1_501)
    assert cost["came_back"] == ("n1",)
    assert cost["healthy_leader"] == "n2"


@pytest.mark.parametrize("leader", ["n1", "n2", "n3"])
def test_a_voter_that_deposes_a_healthy_leader_disrupts(leader: str) -> None:
    verdict = judged(cut_and_back(deposed_at=11_080, leader=leader))
    assert verdict.anomalies == {"disruptive-rejoin": 1}
    (cost,) = verdict.figures.plain()["faults"]
    assert cost["deposed_after_ns"] == ns(781)
    assert ns(700) < cost["deposed_leaderless_ns"] < ns(760)
    assert verdict.figures.plain()["epochs_used_max"] == 7
    steps = verdict.witnesses[0].steps
    assert steps[0] == "n1 was away for 10.0 s (partition)."
    assert steps[-1].startswith("6 epochs were used up, and nobody led for up to 7")


def test_the_leaders_own_word_says_when_it_was_deposed() -> None:
    tale = cut_and_back(deposed_at=11_080)
    tale.deny("n2", 11_090, 11_100, subject="raft")
    (cost,) = judged(tale).figures.plain()["faults"]
    assert cost["deposed_after_ns"] == ns(100)


@pytest.mark.parametrize(("deposed_at", "found"), [(15_200, True), (15_400, False)])
def test_only_what_comes_soon_after_the_return_is_its_doing(deposed_at: int, found: bool) -> None:
    verdict = judged(cut_and_back(deposed_at=deposed_at))
    assert bool(verdict.anomalies) is found


def test_the_next_fault_takes_the_blame_for_what_follows_it() -> None:
    tale = cut_and_back(deposed_at=12_000)
    tale.pause("n2", 11_900, 13_000)
    verdict = judged(tale)
    assert not verdict.anomalies
    assert len(verdict.figures.plain()["faults"]) == 2


def test_a_leader_that_another_fault_touches_is_not_healthy() -> None:
    tale = cut_and_back(deposed_at=11_080)
    tale.pause("n2", 10_900, 11_500)
    assert not judged(tale).anomalies


@pytest.mark.parametrize(
    ("deposed_at", "epoch", "doubtful"), [(11_080, 5, False), (13_000, 5, True), (13_000, 10, False)]
)
def test_a_stall_makes_it_doubtful_unless_it_came_at_once_or_with_many_epochs(
    deposed_at: int, epoch: int, doubtful: bool
) -> None:
    tale = cut_and_back(deposed_at=deposed_at, epoch=epoch)
    tale.sample(11_100, lag_ms=900)
    verdict = judged(tale)
    assert verdict.validity is (Validity.UNKNOWN if doubtful else Validity.INVALID)
    assert ("stalled" in verdict.reason) is doubtful


def test_a_paused_voter_comes_back_too() -> None:
    tale = Tale()
    tale.health(0, 20_000)
    tale.claims("n2", 4, polls(0, 6_050), subject="raft")
    tale.pause("n3", 1_000, 6_000)
    tale.claims("n3", 5, polls(6_500, 8_000), subject="raft")
    assert judged(tale).anomalies == {"disruptive-rejoin": 1}


def test_without_a_voter_that_came_back_nothing_was_tested() -> None:
    tale = Tale()
    tale.claims("n2", 4, polls(0, 6_000), subject="raft")
    verdict = judged(tale)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.exposure == 0
    assert judged(Tale()).validity is Validity.UNKNOWN


def test_the_time_to_the_first_change_is_told() -> None:
    tale = cut_and_back(deposed_at=None)
    tale.op("alter", "k", 1, at=(900, 2_600), node="n2")
    tale.op("alter", "k", 2, at=(1_200, 2_700), node="n2")
    (cost,) = judged(tale).figures.plain()["faults"]
    assert cost["changes_resumed_ns"] == ns(1_700)


# -- attachments --------------------------------------------------------------------------------------------------


def forwarded(tale: Tale, times: list[float], leader: str | None, epoch: int | None, **more: Any) -> None:
    claims = Claim.SILENT if leader is None else Claim.NO
    for at in times:
        tale.belief("b1", claims, at, at + 2, epoch=epoch, leader=leader, subject="raft", **more)


def attached(tale: Tale) -> list[Attachment]:
    history = tale.history()
    stale = staleness(history, FACTS, Changes(history, FACTS))
    return attachments(history, FACTS, reigns_of(history, "raft"), "raft", stale)


def test_a_broker_that_follows_at_once_is_not_told() -> None:
    tale = cut_and_back(deposed_at=None)
    forwarded(tale, polls(0, 2_500), "n1", 3)
    forwarded(tale, polls(2_550, 20_000), "n2", 4)
    (one,) = attached(tale)
    assert (one.named_ns, one.followed_ns) == (0, ns(51))
    assert judged(tale).figures.plain()["told"] == []


def test_a_broker_that_stays_with_a_superseded_controller_is_told_with_its_stale_answers() -> None:
    tale = cut_and_back(deposed_at=None)
    tale.op("alter", "k", 1, at=(500, 510), node="n1")
    forwarded(tale, polls(0, 8_000), "n1", 3)
    forwarded(tale, polls(8_000, 11_000), None, None)
    forwarded(tale, polls(11_500, 20_000), "n2", 4)
    tale.op("alter", "k", 2, at=(2_990, 3_000), node="n2")
    tale.op("describe", "k", at=(4_000, 4_001), node="b1", result=1)
    tale.op("describe", "k", at=(8_000, 8_001), node="b1", result=1)
    tale.op("describe", "k", at=(12_000, 12_001), node="b1", result=1)
    (one,) = attached(tale)
    assert (one.leader, one.epoch, one.superseded_by) == ("n1", 3, 4)
    assert (one.named_ns, one.followed_ns) == (ns(5_449), ns(9_001))
    assert one.silent == 60
    assert (one.stale_describes, one.stale_age_ns_max) == (2, ns(5_000))
    assert judged(tale).figures.plain()["told"] == [
        "Epoch 4 had begun: broker b1 followed after 9.0 s, and named n1 (epoch 3) for at least 5.4 s; "
        "2 configuration reads there were stale, the oldest by 5.0 s."
    ]


def test_a_count_that_may_be_too_low_is_told_as_one() -> None:
    tale = cut_and_back(deposed_at=None)
    forwarded(tale, polls(0, 11_000), "n1", 3)
    forwarded(tale, polls(11_500, 20_000), "n2", 4)
    tale.op("alter", "k", 1, at=(2_980, 3_500), node="b1", type=Outcome.INFO, error="timeout")
    tale.op("alter", "k", 2, at=(2_990, 3_000), node="n2")
    tale.op("describe", "k", at=(3_500, 3_501), node="b1", result=None)
    tale.op("describe", "k", at=(4_000, 4_001), node="b1", result=1)
    (one,) = attached(tale)
    assert (one.stale_describes, one.undecided_describes) == (1, 1)
    assert "; at least 1 configuration reads there were stale" in attached_words(one)


def test_a_broker_that_never_follows() -> None:
    tale = cut_and_back(deposed_at=None)
    forwarded(tale, polls(0, 20_000), "n1", 3)
    (one,) = attached(tale)
    assert one.followed_ns is None
    assert "never followed" in attached_words(one)
