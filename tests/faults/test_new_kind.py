"""A kind of fault that nothing else knows: one class with its options, and one line of the registry."""

import asyncio
import random
import re
from collections.abc import Mapping
from typing import Annotated

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.cli.listing import listing
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import Act, FaultKind, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.faults.schedule import draw_schedule, parse_faults
from fencepost.harness.history import Effects, FaultEvent, FaultOutcome, Stops
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.provider import Placement
from tests.fakes.fakes_runtime import FakeRuntime, KeptRecords, cluster_of
from tests.fakes.virtual_time import run_virtual


class DozeOptions(FaultOptions, frozen=True, kw_only=True):
    naps: Annotated[int, about("how many naps it takes", least=1, most=9)] = 3
    nap: Annotated[Duration, about("time of one nap")] = seconds(0.25)


class Doze(FaultKind):
    name = "doze"
    about = "a node that dozes off"
    targets: Mapping[str, str] = {"one": "one node, drawn"}
    options = DozeOptions(for_=seconds(4))
    for_all = ("doze:one:naps=2",)

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        return Resolved(nodes=view.nodes[:1], details={"naps": spec.own(DozeOptions).naps})

    async def inject(self, act: Act) -> Proof:
        return Proof(FaultOutcome.INSTALLED, f"{act.options(DozeOptions).naps} naps")

    async def heal(self, act: Act) -> Proof:
        return Proof(FaultOutcome.HEALED, "awake")


FAULTS = {"doze": Doze()}


def test_it_is_parsed_scheduled_carried_out_and_recorded() -> None:
    specs = parse_faults("doze:n2:naps=5,all", FAULTS, Placement())
    assert [spec.text for spec in specs] == ["doze:n2:naps=5", "doze:one:naps=2"]
    entries = list(draw_schedule([(specs[0],)], FAULTS, seed=1, time_limit_ns=6 * 10**9, quiet_ns=10**9))
    assert [entry.duration_ns for entry in entries] == [4 * 10**9]
    records = KeptRecords()
    conductor = Conductor(
        cluster=cluster_of(FakeRuntime(), records=records), faults=FAULTS, schedule_sink=lambda _: None
    )

    run_virtual(conductor.run(entries, stop=asyncio.Event()))
    events = [event for event in records.events if isinstance(event, FaultEvent)]
    assert [event.proof for event in events if event.proof] == ["5 naps", "awake"]
    assert events[0].target == "n2:naps=5"
    assert events[0].effects == Effects(stops=Stops.POSSIBLE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("doze:one:naps=0", "doze option naps: 0 is too small; give at least 1, at most 9"),
        ("doze:one:naps=few", "doze option naps: expected a whole number, got 'few'"),
        ("doze:one:nap=1", "doze option nap: '1' is not a duration; give a number with a unit"),
        (
            "doze:one:snore=yes",
            "unknown doze option 'snore'; choose from: during, end, for, nap, naps, otherwise, when",
        ),
        ("doze:one:when=noon", "there is no event 'noon'; choose from: leader, restart"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_there_is(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text, FAULTS, Placement())
    assert said in f"{caught.value.message}; {caught.value.hint}"


def test_list_explains_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "faults", lambda: FAULTS)
    assert "doze  a node that dozes off" in listing("faults")
    page = re.sub(r"\s+", " ", listing("faults", "doze"))
    assert ":naps=... how many naps it takes (a whole number; at least 1, at most 9; default 3)" in page
    assert ":nap=... time of one nap (a duration; default 250ms)" in page
    assert "Target unless given: one" in page
    assert ":for=... how long it stays in force, from the proof to the healing (a duration; default 4s)" in page
