"""A promise is judged under its condition: what faults left on disks over the whole run decides who stands behind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from fencepost.harness.history import DiskEffect, Effects, FaultEvent, FaultOutcome, History, Stops
from fencepost.harness.judging.judge import facts_of, in_this_run, judge
from fencepost.harness.judging.judgement import conclude
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import write_parquet
from fencepost.harness.results.reader import read_history
from fencepost.harness.verdict import Guarantee, Standing, Validity, Verdict
from fencepost.harness.verdict.figures import Traced
from fencepost.harness.verdict.guarantee import KnownIssue
from tests.checkers.build import Tale

FOUND: Final = Path(__file__).resolve().parents[1] / "histories" / "found"
WRITES: Final = "no-lost-acknowledged-writes"
#: Any number of nodes may lose it: the store had synced what it acknowledged.
ANY: Final = 99
FIVE: Final = ("n1", "n2", "n3", "n4", "n5")
BROKERS: Final = ("b1", "b2", "b3")

#: System, its options and settings, guarantee, nodes, and how many of them may be damaged, or lack what was not synced.
TABLE: Final[tuple[tuple[str, dict[str, Any], dict[str, Any], str, tuple[str, ...], int, int], ...]] = (
    ("etcd", {}, {}, WRITES, FIVE, 2, ANY),
    ("etcd", {}, {}, "linearizable", FIVE, 2, ANY),
    ("etcd", {}, {}, "one-leader-per-epoch", FIVE, 2, ANY),
    ("zookeeper", {}, {}, WRITES, FIVE, 2, ANY),
    ("consul", {}, {}, WRITES, FIVE, 2, ANY),
    ("nats", {}, {}, WRITES, FIVE, 1, 1),
    ("nats", {"replicas": 5}, {}, WRITES, FIVE, 2, 2),
    ("nats", {"replicas": 5}, {}, "log-durable", FIVE, 2, 2),
    ("nats", {"replicas": 5}, {}, "watch-reliable", FIVE, 2, 2),
    ("nats", {"replicas": 5, "sync_interval": "0s"}, {}, WRITES, FIVE, 2, ANY),
    ("nats", {"replicas": 5, "sync_interval": "0s"}, {}, "log-durable", FIVE, 2, ANY),
    ("nats", {"replicas": 1, "sync_interval": "0s"}, {}, "log-durable", FIVE, 0, ANY),
    ("cassandra", {}, {}, WRITES, FIVE, 2, 2),
    ("cassandra", {}, {}, "one-acting-leader", FIVE, 2, 2),
    ("cassandra", {"commitlog_sync": "batch"}, {}, WRITES, FIVE, 2, ANY),
    ("kraft", {"brokers": 3}, {}, "log-durable", BROKERS, 1, 1),
    ("kraft", {"brokers": 3}, {}, "group-commits-durable", BROKERS, 1, 1),
    ("kraft", {"brokers": 3}, {}, "transactions-durable", BROKERS, 1, 1),
    ("kraft", {"brokers": 3}, {}, "topics-keep-records", BROKERS, 1, 1),
    ("kraft", {"brokers": 3}, {"kraft": {"log.flush.interval.messages": 1}}, "log-durable", BROKERS, 1, ANY),
    # What controllers keep is metadata: their log is synced, and not the brokers' concern.
    ("kraft", {"brokers": 3}, {}, "metadata-durable", FIVE, 2, ANY),
    ("kraft", {"brokers": 3}, {}, "log-durable", FIVE, 2, ANY),
    ("kraft", {"brokers": 3}, {}, "metadata-durable", BROKERS, ANY, ANY),
    ("kafka-zk", {}, {}, "log-durable", BROKERS, 1, 1),
    ("kafka-zk", {}, {}, "metadata-durable", ("z1", "z2", "z3"), 1, ANY),
    ("kafka-bridge", {}, {}, "metadata-durable", ("z1", "z2", "z3"), 1, ANY),
    ("kafka-bridge", {}, {}, "metadata-durable", ("c1", "c2", "c3"), 1, ANY),
)
#: How faults come to these nodes: together, one after the other, or again and again.
WAYS: Final = ("at once", "in rounds", "twice each")


def checked(system: str, options: Mapping[str, Any], settings: Mapping[str, Any], **more: Any) -> CheckedPlan:
    tested = registry.system(system)
    sizes = tested.profile.sizes
    offered = tested.profile.interfaces
    workload = next(name for name in ("set", "metadata") if registry.workload(name).protocol in offered)
    plan = Plan(
        system=system,
        workload=workload,
        nodes=5 if 5 in sizes else max(sizes),
        seed=1,
        nemesis="none",
        system_options={name: str(value) for name, value in options.items()},
        server_settings=dict(settings),
        **more,
    )
    return check_plan(plan)


def struck(loss: DiskEffect, nodes: tuple[str, ...], way: str, **more: Any) -> History:
    tale = Tale()
    rounds = [nodes] if way == "at once" else [(node,) for node in nodes] * (2 if way == "twice each" else 1)
    for number, hit in enumerate(rounds):
        at = number * 10
        tale.fault("strange", hit, (at, at + 1, at + 5, at + 6), effects=Effects(disk=loss), **more)
    return tale.history()


def standings(plan: CheckedPlan, history: History) -> dict[str, Guarantee]:
    facts = facts_of(plan, plan.system.releases.default)
    return {g.name: in_this_run(g, history, plan.members) for g in facts.guarantees}


@pytest.mark.parametrize(("system", "options", "settings", "name", "nodes", "damaged", "unsynced"), TABLE)
def test_a_promise_stands_while_its_condition_is_met(
    system: str,
    options: dict[str, Any],
    settings: dict[str, Any],
    name: str,
    nodes: tuple[str, ...],
    damaged: int,
    unsynced: int,
) -> None:
    plan = checked(system, options, settings)
    (stated,) = [g for g in facts_of(plan, plan.system.releases.default).guarantees if g.name == name]
    assert stated.standing is Standing.PROMISED
    for loss, most in ((DiskEffect.DAMAGED, damaged), (DiskEffect.UNSYNCED, unsynced), (DiskEffect.KEPT, ANY)):
        for count in range(1, len(nodes) + 1):
            for way in WAYS:
                now = in_this_run(stated, struck(loss, nodes[-count:], way), plan.members)
                assert (now.standing is Standing.PROMISED) == (count <= most), (loss, count, way, now.unmet)
                assert (now.unmet is None) == (count <= most)


@pytest.mark.parametrize("system", sorted(registry.SYSTEMS))
def test_nobody_stands_behind_anything_when_all_disks_were_damaged(system: str) -> None:
    plan = checked(system, {}, {})
    every = tuple(member.name for member in plan.members)
    for way in WAYS:
        now = standings(plan, struck(DiskEffect.DAMAGED, every, way))
        assert {g.standing for g in now.values()} == {Standing.MEASURED}
        assert now[plan.workload.guarantee(plan.system, plan.options)].unmet


def test_damage_and_lost_writes_add_up_and_lost_writes_are_no_damage() -> None:
    plan = checked("nats", {"replicas": 5}, {})
    tale = Tale()
    tale.fault("strange", ("n1",), (0, 1, 2, 3), effects=Effects(disk=DiskEffect.DAMAGED))
    tale.fault("strange", ("n2", "n3"), (4, 5, 6, 7), effects=Effects(disk=DiskEffect.UNSYNCED))
    unmet = standings(plan, tale.history())["log-durable"].unmet
    assert unmet is not None
    assert (unmet.nodes, unmet.faults, unmet.standing) == (("n1", "n2", "n3"), (0, 1), Standing.PROMISED)
    assert unmet.events == tuple(range(8))
    assert unmet.text == (
        "promised only while at most 2 of the voters lose what they had not synced; in this run it was 3 of 5"
        " (faults #1 strange of n1; #2 strange of n2, n3)"
    )


@pytest.mark.parametrize(
    ("loss", "detail"),
    [(DiskEffect.UNSYNCED, {"lost": "b1:log/0.log, b1:log/1.log"}), (DiskEffect.DAMAGED, {"damaged": "b1:x"})],
)
def test_only_nodes_that_lost_something_count(loss: DiskEffect, detail: dict[str, Any]) -> None:
    plan = checked("kraft", {"brokers": 3}, {})
    assert standings(plan, struck(loss, BROKERS, "at once"))["log-durable"].unmet
    assert not standings(plan, struck(loss, BROKERS, "at once", details=detail))["log-durable"].unmet
    nothing = dict.fromkeys(detail, "")
    assert not standings(plan, struck(loss, BROKERS, "at once", details=nothing))["log-durable"].unmet


def test_a_fault_in_doubt_may_have_broken_the_condition_and_a_skipped_one_has_not() -> None:
    plan = checked("kraft", {"brokers": 3}, {})
    doubtful = standings(plan, struck(DiskEffect.DAMAGED, BROKERS, "in rounds", outcome=FaultOutcome.INDETERMINATE))
    unmet = doubtful["log-durable"].unmet
    assert unmet is not None and "not every fault is proven" in unmet.text
    skipped = standings(plan, struck(DiskEffect.DAMAGED, BROKERS, "in rounds", outcome=FaultOutcome.SKIPPED))
    assert skipped["log-durable"].unmet is None


@pytest.mark.parametrize(("require", "validity"), [((), Validity.VALID), (("log-durable",), Validity.INVALID)])
def test_a_violation_outside_the_condition_is_counted_and_decides_only_where_the_plan_says_so(
    require: tuple[str, ...], validity: Validity
) -> None:
    plan = checked("kraft", {"brokers": 3}, {}, require=require)
    lost = Verdict(
        checker="log", guarantee="log-durable", validity=Validity.INVALID, anomalies={"lost-append": Traced(3)}
    )
    other = Verdict(
        checker="metadata", guarantee=plan.workload.guarantee(plan.system, plan.options), validity=Validity.VALID
    )
    for history, outcome in (
        (struck(DiskEffect.UNSYNCED, BROKERS, "in rounds"), validity),
        (Tale().history(), Validity.INVALID),
    ):
        facts = facts_of(plan, plan.system.releases.default)
        guarantees = tuple(in_this_run(g, history, plan.members) for g in facts.guarantees)
        now = msgspec.structs.replace(facts, guarantees=guarantees)
        verdicts = (lost, *([other] if other.guarantee != lost.guarantee else []))
        judgement = conclude(history, now, verdicts)
        assert judgement.validity is outcome
        assert "3 lost" in judgement.headline


ISSUES: Final[tuple[tuple[str, dict[str, Any], str, str, str, Effects, bool], ...]] = (
    ("nats", {}, "", WRITES, "#7564", Effects(disk=DiskEffect.UNSYNCED), True),
    ("nats", {}, "", WRITES, "#7564", Effects(stops=Stops.CERTAIN), False),
    ("nats", {}, "", WRITES, "#7564", Effects(disk=DiskEffect.KEPT), False),
    ("nats", {"sync_interval": "0s"}, "", WRITES, "#7564", Effects(disk=DiskEffect.UNSYNCED), False),
    ("nats", {}, "", "log-durable", "#7564", Effects(disk=DiskEffect.UNSYNCED), True),
    ("nats", {}, "2.12.1", "log-durable", "#7594", Effects(stops=Stops.CERTAIN), True),
    ("nats", {}, "2.12.3", "log-durable", "#7594", Effects(stops=Stops.CERTAIN), False),
    ("nats", {}, "2.12.1", "log-durable", "#7594", Effects(cuts=True), False),
    ("nats", {}, "2.12.4", "groups-keep-their-size", "2.12.4", Effects(stops=Stops.CERTAIN), True),
    ("nats", {}, "2.12.5", "groups-keep-their-size", "2.12.4", Effects(stops=Stops.CERTAIN), False),
    ("cassandra", {}, "", WRITES, "commitlog_sync", Effects(stops=Stops.CERTAIN, disk=DiskEffect.UNSYNCED), True),
    ("cassandra", {}, "", WRITES, "commitlog_sync", Effects(cuts=True), False),
    ("cassandra", {"commitlog_sync": "batch"}, "", WRITES, "commitlog_sync", Effects(stops=Stops.CERTAIN), False),
    ("kraft", {}, "3.9.2", "log-durable", "KAFKA-14139", Effects(disk=DiskEffect.UNSYNCED), True),
    ("kraft", {}, "3.9.2", "log-durable", "KAFKA-14139", Effects(stops=Stops.CERTAIN), False),
    ("kraft", {}, "4.1.0", "log-durable", "KAFKA-14139", Effects(disk=DiskEffect.UNSYNCED), False),
    ("kraft", {}, "3.5.1", "no-hanging-transactions", "KIP-890", Effects(), True),
    ("kraft", {}, "3.6.0", "no-hanging-transactions", "KIP-890", Effects(), False),
    ("etcd", {}, "3.5.1", WRITES, "#13766", Effects(stops=Stops.CERTAIN), True),
    ("etcd", {}, "3.5.1", WRITES, "#13766", Effects(cuts=True), False),
    ("etcd", {}, "3.5.3", WRITES, "#13766", Effects(stops=Stops.CERTAIN), False),
    ("etcd", {}, "3.4.23", WRITES, "#13766", Effects(stops=Stops.CERTAIN), False),
    ("etcd", {}, "3.4.33", "watch-resumable", "#18089", Effects(), True),
    ("etcd", {}, "3.4.34", "watch-resumable", "#18089", Effects(), False),
    ("etcd", {}, "3.5.15", "watch-resumable", "#18089", Effects(), True),
    ("etcd", {}, "3.5.16", "watch-resumable", "#18089", Effects(), False),
    ("etcd", {}, "3.6.0", "watch-resumable", "#18089", Effects(), False),
    ("etcd", {}, "main", "watch-resumable", "#18089", Effects(), False),
    ("etcd", {}, "3.5.12", "live-lease-lives", "#15247", Effects(holds=True), True),
    ("etcd", {}, "3.5.13", "live-lease-lives", "#15247", Effects(holds=True), False),
)


@pytest.mark.parametrize(("system", "options", "version", "name", "word", "effects", "stands"), ISSUES)
def test_a_known_issue_stands_beside_a_guarantee_only_where_it_can_show(
    system: str, options: dict[str, Any], version: str, name: str, word: str, effects: Effects, stands: bool
) -> None:
    plan = checked(system, options, {})
    tale = Tale()
    tale.fault("strange", (plan.members[0].name,), (0, 1, 2, 3), effects=effects)
    (stated,) = [g for g in facts_of(plan, version or plan.system.releases.default).guarantees if g.name == name]
    known = in_this_run(stated, tale.history(), plan.members).known_issue
    assert (word in (known or "")) == stands, known


@pytest.mark.parametrize("needed", DiskEffect)
@pytest.mark.parametrize("left", DiskEffect)
@pytest.mark.parametrize("details", [{}, {"lost": "n1:wal", "damaged": "n1:wal"}, {"lost": "", "damaged": ""}])
def test_an_issue_of_one_loss_of_disks_does_not_show_in_another(
    needed: DiskEffect, left: DiskEffect, details: dict[str, str | int | float | bool]
) -> None:
    issue = KnownIssue(text="#1", needs=Effects(disk=needed))
    stated = Guarantee(name=WRITES, standing=Standing.PROMISED, text="", source="", issues=(issue,), conditions=())
    tale = Tale()
    tale.fault("strange", ("n1",), (0, 1, 2, 3), effects=Effects(disk=left), details=details)
    shows = needed is DiskEffect.KEPT or (needed is left and details.get("lost") != "")
    assert (in_this_run(stated, tale.history(), ()).known_issue == "#1") is shows


def test_an_upgraded_cluster_has_the_known_issues_of_every_release_it_ran() -> None:
    plan = checked("etcd", {}, {})
    for first, other in (("3.5.15", "3.6.0"), ("3.6.0", "3.5.15")):
        (stated,) = [g for g in facts_of(plan, first, [other]).guarantees if g.name == "watch-resumable"]
        assert "#18089" in (in_this_run(stated, Tale().history(), plan.members).known_issue or "")


def _changed(folder: Path, to: Path, losses: tuple[str, ...]) -> Path:
    """The run of the last replica in sync, as if these brokers had lost power with it."""
    events = (
        msgspec.structs.replace(event, nodes=losses, details={})
        if isinstance(event, FaultEvent) and event.fault == "power-loss"
        else event
        for event in read_history(folder).events
    )
    to.mkdir()
    (to / store.PLAN).write_bytes((folder / store.PLAN).read_bytes())
    write_parquet(events, to / store.HISTORY)
    return to


def test_a_run_that_was_found_keeps_its_verdict_as_long_as_its_condition_was_met(tmp_path: Path) -> None:
    """The last replica in sync lost power alone, which the promise covers; it covers no loss of power of all three."""
    folder = FOUND / "kafka-3.9.2-last-replica"
    _, kept = judge(folder)
    stated = kept.facts.guarantee("log-durable")
    assert stated is not None
    assert (kept.validity, stated.standing, stated.unmet) == (Validity.INVALID, Standing.PROMISED, None)
    _, outside = judge(_changed(folder, tmp_path / "run", BROKERS))
    now = outside.facts.guarantee("log-durable")
    assert now is not None and now.unmet is not None
    assert now.standing is Standing.MEASURED
    assert not any(v.guarantee == "log-durable" and outside.facts.decides(v.guarantee) for v in outside.verdicts)
    assert any(v.guarantee == "log-durable" and v.validity is Validity.INVALID for v in outside.verdicts)
