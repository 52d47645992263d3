"""What a system must have, and what it may have: few members, and one list of every ability."""

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

from fencepost.harness.cli.listing import listing
from fencepost.harness.plugins import registry
from fencepost.harness.systems import contract
from fencepost.harness.systems.contract.abilities import ABILITIES, abilities_of, meaning
from fencepost.harness.systems.contract.system import System

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


@pytest.mark.parametrize("word", ABILITIES)
def test_an_ability_is_explained_and_some_system_has_it(word: str) -> None:
    assert meaning(word).endswith((".", ":"))
    assert any(word in abilities_of(registry.system(name)) for name in registry.SYSTEMS)


def test_a_system_has_few_members() -> None:
    members = [name for name in vars(System) if not name.startswith("_")]
    assert len(members) <= MEMBERS_MAX, members


def test_the_list_of_a_person_names_who_has_what() -> None:
    lines = listing("abilities")
    row = next(number for number, line in enumerate(lines) if line.startswith("changes-members"))
    assert lines[row + 1].split() == ["etcd,", "kraft,", "zookeeper"]
