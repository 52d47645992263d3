"""Faults that act only in one phase of a migration: `during=hybrid`."""

import asyncio

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults
from fencepost.harness.history import FaultAction, FaultOutcome
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.runtime.node import NodeState
from fencepost.systems.kafka.contract.migration import Phase
from tests.fakes.virtual_time import run_virtual
from tests.faults.test_workers import FAULTS, MS, SETTING, Run, migrating

PLACE = migrating(SETTING)


def entry(text: str, at_ms: int, for_ms: int, number: int = 0) -> ScheduledFault:
    (spec,) = parse_faults(text, FAULTS, PLACE)
    return ScheduledFault(
        spec=spec, inject_ns=at_ms * MS, duration_ns=for_ms * MS, draw_seed=1, worker=0, number=number
    )


async def through(run: Run, entries: list[ScheduledFault], *phases: tuple[float, Phase | None]) -> None:
    """Carry out the entries while the migration enters each phase after so many seconds; None: the run is over."""
    stop = asyncio.Event()
    running = asyncio.create_task(run.conductor.run(entries, stop=stop))
    for after_s, phase in phases:
        await asyncio.sleep(after_s)
        stop.set() if phase is None else run.cluster.phases.append(phase)
    await running


def test_it_begins_with_the_phase_and_ends_with_it_before_its_length_is_over() -> None:
    run = Run()
    entries = [entry("pause:n1:during=hybrid", 0, 60_000)]
    run_virtual(through(run, entries, (30, Phase.COPY), (1, Phase.HYBRID), (2, Phase.DUAL_WRITE)))
    injected, proven, healing, _ = run.rows
    assert injected["when"]["seen"] == "the migration is in its phase hybrid"
    assert healing["end"]["seen"] == "the migration has left its phase hybrid"
    assert 1_900 * MS <= healing["at_ns"] - proven["at_ns"] <= 2_100 * MS
    assert run.runtime.nodes["n1"].state is NodeState.RUNNING


def test_it_is_repeated_in_its_phase_and_skipped_at_once_when_that_is_over() -> None:
    run = Run()
    entries = [entry("pause:n1:during=hybrid", 500 * number, 300, number) for number in range(4)]
    run_virtual(through(run, entries, (0.0, Phase.HYBRID), (0.9, Phase.DUAL_WRITE)))
    assert [e.outcome for e in run.ends(FaultAction.INJECT)] == [
        FaultOutcome.INSTALLED,
        FaultOutcome.INSTALLED,
        FaultOutcome.SKIPPED,
        FaultOutcome.SKIPPED,
    ]
    assert run.ends(FaultAction.INJECT)[-1].why == "the migration was not in its phase hybrid"
    assert run.rows[-1]["at_ns"] < 1_600 * MS


def test_a_phase_that_never_comes_is_waited_for_until_the_end() -> None:
    run = Run()
    run_virtual(through(run, [entry("kill:n1:during=final", 0, 1)], (0.0, Phase.HYBRID), (50, None)))
    assert [e.outcome for e in run.ends(FaultAction.INJECT)] == [FaultOutcome.SKIPPED]
    assert run.ends(FaultAction.INJECT)[0].why == "the migration was not in its phase final"
    assert run.rows[0]["at_ns"] >= 50_000 * MS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kill:n1:during=copy:when=leader", "during= and when= exclude each other"),
        ("kill:n1:during=copy:end=leader", "during= and end= exclude each other"),
        ("kill:n1:during=copy:within=3s", "within= needs when="),
        ("kill:n1:during=hybrd", "did you mean 'hybrid'?"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text, FAULTS, PLACE)
    assert said in f"{caught.value.message} {caught.value.hint}"
    with pytest.raises(UsageError, match="no other store to move to"):
        parse_faults("kill:n1:during=hybrid", FAULTS, SETTING)


@pytest.mark.parametrize(
    ("nemesis", "said"),
    [
        ("kill:during=hybrid", "no fault migrate is in the plan"),
        ("migrate:until=hybrid+kill:during=final", "migrate never reaches final in this plan"),
    ],
)
def test_a_plan_that_never_comes_to_the_phase_is_refused(nemesis: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_plan(Plan(system="kafka-bridge", workload="metadata", seed=1, nemesis=nemesis, time_limit="90s"))
