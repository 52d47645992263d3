"""The reasons given for a refuted name, against the search. The cases are in `tests/cases/kafka-topic-names.case`."""

import random

import pytest

from fencepost.harness.history import Outcome
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.checkers.metadata import topic_names
from tests.checkers.build import Tale, facts, only


def judged(tale: Tale) -> Verdict:
    return only(topic_names.check(tale.history(), facts()), "topic-names-linearizable")


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
