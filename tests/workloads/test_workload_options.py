"""What holds of the options of every workload on every system that can run it."""

from typing import Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import describe, plain
from fencepost.harness.coordination import ReadMode
from fencepost.harness.generators import Offer, at_rate, limit, numbered
from fencepost.harness.history import Outcome
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import Workload, workload_options
from fencepost.harness.testing.simulation import simulate
from fencepost.workloads.register import RegisterWorkload

OFFERED = [
    (workload, system)
    for workload in registry.WORKLOADS
    for system in registry.SYSTEMS
    if registry.workload(workload).protocol in registry.system(system).profile.interfaces
]


@pytest.mark.parametrize(("name", "on"), OFFERED)
def test_what_a_plan_keeps_of_the_options_makes_the_same_options_again(name: str, on: str) -> None:
    system = registry.system(on)
    workload: Workload[Any] = registry.workload(name)
    defaults = workload.defaults(system)
    kept = plain(defaults)
    assert all(type(value) in (int, float, str) for value in kept.values())
    assert workload_options(workload, system, kept) == defaults
    assert workload_options(workload, system, {name: str(value) for name, value in kept.items()}) == defaults
    assert all(str(kept[option]) in allowed for option, allowed in workload.choices(system).items())
    assert (
        workload.refuse(defaults, system.members(3, system.profile.parse_options(workload.system_options(system))))
        is None
    )


@pytest.mark.parametrize("name", registry.WORKLOADS)
def test_every_option_is_explained(name: str) -> None:
    rows = describe(registry.workload(name).options())
    assert rows and all(row.about for row in rows)


@pytest.mark.parametrize(("name", "on"), OFFERED)
def test_a_read_mode_that_the_system_does_not_have_is_refused(name: str, on: str) -> None:
    system = registry.system(on)
    workload: Workload[Any] = registry.workload(name)
    for option, allowed in workload.choices(system).items():
        for mode in ReadMode:
            if plain(workload.defaults(system))[option] in tuple(ReadMode) and mode.value not in allowed:
                with pytest.raises(UsageError, match=f"{option}='{mode.value}' is not a choice"):
                    workload_options(workload, system, {option: mode.value})


def test_the_defaults_are_those_of_the_system() -> None:
    reads = {name: RegisterWorkload().defaults(registry.system(name)).reads for name in ("etcd", "zookeeper")}
    assert reads == {"etcd": ReadMode.STRONG, "zookeeper": ReadMode.PLAIN}


def test_numbers_are_the_runs_own_and_come_at_their_rate() -> None:
    events = simulate(limit(300, at_rate(100.0, numbered(lambda number: Offer("add", "s", number)))), workers=7)
    begun = [event for event in events if event.type is Outcome.INVOKE]
    numbers = [event.value for event in begun]
    assert len(set(numbers)) == 300 and min(numbers) >= 1
    assert 1.5e9 < begun[-1].time_ns < 6e9
    at_once = simulate(limit(300, at_rate(0.0, numbered(lambda number: Offer("add", "s", number)))), workers=7)
    assert at_once[-1].time_ns < begun[-1].time_ns / 2
