"""Faults whose effect lasts keep to one minority over the whole run, and the forecast says where they do not."""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

import pytest

from fencepost.harness.base.options import seconds
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.fault_options import LastingOptions
from fencepost.harness.faults.kind import Act, FaultKind, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.faults.schedule import ScheduledFault
from fencepost.harness.history import DiskEffect, Effects, FaultAction, FaultEvent, FaultOutcome, FaultStage
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import members_alike
from tests.fakes.fakes_runtime import FakeRuntime, KeptRecords, cluster_of
from tests.fakes.virtual_time import run_virtual

FAULTS: Final = registry.faults()
LASTING: Final = sorted(name for name, kind in FAULTS.items() if kind.effects(kind.spec()).disk is not DiskEffect.KEPT)
S: Final = 10**9


def view(nodes: int, seed: int, leader: str = "n1") -> View:
    members = members_alike(nodes)
    return View(nodes=tuple(m.name for m in members), leader=leader, epoch=1, members=members, seed=seed)


def chosen(spec: FaultSpec, seen: View, draw: int) -> tuple[str, ...]:
    resolved = FAULTS[spec.fault].resolve(spec, seen, random.Random(draw))
    assert isinstance(resolved, Resolved)
    return resolved.nodes


def test_the_kinds_that_last() -> None:
    assert LASTING == ["damage", "power-loss"]


@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_over_a_whole_run_lasting_faults_of_all_kinds_hit_one_minority(nodes: int) -> None:
    minorities = set()
    for seed in range(20):
        hit = {
            node
            for kind in LASTING
            for target in ("one", "minority")
            for draw in range(20)
            for node in chosen(FAULTS[kind].spec(target), view(nodes, seed, leader=f"n{draw % nodes + 1}"), draw)
        }
        assert len(hit) == (nodes - 1) // 2
        minorities.add(frozenset(hit))
    assert len(minorities) > 1, "the seed decides which"


@pytest.mark.parametrize("kind", LASTING)
@pytest.mark.parametrize("target", ["one", "minority"])
def test_a_plan_may_ask_for_other_nodes_each_time(kind: str, target: str) -> None:
    spec = FAULTS[kind].spec(target, {"fixed": "no"})
    assert {node for draw in range(40) for node in chosen(spec, view(5, 1), draw)} == set(view(5, 1).nodes)
    assert FAULTS[kind].spec(target, {"fixed": "yes"}).options == FAULTS[kind].spec(target).options


@pytest.mark.parametrize("kind", sorted({*FAULTS} - {*LASTING}))
def test_what_does_not_last_is_drawn_each_time_and_has_no_such_option(kind: str) -> None:
    assert "fixed" not in FAULTS[kind].options.__struct_fields__


class Spoil(FaultKind):
    """Damages disks, on a fake runtime: of no file."""

    name = "spoil"
    about = "damages nothing"
    targets: Mapping[str, str] = {"one": "one node"}
    options = LastingOptions(for_=seconds(0.001))
    for_all = ()

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(disk=DiskEffect.DAMAGED)

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        return Resolved(nodes=tuple(spec.target.split("-")))

    async def inject(self, act: Act) -> Proof:
        return Proof(FaultOutcome.INSTALLED, "spoilt")

    async def heal(self, act: Act) -> Proof:
        return Proof(FaultOutcome.HEALED, "as it is")


@pytest.mark.parametrize(
    ("nodes", "targets", "outcomes"),
    [
        (3, ["n1", "n2", "n1"], ["installed", "skipped", "installed"]),
        (3, ["n1-n2", "n3", "n1"], ["skipped", "installed", "skipped"]),
        (5, ["n1", "n2", "n3", "n2", "n4-n5"], ["installed", "installed", "skipped", "installed", "skipped"]),
    ],
)
def test_whoever_keeps_the_quorum_keeps_a_majority_of_disks(
    monkeypatch: pytest.MonkeyPatch, nodes: int, targets: list[str], outcomes: list[str]
) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor.HELD_WAIT_S", 0.02)
    entries = [
        ScheduledFault(
            spec=FaultSpec(fault="spoil", target=target, options=Spoil.options),
            inject_ns=number * S // 10,
            duration_ns=S // 1000,
            draw_seed=1,
            number=number,
        )
        for number, target in enumerate(targets)
    ]
    for keep, wanted in ((True, outcomes), (False, ["installed"] * len(targets))):
        records = KeptRecords()
        cluster = cluster_of(FakeRuntime(nodes), records=records)
        conductor = Conductor(
            cluster=cluster, faults={"spoil": Spoil()}, schedule_sink=lambda _: None, keep_quorum=keep
        )
        run_virtual(conductor.run(entries, stop=asyncio.Event()))
        ends = [e for e in records.events if isinstance(e, FaultEvent) and e.stage is FaultStage.END]
        injected = [e for e in ends if e.action is FaultAction.INJECT]
        assert [e.outcome.value for e in injected] == wanted
        assert all("would be damaged" in (e.why or "") for e in injected if e.outcome is FaultOutcome.SKIPPED)
