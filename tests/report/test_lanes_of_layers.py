"""Nodes asked about several things: a lane for each, and whom brokers are with."""

import msgspec
import pytest

from fencepost.harness.history import Claim, EpochEvent
from fencepost.harness.report import tables
from fencepost.harness.report.leaders import attached, reigns, zombies
from fencepost.harness.report.overview import LaneState, lanes
from fencepost.harness.report.page import render
from fencepost.harness.report.section import ReportCase
from fencepost.harness.report.timeline import timeline
from fencepost.harness.verdict import Validity, Verdict, Vocabulary
from fencepost.systems.kafka.kraft import KRAFT
from tests.report import sample
from tests.report.sample import lanes_of
from tests.report.sample_kraft import BEGUN, LAST, kraft_zombie
from tests.report.tape import MS, Tape


@pytest.fixture(scope="module")
def zombie() -> ReportCase:
    return kraft_zombie()


def test_lanes_are_by_node_and_subject_and_brokers_name_their_leader(zombie: ReportCase) -> None:
    found = lanes(zombie.history, zombie.facts.nodes, zombie.derived)
    assert [(r.node, r.title, r.first, r.last) for r in found.rows()] == [
        ("n1", "raft", True, False),
        ("n1", "controller", False, True),
        ("n2", "raft", True, False),
        ("n2", "controller", False, True),
        ("n3", "raft", True, False),
        ("n3", "controller", False, True),
        ("b1", "raft", True, True),
    ]
    assert [(s.leader, s.epoch, s.superseded is not None) for s in found.by_node["b1"]] == [
        ("n2", 11, True),
        ("n1", 13, False),
    ]
    claimed = [s for s in found.by_node["n2"] if s.state is LaneState.LEADER]
    assert [s.superseded for s in claimed] == [(BEGUN + 2 * MS, LAST)]
    layer = [(s.state, s.epoch) for s in found.others[0].by_node["n2"]]
    assert layer == [(LaneState.LEADER, 11), (LaneState.SILENT, None), (LaneState.FOLLOWER, None)]


def test_one_subject_has_neither_titles_nor_leaders() -> None:
    tape = Tape()
    tape.belief(0, 1, "n1", Claim.NO, 1, leader="n2")
    tape.belief(5, 6, "n1", Claim.NO, 1, leader=None)
    found = lanes_of(tape.history(), ("n1", "n2"))
    assert [(r.node, r.title, len(r.lane)) for r in found.rows()] == [("n1", "", 1), ("n2", "", 0)]
    assert found.by_node["n1"][0].leader is None


@pytest.mark.parametrize(("read_ms", "superseded"), [(1150, False), (1152, True)])
def test_a_claim_whose_line_may_be_yet_to_come_is_not_superseded(read_ms: int, superseded: bool) -> None:
    tape = Tape()
    tape.add(EpochEvent, 10 * MS, node="n1", incarnation=0, epoch=1, source="log")
    tape.add(EpochEvent, 100 * MS, node="n2", incarnation=0, epoch=2, source="log")
    tape.belief(150 * MS, 151 * MS, "n1", Claim.YES, None, epoch_exact=False, subject="controller")
    tape.belief(150 * MS, 151 * MS, "n2", Claim.YES, 2, subject="raft")
    tape.add(EpochEvent, read_ms * MS, node="n1", incarnation=0, epoch=3, source="log")
    own = lanes_of(tape.history(), ("n1", "n2")).others[0].by_node["n1"]
    assert (own[0].superseded is not None) is superseded


def test_page_shows_lanes_and_attachments(zombie: ReportCase) -> None:
    rendered = render(zombie)
    assert rendered.problems == ()
    html = rendered.html
    witness = html[html.index('<section id="witness"') : html.index('<section id="timeline"')]
    for said in ("n2 controller", "b1 raft", "with n2 (11)", "leads 13"):
        assert said in witness
    section = html[html.index('<section id="leadership"') :]
    for said in ("raft layer", "QuorumController", "Whom the others named", '<th scope="col">raft</th>'):
        assert said in section


def test_tables_by_subject(zombie: ReportCase) -> None:
    found = lanes(zombie.history, zombie.facts.nodes, zombie.derived)
    assert [t.caption.split(": ")[1] for t in reigns(found, KRAFT.profile.vocabulary)] == [
        "raft layer",
        "QuorumController",
    ]
    named = attached(found, "epoch")
    assert named is not None
    assert [(row[0], row[1], row[2], bool(row[6])) for row in named.rows] == [
        ("b1", "n2", "11", True),
        ("b1", "n1", "13", False),
    ]
    counted = zombies(zombie)
    assert counted is not None
    assert counted[0].columns == ("kind", "controller", "raft", "meaning")
    assert counted[0].rows[0][1:3] == ("not counted", "1")
    assert counted[1] is not None
    assert counted[1].columns[0] == "subject"


def test_reasons_about_two_layers_are_told_apart_and_the_broken_one_comes_first() -> None:
    def judged(subject: str, validity: Validity) -> Verdict:
        return Verdict(checker="leadership", guarantee="g", validity=validity, reason=subject, subject=subject)

    case = kraft_zombie()
    both = (judged("controller", Validity.UNKNOWN), judged("raft", Validity.INVALID))
    (row,) = tables.guarantees(msgspec.structs.replace(case, verdicts=both))
    assert row["reasons"] == ["raft: raft", "controller: controller"]
    (row,) = tables.guarantees(msgspec.structs.replace(case, verdicts=both[:1]))
    assert row["reasons"] == ["controller"]


def test_timeline_has_a_lane_for_each_subject(zombie: ReportCase) -> None:
    data, _ = timeline(zombie.history, lanes(zombie.history, zombie.facts.nodes, zombie.derived), (), Vocabulary())
    assert data["nodes"][1]["lanes"] == ["raft", "controller"]
    assert {s["lane"] for s in data["stretches"] if s["node"] == "n2"} == {0, 1}
    assert {s["lane"] for s in data["stretches"] if s["node"] == "b1"} == {0}


def test_other_systems_show_nothing_of_it() -> None:
    for make in (sample.etcd_valid, sample.zookeeper_invalid):
        case = make()
        found = lanes(case.history, case.facts.nodes, case.derived)
        assert (found.others, attached(found, "epoch")) == ((), None)
