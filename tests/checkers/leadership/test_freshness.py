"""Fresh reads by position: each condition of staleness missed by the least, and the words of a witness."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.checkers.facts.versions import find_stale
from fencepost.checkers.leadership import freshness
from fencepost.harness.history import Outcome
from fencepost.harness.verdict import Facts, Guarantee, Standing, Validity, Verdict
from tests.checkers.build import Tale, facts, ns, only

SYNC = facts(read_guarantee="fresh-after-sync")
NUMBERS = "write-positions-agree"
NUMBERED = facts(
    read_guarantee="fresh-after-sync",
    guarantees=(Guarantee(name=NUMBERS, standing=Standing.PROMISED, text=NUMBERS, source="a test"),),
)


def judged(tale: Tale, given: Facts = SYNC) -> Verdict:
    (verdict,) = freshness.check(tale.history(), given)
    return verdict


def numbering(tale: Tale) -> Verdict:
    return only(freshness.check(tale.history(), NUMBERED), NUMBERS)


def written(tale: Tale) -> None:
    tale.write("a", 1, at=(10, 20), node="n2", position=5, value_position=5, epoch=1)
    tale.write("a", 2, at=(30, 40), node="n2", position=8, value_position=8, epoch=1)


@pytest.mark.parametrize(
    ("invoked", "view", "stale"),
    [
        (41, {"value_position": 5, "position": 9}, 1),
        (40, {"value_position": 5, "position": 9}, 0),  # not completed before it
        (41, {"value_position": 8, "position": 9}, 0),
        (41, {"value_position": 9, "position": 9}, 0),
        (41, {"position": 7}, 1),  # nothing known of the value: the reply stands before the write
        (41, {"position": 8}, 0),
        (41, {}, 0),  # no position, no word
        (21, {"value_position": 4}, 1),
    ],
)
def test_an_answer_that_lacks_a_write_acknowledged_before_is_stale(
    invoked: float, view: dict[str, int], stale: int
) -> None:
    tale = Tale()
    written(tale)
    tale.read("a", 0, at=(invoked, 60), node="n1", **view)
    assert judged(tale).anomalies == ({"stale-read": 1} if stale else {})


def test_an_answer_is_the_write_whose_value_it_has_by_whatever_number() -> None:
    """A server that was killed numbers writes two less than the others, for ever: what it lacks is another matter."""
    tale = Tale()
    written(tale)
    tale.read("a", 2, at=(50, 60), node="n1", value_position=6, position=9)
    # The value is the newest one, so the answer is current.
    assert (judged(tale).validity, judged(tale).anomalies) == (Validity.VALID, {})
    verdict = numbering(tale)
    assert (verdict.validity, verdict.anomalies) == (Validity.INVALID, {"renumbered-write": 1})
    assert verdict.reason == "1 of 1 reads show a write at another position than it was acknowledged at"
    assert verdict.witnesses[0].steps == (
        "write of 2 to a was acknowledged by n2 in epoch 1, at position 8; nobody else wrote that.",
        "n1 answered: 2, written at position 6.",
        "A write has one position: the two servers do not hold the same store.",
    )
    tale.read("a", 1, at=(61, 70), node="n1", value_position=3, position=9)
    assert numbering(tale).anomalies == {"renumbered-write": 2}
    verdict = judged(tale)
    assert verdict.anomalies == {"stale-read": 1}
    assert verdict.figures.plain()["staleness_writes_max"] == 1
    # Whose it is cannot be told any more, nor that it is older than anything.
    tale.write("a", 2, at=(71, 72), node="n2", type=Outcome.INFO)
    tale.read("a", 2, at=(80, 90), node="n1", value_position=6, position=9)
    assert judged(tale).anomalies == {"stale-read": 1}
    assert numbering(tale).anomalies == {"renumbered-write": 1}


def test_servers_that_number_alike_agree() -> None:
    tale = Tale()
    written(tale)
    assert numbering(tale).validity is Validity.UNKNOWN
    tale.read("a", 2, at=(50, 60), node="n1", value_position=8, position=9)
    assert (numbering(tale).validity, numbering(tale).exposure) == (Validity.VALID, 1)


def overlapping(tale: Tale) -> None:
    """In the store's order 1, then 2; n2 numbers by two more than n1. A read through n1 shows the newest value."""
    tale.write("a", 1, at=(10, 40), node="n2", position=7, value_position=7)
    tale.write("a", 2, at=(20, 35), node="n1", position=6, value_position=6)
    tale.read("a", 2, at=(50, 60), node="n1", value_position=6, position=6)


def renumbered_read(tale: Tale) -> None:
    tale.read("a", 2, at=(70, 80), node="n2", value_position=8, position=8)


def shared_position(tale: Tale) -> None:
    tale.write("b", 1, at=(12, 22), node="n2", position=3)
    tale.write("b", 2, at=(14, 24), node="n1", position=3)


def write_behind_an_earlier_one(tale: Tale) -> None:
    tale.write("b", 1, at=(5, 6), node="n2", position=4)
    tale.write("b", 2, at=(7, 8), node="n1", position=3)


@pytest.mark.parametrize("sign", [renumbered_read, shared_position, write_behind_an_earlier_one])
def test_positions_of_servers_that_number_differently_are_not_compared(sign: Callable[[Tale], None]) -> None:
    """Two writes that overlap may stand in either order: an answer with one of them lacks nothing for certain."""
    tale = Tale()
    overlapping(tale)
    sign(tale)
    assert judged(tale).anomalies.get("stale-read", 0) == 0
    # What had ended before the other was invoked came first, whatever the numbers say.
    tale.write("a", 3, at=(82, 85), node="n1", position=2, value_position=2)
    tale.read("a", 2, at=(90, 95), node="n1", value_position=6, position=9)
    verdict = judged(tale)
    assert verdict.anomalies["stale-read"] == 1
    assert verdict.reason.startswith("at least 1 of ")
    (witness,) = (w for w in verdict.witnesses if w.anomaly == "stale-read")
    assert witness.steps[0].endswith("had ended 47 ms before the next write was invoked.")


def test_a_value_that_nobody_is_known_to_have_written_is_no_stale_one_where_numbers_differ() -> None:
    tale = Tale()
    overlapping(tale)
    renumbered_read(tale)
    tale.read("a", 0, at=(90, 95), node="n1", value_position=1, position=9)
    assert judged(tale).anomalies == {}


def test_beside_a_write_that_does_not_say_its_value_no_value_is_of_one_write() -> None:
    tale = Tale()
    written(tale)
    tale.op("cas", "a", None, at=(41, 42), node="n3", type=Outcome.INFO)
    tale.read("a", 2, at=(50, 60), node="n1", value_position=6, position=9)
    assert judged(tale).anomalies == {"stale-read": 1}


@pytest.mark.parametrize("type", [Outcome.INFO, Outcome.FAIL])
def test_only_acknowledged_writes_bind(type: Outcome) -> None:
    tale = Tale()
    tale.write("a", 2, at=(30, 40), node="n2", type=type, position=8)
    tale.read("a", 1, at=(50, 60), node="n1", value_position=5)
    assert judged(tale).anomalies == {}


def test_another_key_does_not_bind() -> None:
    tale = Tale()
    written(tale)
    tale.read("b", 1, at=(50, 60), node="n1", value_position=1, position=1)
    assert judged(tale).anomalies == {}


def test_the_highest_position_binds_not_the_latest_completion() -> None:
    tale = Tale()
    tale.write("a", 2, at=(10, 20), node="n2", position=8)
    tale.write("a", 1, at=(9, 30), node="n2", position=5)
    tale.read("a", 1, at=(40, 50), node="n1", value_position=5)
    assert judged(tale).anomalies == {"stale-read": 1}


def test_staleness_in_writes_and_in_time() -> None:
    tale = Tale()
    written(tale)
    tale.write("a", 3, at=(50, 60), node="n3", position=9)
    tale.read("a", 1, at=(100, 110), node="n1", value_position=5)
    verdict = judged(tale)
    figures = verdict.figures.plain()
    assert figures["staleness_writes_max"] == 2
    said = (
        "2 acknowledged writes of a are missing; the first of them was acknowledged 60 ms before the read was invoked."
    )
    assert verdict.witnesses[0].steps[-1].startswith(said)
    assert figures["staleness_ns_max"] == ns(60)
    assert figures["stale_reads_by_node"] == {"n1": 1}


@pytest.mark.parametrize(("node", "exposure", "validity"), [("n1", 1, Validity.VALID), ("n2", 0, Validity.UNKNOWN)])
def test_exposure_needs_a_newer_write_through_another_node(node: str, exposure: int, validity: Validity) -> None:
    tale = Tale()
    written(tale)
    tale.read("a", 2, at=(50, 60), node=node, value_position=8)
    verdict = judged(tale)
    assert (verdict.exposure, verdict.validity) == (exposure, validity)


def test_reads_that_need_not_be_current_are_not_judged() -> None:
    assert freshness.check(Tale().history(), facts(read_guarantee="session-order")) == []


def test_an_empty_history_is_unknown() -> None:
    assert judged(Tale()).validity is Validity.UNKNOWN


def zombie(tale: Tale) -> None:
    """n1 leads epoch 3, is paused for 7 s, and answers a `sync` then read 4 ms after it woke."""
    tale.claims("n1", 3, [10, 500])
    tale.pause("n1", 1000, 8000)
    tale.log("n2", 4, 2800)
    tale.write("a", 7, at=(5000, 5010), node="n2", position=(4 << 32) + 3, value_position=(4 << 32) + 3, epoch=4)
    tale.read(
        "a", 0, at=(7500, 8004), node="n1", position=(3 << 32) + 9, value_position=(3 << 32) + 2, epoch=3, process=77
    )
    tale.claim("n1", 3, 8001, 8100)


def test_a_woken_leader_is_told_as_one() -> None:
    tale = Tale()
    zombie(tale)
    verdict = judged(tale)
    assert verdict.guarantee == "fresh-after-sync"
    assert verdict.figures.plain()["stale_reads_of_superseded_leader"] == 1
    assert verdict.figures.plain()["stale_reads_by_superseded_epoch"] == {"3": 1}
    assert verdict.figures.plain()["fresh_reads_answered_by_superseded_leader"] == 1
    (witness,) = verdict.witnesses
    words = " ".join(witness.steps)
    assert "the paused leader n1 (epoch 3) answered 4.0 ms after it resumed, 5.2 s after epoch 4 had begun" in words
    assert witness.steps[-1].startswith("This write is missing. No order puts")
    assert witness.nodes == ("n1", "n2")
    history = tale.history()
    kinds = {type(history.events[i]).__name__ for i in witness.events}
    assert kinds == {"OpEvent", "FaultEvent", "EpochEvent"}


@pytest.mark.parametrize(("denied", "led"), [(7400, 0), (7600, 1)])
def test_a_leader_known_to_have_stepped_down_is_none(denied: float, led: int) -> None:
    tale = Tale()
    tale.claims("n1", 3, [10, 500])
    tale.log("n2", 4, 2800)
    tale.write("a", 7, at=(5000, 5010), node="n2", position=(4 << 32) + 3, epoch=4)
    tale.read("a", 1, at=(7500, 8004), node="n1", value_position=(3 << 32) + 2, epoch=3)
    tale.deny("n1", denied - 10, denied)
    assert judged(tale).figures.plain()["stale_reads_of_superseded_leader"] == led


def test_a_current_leader_s_stale_read_is_not_told_as_a_superseded_one_s() -> None:
    tale = Tale()
    written(tale)
    tale.claims("n1", 3, [10, 100])
    tale.read("a", 1, at=(50, 60), node="n1", value_position=5)
    assert judged(tale).figures.plain()["stale_reads_of_superseded_leader"] == 0


def test_witnesses_of_superseded_leaders_stand_first() -> None:
    tale = Tale()
    written(tale)
    for i in range(10):
        tale.read("a", 1, at=(50 + i, 60 + i), node="n3", value_position=5)
    zombie(tale)
    verdict = judged(tale)
    assert verdict.anomalies == {"stale-read": 11}
    assert len(verdict.witnesses) == 5
    assert "n1" in verdict.witnesses[0].nodes


@pytest.mark.parametrize(
    ("value", "invoked", "stale"),
    [
        (1, 41, True),
        (1, 40, False),  # the write of 2 had not been acknowledged
        (2, 41, False),
        (3, 61, False),  # its write overlapped that of 2, so it may stand behind it
        (7, 61, False),  # nobody knows who wrote it
    ],
)
def test_without_positions_only_time_tells(value: int, invoked: float, stale: bool) -> None:
    tale = Tale()
    tale.write("a", 1, at=(10, 20), node="n2")
    tale.write("a", 2, at=(30, 40), node="n3")
    tale.write("a", 3, at=(35, 60), node="n3")
    tale.read("a", value, at=(invoked, 70), node="n1")
    assert judged(tale).anomalies == ({"stale-read": 1} if stale else {})


def test_the_words_about_a_store_without_positions_name_none() -> None:
    tale = Tale()
    tale.write("a", 1, at=(10, 20), node="n2")
    tale.write("a", 2, at=(30, 40), node="n3")
    tale.read("a", 1, at=(50, 60), node="n1")
    steps = judged(tale).witnesses[0].steps
    assert steps[0].startswith("The store does not number writes, so only time tells which came first.")
    assert steps[1] == "write of 2 to a was acknowledged by n3."
    assert steps[3] == "n1 answered: 1."


def stale_by_position(operations: list[Any]) -> int:
    """The definition, word by word."""
    writes = [w for w in operations if w.f == "write"]
    return sum(
        any(w.key == r.key and w.completed_ns < r.invoked_ns and w.position > r.value_position for w in writes)
        for r in operations
        if r.f == "read"
    )


def stale_by_time(operations: list[Any]) -> int:
    """The same of servers that number differently."""
    writes = [w for w in operations if w.f == "write"]
    makers = {id(r): [w for w in writes if (w.key, w.value) == (r.key, r.result)] for r in operations if r.f == "read"}
    return sum(
        bool(makers[id(r)])
        and any(
            w.key == r.key
            and w.completed_ns < r.invoked_ns
            and all(maker.completed_ns < w.invoked_ns for maker in makers[id(r)])
            for w in writes
        )
        for r in operations
        if r.f == "read"
    )


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_the_fast_way_finds_what_the_definition_says(seed: int, consistent: bool) -> None:
    draw = random.Random(seed)
    tale = Tale()
    writes = []
    for _ in range(60):
        start, key, value = draw.randrange(1000), draw.choice("ab"), 1 if consistent else draw.randrange(6)
        if draw.random() < 0.5:
            length = draw.randrange(1, 200)
            writes.append((start + length * draw.random(), key, value, (start, start + length)))
        else:
            tale.read(key, value, at=(start, start + 5), value_position=draw.randrange(1, 30))
    # A store takes each write at an instant of its own.
    for position, (_, key, value, at) in enumerate(sorted(writes), 1):
        tale.write(key, value, at=at, position=position)
    if not consistent:
        shared_position(tale)
    history = tale.history()
    stale = find_stale(history).stale
    assert len(stale) == (stale_by_position if consistent else stale_by_time)(history.operations)
