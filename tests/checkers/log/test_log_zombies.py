"""Superseded leaders of a topic partition: what they acknowledged and showed, told by polls alone."""

from typing import Any

from fencepost.checkers import leadership
from fencepost.checkers.log import zombie_leaders
from fencepost.harness.history import Claim, Outcome, PhaseName
from fencepost.harness.verdict import Validity, Verdict
from tests.checkers.build import Tale, facts

#: Offsets 0 and 1 are of epoch 1 (b1); from 200 ms on b2 leads epoch 2, which a poll shows at 205 ms.
FINAL = [[0, 10, 1], [1, 11], [2, 20, 2], [3, 21]]
BROKERS = {"nodes": ("n1", "n2", "n3", "b1", "b2"), "electorate": ("n1", "n2", "n3")}


def _told(*, final: list[list[int]] = FINAL, last: tuple[str, int] = ("b2", 2)) -> Tale:
    tale = Tale()
    _append(tale, 10, 0, at=(10, 15), epoch=1)
    _append(tale, 11, 1, at=(20, 25), epoch=1)
    _poll(tale, "b1", 0, [[0, 10, 1], [1, 11]], 2, at=(100, 105), epoch=1)
    _poll(tale, "b2", 2, [], 2, at=(200, 205), epoch=2)
    _append(tale, 20, 2, at=(210, 215), epoch=2, node="b2")
    _append(tale, 21, 3, at=(220, 225), epoch=2, node="b2")
    tale.phase(PhaseName.SETTLE, 1000)
    tale.phase(PhaseName.FINAL, 1000)
    node, epoch = last
    _poll(tale, node, 0, final, len(final), at=(1010, 1015), epoch=epoch, f="scan")
    _poll(tale, node, len(final), [], len(final), at=(1020, 1025), epoch=epoch, f="scan")
    return tale


def _append(tale: Tale, value: int, offset: int, *, at: tuple[float, float], node: str = "b1", **more: Any) -> None:
    tale.op("append", "p0", value, at=at, node=node, position=offset, **more)


def _poll(tale: Tale, node: str, asked: int, rows: list[list[int]], end: int, *, f: str = "poll", **more: Any) -> None:
    tale.op(f, "p0", asked, result=rows, node=node, position=end, **more)


def _refused(tale: Tale, node: str, at: tuple[float, float]) -> None:
    tale.op("poll", "p0", 0, node=node, at=at, type=Outcome.FAIL, error="not-leader-or-follower")


def _judge(tale: Tale, **options: Any) -> Verdict:
    (verdict,) = zombie_leaders.check(tale.history(), facts(options=options, **BROKERS))
    return verdict


def test_without_a_superseded_leader_nothing_was_put_to_the_test() -> None:
    verdict = _judge(_told())
    assert (verdict.validity, verdict.exposure) == (Validity.UNKNOWN, 0)


def test_a_superseded_leader_that_only_answers_reads_is_a_figure() -> None:
    tale = _told()
    _poll(tale, "b1", 0, [[0, 10, 1], [1, 11]], 2, at=(300, 305), epoch=1)
    verdict = _judge(tale)
    assert verdict.validity is Validity.VALID
    assert verdict.guarantee == "zombie-broker-does-not-act"
    figures = verdict.figures.plain()
    assert (figures["reads_answered"], figures["reads_stale"], figures["reads_stale_ns_max"]) == (1, 1, 85_000_000)
    assert figures["superseded_for_ns_max"] == 95_000_000  # from 205 ms, when epoch 2 showed, to the question at 300


def test_a_read_sent_before_the_newer_acknowledgement_is_not_stale() -> None:
    tale = _told()
    _poll(tale, "b1", 2, [], 2, at=(206, 209), epoch=1)
    assert _judge(tale).figures.plain()["reads_stale"] == 0


def test_an_append_that_only_the_zombie_had_is_a_lost_acknowledgement() -> None:
    tale = _told()
    _append(tale, 90, 2, at=(300, 305), epoch=1)
    for options, guarantee in (({}, ""), ({"acks": "1"}, "-unreplicated")):
        verdict = _judge(tale, **options)
        assert verdict.validity is Validity.INVALID
        assert verdict.guarantee == f"zombie-broker-does-not-act{guarantee}"
        assert verdict.anomalies == {"lost-acknowledgement": 1}
        assert verdict.figures.plain()["acks"] == options.get("acks", "all")
    (witness,) = _judge(tale).witnesses
    assert witness.steps[0].startswith("Epoch 2 of p0 had begun at 0.205000 s: b2 answered a poll")
    assert "b1, leader of epoch 1, acknowledged 90 at offset 2" in witness.steps[1]


def test_an_append_that_survived_is_no_violation() -> None:
    tale = _told(final=[*FINAL, [4, 90, 1]])
    _append(tale, 90, 4, at=(300, 305), epoch=1)
    verdict = _judge(tale)
    assert verdict.validity is Validity.VALID
    assert (verdict.figures.plain()["appends_acknowledged"], verdict.figures.plain()["appends_survived"]) == (1, 1)


def test_an_append_sent_before_the_new_epoch_showed_is_not_the_zombie_s() -> None:
    tale = _told()
    _append(tale, 90, 2, at=(203, 208), epoch=1)
    assert _judge(tale).exposure == 0


def test_a_read_of_what_is_gone_is_an_act() -> None:
    tale = _told()
    tale.op("append", "p0", 90, at=(290, 295), node="b1", type=Outcome.INFO, error="timeout")
    _poll(tale, "b1", 2, [[2, 90, 1]], 3, at=(300, 305), epoch=1)
    assert _judge(tale).anomalies == {"vanished-read": 1}


def test_refusals_and_silence_are_told_apart() -> None:
    tale = _told()
    tale.op("append", "p0", 90, at=(290, 291), node="b1", type=Outcome.FAIL, error="not-enough-replicas")
    tale.op("append", "p0", 91, at=(292, 293), node="b1", type=Outcome.INFO, error="request-timed-out")
    _poll(tale, "b1", 2, [], 2, at=(300, 305), epoch=1)
    figures = _judge(tale).figures.plain()
    assert (figures["appends_fenced"], figures["appends_unknown"], figures["appends_acknowledged"]) == (1, 1, 0)


def test_a_leader_that_leads_again_is_not_superseded() -> None:
    tale = _told(final=[*FINAL, [4, 30, 3]], last=("b1", 3))
    _refused(tale, "b1", (250, 255))
    _append(tale, 30, 4, at=(300, 305), epoch=3)
    assert _judge(tale).exposure == 0


def test_beliefs_about_the_partition_are_samples_too() -> None:
    tale = _told()
    tale.claim("b1", 1, 300, 301, subject="p0")
    assert _judge(tale).figures.plain()["superseded_leaders"] == 1
    assert all(v.subject != "p0" for v in leadership.check(tale.history(), facts(**BROKERS)))


def test_the_time_in_which_a_paused_broker_did_not_run_is_left_out() -> None:
    tale = _told()
    tale.pause("b1", 150, 400)
    _poll(tale, "b1", 0, [[0, 10, 1]], 2, at=(160, 401), epoch=1)
    assert (
        _judge(tale).figures.plain()["superseded_for_ns_max"] == 195_000_000
    )  # asked while it stood still: from 400 on


def test_a_broker_cut_off_from_the_voters_is_followed() -> None:
    tale = _told()
    voters = ("n1", "n2", "n3")
    severed = tuple(link for n in voters for link in (f"b1>{n}", f"{n}>b1"))
    tale.fault("partition", ("b1",), (120, 120, 600, 600), severed=severed)
    _append(tale, 90, 2, at=(300, 305), epoch=1)
    _poll(tale, "b1", 0, [[0, 10, 1]], 2, at=(310, 315), epoch=1)
    _refused(tale, "b1", (400, 405))
    (cut,) = _judge(tale, acks="1").figures.plain()["cut_brokers"]
    assert {name: value for name, value in cut.items() if name != "events"} == {
        "node": "b1",
        "cut_from_ns": 120_000_000,
        "cut_ns": 480_000_000,
        "partitions_led": 1,
        "superseded_after_ns": 85_000_000,
        "appends_acknowledged": 1,
        "appends_lost": 1,
        "last_append_after_ns": 185_000_000,
        "last_read_after_ns": 195_000_000,
        "stopped_leading_after_ns": 285_000_000,
    }


def test_partition_epochs_prove_nothing_about_the_cluster_s_leader() -> None:
    tale = _told()
    tale.belief("n1", Claim.YES, 300, 301, epoch=1)
    (verdict,) = (v for v in leadership.check(tale.history(), facts(**BROKERS)) if v.subject)
    assert verdict.figures.plain()["epochs"] == 1
    assert verdict.figures.plain()["claimed_count"] == 0
