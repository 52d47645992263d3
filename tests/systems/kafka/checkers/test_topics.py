"""The rules about dropped topics on constructed histories: both sides of each, and what makes a name undecidable."""

from typing import Any

import pytest

from fencepost.harness.history import Effects, LogEvent, Logged, Outcome, PhaseName, Stops
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.checkers import topics
from tests.checkers.build import Tale, facts, only
from tests.fakes.topic_store import FACTS

FINAL = 60_000.0
MS = 1_000_000


class Lives(Tale):
    """A tale of topics. Times are in ms; each request takes 20 ms unless it is told otherwise."""

    def does(
        self, f: str, at: float, *, took: float | None = 20, node: str = "b1", name: str = "n1", **more: Any
    ) -> None:
        self.op(f"{f}-topic", name, at=(at, None if took is None else at + took), node=node, **more)

    def put(self, value: int, at: float, *, name: str = "n1") -> None:
        self.op("put-record", name, value, at=(at, at + 20), node="b1", position=0)

    def ends(self, *known: str, at: float = FINAL, silent: tuple[str, ...] = ()) -> None:
        """Every node says which topics it knows, but the silent ones."""
        self.phase(PhaseName.FINAL, FINAL - 1)
        for node in ("b1", "b2", "b3"):
            quiet = node in silent
            kind = Outcome.FAIL if quiet else Outcome.OK
            self.op(
                "list-topics",
                None,
                at=(at, at + 5),
                node=node,
                type=kind,
                result=list(known),
                error="x" if quiet else None,
            )

    def reads(self, *values: int, node: str = "b1", name: str = "n1", end: int | None = None) -> None:
        rows = [[offset, value] for offset, value in enumerate(values)]
        position = len(rows) if end is None else end
        self.op("read-topic", name, 0, at=(FINAL + 10, FINAL + 20), node=node, result=rows, position=position)

    def judged(self, guarantee: str) -> Verdict:
        return only(topics.check(self.history(), FACTS), guarantee)

    def anomalies(self, guarantee: str) -> dict[str, int]:
        return dict(self.judged(guarantee).anomalies)


def dropped(*, make_took: float | None = 20, make_at: float = 100, drop_at: float = 10_000) -> Lives:
    tale = Lives()
    tale.does("make", make_at, took=make_took)
    tale.put(7, 200)
    tale.does("drop", drop_at)
    return tale


def test_a_dropped_topic_that_no_node_knows_stays_dropped() -> None:
    tale = dropped()
    tale.ends()
    verdict = tale.judged(topics.STAY)
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


def test_a_dropped_topic_that_every_node_knows_is_back() -> None:
    tale = dropped()
    tale.ends("n1")
    verdict = tale.judged(topics.STAY)
    assert verdict.anomalies == {topics.BACK: 1}
    assert verdict.witnesses[0].key == "n1"


def test_one_node_that_still_knows_it_or_says_nothing_is_no_return() -> None:
    tale = dropped()
    tale.ends("n1", silent=("b3",))
    assert tale.judged(topics.STAY).validity is Validity.UNKNOWN


@pytest.mark.parametrize(
    ("make_took", "make_at", "drop_at"), [(None, 100, 10_000), (20, 12_000, 10_000), (20, 100, FINAL - 9_000)]
)
def test_a_making_that_may_come_later_or_a_recent_drop_explains_it(
    make_took: float | None, make_at: float, drop_at: float
) -> None:
    tale = dropped(make_took=make_took, make_at=make_at, drop_at=drop_at)
    tale.ends("n1")
    assert topics.BACK not in tale.anomalies(topics.STAY)


@pytest.mark.parametrize(("took", "anomalies"), [(400, {}), (40, {topics.BACK: 1})])
def test_a_slow_making_under_a_fault_may_be_handed_over_again(took: float, anomalies: dict[str, int]) -> None:
    tale = dropped(make_took=took)
    tale.fault("pause", ("b2",), (50, 60, 450, 460), effects=Effects(stops=Stops.CERTAIN))
    tale.ends("n1")
    assert tale.anomalies(topics.STAY) == anomalies


def test_a_fault_that_ended_less_than_ten_seconds_ago_excuses_everything() -> None:
    tale = dropped()
    tale.fault("pause", ("b2",), (20_000, 20_001, FINAL - 9_000, FINAL - 8_999))
    tale.ends("n1")
    assert tale.judged(topics.STAY).validity is Validity.UNKNOWN


def test_a_record_of_an_earlier_topic_in_a_later_one_of_its_name_is_served() -> None:
    for shown, anomalies in (((9,), {}), ((7, 9), {topics.SERVED: 1})):
        tale = dropped()
        tale.does("make", 11_000)
        tale.put(9, 12_000)
        tale.ends("n1")
        tale.reads(*shown)
        assert tale.anomalies(topics.STAY) == anomalies
        assert tale.anomalies(topics.KEEP) == {}


def test_a_record_that_was_acknowledged_while_the_drop_ran_may_be_in_the_later_topic() -> None:
    tale = dropped(drop_at=210)
    tale.does("make", 11_000)
    tale.ends("n1")
    tale.reads(7)
    assert tale.anomalies(topics.STAY) == {}


def kept(*, drop_took: float | None = 20) -> Lives:
    """A topic that was made again after a drop, with one record."""
    tale = Lives()
    tale.does("make", 100)
    tale.does("drop", 1_000, took=drop_took)
    tale.does("make", 2_000)
    tale.put(7, 3_000)
    return tale


def test_a_topic_that_is_there_with_its_records_is_kept() -> None:
    tale = kept()
    tale.ends("n1")
    tale.reads(7)
    verdict = tale.judged(topics.KEEP)
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


def test_a_topic_that_no_node_knows_is_gone_unless_a_drop_may_come_late() -> None:
    for took, anomalies in ((20.0, {topics.GONE: 1}), (None, {})):
        tale = kept(drop_took=took)
        tale.ends()
        assert tale.anomalies(topics.KEEP) == anomalies


def test_a_record_is_lost_if_a_topic_that_is_read_to_its_end_lacks_it() -> None:
    tale = kept()
    tale.ends("n1")
    tale.reads()
    assert tale.anomalies(topics.KEEP) == {topics.LOST: 1}


@pytest.mark.parametrize(
    ("began", "lost"),
    [((10_010,), 1), ((300, 10_010, 10_500), 1), ((10_500,), 0), ((300, 10_500), 0), ((300,), 0), ((), 1)],
)
def test_a_record_may_be_in_the_earlier_topic_until_the_broker_leads_the_later_one(
    began: tuple[float, ...], lost: int
) -> None:
    """Made at 100 and at 9,900, dropped at 9,000; the record was appended at 10,100."""
    tale = dropped(drop_at=9_000)
    tale.does("make", 9_900)
    tale.put(8, 10_100)
    for at in began:
        log = {"incarnation": 0, "asked_ns": round(at * MS) - MS, "source": "log"}
        tale.tell(LogEvent, at, node="b1", change=Logged.IN_SYNC, key="n1-0", epoch=0, detail="7,8", **log)
    tale.ends("n1")
    tale.reads()
    assert tale.anomalies(topics.KEEP) == ({topics.LOST: 1} if lost else {})


@pytest.mark.parametrize(("topic", "lost"), [("later", 1), ("earlier", 0), (None, 1)])
def test_a_broker_may_begin_to_lead_the_earlier_topic_after_the_later_one_was_made(
    topic: str | None, lost: int
) -> None:
    """Seen in a migration: brokers in ZooKeeper mode lagged half a second behind a new controller."""
    tale = dropped(drop_at=9_000)
    tale.does("make", 9_900, result="later")
    tale.put(8, 10_100)
    log = {"incarnation": 0, "asked_ns": round(10_049 * MS), "source": "log"}
    led = {"change": Logged.IN_SYNC, "key": "n1-0", "epoch": 0, "detail": "7,8", "topic": topic}
    tale.tell(LogEvent, 10_050, node="b1", **led, **log)
    tale.ends("n1")
    tale.reads()
    assert tale.anomalies(topics.KEEP) == ({topics.LOST: 1} if lost else {})


def test_a_read_that_ends_early_or_another_node_s_answer_proves_no_loss() -> None:
    tale = kept()
    tale.ends("n1")
    tale.reads(end=3)
    assert tale.anomalies(topics.KEEP) == {}
    tale = kept()
    tale.ends("n1")
    tale.reads()
    tale.reads(7, node="b2")
    assert tale.anomalies(topics.KEEP) == {}


def test_a_record_that_was_acknowledged_after_the_read_began_is_not_expected_of_it() -> None:
    tale = kept()
    tale.put(9, FINAL - 5)
    tale.ends("n1")
    tale.reads(7)
    verdict = tale.judged(topics.KEEP)
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


def test_a_run_without_topics_proves_nothing() -> None:
    assert {v.validity for v in topics.check(Tale().history(), facts())} == {Validity.UNKNOWN}
