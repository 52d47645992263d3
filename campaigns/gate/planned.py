"""From a policy and a candidate to the cells of a night: required ones, canaries, and the baseline's for each budget.

A policy is read as a campaign whose cells are written by hand, so a cell that cannot exist is refused as a campaign
refuses it: with file, line, key and remedy.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fencepost.campaigns.gate.policy import Policy, PolicyBudget, PolicyException, PolicyFile, read_policy
from fencepost.campaigns.night.cells import CheckedCells, NightCell, cell_id, cells_of
from fencepost.campaigns.night.file import Campaign, CampaignFile
from fencepost.campaigns.night.run_class import nemesis_of
from fencepost.harness.base.errors import UsageError, choices_hint
from fencepost.harness.base.toml_file import TomlFile, merged
from fencepost.harness.history import History
from fencepost.harness.judging.judge import checkers_of, facts_of
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.verdict.by_guarantee import COVERAGE

#: Keys that the candidate decides.
_CANDIDATE_KEYS = ("version", "image")


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """What is tested: a release, the path of a build, or an image; `options` are those of its system."""

    name: str
    baseline: str = ""
    options: Mapping[str, Any] = {}


class PlannedGate(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with its cells; `campaign` opens the night, `checked` are all cells and their plans."""

    policy: Policy
    campaign: Campaign
    checked: CheckedCells


def plan_gate(path: Path, candidate: Candidate) -> PlannedGate:
    """Read a policy and make its cells; raises UsageError with file, line, key and remedy."""
    content, source = read_policy(path)
    system = _system(content, source)
    _check_names(content, source, system)
    if content.budget and not candidate.baseline:
        raise source.error(["budget", 0], "a budget compares with a baseline", "give --baseline VERSION")
    if candidate.baseline and not content.budget:
        raise UsageError(
            f"--baseline {candidate.baseline}: the policy has no budget that compares with it",
            hint="leave --baseline out, or add [[budget]] to the policy",
        )
    campaign = _campaign(content, source, candidate)
    required = cells_of(campaign)
    _refuse_untestable(content, source, required)
    cells, needs = _with_runs(content, source, required)
    ids = _ids(content, source, cells)
    budgets = tuple(msgspec.structs.replace(b, cell=ids["budget", n]) for n, b in enumerate(content.budget))
    plans = dict(required.plans)
    for cell in _baseline_cells(content, cells, budgets, candidate):
        try:
            plans[cell.id] = check_plan(cell.plan)
        except UsageError as error:
            raise UsageError(f"--baseline {candidate.baseline}: {error.message}", hint=error.hint) from None
        cells = (*cells, cell)
    policy = Policy(
        name=content.name,
        candidate=candidate.name,
        baseline=candidate.baseline,
        runs=needs,
        guarantees=content.guarantee,
        budgets=budgets,
        exceptions=tuple(
            msgspec.structs.replace(e, cell=ids["exception", n]) if e.cell else e
            for n, e in enumerate(content.exception)
        ),
    )
    return PlannedGate(policy=policy, campaign=campaign, checked=CheckedCells(cells=cells, plans=plans, impossible=()))


def build_keys(name: str, runtime: str) -> dict[str, str]:
    """The plan keys of a release, a path or an image: on containers a name with a colon or a slash is an image."""
    if runtime == "containers" and (":" in name or "/" in name):
        return {"image": name}
    return {"version": str(Path(name).resolve()) if "/" in name and Path(name).exists() else name}


def _system(content: PolicyFile, source: TomlFile) -> str:
    """The one system of all required cells."""
    systems: dict[str, int] = {}
    for number, table in enumerate(content.cell):
        if not table.get("canary"):
            systems.setdefault(str(table.get("system", content.plan.get("system", ""))), number)
    if not systems:
        raise source.error([], "it requires no cell", "add [[cell]] with the keys of a plan")
    if len(systems) > 1:
        other = list(systems.values())[1]
        raise source.error(
            ["cell", other, "system"], "a gate has one candidate, and so one system", "write a policy for each system"
        )
    (system,) = systems
    if system not in registry.SYSTEMS:
        where: list[str | int] = ["plan", "system"] if "system" in content.plan else ["cell", 0]
        raise source.error(where, f"unknown system {system!r}", choices_hint(system, registry.SYSTEMS))
    return system


def _check_names(content: PolicyFile, source: TomlFile, system: str) -> None:
    """Raise UsageError for a build that the policy names itself, and for guarantees that the system has not."""
    for key in content.plan:
        if key not in Plan.__struct_encode_fields__:
            raise source.error(["plan", key], "unknown key", choices_hint(key, Plan.__struct_encode_fields__))
    tables: list[tuple[list[str | int], dict[str, Any]]] = [(["plan"], content.plan)]
    tables += [(["cell", n], table) for n, table in enumerate(content.cell) if not table.get("canary")]
    for where, table in tables:
        for key in _CANDIDATE_KEYS:
            if key in table:
                raise source.error([*where, key], "the candidate decides it", "leave it out, and give --candidate")
    names = {g.name for g in registry.system(system).promises()}
    for number, need in enumerate(content.guarantee):
        if need.name not in names:
            raise source.error(
                ["guarantee", number, "name"],
                f"unknown guarantee of {system} {need.name!r}",
                choices_hint(need.name, sorted(names)),
            )
    for number, each in enumerate(content.exception):
        if each.fingerprint and each.issue.system != system:
            raise source.error(
                ["exception", number, "fingerprint"], f"it is about {each.issue.system}, and the policy about {system}"
            )


def _campaign(content: PolicyFile, source: TomlFile, candidate: Candidate) -> Campaign:
    """The policy as a campaign; a table stands at the same place of the file as its cell."""
    cells = []
    for number, table in enumerate(content.cell):
        if "required" in table:
            raise source.error(["cell", number, "required"], "every cell of a policy is required", "leave it out")
        if table.get("canary"):
            cells.append(table)
            continue
        runtime = str(table.get("runtime", content.plan.get("runtime", "")))
        own: dict[str, Any] = {"required": True, **build_keys(candidate.name, runtime)}
        if candidate.options:
            own["system_options"] = dict(candidate.options)
        cells.append(merged(table, own))
    digest = hashlib.sha256(
        msgspec.json.encode([source.text, candidate.name, candidate.baseline, sorted(candidate.options.items())])
    )
    file = CampaignFile(name=f"gate-{content.name}", plan=content.plan, cell=tuple(cells))
    return Campaign(content=file, source=source, digest=digest.hexdigest()[:16])


def _with_runs(
    content: PolicyFile, source: TomlFile, required: CheckedCells
) -> tuple[tuple[NightCell, ...], dict[str, int]]:
    """Cells that may be run until a guarantee or a budget has enough, and the clean runs that each needs."""
    cells, needs = [], {}
    for number, cell in enumerate(required.cells):
        if cell.canary:
            cells.append(cell)
            continue
        if cell.runs > content.runs_max:
            raise source.error(["cell", number, "runs"], f"{cell.runs} is more than runs_max = {content.runs_max}")
        needs[cell.id] = cell.runs
        is_compared = any(budget.cell == cell.name for budget in content.budget)
        runs = content.runs_max if content.guarantee or is_compared else cell.runs
        cells.append(msgspec.structs.replace(cell, runs=runs, alone=is_compared))
    for number, need in enumerate(content.guarantee):
        if need.runs > len(needs) * content.runs_max:
            raise source.error(
                ["guarantee", number, "runs"],
                f"{need.runs} runs, and runs_max = {content.runs_max} allows {len(needs) * content.runs_max}",
                "raise runs_max",
            )
    return tuple(cells), needs


def _refuse_untestable(content: PolicyFile, source: TomlFile, required: CheckedCells) -> None:
    """Raise UsageError for a guarantee that no required cell can test, and for a policy without any fault."""
    cells = [cell for cell in required.cells if not cell.canary]
    if not any(nemesis_of(cell) for cell in cells):
        raise source.error(
            [],
            "no required cell has a fault, so the gate would be green though nothing disturbed the candidate",
            'give a cell faults, such as nemesis = "kill"',
        )
    faulty = [cell for cell in cells if nemesis_of(cell)]
    tested = {cell.name: guarantees_of(required.plans[cell.id]) for cell in faulty}
    for number, need in enumerate(content.guarantee):
        if any(names is None or need.name in names for names in tested.values()):
            continue
        able = ", ".join(workloads_that_test(need.name, cells[0].plan))
        if not able:
            # Its checkers answer for it only where a run gives them reason to.
            continue
        which = "; ".join(f"{cell.name} tests {_listed(tested[cell.name])}" for cell in faulty)
        raise source.error(
            ["guarantee", number, "name"],
            f"no required cell with faults can test {need.name!r}: {which}",
            f"add a [[cell]] with a workload that tests it: {able}",
        )


def _listed(names: frozenset[str] | None) -> str:
    return ", ".join(sorted((names or frozenset()) - {COVERAGE}))


def _ids(content: PolicyFile, source: TomlFile, cells: tuple[NightCell, ...]) -> dict[tuple[str, int], str]:
    """The id of each cell that a budget or an exception names."""
    names = [cell.name for cell in cells if not cell.canary]
    by_name = {cell.name: cell.id for cell in cells if not cell.canary}
    entries: list[tuple[str, int, PolicyBudget | PolicyException]] = [
        *(("budget", n, b) for n, b in enumerate(content.budget)),
        *(("exception", n, e) for n, e in enumerate(content.exception) if e.cell),
    ]
    ids = {}
    for kind, number, entry in entries:
        if names.count(entry.cell) != 1:
            rule = "no required cell has" if entry.cell not in by_name else "several required cells have"
            raise source.error(
                [kind, number, "cell"], f"{rule} the name {entry.cell!r}", choices_hint(entry.cell, sorted(by_name))
            )
        ids[kind, number] = by_name[entry.cell]
    return ids


def _baseline_cells(
    content: PolicyFile, cells: tuple[NightCell, ...], budgets: tuple[PolicyBudget, ...], candidate: Candidate
) -> list[NightCell]:
    """For each cell with a budget the same cell of the baseline, without the candidate's own options."""
    baseline = []
    for number, cell in enumerate(cells):
        if not any(budget.cell == cell.id for budget in budgets):
            continue
        table = {k: v for k, v in content.cell[number].items() if k not in ("name", "runs")}
        keys = build_keys(candidate.baseline, cell.plan.runtime)
        plan = msgspec.convert({**merged(merged(content.plan, table), keys), "seed": 0}, Plan)
        if plan.schedule:
            plan = msgspec.structs.replace(plan, schedule=cell.plan.schedule)
        baseline.append(
            NightCell(
                id=f"{cell_id(plan)}-baseline",
                name=f"{cell.name} (baseline)",
                plan=plan,
                required=True,
                runs=content.runs_max,
                seeds_of=cell.id,
                alone=True,
            )
        )
    return baseline


def guarantees_of(checked: CheckedPlan) -> frozenset[str] | None:
    """Ask the checkers of a plan what they say of a history without an event: each names its guarantees.

    None where a checker cannot say it of such a history: then nobody knows before a run.
    """
    names: set[str] = set()
    try:
        facts = facts_of(checked, checked.plan.version or checked.system.releases.default)
        for checker in checkers_of(checked):
            names |= {verdict.guarantee for verdict in registry.checker(checker)(History([]), facts)}
    except Exception:
        return None
    return frozenset(names)


def workloads_that_test(guarantee: str, like: Plan) -> Iterator[str]:
    """The workloads of this plan's system that test a guarantee."""
    for name in sorted(registry.WORKLOADS):
        plan = msgspec.structs.replace(like, workload=name, workload_options={}, schedule="", nemesis="kill")
        try:
            tested = guarantees_of(check_plan(plan))
        except UsageError:
            continue
        if tested is not None and guarantee in tested:
            yield name
