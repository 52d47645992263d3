"""From a run's folder to its verdict: every checker that the workload names, each behind its own guard.

A checker that raises gives `unknown` with its reason and cannot hide another checker's `invalid`.

Whether a run kept to the conditions under which its system promises something is evaluated over the whole run: three
faults that damage one node each have damaged three nodes. Outside its condition nobody stands behind a guarantee, so a
violation of it is counted, and does not make the run invalid unless the plan requires the guarantee by name.
"""

import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.offers import UsedPlugin
from fencepost.harness.base.options import plain
from fencepost.harness.contract.guarantees import mechanisms_of, promises_in_force
from fencepost.harness.faults.schedule import nemesis_words
from fencepost.harness.history import DiskEffect, Effects, FaultOutcome, FaultSpan, History, Stops
from fencepost.harness.judging.judgement import Judgement, conclude
from fencepost.harness.plan import read_plan
from fencepost.harness.plan.checked_plan import ResolvedPlan, refuse_unnamed, resolve_plan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.reader import read_history, read_logs
from fencepost.harness.results.schedule_rows import injected, read_rows
from fencepost.harness.runtime.node import Member, electorates
from fencepost.harness.verdict import (
    Cause,
    Condition,
    Facts,
    Guarantee,
    KnownIssue,
    LeadershipBound,
    Standing,
    Unmet,
    Validity,
    Verdict,
)
from fencepost.harness.verdict.by_guarantee import COVERAGE

#: Has nothing to judge where no node leads.
_OF_LEADERS: Final = "leadership"
CHECKER_LOG: Final = "checkers.log"


def facts_of(resolved: ResolvedPlan, version: str, others: Sequence[str] = ()) -> Facts:
    """Collect what the checkers must know beside the history.

    Args:
        resolved: the run's plan, with its system and workload.
        version: the release that the cluster started with.
        others: further releases that nodes were upgraded or downgraded to.

    Returns:
        Guarantees and bounds as the release that promises least has them, since the whole cluster is judged by them.
    """
    plan, system = resolved.plan, resolved.system
    stated = _weakest(
        [promises_in_force(system, release, plan.settings, resolved.system_options) for release in (version, *others)]
    )
    of_checkers = registry.guarantees_of(checkers_of(resolved))
    return Facts(
        system=plan.system,
        workload=plan.workload,
        nodes=tuple(member.name for member in resolved.members),
        electorate=tuple(member.name for member in resolved.members if member.votes),
        guarantees=(*stated, *(own for own in of_checkers if own.name not in {each.name for each in stated})),
        required=plan.require,
        read_guarantee=resolved.workload.guarantee(system, resolved.options),
        nemesis=nemesis_words(plan.nemesis),
        options=plain(resolved.options),
        leadership=_loosest([resolved.leadership(release) for release in (version, *others)]),
        leases=system.lease_bound and system.lease_bound(resolved.system_options),
        sessions=system.session_bound and system.session_bound(resolved.members, resolved.system_options),
        resume=system.resume_bound and system.resume_bound(resolved.system_options),
        effect_free=tuple(sorted(resolved.workload.effect_free)),
        subjects=system.profile.subjects,
        vocabulary=system.profile.vocabulary,
        budget=plan.budget,
        thresholds=plan.thresholds,
        planned_ns=plan.duration_ns("time_limit"),
        mechanisms=mechanisms_of(system),
        scheduled=len(injected(read_rows(Path(plan.schedule)))) if plan.schedule else None,
    )


def judge(folder: Path) -> tuple[History, Judgement]:
    """Judge the history in a run's folder by its plan.

    Returns:
        The history, and what its checkers say of it together.

    Raises:
        UsageError: the folder has no plan or no history, or one of them is from another version.
        MalformedHistory: an event breaks a rule of histories; the message names the event.
    """
    return judge_by(resolved_of(folder), folder)


def resolved_of(folder: Path) -> ResolvedPlan:
    """Resolve the plan of a stored run.

    Raises:
        UsageError: the plan names no faults; or a plug-in of the run is missing, which is named.
    """
    # First, so that nothing of a newer run is taken for today's.
    run = store.read_run(folder)
    plan = read_plan(folder / store.PLAN, seed=0)
    # Every run writes its faults into its plan; without them no fault would be missed in the history.
    refuse_unnamed(plan)
    try:
        return resolve_plan(plan)
    except UsageError:
        for plugin in msgspec.convert(run.get("plugins", []), list[UsedPlugin]):
            if {f"system {plan.system}", f"workload {plan.workload}"} & set(plugin.provides):
                raise UsageError(
                    f"{folder}: this run used the plug-in {plugin.name} {plugin.version}".rstrip()
                    + f" ({', '.join(plugin.provides)}), which is not usable here",
                    hint="install it, or name it: --plugin PATH; `fencepost list plugins` shows what there is",
                ) from None
        raise


def judge_by(resolved: ResolvedPlan, folder: Path) -> tuple[History, Judgement]:
    """Judge as `judge` does, by a plan that was read before; same results, same exceptions."""
    history, facts = read_recorded(resolved, folder, store.read_run(folder))
    return history, judge_history(resolved, folder, history, facts)


def read_recorded(resolved: ResolvedPlan, folder: Path, run: Mapping[str, Any]) -> tuple[History, Facts]:
    """Read what a run recorded, and collect what its checkers must know beside it; `run` is its `run.json`."""
    history = read_history(folder)
    history.logs = read_logs(folder)
    facts = facts_of(resolved, version_of(run) or resolved.system.releases.default, _others_of(run))
    return history, msgspec.structs.replace(
        facts,
        failure=_failure_of(folder, run),
        guarantees=tuple(in_this_run(g, history, resolved.members) for g in facts.guarantees),
    )


def judge_history(resolved: ResolvedPlan, folder: Path, history: History, facts: Facts) -> Judgement:
    """Ask every checker that the workload names, and merge their verdicts; what a checker fails by is kept in a log."""
    history.operations  # noqa: B018  # paired once, before the checkers are timed
    verdicts: list[Verdict] = []
    began_ns = time.monotonic_ns()
    for name in checkers_of(resolved):
        verdicts += _guarded(name, history, facts, folder)
    judgement = conclude(history, facts, tuple(verdicts))
    return msgspec.structs.replace(judgement, took_ns=time.monotonic_ns() - began_ns)


def checkers_of(resolved: ResolvedPlan) -> tuple[str, ...]:
    """List the checkers that judge a run of this plan, by their registry keys: first those that its workload names."""
    return (
        *resolved.workload.checkers(resolved.system, resolved.options),
        *((_OF_LEADERS,) if resolved.system.profile.subjects else ()),
        *registry.END_CHECKERS,
        *((registry.LOG_CHECKER,) if resolved.system.read_log is not None else ()),
        *registry.run_checkers(resolved.plan.system),
        COVERAGE,
    )


def _failure_of(folder: Path, run: Mapping[str, Any]) -> str | None:
    """What ended the harness before the history was complete; None for a complete one.

    A harness that is killed with its runner, in the final phase, leaves every phase and no word of its end: only that
    nobody sealed the history shows it.
    """
    unsealed = (folder / store.HISTORY_LINES).is_file() and not (folder / store.HISTORY).is_file()
    unknown = "the history was never sealed, as when the harness is killed or its machine goes down"
    failure: str | None = run.get("failure") or (unknown if unsealed and not run.get("recorded") else None)
    return failure


def version_of(run: Mapping[str, Any]) -> str | None:
    """The release that ran, as its servers named it; None for a history without its `run.json`."""
    return run.get("system_version")


def _others_of(run: Mapping[str, Any]) -> list[str]:
    """Further releases that nodes may have been changed to."""
    made = run.get("other_artifacts", {})
    return [artifacts["version"] for artifacts in made.values() if artifacts.get("version")]


def _weakest(promised: Sequence[Sequence[Guarantee]]) -> tuple[Guarantee, ...]:
    """Take each guarantee from the release that stands behind it least, with the issues of all of them.

    Every release has the same names.
    """
    order = list(Standing)
    of_name = [[g for release in promised for g in release if g.name == first.name] for first in promised[0]]
    return tuple(
        msgspec.structs.replace(
            max(same_name, key=lambda g: order.index(g.standing)),
            issues=tuple(dict.fromkeys(issue for g in same_name for issue in g.issues)),
        )
        for same_name in of_name
    )


def _loosest(bounds: Sequence[LeadershipBound]) -> LeadershipBound:
    """Choose the bound that promises least; of equal promises the longest."""
    order = list(Standing)
    endless = max(bound.bound_ns or 0 for bound in bounds) + 1
    return max(bounds, key=lambda b: (order.index(b.standing), endless if b.bound_ns is None else b.bound_ns))


def _guarded(name: str, history: History, facts: Facts, folder: Path) -> list[Verdict]:
    try:
        return registry.checker(name)(history, facts)
    except Exception as error:
        with (folder / CHECKER_LOG).open("a", encoding="utf-8") as log:
            log.write(f"checker {name}:\n{traceback.format_exc()}\n")
        reason = f"the checker failed ({type(error).__name__}: {error}); its traceback is in {CHECKER_LOG}"
        return [
            Verdict(
                checker=name,
                guarantee=facts.read_guarantee,
                validity=Validity.UNKNOWN,
                reason=reason,
                cause=Cause.FAILED,
            )
        ]


#: From harmless to harmful: who has a damaged disk lacks what it had not synced, too.
_GRAVITY: Final = (DiskEffect.KEPT, DiskEffect.UNSYNCED, DiskEffect.DAMAGED)
_STOPS: Final = (Stops.NO, Stops.POSSIBLE, Stops.CERTAIN)
#: The detail in which a fault names what was lost, as "node:path, node:path".
_LISTED: Final = {DiskEffect.UNSYNCED: "lost", DiskEffect.DAMAGED: "damaged"}


def in_this_run(guarantee: Guarantee, history: History, members: Sequence[Member]) -> Guarantee:
    """Return the guarantee as it stands after this run: its standing where a condition was not met, its known issues.

    Args:
        guarantee: as the release, the settings and the options promise it.
        history: the whole run.
        members: the nodes with their roles and votes.
    """
    unmet = next(
        filter(None, (_unmet(one, guarantee.standing, history, members) for one in guarantee.conditions)), None
    )
    issues = [issue.text for issue in guarantee.issues if _shows(issue, history)]
    known = "; ".join(dict.fromkeys([*filter(None, [guarantee.known_issue]), *issues])) or None
    return msgspec.structs.replace(
        guarantee,
        standing=Standing.MEASURED if unmet else guarantee.standing,
        known_issue=known,
        issues=(),
        unmet=unmet if guarantee.standing is not Standing.MEASURED else None,
    )


def hit(fault: FaultSpan) -> tuple[str, ...]:
    """Return the nodes whose disks this fault left worse than they were, or may have."""
    if fault.outcome is FaultOutcome.SKIPPED or fault.effects.disk is DiskEffect.KEPT:
        return ()
    listed = fault.details.get(_LISTED[fault.effects.disk])
    if not isinstance(listed, str):
        return fault.nodes
    names = {entry.partition(":")[0] for entry in listed.split(", ")}
    return tuple(node for node in fault.nodes if node in names)


def _unmet(condition: Condition, standing: Standing, history: History, members: Sequence[Member]) -> Unmet | None:
    for group in _groups(condition, members):
        # The first fault that hit each node; later ones make it no worse.
        by_node: dict[str, int] = {}
        for place, fault in enumerate(history.faults):
            if _GRAVITY.index(fault.effects.disk) >= _GRAVITY.index(condition.loss):
                for node in hit(fault):
                    if node in group:
                        by_node.setdefault(node, place)
        if len(by_node) > ((len(group) - 1) // 2 if condition.most is None else condition.most):
            return _broken(condition, standing, len(group), by_node, history.faults)
    return None


def _groups(condition: Condition, members: Sequence[Member]) -> list[tuple[str, ...]]:
    if condition.role is not None:
        return [tuple(member.name for member in members if condition.role in member.roles)]
    return list(electorates(members))


def _broken(
    condition: Condition, standing: Standing, among: int, by_node: Mapping[str, int], faults: Sequence[FaultSpan]
) -> Unmet:
    places = sorted({*by_node.values()})
    sure = all(faults[place].outcome is FaultOutcome.INSTALLED for place in places)
    doubt = "" if sure else " at most, since not every fault is proven"
    acts = "; ".join(
        f"#{place + 1} {faults[place].fault} of {', '.join(node for node, first in by_node.items() if first == place)}"
        for place in places
    )
    which = f"{len(by_node)} of {among}{doubt} (fault{'s' if len(places) > 1 else ''} {acts})"
    return Unmet(
        condition=condition.text,
        standing=standing,
        nodes=tuple(by_node),
        faults=tuple(faults[place].fault_id for place in places),
        events=tuple(sorted(event for place in places for event in faults[place].events)),
        text=f"{standing} only while {condition.text}; in this run it was {which}",
    )


def _shows(issue: KnownIssue, history: History) -> bool:
    """Decide whether some fault had the effects without which the issue does not show."""
    return issue.needs is None or any(
        fault.outcome is not FaultOutcome.SKIPPED and _has(fault, issue.needs) for fault in history.faults
    )


def _has(fault: FaultSpan, needs: Effects) -> bool:
    """Decide whether the fault had at least these effects; a loss of disks counts only where something was lost.

    What was not synced is lost in another way than what was damaged: an issue of the one does not show in the other.
    """
    flags = ("cuts", "holds", "delays", "skews", "changes_members", "ends")
    disk = fault.effects.disk if hit(fault) else DiskEffect.KEPT
    return (
        all(getattr(fault.effects, flag) >= getattr(needs, flag) for flag in flags)
        and _STOPS.index(fault.effects.stops) >= _STOPS.index(needs.stops)
        and needs.disk in (DiskEffect.KEPT, disk)
    )
