"""What a system must have, and what it may have: few members, and one list of every ability."""

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

from fencepost.harness import contract
from fencepost.harness.cli.listing import listing
from fencepost.harness.contract.abilities import ABILITIES
from fencepost.harness.contract.options import S
from fencepost.harness.contract.system import SystemOf
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.catalogue import abilities, abilities_of, meaning

MEMBERS_MAX = 8


def _protocols() -> dict[str, Any]:
    """Every Protocol of the contract that can be asked for by `isinstance`."""
    modules = [
        importlib.import_module(f"{contract.__name__}.{m.name}") for m in pkgutil.iter_modules(contract.__path__)
    ]
    return {
        name: value
        for module in modules
        for name, value in inspect.getmembers(module, inspect.isclass)
        if value.__module__ == module.__name__ and getattr(value, "_is_runtime_protocol", False)
    }


def test_the_list_of_abilities_is_complete() -> None:
    assert set(ABILITIES.values()) == set(_protocols().values())
    assert list(ABILITIES) == sorted(ABILITIES)


@pytest.mark.parametrize("word", abilities())
def test_an_ability_is_explained_and_some_system_has_it(word: str) -> None:
    assert meaning(word).endswith((".", ":"))
    assert any(word in abilities_of(registry.system(name)) for name in registry.SYSTEMS)


def test_a_system_has_few_members() -> None:
    members = [name for name in vars(SystemOf) if not name.startswith("_")]
    assert len(members) <= MEMBERS_MAX, members


def test_the_list_of_a_person_names_who_has_what() -> None:
    lines = listing("abilities", "changes-members").partition("Systems:")[2].split("\n\n")[0].splitlines()
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
