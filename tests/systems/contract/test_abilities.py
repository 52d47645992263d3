"""What a system must have, and what it may have: few members, and one list of every ability."""

import inspect

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.listing import listing
from fencepost.harness.conformance.declared import could_have
from fencepost.harness.contract.profile import S
from fencepost.harness.contract.system import PARTS, BaseSystem, has_part
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.catalogue import abilities, abilities_of
from fencepost.harness.runtime.provider import Need


def test_the_list_of_parts_is_complete() -> None:
    given = {name for name, value in vars(BaseSystem).items() if value is None and not name.startswith("_")}
    assert {name.replace("_", "-") for name in given} == set(PARTS)
    assert list(PARTS) == sorted(PARTS)


@pytest.mark.parametrize("word", abilities())
def test_a_part_is_explained_and_some_system_has_it(word: str) -> None:
    assert abilities()[word].endswith((".", ":"))
    assert any(word in abilities_of(registry.system(name)) for name in registry.SYSTEMS)


@pytest.mark.parametrize("name", registry.faults())
def test_a_fault_needs_parts_that_there_are(name: str) -> None:
    assert registry.faults()[name].needs <= {*abilities(), *Need}


def test_a_system_must_have_few_members() -> None:
    """The rest has a default, or is a part."""
    assert BaseSystem.__abstractmethods__ == {"healthy", "open_client"}


def test_the_list_of_a_person_names_who_has_what() -> None:
    lines = listing("abilities", "member-changes").partition("Systems:")[2].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines if line] == ["etcd", "kraft", "nats", "zookeeper"]


@pytest.mark.parametrize("name", registry.SYSTEMS)
def test_a_system_reads_options_of_its_own_type(name: str) -> None:
    system = registry.system(name)
    kind = system.profile.options
    methods = [getattr(system, member) for member in dir(type(system)) if not member.startswith("_")]
    types = {m.__name__: m.__annotations__.get("options") for m in methods if inspect.ismethod(m)}
    readers = {member: type_ for member, type_ in types.items() if type_ is not None}
    assert {"specs", "open_client"} <= readers.keys()
    # `S` is what the class gave its generic base.
    assert all(type_ in (kind, kind | None, S, S | None) for type_ in readers.values()), readers


def test_a_workload_without_the_part_that_it_needs_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.system("etcd"), "watches", None)
    with pytest.raises(UsageError, match="etcd lacks the part watches, which watch needs"):
        check_plan(Plan(system="etcd", workload="watch", nemesis="none", seed=1))


def test_the_suite_names_the_parts_that_a_system_could_have() -> None:
    example = registry.system("example")
    lacking = [part for part in could_have(example) if not has_part(example, part)]
    assert lacking == ["member-changes", "move-leadership", "reported-time", "settings", "versions"]
