"""Producer ids: given twice, by whomever, is invalid; an id that never arrived proves nothing."""

from fencepost.harness.history import Outcome
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.checkers import producer_ids
from tests.checkers.build import Tale, facts


def _judge(*given: tuple[str, int | None]) -> Verdict:
    tale = Tale()
    for i, (node, number) in enumerate(given):
        type = Outcome.OK if number is not None else Outcome.FAIL
        tale.op("allocate", "producer-ids", at=(10 * i, 10 * i + 5), node=node, result=number, type=type)
    (verdict,) = producer_ids.check(tale.history(), facts(workload="producer-ids"))
    return verdict


def test_different_ids_are_valid() -> None:
    verdict = _judge(("b1", 0), ("b2", 1000), ("b1", 1), ("b3", None), ("b3", None))
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 3)
    assert verdict.figures.plain()["ids_of_node"] == {"b1": 2, "b2": 1}


def test_an_id_that_two_nodes_gave_is_invalid_and_shown() -> None:
    verdict = _judge(("b1", 0), ("b2", 1000), ("b3", 0), ("b1", 0))
    assert verdict.validity is Validity.INVALID
    assert verdict.anomalies == {"producer-id-given-twice": 2}
    assert verdict.witnesses[0].nodes == ("b1", "b3")
    assert verdict.witnesses[0].steps[1] == "b3 gave process 1003 the id 0 at 0.025000 s (event 4)."


def test_an_id_alone_can_meet_no_other_one() -> None:
    verdict = _judge(("b1", 7))
    assert (verdict.validity, verdict.exposure) == (Validity.UNKNOWN, 1)
    assert "no second id was given out" in verdict.reason


def test_nothing_given_is_unknown() -> None:
    assert _judge(("b1", None)).validity is Validity.UNKNOWN
