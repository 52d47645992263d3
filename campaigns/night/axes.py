"""From axes to combinations: every pair of values meets in some cell, but for what is excluded or cannot be.

An axis is a list of small tables of plan keys; a plain value stands for a table of one key, the axis's own name. The
covering array is made by covertable, without chance: the same file gives the same cells every night, so that what is
known of a cell goes on.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.file import Campaign
from fencepost.harness.base.toml_file import flat, merged, nested
from fencepost.harness.plan import Plan
from fencepost.harness.plugins import registry

#: More combinations than these are no night any more.
COMBINATIONS_MAX: Final = 5_000
_PLAN_KEYS: Final = frozenset(Plan.__struct_encode_fields__) - {"seed", "format"}
#: Dotted plan keys and values.
Values = Mapping[str, Any]


class Axis(msgspec.Struct, frozen=True):
    """One axis: its name, and the plan keys that each of its values sets."""

    name: str
    values: tuple[dict[str, Any], ...]

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(key for value in self.values for key in value)


class Combinations(msgspec.Struct, frozen=True, kw_only=True):
    """Tables of plan keys, one for each cell; `impossible` says in words which pairs no system offers."""

    tables: tuple[dict[str, Any], ...]
    impossible: tuple[str, ...]


def combinations(campaign: Campaign) -> Combinations:
    """Combine the axes of a campaign; raises UsageError for an unknown axis, a contradiction and an empty product."""
    axes = _axes(campaign)
    if not axes:
        for kind in ("exclude", "include", "required"):
            if getattr(campaign.content, kind):
                raise campaign.source.error([kind, 0], "there are no axes that it could be about", "add `[axes]`")
        return Combinations(tables=(), impossible=())
    base = flat(campaign.content.plan)
    rules = [_excluded(campaign, number, axes, base) for number in range(len(campaign.content.exclude))]
    offered = _Offered(base)
    chosen = _chosen(campaign, axes, [*rules, _Rule(_of_axes(axes, {"system", "workload"}), offered.allows)])
    if not chosen:
        raise campaign.source.error(["axes"], "no combination is left", "exclude less, or add values")
    tables = [nested(dict(itertools.chain.from_iterable(value.items() for value in row))) for row in chosen]
    return Combinations(tables=tuple(tables), impossible=offered.impossible(axes))


def matches(pattern: Mapping[str, Any], values: Values) -> bool:
    """Whether values of a plan by dotted keys are those of a pattern; a list in it holds alternatives."""
    return all(
        values.get(key) in wanted if isinstance(wanted, list) else values.get(key) == wanted
        for key, wanted in flat(pattern).items()
    )


class _Rule(msgspec.Struct, frozen=True):
    """What a combination must fulfil once these axes have values."""

    axes: tuple[str, ...]
    allows: Callable[[Values], bool]


def _axes(campaign: Campaign) -> list[Axis]:
    axes: list[Axis] = []
    owners: dict[str, str] = {}
    for name, values in campaign.content.axes.items():
        where = ["axes", name]
        if not values:
            raise campaign.source.error(where, "the axis has no value", "give it values, or leave it out")
        tables = [_value(campaign, name, value) for value in values]
        twice = next((table for n, table in enumerate(tables) if table in tables[:n]), None)
        if twice is not None:
            raise campaign.source.error(where, f"the value {_shown(twice)} stands there twice")
        axis = Axis(name, tuple(tables))
        for key in sorted(axis.keys):
            if key in owners:
                raise campaign.source.error(where, f"{key!r} is set by the axis {owners[key]!r} too")
            owners[key] = name
        axes.append(axis)
    return axes


def _value(campaign: Campaign, name: str, value: Any) -> dict[str, Any]:
    table = flat(value) if isinstance(value, Mapping) else {name: value}
    unknown = next((key for key in table if key.partition(".")[0] not in _PLAN_KEYS), None)
    if unknown is None and table:
        return table
    plain = not isinstance(value, Mapping)
    raise campaign.source.error(
        ["axes", name],
        "unknown axis: it is no key of a plan" if plain else f"{unknown or 'an empty table'!r} is no key of a plan",
        f"the keys are: {', '.join(sorted(_PLAN_KEYS))}"
        + ("; an axis of another name has tables of them as values" if plain else ""),
    )


def _shown(values: Values) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _of_axes(axes: Sequence[Axis], keys: set[str]) -> tuple[str, ...]:
    return tuple(axis.name for axis in axes if axis.keys & keys)


def _excluded(campaign: Campaign, number: int, axes: Sequence[Axis], base: Values) -> _Rule:
    pattern = campaign.content.exclude[number]
    _refuse_foreign_keys(campaign, ["exclude", number], pattern, axes)
    return _Rule(_of_axes(axes, set(flat(pattern))), lambda values: not matches(pattern, {**base, **values}))


def _refuse_foreign_keys(
    campaign: Campaign, where: Sequence[str | int], pattern: Mapping[str, Any], axes: Sequence[Axis]
) -> None:
    known = frozenset(key for axis in axes for key in axis.keys)
    for key in flat(pattern):
        if key not in known:
            raise campaign.source.error(
                [*where, key], "no axis sets this key", f"the axes set: {', '.join(sorted(known))}"
            )
    if not pattern:
        raise campaign.source.error(where, "it is empty, and so matches everything")


class _Offered:
    """Whether a system offers what a workload needs: known of the registry alone, so no file must exclude it."""

    def __init__(self, base: Values) -> None:
        self._base = base

    def allows(self, values: Values) -> bool:
        names = {**self._base, **values}
        system, workload = str(names.get("system")), str(names.get("workload"))
        if system not in registry.SYSTEMS or workload not in registry.WORKLOADS:
            return True  # a wrong name is an error of the cell, not a hole
        return registry.workload(workload).protocol in registry.system(system).profile.interfaces

    def impossible(self, axes: Sequence[Axis]) -> tuple[str, ...]:
        """Each pair that cannot be, in words."""
        systems = self._names(axes, "system")
        workloads = self._names(axes, "workload")
        return tuple(
            f"{system} does not offer what {workload} needs"
            for system in systems
            for workload in workloads
            if not self.allows({"system": system, "workload": workload})
        )

    def _names(self, axes: Sequence[Axis], key: str) -> list[str]:
        set_by_axes = [str(value[key]) for axis in axes for value in axis.values if key in value]
        return list(dict.fromkeys(set_by_axes or ([str(self._base[key])] if key in self._base else [])))


def _chosen(campaign: Campaign, axes: Sequence[Axis], rules: Sequence[_Rule]) -> list[list[dict[str, Any]]]:
    """Rows of one value for each axis; every include is in some row."""
    includes = [_places(campaign, number, axes) for number in range(len(campaign.content.include))]
    if campaign.content.combine == "all" or len(axes) == 1:
        rows = _product(campaign, axes, rules)
    else:
        rows = _pairs(axes, rules, includes)
    for number, wanted in enumerate(includes):
        if not any(all(row[axis] in numbers for axis, numbers in wanted.items()) for row in rows):
            raise campaign.source.error(
                ["include", number], "an exclude, or what the system offers, forbids it", "take one of them back"
            )
    return [[axis.values[row[axis.name]] for axis in axes] for row in rows]


def _product(campaign: Campaign, axes: Sequence[Axis], rules: Sequence[_Rule]) -> list[dict[str, int]]:
    count = 1
    for axis in axes:
        count *= len(axis.values)
    if count > COMBINATIONS_MAX:
        raise campaign.source.error(
            ["axes"], f"{count} combinations, at most {COMBINATIONS_MAX} make a night", 'use combine = "pairs"'
        )
    rows = (
        dict(zip((axis.name for axis in axes), numbers, strict=True))
        for numbers in itertools.product(*(range(len(axis.values)) for axis in axes))
    )
    return [row for row in rows if all(rule.allows(_values(axes, row)) for rule in rules)]


def _pairs(
    axes: Sequence[Axis], rules: Sequence[_Rule], includes: Sequence[dict[str, list[int]]]
) -> list[dict[str, int]]:
    from covertable.main import Controller

    def condition(rule: _Rule) -> dict[str, Any]:
        return {"operator": "fn", "requires": list(rule.axes), "evaluate": lambda row: rule.allows(_values(axes, row))}

    controller = Controller(
        {axis.name: list(range(len(axis.values))) for axis in axes},
        presets=[{name: numbers[0] for name, numbers in wanted.items()} for wanted in includes],
        constraints=[condition(rule) for rule in rules if rule.axes],
    )
    rows = [{axis.name: int(row[axis.name]) for axis in axes} for row in controller.make()]
    # What a rule forbids is checked again here, since a night must not depend on how a library reads our rules.
    rows = [row for row in rows if all(rule.allows(_values(axes, row)) for rule in rules)]
    return sorted(rows, key=lambda row: [row[axis.name] for axis in axes])


def _places(campaign: Campaign, number: int, axes: Sequence[Axis]) -> dict[str, list[int]]:
    """For each axis that an include names: the numbers of the values that it means."""
    pattern = flat(campaign.content.include[number])
    _refuse_foreign_keys(campaign, ["include", number], pattern, axes)
    wanted: dict[str, list[int]] = {}
    for axis in axes:
        own = {key: value for key, value in pattern.items() if key in axis.keys}
        if own:
            wanted[axis.name] = [n for n, value in enumerate(axis.values) if matches(own, value)]
            if not wanted[axis.name]:
                raise campaign.source.error(
                    ["include", number, next(iter(own))], f"the axis {axis.name!r} has no value {_shown(own)}"
                )
    return wanted


def _values(axes: Sequence[Axis], row: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for axis in axes:
        if axis.name in row:
            values = merged(values, axis.values[int(row[axis.name])])
    return values
