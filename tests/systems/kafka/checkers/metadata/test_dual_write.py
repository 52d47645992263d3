"""Whether ZooKeeper got what KRaft acknowledged: both sides of the rule, and when there is nothing to judge."""

import pytest

from fencepost.harness.history import Effects, History, LogEntry, MigrationEvent, NodeLog, Stops
from fencepost.harness.verdict import Cause, Validity, Verdict
from fencepost.systems.kafka.bridge import KAFKA_BRIDGE
from fencepost.systems.kafka.checkers.metadata import dual_write
from tests.checkers.build import Tale, facts

KEEPERS, CONTROLLERS = ("z1", "z2", "z3"), ("c1", "c2", "c3")
FACTS = facts(
    nodes=(*KEEPERS, *CONTROLLERS),
    electorate=(*KEEPERS, *CONTROLLERS),
    guarantees=tuple(g for g in KAFKA_BRIDGE.promises() if g.name in dual_write.GUARANTEES),
)
#: Each topic's offset in KRaft's log.
TOPICS = {"t1": 40, "t2": 50}


def told(reached: tuple[int, ...], *, phase: str = "hybrid", healed_ms: float = 5_000, copied: str = "") -> History:
    """t1 is acknowledged 20 s, t2 5 s before the end; ZooKeepers hold a transaction for each offset in `reached`."""
    tale = Tale()
    tale.tell(MigrationEvent, 1_000, phase=phase, length_ns=0, text="")
    tale.fault("pause", ("c1",), (2_000, 2_100, healed_ms, healed_ms), effects=Effects(stops=Stops.CERTAIN))
    tale.op("create", "t1", True, at=(10_000, 10_010))
    tale.op("create", "t2", True, at=(25_000, 25_010))
    tale.op("describe", "k1", at=(29_990, 30_000))
    history = tale.history()
    kraft = tuple(
        LogEntry(offset=offset, epoch=1, type="copied-topic" if name == copied else "topic", fields={"name": name})
        for name, offset in TOPICS.items()
    )
    claim = {"node": "c1", "broker": 4, "controller_epoch": 2, "version": 2, "kraft_epoch": 1, "session": "c1"}
    written = [{"path": "/migration", "migrated_to": offset, "session": "c1"} for offset in reached]
    zookeeper = tuple(
        LogEntry(offset=zxid, epoch=0, type="set" if zxid else "election", fields=fields)
        for zxid, fields in enumerate((claim, *written))
    )
    history.logs = {n: NodeLog(node=n, start_offset=0, entries=zookeeper, of="zookeeper") for n in KEEPERS}
    history.logs |= {n: NodeLog(node=n, start_offset=0, entries=kraft, of="kraft") for n in CONTROLLERS}
    return history


def judged(history: History) -> Verdict:
    (verdict,) = dual_write.check(history, FACTS)
    return verdict


def test_zookeeper_has_what_was_acknowledged_long_ago() -> None:
    verdict = judged(told((10, 45)))
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)
    assert verdict.figures.others["acknowledged"] == 2, "t2 was acknowledged only just now"


def test_a_change_beyond_the_last_offset_is_left_behind_even_if_an_earlier_controller_got_further() -> None:
    verdict = judged(told((45, 30)))
    assert verdict.anomalies == {"left-behind": 1}
    assert verdict.witnesses[0].key == "t1"
    assert "offset 40" in verdict.witnesses[0].steps[0] and "up to offset 30" in verdict.witnesses[0].steps[1]


def test_without_a_single_write_everything_is_left_behind() -> None:
    assert judged(told(())).validity is Validity.INVALID


def test_nothing_is_late_while_faults_were_healed_only_just_now() -> None:
    verdict = judged(told((30,), healed_ms=24_000))
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.NO_EXPOSURE)
    assert "less than ten seconds before the end" in verdict.reason


def test_a_copy_of_what_zookeeper_had_is_no_change_of_krafts() -> None:
    assert judged(told((30,), copied="t1")).validity is Validity.UNKNOWN


def test_a_migration_that_is_over_or_not_there_yet_is_not_judged() -> None:
    for phase in ("provisioned", "copy", "final"):
        assert dual_write.check(told((30,), phase=phase), FACTS) == []
    assert dual_write.check(Tale().history(), FACTS) == []


STATE = {"topic": "t1", "partition": 0, "session": "c1"}


def rolled_back(
    *written: LogEntry,
    phases: tuple[str, ...] = ("hybrid", "rolled-back"),
    more: str = "",
    every_ms: float = 27_000,
) -> History:
    """t1 is acknowledged 18 s before the roll-back is over, t2 3 s before; ZooKeepers also hold what is `written`."""
    tale = Tale()
    for number, phase in enumerate(phases):
        tale.tell(MigrationEvent, 1_000 + every_ms * number, phase=phase, length_ns=0, text="")
    for name, at in (("t1", 10_000), ("t2", 25_000)):
        tale.op("create", name, True, at=(at, at + 10))
    if more:
        tale.op(more, "t2", True, at=(25_500, 25_510))
    history = tale.history()
    history.logs = {
        name: NodeLog(node=name, start_offset=0, entries=(*log.entries, *written), of=log.of)
        if log.of == "zookeeper"
        else log
        for name, log in told((60,)).logs.items()
    }
    return history


@pytest.mark.parametrize(
    "entry",
    [
        LogEntry(offset=90, epoch=0, type="topic", fields={"name": "t1", "session": "c1"}),
        LogEntry(offset=90, epoch=0, type="partition-state", fields=STATE),
        LogEntry(offset=90, epoch=0, type="create", fields={"path": "/brokers/topics/t1/partitions", "session": "c1"}),
        LogEntry(
            offset=90,
            epoch=0,
            type="multi",
            fields={"changes": ["set /migration", "create /brokers/topics/t1"], "session": "c1"},
        ),
    ],
)
def test_a_topic_of_which_zookeeper_knows_nothing_is_lost_in_the_roll_back(entry: LogEntry) -> None:
    lost = judged(rolled_back(entry))
    assert (lost.anomalies, lost.exposure) == ({"lost-in-roll-back": 1}, 2)
    assert lost.witnesses[0].key == "t2"
    assert "3.0 s before the roll-back" in lost.witnesses[0].steps[0]
    second = LogEntry(offset=91, epoch=0, type="topic", fields={"name": "t2", "session": "c1"})
    assert judged(rolled_back(entry, second)).validity is Validity.VALID


def test_a_topic_that_something_else_was_done_to_is_not_judged() -> None:
    first = LogEntry(offset=90, epoch=0, type="topic", fields={"name": "t1", "session": "c1"})
    for more, exposure in (("exists", 2), ("remove", 1)):
        assert judged(rolled_back(first, more=more)).exposure == exposure


def test_what_is_acknowledged_after_the_roll_back_is_not_judged() -> None:
    first = LogEntry(offset=90, epoch=0, type="topic", fields={"name": "t1", "session": "c1"})
    verdict = judged(rolled_back(first, every_ms=20_000))
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


def test_a_roll_back_before_the_copy_or_before_a_further_migration_is_not_judged() -> None:
    for phases in (("provisioned", "rolled-back"), ("hybrid", "rolled-back", "provisioned")):
        assert dual_write.check(rolled_back(phases=phases), FACTS) == []
    again = ("hybrid", "rolled-back", "hybrid", "rolled-back")
    assert dual_write.check(rolled_back(phases=again), FACTS) == []
