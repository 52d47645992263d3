"""The way of the role from brokers to KRaft controllers on ZooKeepers' disks: both sides of every rule."""

from typing import Any

from fencepost.harness.history import History, LogEntry, NodeLog
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.bridge import KAFKA_BRIDGE
from fencepost.systems.kafka.checkers.metadata import handover
from fencepost.systems.kafka.figures import HandoverFigures
from tests.checkers.build import Tale, facts, only

KEEPERS = ("z1", "z2", "z3")
NODES = (*KEEPERS, "c1", "c2", "b1")
FACTS = facts(
    nodes=NODES,
    electorate=(*KEEPERS, "c1", "c2"),
    guarantees=tuple(guarantee for guarantee in KAFKA_BRIDGE.promises() if guarantee.name in handover.GUARANTEES),
)


def entries(words: str) -> tuple[LogEntry, ...]:
    """One transaction a word, in the session of its node.

    "b1:elected=1", "c1:claimed=2/7" (controller epoch 2, KRaft epoch 7), "c1:set/migration", "c1:refused", "b1:here".
    """
    made = []
    for offset, word in enumerate(words.split(), 1):
        node, _, what = word.partition(":")
        own: dict[str, Any] = {"session": node}
        kind, _, number = what.partition("=")
        epoch, _, kraft = number.partition("/")
        if kind in ("elected", "claimed"):
            own |= {"node": node, "broker": 1, "controller_epoch": int(epoch), "version": int(epoch)}
            own |= {"kraft_epoch": int(kraft)} if kraft else {}
            kind = "election"
        elif kind == "raised":
            own |= {"controller_epoch": int(number)}
            kind = "epoch-raised"
        elif kind == "here":
            own |= {"node": node}
            kind = "registration"
        elif kind == "refused":
            own |= {"multi": True, "errors": [-103, -2]}
        else:
            kind, _, path = kind.partition("/")
            own |= {"path": f"/{path}"}
        made.append(LogEntry(offset=offset, epoch=0, type=kind, fields=own))
    return tuple(made)


def told(words: str) -> History:
    """A history whose ZooKeepers all hold these transactions."""
    history = Tale().history()
    log = entries(words)
    history.logs = {name: NodeLog(node=name, start_offset=0, entries=log, of="zookeeper") for name in KEEPERS}
    history.logs |= {name: NodeLog(node=name, start_offset=0, of="kraft") for name in ("c1", "c2")}
    return history


def judged(words: str) -> list[Verdict]:
    return handover.check(told(words), FACTS)


WAY = "b1:here b1:elected=1 b1:create/x c1:claimed=2/7 c1:set/migration c2:claimed=3/8"


def test_without_a_claim_there_is_nothing_to_judge() -> None:
    assert judged("b1:elected=1 b1:elected=2") == []


def test_claims_in_order_are_valid_and_nobody_was_put_to_the_test() -> None:
    order, left = judged(WAY)
    assert (order.validity, order.exposure) == (Validity.VALID, 2)
    assert (left.validity, left.exposure) == (Validity.UNKNOWN, 0)


def test_a_skipped_epoch_and_a_kraft_epoch_that_fell_are_found() -> None:
    assert only(judged("b1:elected=1 c1:claimed=3/7"), handover.IN_ORDER).anomalies == {"epoch-skipped": 1}
    verdict = only(judged("b1:elected=1 c1:claimed=2/7 c2:claimed=3/6"), handover.IN_ORDER)
    assert verdict.anomalies == {"kraft-epoch-fell": 1}
    assert verdict.validity is Validity.INVALID


def test_an_epoch_that_a_person_raised_is_the_one_to_count_from() -> None:
    assert (
        only(judged("b1:elected=1 c1:claimed=2/7 x:raised=8 b1:elected=9"), handover.IN_ORDER).validity
        is Validity.VALID
    )
    for words in ("c1:claimed=2/7 x:raised=8 b1:elected=8", "c1:claimed=2/7 b1:elected=9 x:raised=8"):
        verdict = only(judged(f"b1:elected=1 {words}"), handover.IN_ORDER)
        assert verdict.anomalies == {"epoch-skipped": 1}


def test_a_further_migration_may_have_a_quorum_with_smaller_epochs() -> None:
    for words, anomalies in (("b1:elected=3 c2:claimed=4/1", {}), ("c2:claimed=3/1", {"kraft-epoch-fell": 1})):
        assert only(judged(f"b1:elected=1 c1:claimed=2/7 {words}"), handover.IN_ORDER).anomalies == anomalies


def test_what_is_refused_after_a_claim_does_no_harm() -> None:
    left = only(judged(f"{WAY} c1:refused b1:refused"), handover.LEFT)
    assert (left.validity, left.exposure) == (Validity.VALID, 2)


def test_a_write_of_an_earlier_controller_is_found_with_both_claims() -> None:
    left = only(judged(f"{WAY} c1:set/migration c1:create/config/changes/1"), handover.LEFT)
    assert left.anomalies == {"migration-state-overwritten": 1, "write-after-claim": 1}
    steps = " ".join(left.witnesses[0].steps)
    assert "c1 claimed /controller, controller epoch 2" in steps and "it checks no controller epoch" in steps


def test_every_write_after_a_claim_is_told_with_its_writer_and_what_it_checked() -> None:
    words = "c1:set/config/topics/a c2:set/config/topics/a c2:set/config/topics/b c1:refused"
    figures = only(judged(f"{WAY} {words}"), handover.LEFT).figures
    assert isinstance(figures, HandoverFigures)
    assert [(row.claim, row.node, row.what, row.transactions) for row in figures.writes] == [
        ("c1, controller epoch 2", "c1", "set /migration", 1),
        ("c2, controller epoch 3", "c1", "set /config/topics", 1),
        ("c2, controller epoch 3", "c2", "set /config/topics", 2),
        ("c2, controller epoch 3", "c1", "refused", 1),
    ]
    assert [row.guard for row in figures.writes] == [*["checks no controller epoch"] * 3, "unknown"]


def test_a_state_of_a_partition_after_a_claim_is_found_in_every_form() -> None:
    state = "create/brokers/topics/t/partitions/0/state"
    assert only(judged(f"{WAY} b1:{state} b1:create/brokers/topics/t/partitions"), handover.LEFT).anomalies == {
        "partition-state-after-claim": 2
    }
    log = (*entries(WAY), LogEntry(offset=90, epoch=0, type="partition-state", fields={"session": "b1", "topic": "t"}))
    several = LogEntry(offset=91, epoch=0, type="multi", fields={"session": "b1", "changes": [f"set /{state[7:]}"]})
    history = told(WAY)
    history.logs = {
        name: NodeLog(node=name, start_offset=0, entries=(*log, several), of="zookeeper") for name in KEEPERS
    }
    left = only(handover.check(history, FACTS), handover.LEFT)
    assert left.anomalies == {"partition-state-after-claim": 2}
    assert left.figures.plain()["partition_states"] == 2


def test_a_broker_that_never_was_the_controller_may_not_write_either() -> None:
    left = only(judged(f"b2:here {WAY} b2:config b2:create/config/changes/1"), handover.LEFT)
    assert left.anomalies == {"write-after-claim": 2}
    assert len(left.witnesses[0].steps) == 2, "it has no reign of its own"
    assert only(judged(f"b2:here b2:config {WAY}"), handover.LEFT).exposure == 0, "before the claim it may"


def test_a_registration_is_no_write_of_a_controller_and_who_is_elected_again_may_write() -> None:
    assert only(judged(f"{WAY} b1:here"), handover.LEFT).exposure == 0
    assert only(judged(f"{WAY} b1:elected=4 b1:create/x c2:set/migration"), handover.LEFT).exposure == 0
