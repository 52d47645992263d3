"""The metadata checkers on constructed histories: both sides of every rule. Times are in ms."""

from typing import Any

import msgspec
import pytest

from fencepost.harness.history import Claim, MigrationEvent, NodeChange, Outcome, PhaseName
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.checkers import metadata
from fencepost.systems.kafka.checkers.metadata.changes import Changes
from fencepost.systems.kafka.checkers.metadata.staleness import staleness
from tests.checkers.build import NODES, Tale, facts, only
from tests.systems.kafka.checkers.metadata.test_ground_truth import log

#: b1 is a broker: it has no vote, and hands changes over to whoever is in charge.
FACTS = facts(nodes=(*NODES, "b1"), electorate=NODES, read_guarantee="metadata-durable")

#: Healing is over at 10 s, the final phase begins at 11 s.
FINAL = 11_000


class Kept(Tale):
    """A tale of settings and names."""

    def set(self, key: str, value: int, at: tuple[float, float | None], node: str = "n1", **more: Any) -> int:
        return self.op("alter", key, value, at=at, node=node, **more)

    def get(self, key: str, result: int | None, at: float, node: str = "n1", **more: Any) -> None:
        self.tell_op("describe", key, result, at, node, **more)

    def take(self, name: str, at: tuple[float, float | None], node: str = "n1", **more: Any) -> int:
        return self.op("create", name, 1, at=at, node=node, **more)

    def ask(self, name: str, taken: bool, at: float, node: str = "n1") -> None:
        self.tell_op("exists", name, 1 if taken else None, at, node)

    def tell_op(self, f: str, key: str, result: int | None, at: float, node: str, **more: Any) -> None:
        """Answered within a millisecond, by a process of its own."""
        self.op(f, key, None, at=(at, at + 1), node=node, result=result, **more)

    def judged(self, guarantee: str, nemesis: tuple[str, ...] = ()) -> Verdict:
        for phase, at in ((PhaseName.MAIN, 0), (PhaseName.SETTLE, 10_000), (PhaseName.FINAL, FINAL)):
            self.phase(phase, at)
        self.sample(20_000)
        return only(metadata.check(self.history(), msgspec.structs.replace(FACTS, nemesis=nemesis)), guarantee)


def final_views(tale: Kept, *, last: int, views: dict[str, int | None]) -> None:
    """The last setting is written and shown by every node of `views`; 1.2 s later each shows `k` as given."""
    tale.set("k-last", last, (FINAL, FINAL + 10))
    for node, value in views.items():
        tale.get("k-last", last, FINAL + 100, node)
        tale.get("k", value, FINAL + 1_300, node)


# -- durable ------------------------------------------------------------------------------------------------------


def test_an_acknowledged_change_that_every_final_view_shows_is_kept() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210), node="n2")
    final_views(tale, last=9, views={"n1": 2, "n2": 2, "b1": 2})
    verdict = tale.judged("metadata-durable")
    assert verdict.validity is Validity.VALID
    assert verdict.exposure == 3


def test_a_lost_change_is_found_by_a_later_one_that_the_same_server_shows() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210))
    final_views(tale, last=9, views={"n1": 1, "n2": 1})
    verdict = tale.judged("metadata-durable")
    assert verdict.validity is Validity.INVALID
    assert verdict.anomalies == {"lost-acknowledged-change": 2}
    assert "n1 answered that k is 1, which is older than 2" in verdict.witnesses[0].steps[-1]


def kept_changes() -> Kept:
    """A setting and a name from the beginning of the run, in the final views of n1; nothing is lost."""
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.take("t", (120, 130))
    final_views(tale, last=9, views={"n1": 1})
    tale.take("t-last", (FINAL, FINAL + 10))
    tale.ask("t-last", True, FINAL + 100)
    tale.ask("t", True, FINAL + 1_300)
    return tale


def test_a_change_that_nothing_disturbed_says_nothing_about_durability() -> None:
    """Only a broker is touched, and one controller is in charge throughout."""
    tale = kept_changes()
    tale.claim("n1", 1, 50, 60)
    tale.fault("kill", ("b1",), (300, 301, 900, 901))
    verdict = tale.judged("metadata-durable", ("kill",))
    assert (verdict.validity, verdict.exposure) == (Validity.UNKNOWN, 0)
    assert "no fault touched one" in verdict.reason
    lost = {rule.name: rule for rule in verdict.rules}["lost-acknowledged-change"]
    assert (lost.chances, "no fault touched one" in lost.lacks) == (0, True)
    # A run whose plan asks for no fault is judged by what it has: the setting and the name, and the last of both.
    assert tale.judged("metadata-durable", ("none",)).validity is Validity.VALID


@pytest.mark.parametrize(
    ("nodes", "severed", "over_ms", "exposure"),
    [
        (("n2",), (), 115, 1),  # the setting was sent at 100 ms, the name at 120 ms
        (("n2",), (), 900, 2),
        (("n2",), ("n2>n1",), 900, 2),
        (("b1",), ("b1>n1",), 900, 2),
        (("b1",), (), 900, 0),
    ],
)
def test_a_fault_of_a_controller_puts_at_risk_what_was_sent_before_it_was_over(
    nodes: tuple[str, ...], severed: tuple[str, ...], over_ms: float, exposure: int
) -> None:
    tale = kept_changes()
    tale.fault("partition" if severed else "kill", nodes, (50, 51, over_ms - 1, over_ms), severed=severed)
    assert tale.judged("metadata-durable", ("partition:leader",)).exposure == exposure


def test_a_new_controller_puts_at_risk_what_was_sent_before_it() -> None:
    tale = kept_changes()
    tale.claim("n1", 1, 50, 60)
    tale.claim("n2", 2, 110, 115)
    verdict = tale.judged("metadata-durable", ("partition:leader",))
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


def test_a_loss_that_nothing_disturbed_is_a_violation_all_the_same() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210))
    final_views(tale, last=9, views={"n1": 1})
    assert tale.judged("metadata-durable", ("kill",)).validity is Validity.INVALID


def test_one_view_that_lacks_what_another_shows_contradicts_it() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210))
    final_views(tale, last=9, views={"n1": 2, "n2": 1})
    verdict = tale.judged("metadata-durable")
    assert verdict.anomalies == {"views-contradict": 1}
    assert set(verdict.witnesses[0].nodes) == {"n1", "n2"}


def test_a_view_that_was_not_proven_late_enough_may_lag() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210))
    tale.get("k", 1, FINAL + 100)
    verdict = tale.judged("metadata-durable")
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.exposure == 0


@pytest.mark.parametrize(("later_ms", "validity"), [(950, Validity.UNKNOWN), (1_050, Validity.INVALID)])
def test_a_node_is_given_a_second_to_publish_what_it_learns(later_ms: float, validity: Validity) -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210))
    tale.set("k-last", 9, (FINAL, FINAL + 10))
    tale.get("k-last", 9, FINAL + 100)
    tale.get("k", 1, FINAL + 101 + later_ms)
    assert tale.judged("metadata-durable").validity is validity


def test_a_restart_ends_what_a_server_was_known_to_hold() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210))
    tale.set("k-last", 9, (FINAL, FINAL + 10))
    tale.get("k-last", 9, FINAL + 100)
    tale.node("n1", NodeChange.EXITED, FINAL + 200)
    tale.node("n1", NodeChange.STARTED, FINAL + 300, incarnation=1)
    tale.get("k", 1, FINAL + 1_500)
    assert tale.judged("metadata-durable").validity is Validity.UNKNOWN


@pytest.mark.parametrize("kind", ["overlapping", "unanswered", "forwarded slowly"])
def test_what_may_have_come_later_explains_an_old_looking_value(kind: str) -> None:
    tale = Kept()
    match kind:
        case "overlapping":
            tale.set("k", 1, (100, 210))
        case "unanswered":
            tale.set("k", 1, (100, 150), type=Outcome.INFO)
        case _:
            # A broker took longer than a reconnection takes: it may have handed the change over twice.
            tale.set("k", 1, (100, 160), node="b1")
    tale.set("k", 2, (200, 220))
    final_views(tale, last=9, views={"n1": 1, "n2": 1})
    assert tale.judged("metadata-durable").validity is Validity.VALID


@pytest.mark.parametrize(("took_ms", "validity"), [(60, Validity.VALID), (20, Validity.INVALID)])
def test_where_all_nodes_vote_any_may_forward(took_ms: float, validity: Validity) -> None:
    tale = Kept()
    tale.set("k", 1, (100, 100 + took_ms))
    tale.set("k", 2, (200, 220))
    final_views(tale, last=9, views={"n1": 1})
    for phase, at in ((PhaseName.MAIN, 0), (PhaseName.SETTLE, 10_000), (PhaseName.FINAL, FINAL)):
        tale.phase(phase, at)
    combined = facts(electorate=NODES, read_guarantee="metadata-durable")
    assert only(metadata.check(tale.history(), combined), "metadata-durable").validity is validity


def test_a_broker_that_answered_at_once_handed_the_change_over_once() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 120), node="b1")
    tale.set("k", 2, (200, 220))
    final_views(tale, last=9, views={"n1": 1})
    assert tale.judged("metadata-durable").validity is Validity.INVALID


def test_an_unanswered_change_must_stay_once_it_was_seen() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 300), type=Outcome.INFO)
    tale.get("k", 2, 400, "n3")
    final_views(tale, last=9, views={"n1": 1})
    assert tale.judged("metadata-durable").anomalies == {"lost-acknowledged-change": 1}


def test_what_was_refused_must_not_show() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110), type=Outcome.FAIL, error="policy-violation")
    tale.get("k", 1, 200)
    assert tale.judged("metadata-durable").anomalies == {"refused-change-took-effect": 1}


def names(tale: Kept, *, denied_by: tuple[str, ...], shown_by: tuple[str, ...] = ()) -> None:
    """t1 is taken, then t2; in the end n1 shows t2, and 1.2 s later nodes are asked for t1."""
    tale.take("t1", (100, 110))
    tale.take("t2", (200, 210))
    tale.ask("t2", True, FINAL + 100, "n1")
    for node in denied_by:
        tale.ask("t1", False, FINAL + 1_300, node)
    for node in shown_by:
        tale.ask("t1", True, FINAL + 1_300, node)


def test_a_name_that_everybody_denies_is_lost() -> None:
    tale = Kept()
    names(tale, denied_by=("n1", "b1"))
    verdict = tale.judged("metadata-durable")
    assert verdict.anomalies == {"lost-acknowledged-change": 1}
    assert "said that t1 is not taken" in verdict.witnesses[0].steps[-1]


def test_a_name_that_somebody_still_shows_is_not_lost() -> None:
    tale = Kept()
    names(tale, denied_by=("n1",), shown_by=("b1",))
    assert tale.judged("metadata-durable").validity is Validity.VALID


def test_a_name_that_only_a_forwarding_node_denies_is_not_proven_lost() -> None:
    tale = Kept()
    names(tale, denied_by=("b1",))
    assert tale.judged("metadata-durable").validity is Validity.UNKNOWN


# -- forward ------------------------------------------------------------------------------------------------------


def two_settings(tale: Kept) -> None:
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210))


def test_a_lagging_view_that_catches_up_moves_forward() -> None:
    tale = Kept()
    two_settings(tale)
    tale.get("k", None, 300, "n2")
    tale.get("k", 1, 310, "n2")
    tale.get("k", 2, 320, "n2")
    verdict = tale.judged("metadata-forward")
    assert verdict.validity is Validity.VALID
    assert verdict.exposure == 1
    assert verdict.figures.plain()["stale_describes"] == 2


@pytest.mark.parametrize("value", [1, None, 77])
def test_an_answer_behind_what_the_server_had_shown_went_back(value: int | None) -> None:
    tale = Kept()
    two_settings(tale)
    tale.get("k", 2, 300, "n2")
    tale.get("k", value, 310, "n2")
    verdict = tale.judged("metadata-forward")
    assert verdict.anomalies == {"view-went-back": 1}
    assert verdict.witnesses[0].nodes[-1] == "n2"


def test_other_nodes_and_later_incarnations_have_views_of_their_own() -> None:
    tale = Kept()
    two_settings(tale)
    tale.get("k", 2, 300, "n2")
    tale.get("k", 1, 310, "n3")
    tale.node("n2", NodeChange.EXITED, 320)
    tale.node("n2", NodeChange.STARTED, 330, incarnation=1)
    tale.get("k", 1, 340, "n2")
    assert tale.judged("metadata-forward").validity is Validity.UNKNOWN


def test_overlapping_answers_have_no_order() -> None:
    tale = Kept()
    two_settings(tale)
    tale.op("describe", "k", None, at=(300, 320), node="n2", result=2)
    tale.op("describe", "k", None, at=(310, 330), node="n2", result=1)
    assert not tale.judged("metadata-forward").anomalies


@pytest.mark.parametrize("kind", ["overlapping", "unanswered", "forwarded slowly"])
def test_only_provable_steps_back_count(kind: str) -> None:
    tale = Kept()
    match kind:
        case "overlapping":
            tale.set("k", 1, (100, 210))
        case "unanswered":
            tale.set("k", 1, (100, 110), type=Outcome.INFO)
        case _:
            tale.set("k", 1, (100, 160), node="b1")
    tale.set("k", 2, (200, 220))
    tale.get("k", 2, 300)
    tale.get("k", 1, 310)
    verdict = tale.judged("metadata-forward")
    assert verdict.validity is Validity.VALID
    assert verdict.figures.plain()["steps_back_not_provable"] == (kind == "forwarded slowly")


# -- converges ----------------------------------------------------------------------------------------------------


def test_nodes_that_say_the_same_at_last_converged() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.get("k", None, FINAL + 10, "b1")
    for node in ("n1", "b1"):
        tale.get("k", 1, FINAL + 500, node)
    verdict = tale.judged("metadata-converges")
    assert verdict.validity is Validity.VALID
    assert verdict.figures.plain()["last_change_seen_after_ns"] == {"b1": 11_391_000_000, "n1": 11_391_000_000}


def test_slow_nodes_are_unknown_never_invalid() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.get("k", 1, FINAL + 10, "n1")
    tale.get("k", None, FINAL + 10, "b1")
    verdict = tale.judged("metadata-converges")
    assert verdict.validity is Validity.UNKNOWN
    assert "b1: None, n1: 1" in verdict.reason


def test_a_node_that_answers_no_more_is_told_one_that_never_could_is_not() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.get("k", 1, FINAL + 10, "n1")
    tale.get("k", 1, FINAL + 10, "n2")
    tale.op("describe", "k", at=(FINAL, FINAL + 1), node="n3", type=Outcome.FAIL, error="unsupported-api")
    assert tale.judged("metadata-converges").validity is Validity.VALID
    tale.op("describe", "k", at=(FINAL, FINAL + 900), node="b1", type=Outcome.FAIL, error="timeout")
    verdict = tale.judged("metadata-converges")
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.figures.plain()["nodes_without_answer"] == ["b1"]


def test_a_node_that_a_roll_back_ended_is_not_missed() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.get("k", 1, FINAL + 10, "n1")
    tale.get("k", 1, FINAL + 10, "n2")
    tale.op("describe", "k", at=(FINAL, FINAL + 1), node="n3", type=Outcome.FAIL, error="not-connected")
    assert tale.judged("metadata-converges").validity is Validity.UNKNOWN
    tale.tell(MigrationEvent, 200, phase="rolled-back", length_ns=1, text="", nodes=("n3",))
    assert tale.judged("metadata-converges").validity is Validity.VALID


def test_two_answers_of_one_offset_that_differ_are_a_violation() -> None:
    tale = Kept()
    two_settings(tale)
    tale.get("k", 1, 300, "n1", position=7)
    tale.get("k", 2, 900, "n2", position=8)
    assert tale.judged("metadata-converges").validity is Validity.UNKNOWN
    tale.get("k", 2, 950, "n2", position=7)
    assert tale.judged("metadata-converges").anomalies == {"two-views-of-one-offset": 1}


# -- epochs -------------------------------------------------------------------------------------------------------


def test_epochs_that_grow_are_well() -> None:
    tale = Kept()
    for epoch, at in ((3, 100.0), (3, 200.0), (5, 300.0)):
        tale.claim("n1", epoch, at, at + 1, subject="raft")
    tale.deny("n1", 400, 401, subject="raft")
    verdict = tale.judged("epochs-never-go-back")
    assert verdict.validity is Validity.VALID
    assert verdict.figures.plain() == {"epochs_led": 2, "epoch_max": 5}


@pytest.mark.parametrize(
    ("change", "anomalies"),
    [
        ({}, {"epoch-went-back": 1}),
        ({"incarnation": 1}, {}),
        ({"epoch_exact": False}, {}),
        ({"subject": "controller"}, {}),
        ({"asked": 50}, {}),
    ],
)
def test_an_epoch_goes_back_only_within_one_server_and_subject(
    change: dict[str, Any], anomalies: dict[str, int]
) -> None:
    tale = Kept()
    tale.claim("n1", 5, 100, 101, subject="raft")
    given: dict[str, Any] = {"asked": 200, "answered": 201, "subject": "raft", **change}
    tale.belief("n1", Claim.YES, epoch=4, **given)
    assert tale.judged("epochs-never-go-back").anomalies == anomalies


# -- staleness ----------------------------------------------------------------------------------------------------


def test_an_answer_is_as_old_as_the_first_change_that_it_lacks() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210))
    tale.set("k", 3, (300, 310))
    tale.get("k", 1, 1_210, "b1")
    tale.get("k", 3, 1_300, "b1")
    history = tale.history()
    judged = staleness(history, FACTS, Changes(history, FACTS))
    (stale,) = judged.stale
    assert judged.undecided == []
    assert stale.missed.value == 2
    assert stale.age_ns == 1_000_000_000


def timed_out(tale: Kept) -> None:
    """A change whose client gave up, shown by a broker for a while; the one acknowledged meanwhile is another."""
    tale.set("k", 1, (100, 200), type=Outcome.INFO)
    tale.set("k", 2, (150, 160), node="n1")
    tale.get("k", 1, 300, "b1")
    tale.get("k", 1, 310, "b1")


@pytest.mark.parametrize(
    ("words", "stale", "undecided"),
    [
        (None, 0, 2),
        ("1:k=1 1:k=2", 2, 0),
        ("1:k=2 1:k=1", 0, 0),
        # Handed over twice: nobody knows which of the two is shown.
        ("1:k=1 1:k=2 1:k=1", 0, 2),
    ],
)
def test_the_run_s_own_log_settles_whether_an_answer_is_stale(words: str | None, stale: int, undecided: int) -> None:
    tale = Kept()
    timed_out(tale)
    history = tale.history()
    if words is not None:
        history.logs = {node: log(node, words) for node in NODES}
    figures = only(metadata.check(history, FACTS), "metadata-forward").figures.plain()
    assert (figures["stale_describes"], figures["undecided_describes"]) == (stale, undecided)
    assert [(row["node"], row["stale"], row["undecided"]) for row in figures["stale_by_node"]] == (
        [("b1", stale, undecided)] if stale or undecided else []
    )


def test_a_change_that_is_in_one_log_only_settles_nothing() -> None:
    tale = Kept()
    timed_out(tale)
    history = tale.history()
    history.logs = {"n1": log("n1", "1:k=2 1:k=1"), "n2": log("n2", "1:k=2"), "n3": log("n3", "1:k=2")}
    assert len(staleness(history, FACTS, Changes(history, FACTS)).undecided) == 2


def test_without_anything_all_is_unknown() -> None:
    tale = Kept()
    tale.phase(PhaseName.MAIN, 0)
    assert {v.validity for v in metadata.check(tale.history(), FACTS)} == {Validity.UNKNOWN}
