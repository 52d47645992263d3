"""One run from the outside: folder, artifacts, runner, history sealed, verdict, report.

The outer process holds what must survive the runner: the folder and the verdict. So a runner that
crashes, or is killed, still gets judged by what it recorded.
"""

import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from fencepost.harness.base.errors import HarnessError, MachineError, StoppedBeforeStart
from fencepost.harness.base.stop_request import StopRequest
from fencepost.harness.faults.fitting import refuse_without_time
from fencepost.harness.faults.forecast import Prospect, Surroundings
from fencepost.harness.faults.forecast import look_ahead as work_out
from fencepost.harness.faults.nemesis_text import versions_needed
from fencepost.harness.plan import Plan, write_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, refuse_changes
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.run.child import Child, Progress
from fencepost.harness.run.conclude import Result, conclude_run
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.systems.contract.server_settings import TakesSettings


def execute(
    checked: CheckedPlan,
    results: Path,
    *,
    progress: Progress,
    stop: StopRequest,
) -> Result:
    """Carry out one plan.

    Raises:
        MachineError, UsageError: found before the cluster started.
        HarnessError: the cluster did not start or the harness failed before there was anything to judge.
        StoppedTwice: by hand.
    """
    provider, needs = checked.provider, {kind: registry.faults()[kind].needs for kind in checked.asked.named}
    checked = checked.placed(provider.refuse_if_impossible(checked.placement, needs))
    _refuse_unavailable(checked)
    prospect = look_ahead(checked)
    artifacts, others = _artifacts(checked, prospect, lambda text: progress({"topic": "preparing", "text": text}))
    folder = store.make_run_folder(results, checked.plan.slug)
    write_plan(_with_own_schedule(checked.plan, folder), folder / store.PLAN)
    store.write_json(folder / store.RUN, _facts(checked, prospect, artifacts, others))
    progress({"topic": "folder", "folder": str(folder)})
    for line in prospect.in_words(keep_quorum=checked.keeps_quorum):
        progress({"topic": "preparing", "text": line})
    left: list[str] = []
    try:
        runner = Child(folder, in_namespaces=provider.in_namespaces, progress=progress, stop=stop)
        outcome = runner.run()
    finally:
        # Whatever ended the runner: nothing of it may stay, and what stays is named.
        left += provider.sweep(folder)
        for what in left:
            progress({"topic": "warning", "text": what})
    stop.check()
    if stop.asked and outcome.error is None and not store.has_history(folder):
        raise stopped_before_start(checked.plan.deadline, by_hand=stop.by_hand)
    result = conclude_run(folder, outcome, progress=progress, stop=stop)
    return replace(result, warnings=(*left, *result.warnings))


def stopped_before_start(deadline: str, *, by_hand: bool) -> HarnessError:
    """Say why there is nothing to judge; what a person did on purpose is no failure of the harness."""
    if by_hand:
        return StoppedBeforeStart("stopped before the cluster had started: there is nothing to judge")
    return HarnessError(
        f"--deadline {deadline} had passed before the cluster had started",
        hint="give a longer one, or end what else keeps this machine busy",
    )


def look_ahead(checked: CheckedPlan) -> Prospect:
    """What the plan's faults come to where it is placed, without kinds of a mixture that this machine cannot do."""
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
    """Raise UsageError when a schedule that is drawn from one of the seeds has no time for a fault of the plan."""
    if checked.given is None and checked.plan.thresholds.effective_faults_min:
        refuse_without_time(checked.asked, registry.faults(), _surroundings(checked), seeds=seeds)


def _surroundings(checked: CheckedPlan) -> Surroundings:
    plan = checked.plan
    return Surroundings(
        placement=checked.placement,
        members=checked.members,
        subject=checked.system.profile.subjects[0],
        bound=checked.leadership(plan.version),
        seed=plan.seed,
        time_limit_ns=plan.duration_ns("time_limit"),
        quiet_ns=plan.duration_ns("quiet"),
    )


def _facts(
    checked: CheckedPlan, prospect: Prospect, artifacts: Artifacts, others: Mapping[str, Artifacts]
) -> dict[str, object]:
    """What `run.json` holds before the cluster starts."""
    plan = checked.plan
    facts = {
        "format": 1,
        "run_id": uuid.uuid4().hex,
        "system": plan.system,
        "system_version": artifacts.version,
        "seed": plan.seed,
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "artifacts": msgspec.to_builtins(artifacts),
        # What `auto` came to on this machine.
        "links": checked.placement.links.value,
        "nemesis": prospect.document(keep_quorum=checked.keeps_quorum),
        "machine": store.machine_facts(),
    }
    if others:
        # What faults start nodes as, by the version that the plan names.
        facts["other_artifacts"] = msgspec.to_builtins(others)
    if plan.settings:
        facts["settings"] = {"asked": plan.settings}
    return facts


def _with_own_schedule(plan: Plan, folder: Path) -> Plan:
    """A run's folder holds the schedule that its plan names, so that it can be moved and run again."""
    if not plan.schedule:
        return plan
    shutil.copyfile(plan.schedule, folder / store.GIVEN)
    return msgspec.structs.replace(plan, schedule=store.GIVEN)


def _refuse_unavailable(checked: CheckedPlan) -> None:
    """Kinds that the plan asks for by name: a run without one of them would not be what was asked for."""
    faults = registry.faults()
    for kind in sorted(checked.asked.named):
        why = faults[kind].unavailable(checked.placement)
        if why:
            raise MachineError(f"this machine cannot do {kind}: {why}", hint="fencepost doctor says what is missing")


def _artifacts(
    checked: CheckedPlan, prospect: Prospect, say: Callable[[str], None]
) -> tuple[Artifacts, dict[str, Artifacts]]:
    """What the nodes run, and the other releases that the plan's faults start them as, had before any server runs."""
    plan, system = checked.plan, checked.system

    def resolved(version: str) -> Artifacts:
        return checked.provider.resolve(system.releases, version, checked.placement, say)

    first = resolved(plan.version)
    others = {word: resolved(word) for word in versions_needed(prospect.asked.specs, registry.faults())}
    names = {first.version: first.version, **{word: other.version for word, other in others.items()}}
    refuse_changes(checked, checked.asked.specs, first.version, names)
    for artifacts in (first, *others.values()):
        # What these servers themselves do not know, as far as they can be asked before they run.
        refusal = system.refuse_settings(artifacts, plan.settings) if isinstance(system, TakesSettings) else None
        if refusal is not None:
            raise refusal.error("--set")
    return first, others
