"""Names as a linearizable set: constructed answers, and the reasons given against the search itself. Times in ms."""

import random

import pytest

from fencepost.harness.history import Outcome
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.checkers.metadata import topic_names
from tests.checkers.build import Tale, facts, only


def judged(tale: Tale) -> Verdict:
    return only(topic_names.check(tale.history(), facts()), "topic-names-linearizable")


def take(tale: Tale, at: tuple[float, float | None], **more: object) -> None:
    tale.op("create", "t", 1, at=at, **more)  # type: ignore[arg-type]


def ask(tale: Tale, taken: bool, at: tuple[float, float], node: str = "n1") -> None:
    tale.op("exists", "t", None, at=at, node=node, result=1 if taken else None)


def test_answers_that_change_while_the_name_is_taken_are_explained() -> None:
    tale = Tale()
    ask(tale, False, (10, 20))
    take(tale, (100, 200))
    ask(tale, False, (110, 120))
    ask(tale, True, (130, 140), "n2")
    ask(tale, True, (300, 310), "n3")
    verdict = judged(tale)
    assert verdict.validity is Validity.VALID
    assert verdict.exposure == 1


def test_a_denial_after_the_name_was_taken_is_false() -> None:
    tale = Tale()
    take(tale, (100, 110), node="n2")
    ask(tale, False, (5_110, 5_120), "n1")
    verdict = judged(tale)
    assert verdict.anomalies == {"denied-taken-name": 1}
    assert verdict.figures.plain()["denial_late_ns_max"] == 5_000_000_000
    assert [(d["node"], d["denials"]) for d in verdict.figures.plain()["denied"]] == [("n1", 1)]


def test_the_witness_says_that_a_superseded_leader_answered() -> None:
    tale = Tale()
    tale.claims("n1", 11, [10, 60, 400], subject="raft")
    tale.claims("n2", 13, [80, 200], subject="raft")
    take(tale, (100, 110), node="n2")
    ask(tale, False, (300, 310), "n1")
    (witness,) = judged(tale).witnesses
    assert witness.steps[-1] == "n1 (epoch 11) answered 229 ms after epoch 13 had begun."


def test_the_witness_says_that_a_broker_stayed_with_a_superseded_leader() -> None:
    tale = Tale()
    tale.claims("n1", 11, [10, 60, 400], subject="raft")
    tale.claims("n2", 13, [80, 200], subject="raft")
    tale.deny("b1", 200, 210, subject="raft", leader="n1", epoch=11)
    take(tale, (100, 110), node="n2")
    ask(tale, False, (240, 250), "b1")
    ask(tale, False, (300, 310), "n1")
    first, second = judged(tale).witnesses
    assert first.nodes == ("n1", "n2")
    assert second.steps[-1] == "b1 answered; it was attached to n1 (epoch 11), 169 ms after epoch 13 began."


def test_a_refusal_because_it_exists_is_an_answer() -> None:
    tale = Tale()
    take(tale, (100, 150), type=Outcome.INFO)
    take(tale, (200, 210), type=Outcome.FAIL, error="topic-already-exists")
    ask(tale, False, (300, 310))
    assert judged(tale).anomalies == {"denied-taken-name": 1}


def test_other_refusals_say_nothing() -> None:
    tale = Tale()
    take(tale, (200, 210), type=Outcome.FAIL, error="invalid-topic")
    ask(tale, False, (300, 310))
    assert not judged(tale).anomalies


def test_a_name_said_to_be_taken_before_anybody_asked_is_invented() -> None:
    tale = Tale()
    ask(tale, True, (10, 20))
    take(tale, (100, 110))
    assert judged(tale).anomalies == {"invented-name": 1, "name-taken-twice": 1}


def test_two_acknowledgements_are_one_too_many() -> None:
    tale = Tale()
    take(tale, (100, 200))
    take(tale, (110, 190), node="n2")
    assert judged(tale).anomalies == {"name-taken-twice": 1}


@pytest.mark.parametrize("seed", range(300))
def test_a_reason_is_found_just_when_the_search_finds_none(seed: int) -> None:
    """The search decides; every name that it refutes must also be explained, and no other one."""
    drawn = random.Random(seed)
    tale = Tale()
    for process in range(drawn.randrange(2, 7)):
        start = drawn.randrange(100)
        end = start + drawn.randrange(1, 40)
        kind = drawn.choice(["take", "take?", "no", "yes", "yes", "no"])
        if kind.startswith("take"):
            outcome = Outcome.INFO if kind.endswith("?") else Outcome.OK
            tale.op("create", "t", 1, at=(start, end), type=outcome, process=process)
        else:
            tale.op("exists", "t", None, at=(start, end), result=1 if kind == "yes" else None, process=process)
    rows = [row for o in tale.history().operations if (row := topic_names._row(o)) is not None]
    verdict = judged(tale)
    assert bool(topic_names._false_answers(rows)) == (verdict.validity is Validity.INVALID)
    assert "non-linearizable" not in verdict.anomalies
