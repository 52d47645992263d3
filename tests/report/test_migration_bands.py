"""A migration on the time axis of the page: its phases, and who was the controller."""

from types import SimpleNamespace
from typing import cast

from fencepost.harness.history import History, MigrationEvent
from fencepost.harness.report import words
from fencepost.harness.report.overview import Lanes, LaneState, Stretch, migration_bands, overview, who_controls
from fencepost.harness.report.section import ReportCase
from fencepost.harness.report.svg import TimeAxis
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.figures import WRITES
from fencepost.systems.kafka.report.handover import writes_after_claims

S = 10**9


def test_each_phase_lasts_until_the_next_one_and_says_what_proved_it() -> None:
    phases = [("hybrid", 10, "c1 accepts <changes>"), ("dual-write", 40, "b1 is a broker")]
    events = [
        MigrationEvent(index=index, time_ns=at_s * S, phase=phase, length_ns=S, text=text)
        for index, (phase, at_s, text) in enumerate(phases)
    ]
    history = History(events)
    drawn = "".join(migration_bands(history, TimeAxis(0, 60 * S), 20))
    assert drawn.count('class="migration m') == 2
    assert "hybrid from 10.000 s to 40.000 s: c1 accepts &lt;changes&gt;" in drawn
    assert words.event(events[1]) == "the migration is in its phase dual-write: b1 is a broker"
    assert migration_bands(History([]), TimeAxis(0, S), 20) == []


def leads(node: str, epoch: int | None, from_s: int, to_s: int) -> Stretch:
    state = LaneState.LEADER
    return Stretch(node=node, state=state, from_ns=from_s * S, to_ns=to_s * S, last_ns=to_s * S, epoch=epoch)


def test_one_lane_says_who_was_the_controller_with_the_epochs_of_both_layers() -> None:
    quorum = Lanes(subject="raft", by_node={"c1": [leads("c1", 4, 5, 25), leads("c1", 7, 25, 60)]}, begins_ns={})
    claimed = {"b1": [leads("b1", 1, 0, 10)], "c1": [leads("c1", 2, 12, 20), leads("c1", None, 40, 60)]}
    lanes = Lanes(subject="controller", by_node=claimed, begins_ns={}, others=(quorum,))
    drawn = "".join(who_controls(lanes, TimeAxis(0, 60 * S), 20))
    assert "b1 leads, controller epoch 1, 0.000 s to 10.000 s" in drawn
    assert "c1 leads, controller epoch 2, raft epoch 4, 12.000 s to 20.000 s" in drawn
    assert "c1 leads, raft epoch 7, 40.000 s to 60.000 s" in drawn
    assert [said in drawn for said in ("b1: 1", "c1: 2 / raft 4", "c1: - / raft 7")] == [True] * 3


def test_the_whole_picture_has_the_lane_only_if_something_migrated() -> None:
    lanes = Lanes(subject="controller", by_node={"b1": [leads("b1", 1, 0, 10)]}, begins_ns={})
    event = MigrationEvent(index=0, time_ns=S, phase="hybrid", length_ns=S, text="")
    assert "b1 leads, controller epoch 1" in overview(History([event]), lanes, "epoch")
    assert "b1 leads, controller epoch 1" not in overview(History([]), lanes, "epoch")


def test_the_page_counts_who_wrote_to_zookeeper_after_a_claim() -> None:
    row = {
        "claim": "c1, controller epoch 2",
        "node": "b1",
        "what": "config",
        "guard": "checks no controller epoch",
        "transactions": 3,
        "first": "0x10",
    }
    verdict = Verdict(checker="handover", guarantee="g", validity=Validity.VALID, figures={WRITES: (row,)})
    case = cast(ReportCase, SimpleNamespace(verdicts=[verdict]))
    (table,) = writes_after_claims(case)
    assert table.rows == (("c1, controller epoch 2", "b1", "config", "checks no controller epoch", "3", "0x10"),)
    assert writes_after_claims(cast(ReportCase, SimpleNamespace(verdicts=[]))) == []
