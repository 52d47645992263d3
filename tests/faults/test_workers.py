"""Several workers of the nemesis, in virtual time: conflicts, triggers, the quorum kept, nothing left in any order."""

import asyncio
import itertools
import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.system import MaintenanceRequest, System
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.forecast import Forecast, Surroundings, look_ahead
from fencepost.harness.faults.kind import Resolved, View
from fencepost.harness.faults.overlaps import draw_schedules
from fencepost.harness.faults.schedule import (
    ScheduledFault,
    nemesis_words,
    parse_faults,
    parse_nemesis,
    recorded_entries,
)
from fencepost.harness.history import FaultAction, FaultEvent, FaultOutcome, FaultStage, History
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import NodeState, members_alike
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.verdict import LeadershipBound, Standing
from fencepost.systems.etcd.system import ETCD
from tests.fakes.fakes_runtime import FakeRuntime, KeptRecords, cluster_of
from tests.fakes.virtual_time import run_virtual, virtual_loop

FAULTS = registry.faults()
SETTING = Placement(nodes=3)


def migrating(setting: Placement) -> Placement:
    """The same with a node that a migration starts."""
    first, *rest = members_alike(setting.nodes)
    return replace(setting, members=(first, *rest[:-1], replace(rest[-1], joins_later=True)))


MS = 10**6
#: A line of etcd's log.
LEADS = '{{"level":"info","msg":"8eca65457f98811 became leader at term {}"}}\n'


class Run:
    """A conductor on a fake runtime, with a view that a test can change."""

    def __init__(self, *, nodes: int = 3, keep_quorum: bool = False) -> None:
        self.runtime = FakeRuntime(nodes)
        self.records = KeptRecords()
        self.rows: list[dict[str, Any]] = []
        self.leader: str | None = "n2"
        self.epoch = 4
        self.restarted: str | None = None
        self.cluster = cluster_of(self.runtime, records=self.records, view=self.view)
        self.conductor = Conductor(
            cluster=self.cluster, faults=registry.faults(), schedule_sink=self.rows.append, keep_quorum=keep_quorum
        )

    def view(self) -> View:
        names = tuple(self.runtime.nodes)
        return View(nodes=names, leader=self.leader, epoch=self.epoch, restarted=self.restarted)

    @property
    def events(self) -> list[FaultEvent]:
        return [e for e in self.records.events if isinstance(e, FaultEvent)]

    def ends(self, action: FaultAction) -> list[FaultEvent]:
        return [e for e in self.events if (e.action, e.stage) == (action, FaultStage.END)]


def entry(
    text: str, at_ms: int = 0, for_ms: int = 1, *, worker: int = 0, number: int = 0, seed: int = 1
) -> ScheduledFault:
    (spec,) = parse_faults(text, FAULTS, SETTING)
    return ScheduledFault(
        spec=spec, inject_ns=at_ms * MS, duration_ns=for_ms * MS, draw_seed=seed, worker=worker, number=number
    )


async def for_a_while(run: Run, entries: list[ScheduledFault]) -> None:
    await run.conductor.run(entries, stop=asyncio.Event())


# -- what is typed ------------------------------------------------------------------------------------------------


def test_a_plus_joins_workers_and_a_comma_faults_that_take_turns() -> None:
    asked = parse_nemesis("kill,pause:leader+partition:one:when=leader+300ms", FAULTS, SETTING)
    texts = [[choice[0].text for choice in worker] for worker in asked.workers]
    assert texts == [["kill:one", "pause:leader"], ["partition:one:when=leader+300ms"]]
    assert nemesis_words("kill,pause+all") == ("kill", "pause", "all")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kill:one:when=noon+1s", "there is no event 'noon'"),
        ("kill:one:when=leader+3", "is not a duration"),
        ("kill:one:within=5s", "within= needs when="),
        ("kill:one:end=noon", "there is no event 'noon'"),
        ("kill:one:when=restart@n33+1s", "restart@n33+1s: there is no node 'n33' did you mean 'n3'?"),
        ("kill:one:end=claim@", "no node stands after @"),
        ("kill:one:when=hybrid@n1", "a phase belongs to no node"),
        ("kill:one:when=leader:otherwise=perhaps", "is not a choice"),
        ("kill+flood", "unknown fault 'flood'"),
        ("partition:moon", "unknown target 'moon'"),
        ("partition:n4", "unknown target 'n4'"),
        ("partition:ring", "ring needs at least 5 nodes"),
        ("partition:one:direction=up", "partition option direction: 'up' is not a choice"),
        ("kill:one:wave=1", "unknown kill option 'wave'"),
        ("kill:one:two", "'two' is not key=value"),
        ("gray:one:share=2", "2 is too large give at least 5%, at most 95%"),
        ("gray:one:period=1ms", "1ms is too small give at least 10ms, at most 3s"),
        ("flapping:leader:period=10ms", "10ms is too small give at least 600ms"),
        ("churn:n1", "whichever node leads"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text, FAULTS, SETTING)
    assert said in f"{caught.value.message} {caught.value.hint}"


@given(st.integers(0, 2**32), st.lists(st.sampled_from(["kill", "pause:leader", "partition,kill"]), min_size=1))
def test_one_more_worker_changes_no_other(seed: int, workers: list[str]) -> None:
    def drawn(text: str) -> list[ScheduledFault]:
        workers = parse_nemesis(text, FAULTS, SETTING).workers
        drawn = draw_schedules(workers, FAULTS, seed=seed, time_limit_ns=60 * 10**9, quiet_ns=4 * 10**9)
        return list(itertools.chain.from_iterable(drawn))

    text = "+".join(workers)
    before, after = drawn(text), drawn(f"{text}+pause:all")
    assert [e for e in after if e.worker < len(workers)] == before
    assert {e.worker for e in after} == set(range(len(workers) + 1))


# -- conflicts ----------------------------------------------------------------------------------------------------


def test_no_pausing_of_a_dead_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor.HELD_WAIT_S", 0.02)
    run = Run()
    run_virtual(for_a_while(run, [entry("kill:n1", 0, 200), entry("pause:n1", 20, 1, worker=1)]))
    skipped = [e for e in run.events if e.outcome is FaultOutcome.SKIPPED]
    assert [e.why for e in skipped] == ["the process of n1 is held by fault 0, kill"]
    assert run.runtime.nodes["n1"].actions == ["kill", "start"]


def test_a_fault_waits_for_what_another_one_holds_and_says_how_long() -> None:
    run = Run()
    run_virtual(for_a_while(run, [entry("kill:n1", 0, 100), entry("pause:n1", 20, 1, worker=1)]))
    assert run.runtime.nodes["n1"].actions == ["kill", "start", "pause", "resume"]
    assert [e.outcome for e in run.ends(FaultAction.INJECT)] == [FaultOutcome.INSTALLED] * 2
    assert next(r["waited_ns"] for r in run.rows if r["fault_id"] == 1) > 0


def test_faults_on_different_nodes_are_in_force_together() -> None:
    run = Run()
    together: list[str | None] = []

    async def scenario() -> None:
        running = asyncio.create_task(for_a_while(run, [entry("kill:n1", 0, 200), entry("pause:n3", 0, 200, worker=1)]))
        while run.runtime.nodes["n3"].state is not NodeState.PAUSED:
            await asyncio.sleep(0.001)
        together.append(run.conductor.current)
        assert run.runtime.nodes["n1"].state is NodeState.DEAD
        await running

    run_virtual(scenario())
    assert together == ["kill of n1; pause of n3"]


def test_of_a_node_that_died_by_itself_a_pause_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor.HELD_WAIT_S", 0.0)
    run = Run()
    run.runtime.nodes["n1"].state = NodeState.DEAD
    run_virtual(for_a_while(run, [entry("pause:n1")]))
    assert run.events[-1].why == "not running: n1 is dead"


@pytest.mark.parametrize("target", ["kill:all", "pause:all"])
def test_all_nodes_at_once_are_proven_one_by_one(target: str) -> None:
    run = Run(nodes=5)
    run_virtual(for_a_while(run, [entry(target)]))
    assert [len(node.actions) for node in run.runtime.nodes.values()] == [2] * 5
    assert [e.outcome for e in run.ends(FaultAction.INJECT)] == [FaultOutcome.INSTALLED]


# -- the quorum ---------------------------------------------------------------------------------------------------


def test_what_would_break_the_quorum_is_skipped_where_it_is_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor.HELD_WAIT_S", 0.0)
    entries = [
        entry("kill:n1", 0, 200),
        entry("partition:n3", 50, 20, worker=1),
        entry("kill:majority", 0, 1, worker=2),
    ]
    keeping, free = Run(keep_quorum=True), Run()
    run_virtual(for_a_while(keeping, entries))
    run_virtual(for_a_while(free, entries[:2]))
    outcomes = {e.fault_id: e.outcome for e in keeping.ends(FaultAction.INJECT)}
    assert sorted(outcomes.values()) == ["installed", "skipped", "skipped"]
    assert all("it would leave no quorum" in (e.why or "") for e in keeping.events if e.outcome == "skipped")
    assert [e.outcome for e in free.ends(FaultAction.INJECT)] == [FaultOutcome.INSTALLED] * 2


def surroundings(
    seconds: int, *, nodes: int = 3, seed: int = 1, quiet_ns: int = 4 * 10**9, system: System | None = None
) -> Surroundings:
    options = system and system.profile.options()
    members = system.members(nodes, options) if system else members_alike(nodes)
    return Surroundings(
        placement=Placement(nodes=nodes, members=members, system=system, system_options=options),
        members=members,
        leader_names=system.profile.leader_names if system else ("leader",),
        bound=LeadershipBound(bound_ns=2_100 * MS, source="", standing=Standing.PROMISED, one_leader_per_epoch=True),
        seed=seed,
        time_limit_ns=seconds * 10**9,
        quiet_ns=quiet_ns,
    )


def _ahead(text: str, *, seconds: int = 60, seed: int = 1) -> Forecast:
    return look_ahead(text, FAULTS, surroundings(seconds, seed=seed))


# -- the mixture --------------------------------------------------------------------------------------------------


def test_the_mixture_meets_most_kinds_in_two_minutes_and_names_what_is_left_out() -> None:
    found = _ahead("all", seconds=120)
    left_out = dict(found.request.left_out)
    assert left_out["toxic"] == "takes part only when the plan names it"
    assert "needs at least 5 nodes" in left_out["partition:ring"]
    assert set(found.kinds) | {fault.partition(":")[0] for fault in left_out} == set(FAULTS)
    assert len(found.without_time) * 3 <= len(found.kinds)
    assert json.dumps(found.document(keep_quorum=False))


def test_what_a_machine_cannot_do_is_left_out_with_the_reason() -> None:
    asked = parse_nemesis("all", FAULTS, SETTING, can=lambda kind: "no such thing" if kind == "pause" else None)
    assert dict(asked.left_out)["pause"] == "no such thing"
    assert "pause" not in {spec.fault for spec in asked.specs}
    assert not asked.named


@given(st.integers(0, 2**32))
@settings(max_examples=settings().max_examples // 6)
def test_the_mixture_repeats_from_its_seed_and_takes_every_kind_in_turn(seed: int) -> None:
    one, again = _ahead("all", seconds=1000, seed=seed), _ahead("all", seconds=1000, seed=seed)
    assert one.entries == again.entries
    in_turn = [e.spec.fault for e in one.entries if e.worker == 0 and e.spec.target != "returned"]
    assert sorted(in_turn[: len(one.kinds)]) == sorted(one.kinds)


@pytest.mark.parametrize("seed", range(10))
def test_the_mixture_begins_with_what_decides_the_headline_long_enough_to_decide_it(seed: int) -> None:
    drawn = _ahead("all", seconds=120, seed=seed).entries
    first, second = [e for e in drawn if e.worker == 0 and e.spec.target != "returned"][:2]
    assert {first.spec.target, second.spec.target} == {"leader"}
    assert {first.spec.fault, second.spec.fault} == {"partition", "pause"}
    cut = first if first.spec.fault == "partition" else second
    assert cut.spec.given.keys() == {"for"} and cut.duration_ns >= 3_000 * MS


def test_the_mixture_draws_lengths_from_below_a_heartbeat_to_beyond_the_log() -> None:
    lengths = [
        spec.duration_ns
        for seed in range(20)
        for spec in _ahead("all", seconds=240, seed=seed).request.specs
        if FAULTS[spec.fault].any_length
    ]
    assert all(50 * MS <= length <= 30_000 * MS for length in lengths)
    shares = [sum(low <= n / MS < high for n in lengths) / len(lengths) for low, high in ((0, 500), (12_000, 31_000))]
    assert all(share > 0.05 for share in shares), shares
    # A fault that a person names keeps its own.
    assert _ahead("kill", seconds=20).request.specs[0].duration_ns == FAULTS["kill"].options.for_


# -- triggers -----------------------------------------------------------------------------------------------------


def test_a_trigger_waits_for_a_new_leader_and_records_what_it_saw() -> None:
    run = Run()

    async def scenario() -> None:
        running = asyncio.create_task(for_a_while(run, [entry("kill:leader:when=leader+30ms")]))
        await asyncio.sleep(0.05)
        assert not run.events
        run.leader, run.epoch = "n3", 5
        await running

    run_virtual(scenario())
    row = run.rows[0]
    assert run.events[0].nodes == ("n3",)
    assert row["when"]["met"] and row["when"]["seen"] == "n3 leads in epoch 5"
    assert row["at_ns"] >= row["when"]["seen_at_ns"] + 30 * MS


def test_a_restarted_node_is_hit_while_it_recovers() -> None:
    run = Run()

    async def scenario() -> None:
        entries = [entry("kill:n1", 0, 50), entry("kill:restarted:when=restart+10ms", 0, 1, worker=1)]
        running = asyncio.create_task(for_a_while(run, entries))
        while run.runtime.nodes["n1"].incarnation == 0:
            await asyncio.sleep(0.001)
        run.restarted = "n1"
        await running

    run_virtual(scenario())
    assert run.runtime.nodes["n1"].actions == ["kill", "start", "kill", "start"]
    assert run.rows[-1]["when"]["node"] == "n1"


def test_only_the_events_of_a_named_node_count() -> None:
    run = Run()
    entries = [
        entry("kill:n1", 0, 20),
        entry("kill:n2", 200, 20, worker=1),
        entry("pause:n3:when=restart@n2+5ms", 0, 1, worker=2),
        entry("pause:n3:when=leader@n3", 0, 1, worker=3),
    ]

    async def scenario() -> None:
        running = asyncio.create_task(for_a_while(run, entries))
        await asyncio.sleep(0.3)
        run.leader, run.epoch = "n1", 5
        await asyncio.sleep(0.1)
        run.leader, run.epoch = "n3", 6
        await running

    run_virtual(scenario())
    seen = {row["when"]["trigger"]: row["when"]["seen"] for row in run.rows if row["when"]}
    assert seen == {"restart@n2+5ms": "n2 was started again", "leader@n3": "n3 leads in epoch 6"}


@pytest.mark.parametrize(
    ("otherwise", "outcomes"), [("act", [FaultOutcome.INSTALLED]), ("skip", [FaultOutcome.SKIPPED])]
)
def test_what_is_never_seen_is_said(otherwise: str, outcomes: list[FaultOutcome]) -> None:
    run = Run()
    run_virtual(for_a_while(run, [entry(f"kill:one:when=leader:within=20ms:otherwise={otherwise}")]))
    assert [e.outcome for e in run.ends(FaultAction.INJECT)] == outcomes
    assert run.rows[0]["when"]["met"] is False


# -- events that end a fault --------------------------------------------------------------------------------------


def test_a_fault_ends_with_the_event_and_records_what_it_saw() -> None:
    run = Run()

    async def scenario() -> None:
        running = asyncio.create_task(for_a_while(run, [entry("pause:leader:end=leader+30ms", 0, 5000)]))
        await asyncio.sleep(0.2)
        assert run.runtime.nodes["n2"].state is NodeState.PAUSED
        run.leader, run.epoch = "n3", 5
        await running

    run_virtual(scenario())
    healed = run.rows[-2]
    assert (healed["action"], healed["stage"]) == ("heal", "begin")
    assert healed["end"]["met"] and healed["end"]["seen"] == "n3 leads in epoch 5"
    assert 0 <= healed["at_ns"] - healed["end"]["seen_at_ns"] - 30 * MS < 10 * MS
    assert run.events[-1].details["ended_by"] == "n3 leads in epoch 5"
    assert [row["end"] for row in run.rows[:2]] == [None, None]


@pytest.mark.parametrize("option", ["end=leader", "end=leader+10s"])
def test_a_fault_whose_event_does_not_come_or_comes_late_ends_by_its_length(option: str) -> None:
    run = Run()

    async def scenario() -> None:
        running = asyncio.create_task(for_a_while(run, [entry(f"pause:n1:{option}", 0, 300)]))
        await asyncio.sleep(0.1)
        run.epoch = 5 if "10s" in option else 4
        await running

    run_virtual(scenario())
    proven, healed = run.rows[1], run.rows[2]
    assert healed["end"]["met"] is ("10s" in option)
    assert 300 * MS <= healed["at_ns"] - proven["at_ns"] < 320 * MS


#: Of etcd, whose log table the fake has.
CONFLICT = (
    '{"level":"info","logger":"raft","msg":"found conflict at index 629 [existing term: 2, conflicting term: 3]"}\n'
)


@pytest.mark.parametrize(
    ("ending", "lines", "seen"),
    [
        ("claim", {"n3": LEADS.format(7)}, "n3 logged that it leads in epoch 7"),
        ("claim@n2", {"n3": LEADS.format(7), "n2": LEADS.format(8)}, "n2 logged that it leads in epoch 8"),
        ("catch-up", {"n3": LEADS.format(7), "n2": CONFLICT}, "n2 logged that it cut off what it had too much"),
        ("truncation@n1", {"n2": CONFLICT, "n1": CONFLICT}, "n1 logged that it cut off what it had too much"),
    ],
)
def test_what_logs_tell_ends_a_fault(tmp_path: Path, ending: str, lines: dict[str, str], seen: str) -> None:
    run = Run()
    logs = {name: tmp_path / name for name in run.runtime.nodes}
    for name, node in run.runtime.nodes.items():
        logs[name].write_text(LEADS.format(6) + CONFLICT)
        node.kept_log = logs[name]

    async def scenario() -> None:
        running = asyncio.create_task(for_a_while(run, [entry(f"pause:n1:end={ending}", 0, 60_000)]))
        await asyncio.sleep(0.2)
        assert run.runtime.nodes["n1"].state is NodeState.PAUSED, "what stood in the log before is no event"
        for name, line in lines.items():
            await asyncio.sleep(0.1)
            with logs[name].open("a") as log:
                log.write(line)
        await running

    run_virtual(scenario())
    assert run.rows[-1]["end"]["seen"] == seen
    assert run.rows[-1]["end"]["waited_ns"] < 600 * MS


def test_how_long_after_its_event_a_fault_was_in_force_is_recorded(tmp_path: Path) -> None:
    run = Run()
    log = tmp_path / "log"
    log.touch()
    run.runtime.nodes["n2"].kept_log = log

    async def scenario() -> None:
        running = asyncio.create_task(for_a_while(run, [entry("pause:n1:when=truncation+30ms", 0, 100)]))
        await asyncio.sleep(0.1)
        log.write_text(CONFLICT)
        await running

    run_virtual(scenario())
    (injected,) = run.ends(FaultAction.INJECT)
    assert injected.details["after"] == "n2 logged that it cut off what it had too much"
    assert 30 <= float(injected.details["after_ms"]) < 60


@pytest.mark.parametrize(
    ("system", "event", "why"),
    [
        ("consul", "difference", "do not tell of the event difference"),
        ("nats", "snapshot", "wait for leader or restart$"),
        ("example", "election", "wait for leader or restart or claim$"),
    ],
)
def test_a_moment_that_no_log_tells_of_is_refused(system: str, event: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_faults(f"kill:n1:when={event}", FAULTS, replace(SETTING, system=registry.system(system)))
    assert re.search(why, f"{refused.value.message} {refused.value.hint}"), refused.value


@pytest.mark.parametrize("option", ["end=claim", "when=claim"])
def test_a_claim_that_no_log_tells_of_is_refused(option: str) -> None:
    for system, why in (("nats", "the logs of nats do not say who leads"), ("cassandra", "no node of cassandra leads")):
        with pytest.raises(UsageError, match=why):
            parse_faults(f"kill:n1:{option}", FAULTS, replace(SETTING, system=registry.system(system)))


@pytest.mark.parametrize("option", ["end=hybrid", "when=hybrid+1s"])
def test_a_phase_is_waited_for_only_where_there_is_a_migration(option: str) -> None:
    with pytest.raises(UsageError, match="no other store to move to"):
        parse_faults(f"kill:n1:{option}", FAULTS, SETTING)
    assert parse_faults(f"kill:n1:{option}", FAULTS, migrating(SETTING))


# -- the record ---------------------------------------------------------------------------------------------------


def test_a_recorded_schedule_is_read_back_as_it_was() -> None:
    run = Run()
    entries = [
        entry("kill:n1", 0, 20),
        entry("partition:leader:direction=out", 40, 20, number=1, seed=9),
        entry("pause:minority", 10, 30, worker=1, seed=7),
        entry("kill:one:when=leader:within=5ms", 60, 1, worker=1, number=1, seed=8),
        entry("pause:n3:end=leader+5ms", 70, 20, worker=2, seed=6),
    ]
    run_virtual(for_a_while(run, entries))
    again = recorded_entries(json.loads(json.dumps(run.rows)), FAULTS, SETTING)
    assert [(e.worker, e.number, e.spec, e.duration_ns, e.draw_seed) for e in again] == [
        (e.worker, e.number, e.spec, e.duration_ns, e.draw_seed) for e in entries
    ]
    assert again[3].inject_ns == entries[3].inject_ns
    repeated = Run()
    run_virtual(for_a_while(repeated, again))
    assert [r["nodes"] for r in repeated.rows if r["worker"] == 0] == [r["nodes"] for r in run.rows if r["worker"] == 0]


def test_a_schedule_of_another_format_is_refused() -> None:
    with pytest.raises(UsageError):
        recorded_entries([{"format": 1}], FAULTS, SETTING)


# -- faults that act many times -----------------------------------------------------------------------------------


def test_every_cut_of_a_flapping_link_is_a_fault_of_its_own() -> None:
    run = Run()
    run_virtual(for_a_while(run, [entry("flapping:leader:period=600ms", 0, 6000)]))
    parts = [e for e in run.ends(FaultAction.INJECT) if "part_of" in e.details]
    assert len(parts) >= 2
    assert all(e.outcome is FaultOutcome.INSTALLED and len(e.severed) == 4 for e in parts)
    healed = [e for e in run.ends(FaultAction.HEAL) if "part_of" in e.details]
    assert [e.outcome for e in healed] == [FaultOutcome.HEALED] * len(parts)
    assert not run.runtime.network.blocked
    whole = [e for e in run.ends(FaultAction.HEAL) if "part_of" not in e.details]
    assert f"{len(parts)} cuts, {len(parts)} of them proven" in (whole[0].proof or "")


def test_a_flapping_link_that_leaks_is_not_called_installed() -> None:
    run = Run()
    run.runtime.network.leaks.update(run.runtime.every_link)
    run_virtual(for_a_while(run, [entry("flapping:leader:period=600ms", 0, 1000)]))
    assert all(e.outcome is FaultOutcome.INDETERMINATE for e in run.ends(FaultAction.INJECT))


@pytest.mark.parametrize(("at_s", "stalled_s", "proven"), [(0.05, 0.1, True), (0.06, 0.1, True), (0.01, 0.22, False)])
def test_looks_that_a_stall_of_the_harness_swept_together_are_none(
    at_s: float, stalled_s: float, proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them would see one state: half of the looks of 200 ms, of a node that is stopped half of the time."""
    monkeypatch.setattr("fencepost.nemesis.process.gray._SAMPLING_NS_MIN", 200 * MS)
    run = Run()

    async def scenario() -> None:
        loop = virtual_loop()
        loop.call_later(at_s, loop.stall, stalled_s)
        await for_a_while(run, [entry("gray:n1:share=0.5:period=40ms", 0, 50)])

    run_virtual(scenario())
    (proof,) = run.ends(FaultAction.INJECT)
    assert proof.outcome is (FaultOutcome.INSTALLED if proven else FaultOutcome.INDETERMINATE), proof.proof
    assert {"pause", "resume"} == set(run.runtime.nodes["n1"].actions)
    assert run.runtime.nodes["n1"].state is NodeState.RUNNING


def test_a_gray_node_that_never_stops_is_not_called_gray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.nemesis.process.gray._SAMPLING_NS_MIN", 100 * MS)
    run = Run()
    run.runtime.nodes["n1"].unstoppable = True
    run_virtual(for_a_while(run, [entry("gray:n1:period=20ms", 0, 10)]))
    assert run.ends(FaultAction.INJECT)[0].outcome is FaultOutcome.INDETERMINATE


def test_leadership_is_moved_by_asking_and_proven_by_a_higher_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()

    async def moved(self: object, leader: Any, to: Any, *, timeout_s: float) -> None:
        assert leader.name == run.leader
        run.leader, run.epoch = to.name, run.epoch + 1

    monkeypatch.setattr(type(ETCD), "move_leadership", moved)
    run_virtual(for_a_while(run, [entry("churn:leader:every=20ms", 0, 100)]))
    parts = [e for e in run.ends(FaultAction.INJECT) if "part_of" in e.details]
    assert len(parts) >= 2
    assert all(e.outcome is FaultOutcome.INSTALLED and "led in epoch" in (e.proof or "") for e in parts)
    assert all(not node.actions for node in run.runtime.nodes.values())
    # The node that was cut off last leads again.
    again = [entry("partition:n1", 0, 10), entry("churn:returned:every=20ms", 200, 100, number=1)]
    run_virtual(for_a_while(run, again))
    assert run.leader == "n1"


def test_answers_to_an_operator_are_proofs_and_no_node_is_asked_that_another_fault_acts_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = itertools.chain([Definite("busy"), Indefinite("lost")], itertools.repeat("done"))
    run, request = Run(), AsyncMock(side_effect=answers)
    monkeypatch.setattr(type(ETCD), "maintenance", {"tidy": MaintenanceRequest(request)})
    cut, whole = entry("partition:n1", 0, 9900), entry("administer:all:every=20ms", 10, 400, worker=1)
    run_virtual(for_a_while(run, [cut, whole]))
    parts = [e for e in run.ends(FaultAction.INJECT) if "part_of" in e.details]
    assert [str(e.outcome) for e in parts[:3]] == ["skipped", "indeterminate", "installed"]
    assert {(*e.nodes, e.details["do"]) for e in parts} == {("n2", "tidy"), ("n3", "tidy")}
    # Where no node is free it is skipped.
    run_virtual(for_a_while(run, [cut, entry("administer:n1", 10, 400, worker=1)]))
    assert run.ends(FaultAction.INJECT)[-1].outcome is FaultOutcome.SKIPPED
    with pytest.raises(UsageError, match="there is no request sweep"):
        parse_faults("administer:n1:do=sweep", FAULTS, Placement(system=ETCD, nodes=3))


@pytest.mark.parametrize("answer", ["low", Indefinite("lost")])
@pytest.mark.parametrize("undone", [[Definite("refused"), "none"], [Definite("refused")]])
def test_what_an_operator_changed_is_taken_back_by_way_of_any_node(
    monkeypatch: pytest.MonkeyPatch, answer: Any, undone: list[Any]
) -> None:
    run, change = Run(), AsyncMock(side_effect=itertools.repeat(answer))
    limit = MaintenanceRequest(change, undo=AsyncMock(side_effect=itertools.cycle(undone)))
    monkeypatch.setattr(type(ETCD), "maintenance", {"limit": limit})
    run_virtual(for_a_while(run, [entry("administer:n1:every=20ms", 0, 700)]))
    ends = {(str(e.outcome), "n2: none" in (e.proof or "")) for e in run.ends(FaultAction.HEAL)}
    assert ends == {("healed", True) if "none" in undone else ("indeterminate", False)}


def test_a_leader_that_is_restarted_and_not_replaced_is_not_called_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.nemesis.leadership.churn._MOVED_S", 0.05)
    run = Run()
    run_virtual(for_a_while(run, [entry("churn:leader:by=restart", 0, 10)]))
    assert run.runtime.nodes["n2"].actions[:2] == ["kill", "start"]
    assert run.ends(FaultAction.INJECT)[0].outcome is FaultOutcome.INDETERMINATE


def test_a_server_that_a_fault_ended_and_left_is_started_once_no_other_acts_on_it() -> None:
    run = Run()
    run.runtime.nodes["n1"].state = NodeState.DEAD
    run.cluster.ended.add("n1")
    run_virtual(for_a_while(run, [entry("partition:n1", 0, 20), entry("pause:n1", 99, 20, number=1)]))
    assert run.runtime.nodes["n1"].actions == ["start", "pause", "resume"]


def test_a_server_that_does_not_start_again_breaks_off_no_other_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    node = run.runtime.nodes["n1"]
    node.state = NodeState.DEAD
    run.cluster.ended.add("n1")
    starts = iter([OSError("no memory"), None])

    async def start() -> None:
        if (error := next(starts)) is not None:
            raise error
        node.state = NodeState.RUNNING

    monkeypatch.setattr(node, "start", start)
    run_virtual(for_a_while(run, [entry("partition:n2", 0, 20), entry("pause:n3", 99, 20, number=1)]))
    assert [e.outcome for e in run.ends(FaultAction.HEAL)] == [FaultOutcome.HEALED] * 2
    assert node.state is NodeState.RUNNING, "all that are down are started at the end"


# -- in any order -------------------------------------------------------------------------------------------------

_KINDS = ["kill:one", "kill:all", "pause:leader", "partition:one", "partition:minority", "gray:n3", "flapping:n1"]


@st.composite
def _schedules(draw: st.DrawFn) -> list[ScheduledFault]:
    workers = draw(st.lists(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=3), min_size=1, max_size=3))
    return [
        entry(
            text,
            draw(st.integers(0, 40)),
            draw(st.integers(0, 30)),
            worker=worker,
            number=number,
            seed=draw(st.integers(0, 99)),
        )
        for worker, texts in enumerate(workers)
        for number, text in enumerate(texts)
    ]


@given(_schedules(), st.booleans(), st.integers(0, 120))
@settings(max_examples=30, deadline=None)
def test_after_any_schedule_and_however_it_ends_the_cluster_is_as_before(
    schedule: list[ScheduledFault], keep_quorum: bool, cut_short_ms: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fencepost.harness.faults.conductor.HELD_WAIT_S", 0.03)
        patch.setattr("fencepost.nemesis.process.gray._SAMPLING_NS_MIN", 20 * MS)
        patch.setattr("fencepost.nemesis.process.gray._PERIODS_SAMPLED", 0)
        run = Run(keep_quorum=keep_quorum)
        held: dict[tuple[str, str], int] = {}
        _watch(run, held)

        async def scenario() -> None:
            stop = asyncio.Event()
            asyncio.get_running_loop().call_later(cut_short_ms / 1e3, stop.set)
            await run.conductor.run(schedule, stop=stop)

        run_virtual(scenario())
    assert not run.runtime.network.blocked
    assert all(node.state is NodeState.RUNNING for node in run.runtime.nodes.values())
    assert run.conductor.current is None
    assert not held
    begun = {e.fault_id for e in run.ends(FaultAction.INJECT) if e.outcome is not FaultOutcome.SKIPPED}
    assert begun == {e.fault_id for e in run.ends(FaultAction.HEAL)}


def _watch(run: Run, held: dict[tuple[str, str], int]) -> None:
    """Every record is held against the rule that no two faults hold the same of a node."""
    kept = run.rows.append

    def check(row: Mapping[str, Any]) -> None:
        fault = FAULTS[row["spec"].partition(":")[0]]
        if row["part_of"] is None:
            for node in row["nodes"]:
                for what in fault.holds:
                    if (row["action"], row["stage"]) == ("inject", "begin"):
                        assert (node, what) not in held, f"{what} of {node} is held by fault {held[node, what]}"
                        held[node, what] = row["fault_id"]
                    elif (row["action"], row["stage"]) == ("heal", "end"):
                        held.pop((node, what), None)
        kept(dict(row))

    run.conductor._log._sink = check


def test_a_worker_that_fails_ends_the_run_and_heals_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    run, broken = Run(), Mock(side_effect=RuntimeError("no such word"))
    monkeypatch.setattr(type(run.conductor._faults["pause"]), "resolve", broken)

    async def scenario() -> None:
        with pytest.raises(RuntimeError, match="no such word"):
            await for_a_while(run, [entry("kill:n1", 0, 10_000), entry("pause:n2", 20, 1, worker=1)])

    run_virtual(scenario())
    assert run.runtime.nodes["n1"].state is NodeState.RUNNING


def test_draws_do_not_depend_on_who_leads_or_what_waits() -> None:
    (spec,) = parse_faults("flapping:follower", FAULTS, SETTING)
    views = [View(nodes=("n1", "n2", "n3"), leader=leader, epoch=1) for leader in ("n1", "n2")]
    found = [FAULTS["flapping"].resolve(spec, view, random.Random(3)) for view in views]
    seeds = {r.details["flap_seed"] for r in found if isinstance(r, Resolved)}
    assert len(seeds) == 1


def test_a_healing_that_is_not_proven_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor._HEAL_AGAIN_S", 0.01)
    run = Run()
    node = run.runtime.nodes["n1"]
    node.unstartable = True

    async def scenario() -> None:
        running = asyncio.create_task(for_a_while(run, [entry("kill:n1")]))
        while "start" not in node.actions:
            await asyncio.sleep(0.001)
        node.unstartable = False
        await running

    run_virtual(scenario())
    assert [e.outcome for e in run.ends(FaultAction.HEAL)] == [FaultOutcome.INDETERMINATE, FaultOutcome.HEALED]
    (span,) = History(run.records.events).faults
    first = next(e for e in run.events if e.action is FaultAction.HEAL)
    assert span.certain_to_ns == first.time_ns


def test_what_was_never_proven_to_be_healed_is_tried_when_all_else_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor._HEAL_AGAIN_S", 0.01)
    run = Run()
    node = run.runtime.nodes["n1"]
    node.unstartable = True
    cuts = [entry("partition:n2", 60, 20, number=1), entry("partition:n3", 200, 20, number=2)]

    async def scenario() -> None:
        running = asyncio.create_task(for_a_while(run, [entry("kill:n1"), *cuts]))
        while not any(e.fault == "partition" for e in run.ends(FaultAction.HEAL)):
            await asyncio.sleep(0.001)
        node.unstartable = False
        await running

    run_virtual(scenario())
    killed = [e.outcome for e in run.ends(FaultAction.HEAL) if e.fault == "kill"]
    assert killed == [FaultOutcome.INDETERMINATE, FaultOutcome.INDETERMINATE, FaultOutcome.HEALED]
    first, *_ = [e for e in run.events if e.action is FaultAction.HEAL]
    assert History(run.records.events).faults[0].certain_to_ns == first.time_ns, "certain until the first try only"


def test_what_takes_too_long_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    monkeypatch.setattr(type(run.conductor._faults["kill"]), "act_deadline_s", 0.02)

    async def never(*_: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(type(run.conductor._faults["kill"]), "inject", never)
    run_virtual(for_a_while(run, [entry("kill:n1")]))
    assert run.ends(FaultAction.INJECT)[0].proof == "not finished within 0.02 s"


def test_no_fault_is_injected_after_the_end_of_the_main_phase() -> None:
    """The load goes on for a moment, since its last operations are answered later."""
    run, late = Run(), replace(entry("kill:n1", 0, 80), gap_ns=40 * MS)
    entries = [late, entry("pause:n2", 90, 1, number=1)]
    run_virtual(run.conductor.run_workers([entries], stop=asyncio.Event(), limit_ns=100 * MS))
    assert [e.fault for e in run.ends(FaultAction.INJECT)] == ["kill"]
