"""From a run's folder to its verdict: every checker that the workload names, each behind its own guard.

`harness.verdict.decision` says which verdicts decide a run; the others are reported with their counts. A checker that
raises gives `unknown` with its reason and cannot hide another checker's `invalid`.
"""

import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.base.options import plain
from fencepost.harness.contract.brokers import BoundsBrokers
from fencepost.harness.contract.conditions import promises_in_force
from fencepost.harness.contract.leases import BoundsLeases
from fencepost.harness.faults.nemesis_text import nemesis_words
from fencepost.harness.history import History
from fencepost.harness.judging.conditions import in_this_run
from fencepost.harness.plan import read_plan
from fencepost.harness.plan.checked_plan import ResolvedPlan, refuse_unnamed, resolve_plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.offers import UsedPlugin
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.reader import read_history
from fencepost.harness.results.schedule_rows import injected, read_rows
from fencepost.harness.results.voter_logs import read_logs
from fencepost.harness.verdict import (
    Cause,
    Facts,
    Guarantee,
    LeadershipBound,
    Standing,
    Validity,
    Verdict,
    merge,
)
from fencepost.harness.verdict.by_guarantee import OfGuarantee, by_guarantee, exit_code
from fencepost.harness.verdict.counting import counts_in_words
from fencepost.harness.verdict.decision import COVERAGE, decides

#: Has nothing to judge where no node leads.
_OF_LEADERS: Final = "leadership"
CHECKER_LOG: Final = "checkers.log"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A judged run: the merged verdict, one sentence on why, each checker's word, and how long the checkers took."""

    validity: Validity
    headline: str
    verdicts: tuple[Verdict, ...]
    facts: Facts
    took_ns: int = 0

    @property
    def exit_code(self) -> ExitCode:
        return exit_code(self.validity, self.verdicts, self.facts)


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
    return Facts(
        system=plan.system,
        workload=plan.workload,
        nodes=tuple(member.name for member in resolved.members),
        electorate=tuple(member.name for member in resolved.members if member.votes),
        guarantees=_weakest(
            [
                promises_in_force(system, release, plan.settings, resolved.system_options)
                for release in (version, *others)
            ]
        ),
        required=plan.require,
        read_guarantee=resolved.workload.guarantee(system, resolved.options),
        nemesis=nemesis_words(plan.nemesis),
        options=plain(resolved.options),
        leadership=_loosest([resolved.leadership(release) for release in (version, *others)]),
        leases=system.lease_bound(resolved.system_options) if isinstance(system, BoundsLeases) else None,
        brokers=system.broker_bound(resolved.members, resolved.system_options)
        if isinstance(system, BoundsBrokers)
        else None,
        subjects=system.profile.subjects,
        vocabulary=system.profile.vocabulary,
        budget=plan.budget,
        thresholds=plan.thresholds,
        planned_ns=plan.duration_ns("time_limit"),
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
    store.read_run(folder)
    plan = read_plan(folder / store.PLAN, seed=0)
    # Every run writes its faults into its plan; without them no fault would be missed in the history.
    refuse_unnamed(plan)
    try:
        return resolve_plan(plan)
    except UsageError:
        plugins = store.read_run(folder).get("plugins", [])
        for plugin in msgspec.convert(plugins, list[UsedPlugin]):
            if {f"system {plan.system}", f"workload {plan.workload}"} & set(plugin.provides):
                raise UsageError(
                    f"{folder}: this run used the plug-in {plugin.name} {plugin.version}".rstrip()
                    + f" ({', '.join(plugin.provides)}), which is not usable here",
                    hint="install it, or name it: --plugin PATH; `fencepost list plugins` shows what there is",
                ) from None
        raise


def judge_by(resolved: ResolvedPlan, folder: Path) -> tuple[History, Judgement]:
    """Judge as `judge` does, by a plan that was read before; same results, same exceptions."""
    history = read_history(folder)
    history.logs = read_logs(folder)
    facts = facts_of(resolved, _version_of(folder) or resolved.system.releases.default, _others_of(folder))
    facts = msgspec.structs.replace(
        facts,
        failure=_failure_of(folder),
        guarantees=tuple(in_this_run(g, history, resolved.members) for g in facts.guarantees),
    )
    history.operations  # noqa: B018  # paired once, before the checkers are timed
    verdicts: list[Verdict] = []
    began_ns = time.monotonic_ns()
    for name in checkers_of(resolved):
        verdicts += _guarded(name, history, facts, folder)
    judgement = conclude(history, facts, tuple(verdicts))
    return history, msgspec.structs.replace(judgement, took_ns=time.monotonic_ns() - began_ns)


def checkers_of(resolved: ResolvedPlan) -> tuple[str, ...]:
    """List the checkers that judge a run of this plan, by their registry keys: first those that its workload names."""
    return (
        *resolved.workload.checkers(resolved.system, resolved.options),
        *((_OF_LEADERS,) if resolved.system.profile.subjects else ()),
        *registry.run_checkers(resolved.plan.system),
        COVERAGE,
    )


def _failure_of(folder: Path) -> str | None:
    """What ended the harness before the history was complete; None for a complete one.

    A harness that is killed with its runner, in the final phase, leaves every phase and no word of its end: only that
    nobody sealed the history shows it.
    """
    run = store.read_run(folder)
    unsealed = (folder / store.HISTORY_LINES).is_file() and not (folder / store.HISTORY).is_file()
    unknown = "the history was never sealed, as when the harness is killed or its machine goes down"
    failure: str | None = run.get("failure") or (unknown if unsealed and not run.get("recorded") else None)
    return failure


def _version_of(folder: Path) -> str | None:
    """The release that ran, as its servers named it; None for a history without its `run.json`."""
    return store.read_run(folder).get("system_version")


def _others_of(folder: Path) -> list[str]:
    """Further releases that nodes may have been changed to."""
    made = store.read_run(folder).get("other_artifacts", {})
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


def conclude(history: History, facts: Facts, verdicts: tuple[Verdict, ...]) -> Judgement:
    """Merge verdicts into that of the run, and say it in one sentence.

    Args:
        history: what was judged; the headline of a valid run counts its operations.
        facts: what the system promises and the plan requires, by which verdicts decide.
        verdicts: every checker's, in the order in which the checkers ran.

    Returns:
        `invalid` if a violation decides; else `unknown` if checkers contradict each other without a proof, or if
        something that must be known is not; else `valid`. A run that was cut short is never `valid`. The verdicts of
        the judgement may differ from those given: `confirmed` and `weighs` are filled in.
    """
    verdicts = _answered_for(_settled(history, facts, verdicts))
    lines = by_guarantee(verdicts, facts)
    violated = [line for line in lines if line.effect is Validity.INVALID]
    contradicted = [line.contradiction for line in lines if line.contradiction and line.effect is Validity.UNKNOWN]
    doubtful = [v for v in verdicts if v.validity is Validity.UNKNOWN and decides(v, facts)]
    cut_short = next((v.cut_short for v in doubtful if v.cut_short), "")
    unjudged = {facts.read_guarantee, *facts.required} - {v.guarantee for v in verdicts}
    if violated:
        validity = Validity.INVALID
        headline = _violated_headline(violated[0], facts)
        headline += f"; {cut_short}" if cut_short else ""
    elif contradicted:
        validity, headline = Validity.UNKNOWN, contradicted[0]
    elif doubtful or unjudged:
        validity = Validity.UNKNOWN
        headline = cut_short or doubtful[0].reason if doubtful else f"no checker judged {', '.join(sorted(unjudged))}"
    else:
        validity = merge(v.validity for v in verdicts if v.validity is Validity.VALID)
        headline = _valid_headline(len(history.operations), facts, lines)
    # First what the run is, then what a reader must know beside it: a server that ended, a fault that was not proven.
    headline = "; ".join(dict.fromkeys([headline, *(remark for v in verdicts for remark in v.remarks)]))
    return Judgement(validity=validity, headline=headline, verdicts=verdicts, facts=facts)


def _settled(history: History, facts: Facts, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """Mark violations whose proofs hold by the history alone, where checkers contradict each other."""
    contested = {line.name for line in by_guarantee(verdicts, facts) if line.contradiction}
    return tuple(
        msgspec.structs.replace(v, confirmed=registry.confirmed(history, v))
        if v.guarantee in contested and v.validity is Validity.INVALID
        else v
        for v in verdicts
    )


def _answered_for(verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """Let "not tested" of one checker not weigh where a complete checker calls the guarantee valid."""
    kept = {v.guarantee for v in verdicts if v.complete and v.validity is Validity.VALID}
    return tuple(
        msgspec.structs.replace(v, weighs=False) if v.guarantee in kept and v.cause is Cause.NO_EXPOSURE else v
        for v in verdicts
    )


def _violated_headline(line: OfGuarantee, facts: Facts) -> str:
    return f"{line.name}{_standing(line.name, facts)} is violated: {_what(line)}"


def _standing(name: str, facts: Facts) -> str:
    guarantee = facts.guarantee(name)
    return f" ({guarantee.standing.value})" if guarantee else ""


def _what(line: OfGuarantee) -> str:
    return counts_in_words(line.verdicts) or line.verdicts[0].reason


def _valid_headline(operations: int, facts: Facts, lines: Sequence[OfGuarantee]) -> str:
    """Name first what was seen and violates no promise, so that nobody reads `valid` as "nothing was seen"."""
    seen = [
        f"{_what(line)} against {line.name}{_standing(line.name, facts)}"
        for line in lines
        if line.validity is Validity.INVALID
    ]
    if not seen:
        return f"{operations} operations: no violation of {facts.read_guarantee} was found"
    kept = [line.name for line in lines if line.name == facts.read_guarantee and line.validity is Validity.VALID]
    rest = f"no violation of {kept[0]} was found" if kept else "no guarantee that decides the verdict was violated"
    return f"seen, but it violates no promise: {'; '.join(seen)}. {operations} operations: {rest}"
