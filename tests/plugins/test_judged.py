"""The example of every guarantee, on every system that states it, is a run that has the guarantee judged."""

import importlib
import inspect
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.campaigns import JUDGES
from fencepost.harness.history import History
from fencepost.harness.judging.judge import checkers_of, facts_of
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import catalogue, registry

#: Their samples do not tell who led in an epoch, so that nobody judges it.
_JUDGED_BY_NOBODY: Final = {("consul", "one-leader-per-epoch"), ("etcd", "one-leader-per-epoch")}
#: Without anything that happened no checker says a word of these; the checker's source must name them.
_SILENT_ON_NOTHING: Final = frozenset(
    {
        *("appends-need-replicas", "both-stores-agree", "broker-epochs", "broker-states", "brokers-keep-up"),
        *("claims-in-order", "client-changes-are-fenced", "eligible-replicas-kept", "fencing-is-told"),
        *("groups-keep-their-size", "leaders-are-eligible", "metadata-listener-complete", "metadata-listener-order"),
        *("migration-goes-on", "one-broker-per-id", "snapshots-match-log", "zookeeper-is-left", "zookeeper-keeps-up"),
        "leader-self-fencing",
    }
)
_STATED: Final = [(name, each.name) for name, system in registry.systems().items() for each in system.promises()]


@pytest.mark.parametrize(("system", "guarantee"), _STATED)
def test_the_example_has_the_guarantee_judged(system: str, guarantee: str) -> None:
    example = catalogue.guarantee_example(system, guarantee)
    if (system, guarantee) in _JUDGED_BY_NOBODY:
        assert not example
        return
    checked = _plan_of(example)
    assert checked.plan.require and guarantee in checked.plan.require
    names = checkers_of(checked)
    facts = facts_of(checked, checked.system.releases.default)
    judged = {verdict.guarantee for name in names for verdict in registry.checker(name)(History(()), facts)}
    if guarantee in judged:
        return
    assert guarantee in _SILENT_ON_NOTHING, (example, sorted(judged))
    assert any(f'"{guarantee}"' in text for name in names for text in _sources(name)), example


def test_some_system_states_what_the_proposals_operations_are_judged_for() -> None:
    assert {each for of in JUDGES.values() for each in of} <= {guarantee for _, guarantee in _STATED}


def test_each_name_that_is_listed_has_an_example() -> None:
    for entry in catalogue.kind("guarantees").entries:
        assert f"--require {entry.name}" in entry.example, entry.name


def _plan_of(example: str) -> CheckedPlan:
    words = shlex.split(example)
    assert words[:2] == ["fencepost", "run"]
    flags: dict[str, Any] = {"-o": []}
    for flag, value in zip(words[2::2], words[3::2], strict=True):
        flags[flag] = [*flags["-o"], value] if flag == "-o" else value
    options = dict(option.split("=", 1) for option in flags["-o"])
    return check_plan(
        Plan(
            system=flags["--system"],
            workload=flags["--workload"],
            nemesis=flags["--nemesis"],
            require=(flags["--require"],),
            workload_options=options,
            seed=1,
        )
    )


def _sources(checker: str) -> Iterator[str]:
    """The text of the checker's modules."""
    module = importlib.import_module(registry.CHECKERS[checker].partition(":")[0])
    path = Path(inspect.getfile(module))
    yield from (each.read_text() for each in (path.parent.glob("*.py") if path.name == "__init__.py" else [path]))
