"""The bounds that options of systems declare hold for whoever sets them, and what they set is reserved."""

from typing import Any

import msgspec
import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import Duration, describe, keys_set_by
from fencepost.harness.contract.system import System
from fencepost.harness.plugins import registry

SYSTEMS = pytest.mark.parametrize("system", registry.systems().values(), ids=registry.systems())


def beyond_bounds(system: System) -> list[tuple[str, int]]:
    """Each option of this system with a value that its declaration does not allow."""
    values = []
    for field in msgspec.structs.fields(system.profile.options):
        for meta in field.type.__metadata__ if hasattr(field.type, "__metadata__") else ():
            step = 1_000_000 if isinstance(field.default, Duration) else 1
            values += [(field.name, meta.ge - step)] if meta.ge is not None else []
            values += [(field.name, meta.le + step)] if meta.le is not None else []
    return values


@SYSTEMS
def test_a_value_beyond_its_bounds_is_refused_wherever_it_comes_from(system: System) -> None:
    options: Any = system.profile.options
    assert options().refuse() is None
    for name, value in beyond_bounds(system):
        kind = type(getattr(options(), name))
        refusal = msgspec.structs.replace(options(), **{name: kind(value)}).refuse()
        assert refusal is not None and "out of range" in refusal.reason
        text = f"{value // 1_000_000}ms" if kind is Duration else str(value)
        if not text.startswith("-"):
            with pytest.raises(UsageError, match=rf"option {name}: {text} is too (small|large)") as refused:
                system.profile.parse_options({name: text})
            assert (refused.value.hint or "").startswith("give at ")


@SYSTEMS
def test_every_whole_number_has_a_lower_bound(system: System) -> None:
    unbounded = [
        row.name for row in describe(system.profile.options()) if row.kind == "a whole number" and not row.limits
    ]
    assert unbounded == []


@SYSTEMS
def test_durations_are_whole_milliseconds(system: System) -> None:
    options: Any = system.profile.options()
    for name in options.__struct_fields__:
        value = getattr(options, name)
        if isinstance(value, Duration):
            refusal = msgspec.structs.replace(options, **{name: Duration(value + 1)}).refuse()
            assert refusal is not None
            assert f"{name}=" in refusal.reason


@SYSTEMS
def test_a_setting_that_an_option_sets_is_refused_with_the_option(system: System) -> None:
    keys = keys_set_by(system.profile.options)
    if system.settings is None:
        assert keys == {}
        return
    for key, option in keys.items():
        owners = system.settings.settable
        refusals = [system.settings.refuse(owner, key, system.profile.options()) for owner in owners]
        assert f"use -O {option}=..." in [refusal.remedy for refusal in refusals if refusal is not None]
    for owner, samples in system.settings.samples.items():
        assert owner in system.settings.settable
        for key in samples:
            assert system.settings.refuse(owner, key, system.profile.options()) is None
