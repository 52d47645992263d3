"""When a healed cluster has been watched for long enough."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.contract.system import Answer
from fencepost.harness.history import Claim
from fencepost.harness.runner.watch import CALM_NS, LastAnswers, LoadWatch

NODES: Final = ("n1", "n2", "n3")
STEP: Final = 50_000_000


def answer(claims: Claim, epoch: int | None = None, leader: str | None = None) -> Answer:
    return Answer(claims=claims, source="test", epoch=epoch, leader=leader)


YES: Final = answer(Claim.YES, 5)
NO: Final = answer(Claim.NO, 5)
SILENT: Final = answer(Claim.SILENT)


def said(*answers: Answer, asked_ns: int = 10) -> LastAnswers:
    last = LastAnswers()
    for node, one in zip(NODES, answers, strict=False):
        last.note("leader", node, one, asked_ns)
    return last


def test_nothing_is_left_when_one_leads_and_all_others_deny_it() -> None:
    assert said(NO, YES, answer(Claim.NO, 4, "n2")).disagreement(10) is None


def test_what_is_left_to_watch_is_said() -> None:
    assert said(YES, YES, NO).disagreement(0) == "leader: n1 and n2 claimed to lead"
    assert said(NO, NO, NO).disagreement(0) == "leader: nobody claimed to lead"
    assert said(YES, NO, SILENT).disagreement(0) == "leader: n3 did not answer"
    assert said(YES, NO, NO).disagreement(11) == "leader: n1, n2, n3 did not answer"
    assert said(YES, answer(Claim.NO, 6), NO).disagreement(0) == (
        "leader: n2 named epoch 6, and n1 claimed to lead in epoch 5"
    )
    assert said(YES, NO, answer(Claim.NO, 5, "n2")).disagreement(0) == (
        "leader: n3 took n2 for the leader, which n1 claimed to be"
    )


def test_whoever_lately_claims_the_highest_epoch_leads() -> None:
    assert said(NO, YES, answer(Claim.YES, 6)).leader("leader", 10) == "n3"
    assert said(NO, YES, SILENT).leader("leader", 10) == "n2"
    assert said(NO, YES, NO).leader("leader", 11) is None, "asked before"
    assert said(NO, YES, NO).leader("meta", 0) is None, "another subject"


def test_a_node_that_is_asked_and_never_answered_is_silent_and_every_subject_counts() -> None:
    last = said(YES, NO, NO)
    last.expect("controller", "n2")
    assert last.disagreement(0) == "controller: n2 did not answer"


class Played:
    """A watch that looks every 50 ms; `last`, `fault` and `healed_ns` may change between looks."""

    def __init__(self, last: LastAnswers) -> None:
        self.last, self.fault, self.healed_ns, self.now_ns = last, False, 0, 100
        self.watch = LoadWatch(last, in_force=lambda: self.fault, healed_ns=lambda: self.healed_ns)

    def play(self, length_ns: int, *, loaded: bool = True) -> None:
        for _ in range(length_ns // STEP):
            self.now_ns += STEP
            self.watch.look(self.now_ns, loaded=loaded)


def test_two_seconds_of_load_without_disagreement_end_it() -> None:
    played = Played(said(YES, NO, NO))
    played.play(CALM_NS)
    assert not played.watch.over
    played.play(STEP)
    assert played.watch.over


def test_a_pause_of_the_load_neither_counts_nor_begins_again() -> None:
    played = Played(said(YES, NO, NO))
    played.play(CALM_NS)
    played.play(10 * CALM_NS, loaded=False)
    assert not played.watch.over
    played.play(STEP)
    assert played.watch.over


def test_a_fault_or_a_healing_begins_it_again() -> None:
    played = Played(said(YES, NO, NO, asked_ns=2 * CALM_NS))
    played.play(CALM_NS)
    played.fault = True
    played.play(STEP)
    played.fault = False
    played.play(CALM_NS - STEP)
    assert not played.watch.over
    played.healed_ns = 2 * CALM_NS
    played.play(CALM_NS)
    assert not played.watch.over
    played.play(STEP)
    assert played.watch.over


@given(st.lists(st.sampled_from([YES, NO, SILENT]), min_size=3, max_size=3))
def test_it_never_ends_while_a_second_node_claims_or_may_claim(answers: list[Answer]) -> None:
    played = Played(said(*answers))
    played.play(10 * CALM_NS)
    assert played.watch.over == (answers.count(YES) == 1 and answers.count(NO) == 2)


def test_where_nobody_is_asked_the_words_name_no_leader() -> None:
    played = Played(LastAnswers())
    played.play(CALM_NS + STEP)
    assert played.watch.over and played.watch.in_words.endswith("of load without a fault")
