"""The reasons given for a refuted name, against the search. The cases are in `tests/cases/kafka-topic-names.case`."""

import random

import pytest

from fencepost.checkers.storage import registers
from fencepost.harness.history import Outcome
from fencepost.harness.verdict import Validity
from fencepost.systems.kafka.checkers.metadata import topic_names
from tests.checkers.build import Tale, facts, only


@pytest.mark.parametrize("seed", range(300))
def test_a_false_answer_is_found_just_when_no_order_explains_a_name(seed: int) -> None:
    """The search of registers decides: a name is set once, a refusal to take it is an answer."""
    drawn = random.Random(seed)
    tale, register = Tale(), Tale()
    for process in range(drawn.randrange(2, 7)):
        start = drawn.randrange(100)
        at = (start, start + drawn.randrange(1, 40))
        kind = drawn.choice(["take", "take?", "no", "yes", "yes", "no", "refused"])
        if kind.startswith("take"):
            outcome = Outcome.INFO if kind.endswith("?") else Outcome.OK
            tale.op("create", "t", 1, at=at, type=outcome, process=process)
            register.op("cas", "t", [None, 1], at=at, type=outcome, process=process)
        else:
            shown = None if kind == "no" else 1
            register.op("read", "t", None, at=at, result=shown, process=process)
            if kind == "refused":
                tale.op("create", "t", 1, at=at, type=Outcome.FAIL, error="exists", process=process)
            else:
                tale.op("exists", "t", None, at=at, result=shown, process=process)
    named = only(topic_names.check(tale.history(), facts()), "topic-names-linearizable")
    (searched,) = registers.check(register.history(), facts())
    assert (named.validity is Validity.INVALID) == (searched.validity is Validity.INVALID)
