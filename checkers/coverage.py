"""Coverage: did the run put anything to the test? Below the plan's thresholds a pass would be vacuous.

Valid or unknown, never invalid: what is missing is listed, and a run that lacks it cannot be called consistent.
Each checker counts how often its own guarantee was tested. This one asks for what all of them need: a run that was not
cut short, enough ok operations of every kind in the main phase, faults that took hold, operations while faults were in
force, a final read, servers that had all that they need and did not end by themselves, and a harness that never stood
still for long.

A fault that was not proven counts as not tested, and what the other faults tested stands: each guarantee's exposure
rests on proven faults alone. The run is unknown only where nothing else was tested: no fault took hold, or the plan
names this fault, and none of its kind and target did. Of losses of power that took nothing, the run is unknown where no
other loss of power took hold, unless a mixture drew them and other faults did. A healing that was not proven always
leaves the run unknown, since nobody knows what the cluster was afterwards.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Any, Final

from fencepost.checkers.derived.clocks import MACHINE, TIMER, Stall, overlapping, stalled_by, stalls_of, worst_sample
from fencepost.checkers.derived.evidence import grouped, merged, number_of, row, within
from fencepost.checkers.derived.positions import OCCASIONAL, PARTITION_STAMPED, final_answers
from fencepost.checkers.derived.servers import Act, OwnEnd, away, refused_to_start, unexplained_ends, unproven_acts
from fencepost.checkers.violations.finding import Doubt, conclude, duration, rule
from fencepost.harness.base.errors import own_end
from fencepost.harness.history import (
    BROKEN_SERVER,
    PART_OF,
    WATCHED,
    DiskEffect,
    FaultAction,
    FaultOutcome,
    FaultSpan,
    History,
    NoteEvent,
    Operation,
    Outcome,
    PhaseName,
    ending_of,
)
from fencepost.harness.verdict import Cause, Facts, Rule, Verdict
from fencepost.harness.verdict.by_guarantee import COVERAGE
from fencepost.harness.verdict.figures import LOOP_LAG, STALLED_BY, WATCHED_FOR, Rows, Traced, tallies, tally

#: Stands for every kind of fault that was available.
_MIXTURE: Final = "all"
#: Of a loss of power: the files that lost something, each as "node:path".
_LOST: Final = "lost"
_OF_PARTITION: Final = re.compile(r"(?!__)[^/]+-\d+/")
#: Every single kind of operation must reach this share of the threshold for all of them: seldom is not never.
_SHARE_OF_EACH: Final = 10


def check(history: History, facts: Facts) -> list[Verdict]:
    """List what the run lacks of the plan's thresholds.

    Returns:
        One verdict: `valid`, or `unknown` with everything that is missing; the gravest lack is its cause.

    Cost: O(n) in operations, and O(faults) per operation.
    """
    start_ns, end_ns = history.phases.get(PhaseName.MAIN, (0, 0))
    faults = [f for f in history.faults if f.outcome is FaultOutcome.INSTALLED]
    main = [o for o in history.operations if start_ns <= o.invoked_ns < end_ns]
    inside = _under_fault(history, faults, main) if _planned_kinds(facts) else None
    under_fault = None if inside is None else len(inside)
    ok = Counter(o.f for o in main if o.type is Outcome.OK)
    cut_short = ending_of(history, facts.planned_ns, facts.failure).cut_short
    stalls = overlapping(stalls_of(history, facts.thresholds.stall_ns_max), start_ns, end_ns)
    idle = [f for f in faults if not _lost_own_data(history, f)]
    effective = [f for f in faults if f not in idle]
    losses = [f for f in faults if f.fault in {own.fault for own in idle}]
    drawn = _MIXTURE in _planned_kinds(facts) and not {f.fault for f in idle} & {*_wanted(facts)}
    all_idle = len(losses) == len(idle) and not (drawn and effective)
    untested_losses = _idle_losses(len(idle), len(losses))
    thin = [
        *_operations_missing(main, ok, facts),
        *_faults_missing(effective, under_fault, facts),
        *_never_came(history, facts),
        *untested_losses * all_idle,
    ]
    unproven = unproven_acts(history)
    tested = [e for e in unproven if not _leaves_unknown(e, effective, facts)]
    doubtful = [
        *_never_healed(history),
        *_unproven([e for e in unproven if e not in tested]),
        *([] if final_answers(history) else ["no final read was answered"]),
        *_broken_servers(history),
        *_smaller_cluster(history, facts, start_ns, end_ns),
    ]
    # The gravest first: the first one is the verdict's cause.
    missing = [
        *([(Cause.CUT_SHORT, cut_short)] if cut_short else []),
        *((Cause.NO_EXPOSURE, text) for text in thin),
        *((Cause.UNDECIDED, text) for text in doubtful),
        *((Cause.STALLED, text) for text in _stall_doubts(stalls)),
    ]
    texts = [text for _, text in missing]
    doubt = Doubt(missing[0][0], "; ".join(texts)) if missing else None
    validity, reason, cause = conclude(broken="", doubt=doubt)
    return [
        Verdict(
            checker=COVERAGE,
            guarantee=COVERAGE,
            validity=validity,
            reason=reason,
            cause=cause,
            exposure=None if inside is None else tally(inside),
            exposure_of="operations invoked while a fault was certainly in force" if under_fault is not None else "",
            rules=_rules(history, facts, len(main)),
            figures={
                "missing": texts,
                **_figures(history, main),
                WATCHED_FOR: next((e.text for e in history.of(NoteEvent) if e.topic == WATCHED), ""),
                STALLED_BY: stalled_by(stalls),
            },
            cut_short=cut_short or "",
            remarks=(
                *_own_ends(history),
                *(f"not tested: {text}" for text in (*untested_losses * (not all_idle), *_unproven(tested))),
            ),
        )
    ]


def _rules(history: History, facts: Facts, invoked: int) -> tuple[Rule, ...]:
    """What could have left the run unknown, and how often it was looked at."""
    kinds = len(_planned_kinds(facts))
    nothing, no_fault = "no operation was invoked in the main phase", "the plan asks for no fault"
    return (
        rule("cut-short", 1, ""),
        rule("too-few-operations", invoked, nothing),
        rule("no-effective-fault", kinds, no_fault),
        rule("no-operation-under-fault", invoked if kinds else 0, nothing if kinds else no_fault),
        rule("unproven-fault", len(history.faults), "no fault was tried"),
        rule("scheduled-fault-missing", facts.scheduled or 0, "the plan names no schedule"),
        rule("no-final-read", 1, ""),
        rule("broken-server", len(facts.nodes), "the plan has no node"),
        rule("smaller-cluster", len(facts.nodes), "the plan has no node"),
        rule("stall", len(history.samples), "nobody looked whether the harness stood still"),
    )


def _planned_kinds(facts: Facts) -> list[str]:
    """The kinds of faults that the plan asks for."""
    kinds = (text.split(":")[0].strip() for text in facts.nemesis)
    return [kind for kind in dict.fromkeys(kinds) if kind and kind != "none"]


def _wanted(facts: Facts) -> list[str]:
    """The kinds that the plan asks for by name; a mixture is only what was available."""
    return [kind for kind in _planned_kinds(facts) if kind != _MIXTURE]


def _operations_missing(main: list[Operation], ok: Counter[str], facts: Facts) -> list[str]:
    """Say which operations succeeded too rarely. Lost compares count as well, if at least one was not lost."""
    least = facts.thresholds.ok_operations_min
    each = -(-least // _SHARE_OF_EACH)
    missing = []
    if ok.total() < least:
        missing.append(f"{ok.total()} ok operations in the main phase, {least} are needed")
    lost = Counter(o.f for o in main if o.lost_compare)
    for f in dict.fromkeys(o.f for o in main if o.f not in OCCASIONAL):
        if ok[f] < (each if ok[f] + lost[f] < each else 1):
            missing.append(f"{ok[f]} ok operations {f!r} in the main phase, {each} are needed")
    return missing


def _lost_own_data(history: History, fault: FaultSpan) -> bool:
    """Whether a loss of power took anything that the workload wrote; true of every other fault.

    What is appended to topic partitions lies in their folders, on the brokers that are asked for it: a loss of Kafka's
    own topics ("__cluster_metadata-0") or of a ZooKeeper's log takes none of it.
    """
    lost = fault.details.get(_LOST)
    if not isinstance(lost, str):
        return True
    appended = {o.node for o in history.operations if o.f in PARTITION_STAMPED}
    files = [file.partition(":") for file in lost.split(", ") if file]
    return any(not appended or (node in appended and _OF_PARTITION.match(path)) for node, _, path in files)


def _idle_losses(idle: int, losses: int) -> list[str]:
    """Losses of power that tested nothing, among all of them."""
    if not idle:
        return []
    if idle < losses:
        return [f"{idle} of {losses} losses of power took nothing of the workload's data"]
    return [f"of {losses} losses of power none took anything of the workload's data"]


def _faults_missing(faults: list[FaultSpan], under_fault: int | None, facts: Facts) -> list[str]:
    if not _planned_kinds(facts):
        return []
    least = facts.thresholds.effective_faults_min
    missing = [
        f"no fault {kind!r} took hold" for kind in _wanted(facts) if least and all(f.fault != kind for f in faults)
    ]
    # The cuts of a flapping link are one fault.
    whole = sum(PART_OF not in f.details for f in faults)
    if whole < least:
        missing.append(f"{whole} faults took hold, {least} are needed")
    if under_fault is not None and under_fault < facts.thresholds.exposure_min:
        missing.append(
            f"{under_fault} operations were invoked while a fault was in force, "
            f"{facts.thresholds.exposure_min} are needed"
        )
    return missing


def _never_came(history: History, facts: Facts) -> list[str]:
    """Faults of the plan's own schedule that were not even tried; a skipped one was, and its event says why."""
    if facts.scheduled is None:
        return []
    tried = sum(PART_OF not in f.details for f in history.faults)
    late = facts.scheduled - tried
    return [f"{late} of the {facts.scheduled} faults of the plan's schedule never came"] if late > 0 else []


def _never_healed(history: History) -> list[str]:
    # A run heals all that it injects, so a fault without an end means that whoever carries faults out is gone.
    left = Counter(f.fault for f in history.faults if f.ended_ns is None)
    return [f"{count} x {kind} was never healed" for kind, count in left.items()]


def _leaves_unknown(act: Act, effective: list[FaultSpan], facts: Facts) -> bool:
    """Whether an act that was not proven leaves the run unknown; see the module's docstring."""
    if act.action is FaultAction.HEAL or not effective:
        return True
    same = any((f.fault, f.target) == (act.fault, act.target) for f in effective)
    return act.fault in _wanted(facts) and not same


def _unproven(doubtful: list[Act]) -> list[str]:
    """Acts of which nobody knows whether they took effect."""
    if not doubtful:
        return []
    acts = Counter(f"{e.action} of {e.fault} was not proven" for e in doubtful)
    first = doubtful[0]
    where = f" on {', '.join(first.nodes)}" if first.nodes else ""
    listed = ", ".join(f"{count} x {act}" for act, count in acts.items())
    return [f"{listed}; the first{where}: {first.proof}"]


def _under_fault(history: History, faults: list[FaultSpan], main: list[Operation]) -> Rows:
    """The invocations of the main phase in which a fault was certainly in force."""
    spans = merged([span for fault in faults if (span := history.certain(fault)) is not None])
    invoked = [o.invoked_ns for o in main]
    parts = [main[bisect_left(invoked, start) : bisect_right(invoked, end)] for start, end in spans]
    return tuple(o.invoke_index for part in parts for o in part)


def _broken_servers(history: History) -> list[str]:
    """A server that goes on without a class may drop work without a word: what it did is no proof of anything.

    One that ended over it before it served did nothing.
    """
    notes = {
        e.text: None
        for e in history.of(NoteEvent)
        if e.topic == BROKEN_SERVER and not refused_to_start(history, e.text.partition(":")[0], e.time_ns)
    }
    return [f"{text}, and the server went on" for text in notes]


def _own_ends(history: History) -> list[str]:
    """Say when servers ended by themselves, how, and for how long; those of one node and status together."""
    alike = grouped(unexplained_ends(history), lambda end: (end.node, end.status))
    return [_ends_in_words(history, ends) for ends in alike.values()]


def _ends_in_words(history: History, ends: list[OwnEnd]) -> str:
    first, last = ends[0], ends[-1]
    damages = (f for f in history.faults if f.effects.disk is DiskEffect.DAMAGED and first.node in f.nodes)
    is_damaged = any(history.possible(f)[0] <= first.at_ns for f in damages if f.outcome is not FaultOutcome.SKIPPED)
    why = "after a fault had damaged its disk" if is_damaged else "and no fault explains it"
    often = f" {len(ends)} times, first" if len(ends) > 1 else ""
    gone = within(merged([(end.at_ns, end.until_ns) for end in ends]), first.at_ns, last.until_ns)
    back = "" if last.served_ns is not None else " and did not serve again"
    return (
        f"{own_end(first.node, first.status)}{often} at {duration(first.at_ns)}, {why}: "
        f"it was away for {duration(gone)}{back}"
    )


def _smaller_cluster(history: History, facts: Facts, start_ns: int, end_ns: int) -> list[str]:
    """Say that servers which ended by themselves were away for more of the main phase than the plan allows."""
    gone_ns, most = away(history, start_ns, end_ns), facts.thresholds.away_share_max
    if gone_ns <= most * (end_ns - start_ns):
        return []
    return [
        f"the cluster was smaller than planned for {duration(gone_ns)} of {duration(end_ns - start_ns)} of the main "
        f"phase, because servers ended by themselves (away_share_max in the plan's [thresholds] allows {most:.0%})"
    ]


def _stall_doubts(every: list[Stall]) -> list[str]:
    """Say that the harness's timer stalled; where only the machine's processors were busy, its times hold."""
    stalls = [stall for stall in every if stall.what == TIMER]
    if not stalls:
        return []
    longest = max(stall.length_ns for stall in stalls)
    waiting = ", waiting for a processor" if stalled_by(stalls) == MACHINE else ""
    return [f"the harness stalled {len(stalls)} times in the main phase, for up to {duration(longest)}{waiting}"]


def _figures(history: History, main: list[Operation]) -> dict[str, Any]:
    operations = history.operations
    functions = dict.fromkeys(o.f for o in main)
    installed = [f for f in history.faults if f.outcome is FaultOutcome.INSTALLED]
    worst = worst_sample(history)
    return {
        "operations": {Outcome(name).value: n for name, n in tallies((o.type, row(o)) for o in operations).items()},
        "main_ok": {f: number_of(o for o in main if o.f == f and o.type is Outcome.OK) for f in functions},
        "main_invoked": tallies((o.f, o.invoke_index) for o in main),
        "faults_by_outcome": tallies((f.outcome.value, f.events[-1]) for f in history.faults),
        "faults_installed": tallies((f.fault, f.events[1]) for f in installed),
        "final_reads": number_of(final_answers(history)),
        LOOP_LAG: Traced(0) if worst is None else Traced(worst.loop_lag_ns_max, (worst.index,)),
    }
