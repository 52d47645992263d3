"""The nemesis without a cluster: targets, schedules, proofs that notice an idle fault, healing on every path."""

import asyncio
import random
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import describe
from fencepost.harness.base.quantities import format_duration, parse_duration_ns
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.kind import Resolved, Skip, View
from fencepost.harness.faults.schedule import ScheduledFault, draw_schedule, parse_faults
from fencepost.harness.history import FaultAction, FaultOutcome, FaultStage
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.network import CLIENT, Effect, Link
from fencepost.harness.runtime.node import Exit, NodeState
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.network.partition import PartitionFault
from fencepost.nemesis.process.gray import GrayOptions
from tests.fakes.fakes_runtime import FakeRuntime, KeptRecords, cluster_of
from tests.fakes.virtual_time import run_virtual

FAULTS = registry.faults()


def _view(count: int = 3, leader: str | None = "n2") -> View:
    return View(nodes=tuple(f"n{i}" for i in range(1, count + 1)), leader=leader, epoch=4)


def _cut(text: str, *, count: int = 3, seed: int = 0, leader: str | None = "n2") -> set[str]:
    (spec,) = parse_faults(text, FAULTS, Placement(nodes=count))
    resolved = FAULTS["partition"].choose(spec, _view(count, leader), random.Random(seed))
    assert isinstance(resolved, Resolved)
    return {str(link) for link in resolved.links}


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("partition:leader", "n2>n1 n2>n3 n1>n2 n3>n2"),
        ("partition:leader:direction=out", "n2>n1 n2>n3"),
        ("partition:leader:direction=in", "n1>n2 n3>n2"),
        ("partition:n3:links=client", "n3>client client>n3"),
        ("partition:n3:links=all:direction=in", "n1>n3 n2>n3 client>n3"),
    ],
)
def test_partition_cuts_exactly(text: str, cut: str) -> None:
    assert _cut(text) == set(cut.split())


@pytest.mark.parametrize("seed", range(5))
def test_in_a_ring_every_node_sees_another_majority_and_across_a_bridge_one_sees_all(seed: int) -> None:
    cut, nodes = _cut("partition:ring", count=5, seed=seed), _view(5).nodes
    sees = {frozenset(b for b in nodes if a == b or f"{a}>{b}" not in cut) for a in nodes}
    assert len(sees) == 5 and {len(seen) for seen in sees} == {3}
    cut = _cut("partition:bridge", count=5, seed=seed)
    assert sorted(sum(f"{a}>{b}" not in cut for b in nodes if b != a) for a in nodes) == [2, 2, 2, 2, 4]


@given(st.sampled_from(["partition:leader:direction=out", "kill", "pause:n1:for=3s", "partition:minority:links=all"]))
def test_a_canonical_spec_parses_back(text: str) -> None:
    (spec,) = parse_faults(text, FAULTS, Placement(nodes=3))
    assert parse_faults(spec.text, FAULTS, Placement(nodes=3)) == [spec]


def test_without_a_leader_the_fault_is_skipped_with_the_reason() -> None:
    (spec,) = parse_faults("pause:leader", FAULTS, Placement(nodes=3))
    assert isinstance(FAULTS["pause"].resolve(spec, _view(leader=None), random.Random(0)), Skip)


@given(st.integers(0, 2**32), st.integers(1, 120))
def test_a_schedule_fits_its_phase_and_repeats_from_its_seed(seed: int, seconds: int) -> None:
    choices = [(spec,) for spec in parse_faults("partition:leader,kill,pause", FAULTS, Placement(nodes=3))]
    limit = seconds * 10**9

    def draw() -> list[ScheduledFault]:
        return list(draw_schedule(choices, FAULTS, seed=seed, time_limit_ns=limit, quiet_ns=4 * 10**9))

    entries = draw()
    assert entries == draw()
    ends = [entry.inject_ns + entry.duration_ns for entry in entries]
    assert all(end <= limit for end in ends)
    assert all(later.inject_ns >= end + 3 * 10**9 for end, later in zip(ends, entries[1:], strict=False))
    if seconds >= 40:
        assert {entry.spec.fault for entry in entries} == {"partition", "kill", "pause"}


def test_which_node_leads_does_not_change_later_draws() -> None:
    (spec,) = parse_faults("kill:minority", FAULTS, Placement(nodes=5))
    chosen = [FAULTS["kill"].resolve(spec, _view(5, leader), random.Random(3)) for leader in ("n1", "n4", None)]
    assert len({repr(c) for c in chosen}) == 1


def _conductor(
    runtime: FakeRuntime, leader: str | None = "n2"
) -> tuple[Conductor, KeptRecords, list[dict[str, object]]]:
    records = KeptRecords()
    rows: list[dict[str, object]] = []
    cluster = cluster_of(runtime, records=records, view=lambda: _view(leader=leader))
    conductor = Conductor(cluster=cluster, faults=FAULTS, schedule_sink=rows.append)
    return conductor, records, rows


def _entry(text: str, duration_ns: int = 1_000_000) -> ScheduledFault:
    (spec,) = parse_faults(text, FAULTS, Placement(nodes=3))
    return ScheduledFault(spec=spec, inject_ns=0, duration_ns=duration_ns, draw_seed=1)


def _outcomes(records: KeptRecords) -> list[tuple[FaultAction, FaultStage, FaultOutcome]]:
    return [(e.action, e.stage, e.outcome) for e in records.events]


@pytest.mark.parametrize(
    "text", ["partition:leader", "pause:leader", "kill:leader", "kill:all", "partition:n1:links=all"]
)
def test_every_fault_is_recorded_before_it_acts_proven_and_undone(text: str) -> None:
    runtime = FakeRuntime()
    conductor, records, rows = _conductor(runtime)
    run_virtual(conductor.run([_entry(text)], stop=asyncio.Event()))
    inject, heal = FaultAction.INJECT, FaultAction.HEAL
    begin, end = FaultStage.BEGIN, FaultStage.END
    assert _outcomes(records) == [
        (inject, begin, FaultOutcome.PENDING),
        (inject, end, FaultOutcome.INSTALLED),
        (heal, begin, FaultOutcome.PENDING),
        (heal, end, FaultOutcome.HEALED),
    ]
    assert records.events[0].nodes and records.events[0].leader == "n2"
    assert len(rows) == 4
    assert not runtime.network.blocked
    assert all(node.state is NodeState.RUNNING for node in runtime.nodes.values())


def test_a_partition_that_leaks_is_not_called_installed() -> None:
    runtime = FakeRuntime()
    runtime.network.leaks.add(Link("n2", "n1"))
    conductor, records, _ = _conductor(runtime)
    run_virtual(conductor.run([_entry("partition:leader")], stop=asyncio.Event()))
    assert records.events[1].outcome is FaultOutcome.INDETERMINATE
    assert "n2>n1" in (records.events[1].proof or "")


def test_a_link_that_stays_shut_after_healing_is_said() -> None:
    runtime = FakeRuntime()
    conductor, records, _ = _conductor(runtime)
    runtime.network.stuck.add(Link("n1", "n2"))
    run_virtual(conductor.run([_entry("partition:leader")], stop=asyncio.Event()))
    assert records.events[-1].outcome is FaultOutcome.INDETERMINATE
    assert "n1>n2" in (records.events[-1].proof or "")


def test_a_server_that_died_is_told_before_the_links_that_seem_shut() -> None:
    runtime = FakeRuntime()
    conductor, records, _ = _conductor(runtime)
    runtime.network.stuck.add(Link("n1", "n2"))
    runtime.nodes["n1"].state = NodeState.DEAD
    runtime.nodes["n1"].last_exit = Exit("n1", 0, 2, expected=False)
    run_virtual(conductor.run([_entry("partition:leader")], stop=asyncio.Event()))
    # When all is over, every server is started again, and only then healing is tried once more.
    healings = [e.proof or "" for e in records.events if e.action is FaultAction.HEAL and e.stage is FaultStage.END]
    assert healings[0].startswith("n1 ended by itself with exit status 2 (see nodes/n1/server.log); still shut")


def test_a_node_that_does_not_stop_is_not_called_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.nemesis.process.pause._PROOF_DEADLINE_S", 0.05)
    runtime = FakeRuntime()
    runtime.nodes["n2"].unstoppable = True
    conductor, records, _ = _conductor(runtime)
    run_virtual(conductor.run([_entry("pause:leader")], stop=asyncio.Event()))
    assert records.events[1].outcome is FaultOutcome.INDETERMINATE


def test_a_server_that_survives_is_not_called_killed() -> None:
    runtime = FakeRuntime()
    runtime.nodes["n2"].unkillable = True
    conductor, records, _ = _conductor(runtime)
    run_virtual(conductor.run([_entry("kill:leader")], stop=asyncio.Event()))
    assert records.events[1].outcome is FaultOutcome.INDETERMINATE


def test_a_server_that_does_not_come_back_is_not_called_healed() -> None:
    runtime = FakeRuntime()
    runtime.nodes["n2"].unstartable = True
    conductor, records, _ = _conductor(runtime)
    run_virtual(conductor.run([_entry("kill:leader")], stop=asyncio.Event()))
    assert records.events[-1].outcome is FaultOutcome.INDETERMINATE
    assert "n2" in (records.events[-1].proof or "")


def test_a_fault_that_throws_is_recorded_and_still_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionFault, "inject", AsyncMock(side_effect=RuntimeError("no such rule")))
    runtime = FakeRuntime()
    conductor, records, _ = _conductor(runtime)
    run_virtual(conductor.run([_entry("partition:leader")], stop=asyncio.Event()))
    assert records.events[1].outcome is FaultOutcome.INDETERMINATE
    assert "no such rule" in (records.events[1].proof or "")
    assert records.events[-1].outcome is FaultOutcome.HEALED


def test_a_stop_heals_the_fault_in_force() -> None:
    runtime = FakeRuntime()
    conductor, records, _ = _conductor(runtime)

    async def scenario() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(conductor.run([_entry("pause:leader", 3600 * 10**9)], stop=stop))
        while runtime.nodes["n2"].state is not NodeState.PAUSED:
            await asyncio.sleep(0.001)
        stop.set()
        await running

    run_virtual(scenario())
    assert runtime.nodes["n2"].state is NodeState.RUNNING
    assert records.events[-1].outcome is FaultOutcome.HEALED


def test_a_cancelled_conductor_heals_too() -> None:
    runtime = FakeRuntime()
    conductor, _, _ = _conductor(runtime)

    async def scenario() -> None:
        running = asyncio.create_task(conductor.run([_entry("partition:leader", 3600 * 10**9)], stop=asyncio.Event()))
        while not runtime.network.blocked:
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(scenario())
    assert not runtime.network.blocked


def test_nobody_leads_is_recorded_as_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor.LEADER_WAIT_S", 0.0)
    conductor, records, _ = _conductor(FakeRuntime(), leader=None)
    run_virtual(conductor.run([_entry("kill:leader")], stop=asyncio.Event()))
    assert [e.outcome for e in records.events] == [FaultOutcome.PENDING, FaultOutcome.SKIPPED]
    assert records.events[1].why == "no node was known to lead"


def test_the_client_side_counts_as_an_end_of_a_link() -> None:
    spec = PartitionFault().spec("n1", {"links": "client", "direction": "out"})
    resolved = PartitionFault().resolve(spec, _view(), random.Random(0))
    assert isinstance(resolved, Resolved)
    assert dict(resolved.links) == {Link("n1", CLIENT): Effect.DROP}


@given(st.integers(1, 10**13))
def test_durations_print_and_parse_back(ns: int) -> None:
    assert parse_duration_ns(format_duration(ns)) == ns


@pytest.mark.parametrize("text", ["", "5", "5 s", "s", "1x", "-3s", "3s4"])
def test_a_duration_needs_a_unit(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration_ns(text)


def test_every_option_of_every_kind_is_explained() -> None:
    for name, fault in FAULTS.items():
        rows = describe(fault.options)
        assert {row.name for row in rows} >= {"for", "when", "within", "otherwise"}, name
        assert all(row.about for row in rows), name
        assert next(row.default for row in rows if row.name == "for") == str(fault.options.for_)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kill:leader:for=1s:for=2s", "for= is given twice"),
        ("partition:leader:links=all:for=1s:links=node", "links= is given twice"),
        ("kill:leader:for=never", "'never' is not a duration"),
        ("link:leader:latency=never", "'never' is not a duration"),
    ],
)
def test_an_option_is_given_once_and_with_a_value(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_faults(text, FAULTS, Placement())


def test_a_spec_keeps_what_was_typed_and_holds_what_it_means() -> None:
    (spec,) = parse_faults("gray:n1:period=1000ms:share=0.25", FAULTS, Placement())
    assert spec.text == "gray:n1:period=1000ms:share=0.25"
    options = spec.own(GrayOptions)
    assert (options.share, options.period, spec.duration_ns) == (0.25, 10**9, 6 * 10**9)
    assert spec.lasting(1_500_000_000).text == f"{spec.text}:for=1500ms"
    assert parse_faults(spec.lasting(1_500_000_000).text, FAULTS, Placement())[0].duration_ns == 1_500_000_000
