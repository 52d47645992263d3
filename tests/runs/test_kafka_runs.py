"""Whole runs on Kafka, one short run for each claim about its controllers, of both generations.

Holds are as short as the bounds of self-fencing allow: three times 1.5 x 1.5 s + 1 s. Where the machine itself stood
still too long for a verdict that rests on time, the run says so and proves nothing; it is then made again.
"""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    ClockEvent,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    Outcome,
)
from fencepost.harness.results.reader import read_history, read_logs
from tests.lab_scenario import require_lab
from tests.run_command import assert_nothing_left, only_folder, run, run_undisturbed, without_rows
from tests.systems.kafka.kafka_releases import needs

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.timeout(400)]

# A name is made once: in a short run names must be new more often, or a slow machine sees too few of them made.
_METADATA = ("--workload", "metadata", "-o", "create_every=150ms")
_CUT = (*_METADATA, "--nemesis", "partition:controller:for=10s", "--time-limit", "11s")
_SHORT = ("--quiet", "1s", "--watch", "3s", "--json")


class Judged:
    """A run's folder and document; verdicts by checker and guarantee, as many as there are subjects."""

    def __init__(self, results: Path, *arguments: str, every_verdict: bool = True) -> None:
        require_lab()
        done, own = run_undisturbed(results, *arguments, *_SHORT, every_verdict=every_verdict)
        assert done.returncode in (0, 1, 2), done.stdout + done.stderr
        self.code = done.returncode
        self.folder = only_folder(own)
        self.document: dict[str, Any] = json.loads(done.stdout)

    def verdicts(self, checker: str, guarantee: str) -> list[dict[str, Any]]:
        judged = without_rows(self.document["verdicts"])
        found = [v for v in judged if (v["checker"], v["guarantee"]) == (checker, guarantee)]
        assert found, f"nobody judged {guarantee}: {self.document['headline']}"
        return found

    def verdict(self, checker: str, guarantee: str) -> dict[str, Any]:
        (found,) = self.verdicts(checker, guarantee)
        return found


@pytest.mark.parametrize("version", [pytest.param("3.6.0", marks=needs("kraft", "3.6.0"))])
def test_a_controller_of_3_6_0_that_is_cut_off_goes_on_claiming_and_is_found(tmp_path: Path, version: str) -> None:
    """KAFKA-15489."""
    # Little load, so that its processors are no excuse.
    found = Judged(
        tmp_path, "--system", "kraft", "--version", version, *_CUT, "-o", "rate=100.0", "-o", "reads=0.6", "--seed", "3"
    )
    assert (found.code, found.document["validity"]) == (1, "invalid"), found.document["headline"]
    assert "leader-self-fencing" in found.document["headline"]
    raft, *_ = found.verdicts("leadership", "leader-self-fencing")
    assert raft["validity"] == "invalid"
    assert "KAFKA-15489" in raft["figures"]["bound_source"]
    assert raft["figures"]["running_ns_max_when_claimed"] > raft["figures"]["limit_running_ns"]
    # It claimed until the cut was healed, and nothing that it was asked took effect.
    history = read_history(found.folder)
    (cut,) = raft["figures"]["cuts"]
    claims = [e for e in history.events if isinstance(e, BeliefEvent) and e.node == cut["node"] and e.subject == "raft"]
    claimed = [e.answered_ns for e in claims if e.claims is Claim.YES and e.asked_ns < cut["to_ns"]]
    assert max(claimed) > cut["from_ns"] + 0.9 * (cut["to_ns"] - cut["from_ns"])
    for acted in found.verdicts("leadership", "superseded-leader-does-not-act"):
        assert acted["validity"] != "invalid"
    told = {index for witness in raft["witnesses"] for index in witness["indexes"]}
    assert told and told <= {event.index for event in history.events}


@pytest.mark.slow
@pytest.mark.parametrize("system", [pytest.param("kraft", marks=needs("kraft"))])
def test_a_controller_of_the_default_release_gives_up_in_time_and_all_logs_agree(tmp_path: Path, system: str) -> None:
    found = Judged(tmp_path, "--system", system, *_CUT, "-o", "window=2s", "-o", "listeners=2", "--seed", "4")
    assert (found.code, found.document["validity"]) == (0, "valid"), found.document["headline"]
    fencing = found.verdicts("leadership", "leader-self-fencing")
    # At both layers, asked often enough after the bound to have seen it.
    assert {v["figures"]["subject"] for v in fencing} == {"raft", "controller"}
    for verdict in fencing:
        assert (verdict["validity"], verdict["figures"]["claims_in_doubt"]) == ("valid", 0), verdict
        assert verdict["exposure"] > 30
    for verdict in found.verdicts("leadership", "superseded-leader-does-not-act"):
        # Two leaders at a time are no fault, as long as the old one is about to notice.
        assert verdict["figures"]["claimed_running_ns_max"] < fencing[0]["figures"]["limit_running_ns"]
        assert verdict["figures"]["acted"] == 0
    rejoin = found.verdict("rejoin", "no-disruptive-rejoin")
    assert (rejoin["validity"], rejoin["exposure"]) == ("valid", 1), rejoin["reason"]
    for checker, guarantee in (
        ("metadata", "metadata-durable"),
        ("metadata", "metadata-forward"),
        ("metadata", "metadata-converges"),
        ("metadata", "epochs-never-go-back"),
        ("ground-truth", "metadata-log-agrees"),
        ("ground-truth", "metadata-durable"),
        ("metadata-listeners", "metadata-listener-order"),
        ("metadata-listeners", "metadata-listener-complete"),
    ):
        assert found.verdict(checker, guarantee)["validity"] == "valid", found.verdict(checker, guarantee)
    told = found.verdict("metadata-listeners", "metadata-listener-order")["figures"]
    assert told["answers_of_later_leaders"] > 0 and told["entries_compared_with_disks"] >= 3 * told["entries_told"]
    _assert_logs_hold_what_was_acknowledged(found)
    # Judged alike from what was kept.
    done = run("check", str(found.folder), "--json")
    assert json.loads(done.stdout)["verdicts"] == found.document["verdicts"]


def _assert_logs_hold_what_was_acknowledged(found: Judged) -> None:
    figures = found.verdict("ground-truth", "metadata-log-agrees")["figures"]
    operations = read_history(found.folder).operations
    changes = [o for o in operations if o.f in ("alter", "create") and o.type is Outcome.OK]
    assert figures["acknowledged_found"] == len(changes) > 50
    assert figures["info_undecided"] == 0
    # Kept as lines, by a run that keeps no node data.
    logs = read_logs(found.folder)
    assert set(logs) == {"n1", "n2", "n3", "b1"}
    assert not [e for log in logs.values() for e in log.entries if "raw" in e.fields]
    assert not list(found.folder.glob("nodes/*/data.tar.gz"))


@pytest.mark.long
@pytest.mark.parametrize("version", [pytest.param("3.9.2", marks=needs("kraft", "3.9.2"))])
def test_a_controller_of_3_9_2_that_comes_back_deposes_a_healthy_one(tmp_path: Path, version: str) -> None:
    """What KIP-996 ended; it breaks no promise, so it decides nothing."""
    found = Judged(
        tmp_path, "--system", "kraft", "--version", version, *_METADATA,
        "--nemesis", "partition:controller:for=5s", "--time-limit", "7s",
        "-o", "create_every=200ms", "-o", "rate=100.0", "--seed", "2",
    )  # fmt: skip
    rejoin = found.verdict("rejoin", "no-disruptive-rejoin")
    assert (rejoin["validity"], rejoin["decides"]) == ("invalid", False), rejoin["reason"]
    assert rejoin["anomalies"] == {"disruptive-rejoin": 1}
    (fault,) = rejoin["figures"]["faults"]
    assert fault["epoch_after"] > fault["epoch_when_healed"] >= fault["epoch_before"]
    assert fault["healthy_leader"] not in fault["nodes"]
    (witness,) = rejoin["witnesses"]
    assert "led no more" in " ".join(witness["steps"])
    assert not [v for v in found.document["verdicts"] if v["decides"] and v["validity"] == "invalid"]


@pytest.mark.slow
@pytest.mark.parametrize("system", [pytest.param("kafka-zk", marks=needs("kafka-zk"))])
def test_a_controller_on_zookeeper_that_was_paused_is_fenced_and_the_disks_prove_it(
    tmp_path: Path, system: str
) -> None:
    """Beyond its session, and within it with work in hand, which alone puts the check of its epoch to the test.

    Two thirds of the session are what the second may take, election included, so it is twice as long as usual.
    """
    found = Judged(
        tmp_path, "--system", system, *_METADATA, "--nemesis", "depose,pause:controller:for=6s",
        "-O", "zk_session=4s", "--time-limit", "24s", "--seed", "1",
    )  # fmt: skip
    assert {fault.fault for fault in read_history(found.folder).faults} == {"depose", "pause"}
    deeds = found.verdict("zombie-controllers", "superseded-leader-does-not-act")
    assert (deeds["validity"], deeds["figures"]["acted"]) == ("valid", 0), deeds["reason"]
    assert deeds["figures"]["controllers"] >= 3
    assert deeds["figures"]["fenced_by"].get("controller-epoch", 0) > 0, deeds["figures"]["fenced_by"]
    assert all(deed["superseded_by"] > deed["epoch"] for deed in deeds["figures"]["attempts"])
    own = [v for v in found.document["verdicts"] if v["checker"] == "zombie-controllers"]
    told = [deed for v in own for deed in v["figures"]["attempts"]]
    # By ZooKeeper's own log, or by rows of the history.
    assert all(deed.get("zxid") or deed["what"]["rows"] for deed in told), told
    assert {i for deed in told for i in deed["what"]["rows"]} <= {e.index for e in read_history(found.folder).events}
    views = [v["figures"] for v in found.verdicts("leadership", "superseded-leader-does-not-act")]
    assert any(figures["claimed_count"] for figures in views), "a woken controller took itself for one, for a moment"
    assert not [v for v in found.document["verdicts"] if v["decides"] and v["validity"] == "invalid"]


@pytest.mark.slow
@pytest.mark.parametrize("system", [pytest.param("kafka-zk", marks=needs("kafka-zk"))])
def test_a_broker_that_is_cut_off_from_the_controller_alone_answers_of_old_leaders(tmp_path: Path, system: str) -> None:
    """The fourth partition: its session lives, so the others count it as alive, and it hears of no later leader."""
    found = Judged(
        tmp_path, "--system", system, "--workload", "partition-states", "--time-limit", "9s", "--seed", "5",
        "--nemesis", "partition:broker-controller:for=6s",
        "-o", "move_every=100ms", "-o", "fresh=1s", "-o", "fenced=2s",
        every_verdict=False,
    )  # fmt: skip
    assert (found.code, found.document["validity"]) == (0, "valid"), found.document["headline"]
    (cut,) = read_history(found.folder).faults
    fresh = found.verdict("partition-states", "partition-states-fresh")
    assert (fresh["validity"], fresh["decides"]) == ("invalid", False), fresh["reason"]
    (late,) = fresh["figures"]["by_node"]
    assert [late["node"]] == list(cut.nodes)
    assert late["age_ns_max"] > 3_000_000_000
    fenced = found.verdict("partition-states", "stale-broker-is-fenced")
    assert fenced["anomalies"] == {"stale-broker-not-fenced": 1}, fenced["reason"]
    for guarantee in ("agree", "forward", "converge"):
        assert found.verdict("partition-states", f"partition-states-{guarantee}")["validity"] == "valid"


@pytest.mark.long
@pytest.mark.parametrize("systems", [pytest.param("kraft,kafka-zk", marks=(*needs("kraft"), *needs("kafka-zk")))])
def test_failover_is_measured_told_and_drawn(tmp_path: Path, systems: str) -> None:
    require_lab()
    done = run(
        "failover", "--systems", systems, "--partitions", "1", "--times", "1", "--results", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = tmp_path.glob("nights/failover/*")
    document = json.loads((folder / "failover.json").read_text())
    assert document["incomplete"] == document["failures"] == []
    samples = {s["system"]: s for s in document["samples"]}
    assert set(samples) == {*systems.split(",")}
    for sample in samples.values():
        assert min(sample["change_s"], sample["leader_s"]) > 0
        # By two lines of a log, whose times are whole milliseconds: with one partition it may load within one.
        assert sample["load_s"] >= 0
    table = done.stdout.splitlines()
    for system in samples:
        assert [line for line in table if system in line and "kill:controller" in line], done.stdout
    page = (folder / "failover.html").read_text()
    drawing = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])
    marks = [title.text or "" for title in drawing.iter() if title.tag.endswith("title")]
    assert [text for text in marks if "kraft, 1 partitions: median" in text], marks
    assert [text for text in marks if "kafka-zk, 1 partitions: median" in text], marks
    assert_nothing_left(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("version", [pytest.param("3.9.2", marks=needs("kraft", "3.9.2"))])
def test_a_rolling_upgrade_ends_by_raising_the_features_and_loses_nothing(tmp_path: Path, version: str) -> None:
    found = Judged(
        tmp_path, "--system", "kraft", "--version", version, "--workload", "log", "-O", "combined=true", "--seed", "1",
        "--nemesis", "rolling:all:to=4.3.1:finish=yes:for=80s", "--time-limit", "84s",
        every_verdict=False,
    )  # fmt: skip
    (proof,) = (
        e.proof or ""
        for e in read_history(found.folder).of(FaultEvent)
        if (e.action, e.stage) == (FaultAction.HEAL, FaultStage.END) and "part_of" not in e.details
    )
    assert "3 of 3 nodes restarted" in proof
    assert "features raised: metadata.version 21 to 30" in proof
    logs = read_logs(found.folder)
    levels = [e.fields for log in logs.values() for e in log.entries if e.type == "feature-level"]
    assert {"name": "metadata.version", "feature_level": 30} in levels
    assert found.verdict("log", "log-durable")["validity"] == "valid"
    assert found.verdict("brokers", "orderly-restart-unnoticed")["exposure"] > 0


@pytest.mark.long
@pytest.mark.parametrize("system", [pytest.param("kraft", marks=needs("kraft"))])
def test_clocks_of_kafka_s_servers_are_skewed_read_back_and_healed(tmp_path: Path, system: str) -> None:
    """It tells no time of its own, so the proof is what is read back from its processes."""
    found = Judged(
        tmp_path, "--system", system, *_METADATA, "--seed", "3", "--time-limit", "24s",
        "--nemesis", "clock-skew:controller:offset=1h:for=5s,clock-skew:broker:rate=0.5:for=5s",
    )  # fmt: skip
    history = read_history(found.folder)
    assert {fault.outcome for fault in history.faults} == {FaultOutcome.INSTALLED}, history.faults
    ends = [e for e in history.events if isinstance(e, FaultEvent) and e.stage is FaultStage.END]
    assert {e.outcome for e in ends if e.action is FaultAction.HEAL} == {FaultOutcome.HEALED}
    clocks = [e for e in history.events if isinstance(e, ClockEvent)]
    assert {(e.offset_ns, e.rate) for e in clocks} == {(3600 * 10**9, 1.0), (0, 0.5), (0, 1.0)}
    assert all(e.certain for e in clocks)
    assert {node for e in clocks if e.rate != 1.0 for node in [e.node]} == {"b1"}
    assert not [v for v in found.document["verdicts"] if v["decides"] and v["validity"] == "invalid"]
