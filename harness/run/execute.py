"""Carries out one run from outside the runner: folder, artifacts, runner, sealed history, verdict, report.

The outer process owns what must survive the runner: the folder and the verdict. So a run whose runner crashed or was
killed is still judged by what it recorded.
"""

import importlib.util
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from fencepost.harness.base.errors import HarnessError, MachineError, StoppedBeforeStart, without
from fencepost.harness.base.files import write_whole
from fencepost.harness.base.quantities import utc_stamp
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.faults.forecast import Forecast, Surroundings, refuse_without_time
from fencepost.harness.faults.forecast import look_ahead as work_out
from fencepost.harness.faults.schedule import versions_needed
from fencepost.harness.plan import Plan, dump_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, Prepared, plugins_of, refuse_changes
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.results.schedule_rows import read_rows, write_rows
from fencepost.harness.run.conclude import Child, Progress, Result, conclude_run
from fencepost.harness.runtime.artifacts import Artifacts


def execute(
    checked: CheckedPlan,
    results: Path,
    *,
    progress: Progress,
    stop: StopRequest,
    expected: str = "",
) -> Result:
    """Carry out one plan.

    Args:
        expected: `invalid` where the run is made to show a violation, so that many runs together do not count it as a
            finding; kept in `run.json`.

    Raises:
        MachineError, UsageError: found before the cluster started.
        HarnessError: the cluster did not start or the harness failed before there was anything to judge.
        StoppedTwice: by hand.
    """
    ready = made_ready(checked, lambda text: progress({"topic": "preparing", "text": text}))
    checked, forecast, artifacts, others = ready.checked, ready.forecast, ready.artifacts, ready.others
    provider = checked.provider
    folder = store.make_run_folder(results, checked.plan.slug)
    # Half a plan is a plan, too: it would ask for less.
    plan = _with_own_schedule(checked.plan, folder)
    write_whole(folder / store.PLAN, dump_plan(plan))
    if plan.schedule:
        checked = replace(checked, plan=msgspec.structs.replace(plan, schedule=str(folder / plan.schedule)))
    facts = facts_before_start(checked, forecast, artifacts, others)
    record = RunRecord(folder, {})
    record.add({**facts, "expected": expected} if expected else facts)
    ready.prepared.write(folder)
    progress({"topic": "folder", "folder": str(folder)})
    for line in forecast.in_words(keep_quorum=checked.keeps_quorum):
        progress({"topic": "preparing", "text": line})
    left: list[str] = []
    try:
        runner = Child(record, in_namespaces=provider.in_namespaces, progress=progress, stop=stop)
        with runner.running() as outcome:
            stop.check()
            if stop.asked and outcome.error is None and not store.has_history(folder):
                raise stopped_before_start(checked.plan.deadline, by_hand=stop.by_hand)
            result = conclude_run(checked, record, outcome, progress=progress, stop=stop, rest=runner.rest)
    finally:
        # Whatever ended the runner, nothing of it may stay; what cannot be removed is named.
        left += provider.sweep(folder)
        for what in left:
            progress({"topic": "warning", "text": what})
    return replace(result, warnings=(*left, *result.warnings))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A plan placed on this machine, what its faults come to, and the binaries or images that its nodes run."""

    checked: CheckedPlan
    forecast: Forecast
    artifacts: Artifacts
    others: Mapping[str, Artifacts]

    @property
    def prepared(self) -> Prepared:
        """What the process that holds the cluster is handed."""
        checked = replace(self.checked, request=self.forecast.request)
        return Prepared(checked=checked, artifacts=self.artifacts, others=self.others)


def made_ready(checked: CheckedPlan, say: Callable[[str], None]) -> _Ready:
    """Place a plan and get what its nodes run: fetched, built or found in a cache. No server runs yet.

    Raises MachineError for what this machine cannot do, UsageError for what a person must mend.
    """
    needs = {kind: registry.faults()[kind].needs for kind in checked.request.named}
    checked = checked.placed(checked.provider.refuse_if_impossible(checked.placement, needs))
    _refuse_unavailable(checked)
    forecast = look_ahead(checked)
    artifacts, others = _artifacts(checked, forecast, say)
    return _Ready(checked=checked, forecast=forecast, artifacts=artifacts, others=others)


def stopped_before_start(deadline: str, *, by_hand: bool) -> HarnessError:
    """Return why there is nothing to judge; a stop by a person is no failure of the harness."""
    if by_hand:
        return StoppedBeforeStart("stopped before the cluster had started: there is nothing to judge")
    return HarnessError(
        f"--deadline {deadline} had passed before the cluster had started",
        hint="give a longer one, or end what else runs on this machine",
    )


def look_ahead(checked: CheckedPlan) -> Forecast:
    """Forecast the plan's faults on this machine; a mixture leaves out the kinds that it cannot do."""
    plan, faults = checked.plan, registry.faults()

    def can(kind: str) -> str | None:
        why = faults[kind].unavailable(checked.placement)
        if why is not None:
            return str(why)
        try:
            checked.provider.refuse_if_impossible(checked.placement, {kind: faults[kind].needs})
        except MachineError as error:
            return error.message
        return None

    return work_out(plan.nemesis, faults, _surroundings(checked), can=can, given=checked.given)


def refuse_too_short(checked: CheckedPlan, seeds: Sequence[int]) -> None:
    """Raise UsageError when a schedule drawn from one of the seeds has no time for a fault of the plan."""
    if checked.given is None and checked.plan.thresholds.effective_faults_min:
        refuse_without_time(checked.request, registry.faults(), _surroundings(checked), seeds=seeds)


def _surroundings(checked: CheckedPlan) -> Surroundings:
    plan = checked.plan
    return Surroundings(
        placement=checked.placement,
        members=checked.members,
        leader_names=checked.system.profile.leader_names,
        bound=checked.leadership(plan.version),
        seed=plan.seed,
        time_limit_ns=plan.duration_ns("time_limit"),
        quiet_ns=plan.duration_ns("quiet"),
    )


def facts_before_start(
    checked: CheckedPlan, forecast: Forecast, artifacts: Artifacts, others: Mapping[str, Artifacts]
) -> dict[str, object]:
    """What `run.json` holds before the cluster starts."""
    plan = checked.plan
    facts = {
        "format": store.FORMAT,
        "run_id": uuid.uuid4().hex,
        "system": plan.system,
        "system_version": artifacts.version,
        "seed": plan.seed,
        "started_at": utc_stamp(),
        "artifacts": msgspec.to_builtins(artifacts),
        "nemesis": forecast.document(keep_quorum=checked.keeps_quorum),
        "machine": store.machine_facts(),
    }
    if others:
        # What faults start nodes as, by the version that the plan names.
        facts["other_artifacts"] = msgspec.to_builtins(others)
    plugins = plugins_of(checked, checked.request)
    if plugins:
        facts["plugins"] = msgspec.to_builtins(plugins)
    if plan.settings:
        facts["settings"] = {"asked": plan.settings}
    return facts


def _with_own_schedule(plan: Plan, folder: Path) -> Plan:
    """Copy the schedule that the plan names into the run's folder, so that the folder can be moved and run again."""
    if not plan.schedule:
        return plan
    write_rows(read_rows(Path(plan.schedule)), folder / store.GIVEN)
    return msgspec.structs.replace(plan, schedule=store.GIVEN)


def _refuse_unavailable(checked: CheckedPlan) -> None:
    """Raise MachineError when this machine cannot keep a history, or do a fault that the plan names."""
    if importlib.util.find_spec("pyarrow") is None:
        raise without("pyarrow", "lab")
    faults = registry.faults()
    for kind in sorted(checked.request.named):
        why = faults[kind].unavailable(checked.placement)
        if why:
            raise MachineError(f"this machine cannot do {kind}: {why}", hint="fencepost doctor says what is missing")


def _artifacts(
    checked: CheckedPlan, forecast: Forecast, say: Callable[[str], None]
) -> tuple[Artifacts, dict[str, Artifacts]]:
    """Resolve what the nodes run, and the other releases that faults start them as, before any server runs."""
    plan, system = checked.plan, checked.system

    def resolved(version: str) -> Artifacts:
        return checked.provider.resolve(system.releases, version, checked.placement, say)

    first = resolved(plan.version)
    others = {word: resolved(word) for word in versions_needed(forecast.request.specs, registry.faults())}
    names = {first.version: first.version, **{word: other.version for word, other in others.items()}}
    refuse_changes(checked, checked.request.specs, first.version, names)
    for artifacts in (first, *others.values()):
        # Settings that these servers do not know, as far as they can be asked before they run.
        refusal = system.settings.refuse_unknown(artifacts, plan.settings) if system.settings else None
        if refusal is not None:
            raise refusal.error("--set")
    return first, others
