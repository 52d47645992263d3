"""Cells: the planned runs of a night, each with an id that is the digest of its plan.

The id is made of the plan as the campaign file says it, without defaults and without a seed: it stays the same from
night to night, also when another release becomes the default. A schedule counts by its content, not by its path.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.axes import combinations, matches
from fencepost.campaigns.night.draws import DrawnKey, heaviest, sets, with_values
from fencepost.campaigns.night.file import CELL_KEYS, RUNS_MAX, Campaign
from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.toml_file import Keys, flat, merged
from fencepost.harness.plan import TIME_LIMIT, Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan

_ID_LETTERS: Final = 12
#: Characters of a cell's name; a longer one hides what a line says of the cell.
_NAME_MAX: Final = 200
#: Keys that every cell's name shows; others only where the cells of a campaign differ in them.
_NAMED: Final = ("system", "version", "workload", "nemesis")


class NightCell(msgspec.Struct, frozen=True, kw_only=True):
    """One planned run. Its plan's seed is 0: each run has its own, and values of `draws` in place of the plan's.

    `canary`: it must be invalid, with `anomaly` among what it shows. `control`: what it tests is known to be right, so
    that a violation is a false alarm. `required`: a green night needs it. `runs`: how often a night runs it at most; 0:
    when a strategy asks. `seeds_of`: the cell whose seeds its runs have, empty for its own. `same_seed`: all its runs
    have the plan's. `alone`: its runs have nothing beside them, since their times are compared.
    """

    id: str
    name: str
    plan: Plan
    required: bool = False
    canary: bool = False
    anomaly: str = ""
    control: bool = False
    runs: int = 1
    seeds_of: str = ""
    same_seed: bool = False
    alone: bool = False
    draws: tuple[DrawnKey, ...] = ()


class CheckedCells(msgspec.Struct, frozen=True, kw_only=True):
    """Every cell of a campaign with its checked plan by its id; `impossible` as the axes say it.

    Where a cell draws values, its plan here has those that cost most.
    """

    cells: tuple[NightCell, ...]
    plans: dict[str, CheckedPlan]
    impossible: tuple[str, ...]


def cells_of(campaign: Campaign) -> CheckedCells:
    """Make every cell of a campaign and check its plan; raises UsageError with file and line."""
    content, source = campaign.content, campaign.source
    combined = combinations(campaign)
    drafts: list[_Draft] = []
    for table in combined.tables:
        drafts.append(_Draft(merged(content.plan, table), ("axes",), {"runs": content.runs}))
    for number, table in enumerate(content.cell):
        own = {str(key): table[key] for key in CELL_KEYS if key in table}
        plan = {key: value for key, value in table.items() if key not in CELL_KEYS}
        drafts.append(_Draft(merged(content.plan, plan), ("cell", number), {"runs": content.runs, **own}))
    if not drafts:
        raise source.error([], "it has no cell", "add `[axes]`, or `[[cell]]` with the keys of a plan")
    required = _required(campaign, [draft.plan for draft in drafts if draft.where == ("axes",)])
    names = _names([draft.plan for draft in drafts], flat(content.plan))
    cells: dict[str, NightCell] = {}
    plans: dict[str, CheckedPlan] = {}
    _refuse_idle_draws(campaign, drafts)
    for draft, name in zip(drafts, names, strict=True):
        cell, checked = _cell(campaign, draft, name, required=draft.where == ("axes",) and draft.plan in required)
        if cell.id in cells:
            raise source.error(draft.where, f"its plan is that of the cell {cells[cell.id].name!r}", "leave one out")
        cells[cell.id], plans[cell.id] = cell, checked
    if not any(cell.canary for cell in cells.values()):
        raise source.error(
            [],
            "it has no canary, and a night without one cannot be green",
            'add a [[cell]] with canary = true and anomaly = "...": a run that must be invalid, such as system = '
            '"example" with system_options = { defect = "stale-reads" }',
        )
    return CheckedCells(cells=tuple(cells.values()), plans=plans, impossible=combined.impossible)


def shard_of(cells: Sequence[NightCell], shard: int, shards: int) -> tuple[NightCell, ...]:
    """The cells of one shard: every canary, since each machine must show that it sees, and a share of the rest."""
    ordered = sorted((cell for cell in cells if not cell.canary), key=lambda cell: cell.id)
    own = {cell.id for cell in ordered[shard - 1 :: shards]}
    return tuple(cell for cell in cells if cell.canary or cell.id in own)


def cell_id(plan: Plan, draws: Sequence[DrawnKey] = ()) -> str:
    """The digest of a plan: what differs from a plan's defaults, without the seed, and what its runs draw."""
    empty = msgspec.to_builtins(Plan(system="", workload="", seed=0))
    values = {key: value for key, value in msgspec.to_builtins(plan).items() if value != empty.get(key)}
    values.pop("seed", None)
    if values.get("time_limit") == TIME_LIMIT:
        del values["time_limit"]
    if plan.schedule:
        values["schedule"] = hashlib.sha256(Path(plan.schedule).read_bytes()).hexdigest()
    if draws:
        # Which cells a draw is about says nothing of this one.
        values["draws"] = {draw.key: list(draw.ends) + ["range"] * (not draw.values) for draw in draws}
    canonical = msgspec.json.encode(dict(sorted(flat(values).items())), order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:_ID_LETTERS]


def checked_cell(name: str, plan: Plan, **more: Any) -> tuple[NightCell, CheckedPlan]:
    """Make the cell of a plan that no campaign file says, and check the plan; raises UsageError."""
    checked = check_plan(plan)
    whole = msgspec.structs.replace(plan, time_limit=checked.plan.time_limit)
    return NightCell(id=cell_id(plan), name=name, plan=whole, **more), checked


class _Draft(msgspec.Struct, frozen=True):
    """A cell before its plan is checked: plan keys, where they stand in the file, and the cell's own keys."""

    plan: dict[str, Any]
    where: tuple[str | int, ...]
    own: dict[str, Any]


class _Own(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    required: bool = False
    canary: bool = False
    anomaly: str = ""
    control: bool = False
    runs: int = 1


def _cell(campaign: Campaign, draft: _Draft, name: str, *, required: bool) -> tuple[NightCell, CheckedPlan]:
    source, where = campaign.source, draft.where
    own = source.convert_part(draft.own, _Own, where)
    if own.canary != bool(own.anomaly):
        raise source.error(
            [*where, "anomaly" if own.anomaly else "canary"],
            "a canary and the anomaly that it must show belong together",
            'give both: canary = true and anomaly = "stale-read"',
        )
    if own.canary and own.control:
        raise source.error([*where, "control"], "a canary must be invalid, and a control must not", "give one of them")
    if not 1 <= own.runs <= RUNS_MAX:
        raise source.error([*where, "runs"], f"expected 1 to {RUNS_MAX:,}, got {own.runs!s:.20}")
    if len(own.name) > _NAME_MAX:
        rule = f"a name of {len(own.name):,} characters; expected at most {_NAME_MAX}"
        raise source.error([*where, "name"], rule, "shorten it: every line about the cell begins with it")
    plan = _plan(campaign, draft)
    shown = "" if "cell" in where else f" (the combination {name})"
    try:
        checked = check_plan(plan)
    except UsageError as error:
        raise source.error(where, f"{error.message}{shown}", error.hint) from None
    draws = () if own.canary else tuple(draw for draw in campaign.content.draw if _is_about(draw, draft.plan))
    for draw in draws:
        for value in draw.ends:
            _check_drawn(campaign, plan, draw, value, shown or f" (the cell {own.name or name})")
    if draws:
        checked = check_plan(with_values(plan, heaviest(draws)))
    cell = NightCell(
        id=cell_id(plan, draws),
        name=own.name or name,
        plan=msgspec.structs.replace(plan, time_limit=checked.plan.time_limit),
        required=required or own.required,
        canary=own.canary,
        anomaly=own.anomaly,
        control=own.control,
        runs=own.runs,
        draws=draws,
    )
    return cell, checked


def _is_about(draw: DrawnKey, plan: Mapping[str, Any]) -> bool:
    return matches(draw.where, flat(plan)) and not sets(plan, draw.key)


def _refuse_idle_draws(campaign: Campaign, drafts: Sequence[_Draft]) -> None:
    """Raise UsageError for a draw that is about no cell."""
    for number, draw in enumerate(campaign.content.draw):
        if not any(_is_about(draw, draft.plan) for draft in drafts if not draft.own.get("canary")):
            raise campaign.source.error(
                ["draw", number], "it is about no cell", "canaries and cells that set the key themselves draw nothing"
            )


def _check_drawn(campaign: Campaign, plan: Plan, draw: DrawnKey, value: Any, of: str) -> None:
    """Raise UsageError where the plan of a cell makes no sense with a value that a run may draw."""
    where: Keys = ["draw", campaign.content.draw.index(draw)]
    try:
        check_plan(with_values(plan, {draw.key: value}))
    except msgspec.ValidationError as error:
        raise campaign.source.error(where, f"{draw.key}: {error}") from None
    except UsageError as error:
        hint = error.hint or "name the cells that it is about with where"
        raise campaign.source.error(where, f"{error.message}{of}", hint) from None


def _plan(campaign: Campaign, draft: _Draft) -> Plan:
    source, where = campaign.source, draft.where
    if "seed" in draft.plan:
        raise source.error([*_near(campaign, where, "seed"), "seed"], "a run draws its own seed", "leave it out")
    try:
        plan = msgspec.convert({**draft.plan, "seed": 0}, Plan)
    except msgspec.ValidationError as error:
        key = str(error).rpartition("$.")[2].strip("`").partition(".")[0]
        raise source.located(str(error), _near(campaign, where, key), Plan) from None
    if plan.schedule:
        path = campaign.folder / plan.schedule
        if not path.is_file():
            raise source.error([*_near(campaign, where, "schedule"), "schedule"], f"there is no file {path}")
        plan = msgspec.structs.replace(plan, schedule=str(path.resolve()))
    return plan


def _near(campaign: Campaign, where: Keys, key: str) -> Keys:
    """The table that sets a key: a cell's own, else `[plan]`."""
    if where[0] == "cell" and key in campaign.content.cell[int(where[1])]:
        return where
    return ["plan"] if key in campaign.content.plan else where


def _required(campaign: Campaign, plans: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The combinations that some `[[required]]` matches; raises UsageError for one that matches none."""
    required = []
    for number, pattern in enumerate(campaign.content.required):
        own = [plan for plan in plans if matches(pattern, flat(plan))]
        if not own:
            raise campaign.source.error(
                ["required", number], "no cell of the axes matches it", "mend it, or write the cell with [[cell]]"
            )
        required += own
    return required


def _names(plans: Sequence[dict[str, Any]], base: dict[str, Any]) -> list[str]:
    """A name for each plan: the system and what is asked of it, and what else tells it from `[plan]` and the others."""
    values = [flat(plan) for plan in plans]
    keys = dict.fromkeys(key for own in values for key in own)
    differing = [key for key in keys if key not in _NAMED and len({str(own.get(key)) for own in values}) > 1]
    names = []
    for own in values:
        named = [str(own[key]) for key in _NAMED if key in own]
        rest = [f"{key.rpartition('.')[2]}={own[key]}" for key in differing if key in own and own[key] != base.get(key)]
        names.append(_shortened(" ".join([*named, *rest])))
    return names


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 3]}..."
