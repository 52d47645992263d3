"""Whether a night is green, and if not, each reason: the one place that decides the exit code.

    0    every required cell is valid or known, every other cell that was run too, and each canary was caught
    1    a violation that is not known, or a known issue that has expired
    2    something is missing: a canary that passed or was not seen, a run that was lost, failed, disturbed or tested
         too little, a required cell that was not run, a shard, or anything tested at all

A night is never greener than any of its required cells. A cell that is not required may be left out by the budget.
A cell is tested when its runs have a verdict: one whose build failed, or that stayed unknown, is not.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from fencepost.campaigns.night.night import CellOutcome, Night, NightState
from fencepost.campaigns.night.run_class import RunClass, nemesis_of
from fencepost.harness.base.errors import ExitCode
from fencepost.harness.base.quantities import counted

BLIND: Final = "this night could not have seen anything"
_NOTHING: Final = "nothing was tested"
#: Of each kind of reason the sentence names so many cells.
_NAMES_MAX: Final = 3
#: What the classes that are no verdict mean, in the sentence.
_BRIEFS: Final = {
    RunClass.MACHINE: "refused or held up by this machine",
    RunClass.HARNESS: "failure of fencepost",
    RunClass.LOST: "lost run",
    RunClass.UNKNOWN_COVERAGE: "unknown, too little was tested or nothing was decided",
    RunClass.UNKNOWN_BUDGET: "unknown, the time was spent",
    RunClass.UNKNOWN_DISTURBED: "unknown, disturbed by other runs",
}


class NightCause(StrEnum):
    """Why a night is not green; the first that holds names the night."""

    VIOLATION = "violation"
    EXPIRED = "expired"
    CANARY_PASSED = "canary-passed"
    CANARY_MISSING = "canary-missing"
    SHARD_MISSING = "shard-missing"
    CELL = "cell"
    NOT_RUN = "not-run"
    STOPPED = "stopped"
    NOTHING_TESTED = "nothing-tested"


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why a night is not green; `cell` is the id of the cell that it is about, empty without one.

    The night's sentence says `brief` for all reasons of a kind together, and names the `subject` of each.
    """

    cause: NightCause
    text: str
    brief: str
    subject: str = ""
    cell: str = ""

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.INVALID if self.cause in (NightCause.VIOLATION, NightCause.EXPIRED) else ExitCode.UNKNOWN


class NightOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The night's exit code, one sentence on it, and every reason, gravest first."""

    exit_code: ExitCode
    sentence: str
    reasons: tuple[Reason, ...] = ()

    @property
    def is_green(self) -> bool:
        return self.exit_code is ExitCode.VALID


def outcome(night: Night) -> NightOutcome:
    """Decide whether a night that ended is green; of a running one: what it would be if it ended now."""
    order = list(NightCause)
    reasons = sorted(_reasons(night), key=lambda reason: order.index(reason.cause))
    code = min((reason.exit_code for reason in reasons), default=ExitCode.VALID)
    return NightOutcome(exit_code=code, sentence=_sentence(night, reasons), reasons=tuple(reasons))


def _reasons(night: Night) -> Iterator[Reason]:
    for issue in night.known_issues:
        if issue.is_expired(night.today):
            yield Reason(
                cause=NightCause.EXPIRED,
                text=f"the known issue {issue.fingerprint} of {issue.owner} expired on {issue.expires}: {issue.link}",
                brief="expired known issue",
                subject=issue.fingerprint,
            )
    for shard in night.missing_shards:
        text = f"shard {shard} of {night.shards} is missing"
        yield Reason(cause=NightCause.SHARD_MISSING, text=text, brief=text)
    yield from _canary_reasons(night)
    cells = [o for o in night.cells if not o.cell.canary]
    refused: dict[str, str] = {}
    for each in cells:
        yield from _cell_reasons(each, refused)
    if not any(o.runs_tested[0] for o in cells):
        text = "no cell but canaries has a verdict: nothing was tested"
        yield Reason(cause=NightCause.NOTHING_TESTED, text=text, brief=_NOTHING)
    if night.state in (NightState.STOPPED, NightState.INTERRUPTED) and any(
        o.run_class is RunClass.NOT_RUN for o in cells
    ):
        how = "was stopped" if night.state is NightState.STOPPED else "was interrupted"
        text = f"the night {how} before its budget was spent; --resume goes on"
        yield Reason(cause=NightCause.STOPPED, text=text, brief=f"the night {how}")


def _canary_reasons(night: Night) -> Iterator[Reason]:
    canaries = [o for o in night.cells if o.cell.canary]
    for each in canaries:
        name, cell = each.cell.name, each.cell.id
        passed = [a for a in each.attempts if a.run_class is RunClass.VALID]
        others = [a for a in each.attempts if a.run_class is RunClass.INVALID and each.cell.anomaly not in a.anomalies]
        if passed:
            text = f"the canary {name} passed, though it must show {each.cell.anomaly}: {BLIND}"
            yield Reason(cause=NightCause.CANARY_PASSED, text=text, brief="canary passed", subject=name, cell=cell)
        elif others and not each.is_caught:
            shown = ", ".join(others[0].anomalies) or "no anomaly by name"
            text = f"the canary {name} showed {shown}, not {each.cell.anomaly}: {BLIND}"
            brief = "canary showed another anomaly"
            yield Reason(cause=NightCause.CANARY_PASSED, text=text, brief=brief, subject=name, cell=cell)
        elif not each.is_caught and each.run_class not in (RunClass.NOT_RUN, RunClass.INVALID):
            text = f"the canary {name} is {each.run_class}: {each.reason}"
            brief = f"canary {_BRIEFS.get(each.run_class, each.run_class)}"
            yield Reason(cause=NightCause.CELL, text=text, brief=brief, subject=name, cell=cell)
    for shard in night.shards_present:
        if not any(_caught_by(each, shard) for each in canaries):
            where = f" by shard {shard}" if night.shards > 1 else ""
            text = f"no canary was caught{where}: {BLIND}"
            yield Reason(cause=NightCause.CANARY_MISSING, text=text, brief=text)


def _caught_by(canary: CellOutcome, shard: int) -> bool:
    own = tuple(a for a in canary.attempts if a.shard == shard)
    return msgspec.structs.replace(canary, attempts=own).is_caught


def _cell_reasons(each: CellOutcome, refused: dict[str, str]) -> Iterator[Reason]:
    """Why a cell is not green; `refused` collects why the machine cannot run a cell, so that each is said once."""
    name, cell = each.cell.name, each.cell.id
    match each.run_class:
        case RunClass.VALID | RunClass.KNOWN:
            return
        case RunClass.INVALID:
            alarm = "a false alarm, since it is a control: " if each.cell.control else ""
            text = f"{name}: {alarm}{each.reason}"
            brief = "violation that is not known"
            yield Reason(cause=NightCause.VIOLATION, text=text, brief=brief, subject=name, cell=cell)
        case RunClass.NOT_RUN:
            if each.cell.required:
                text = f"{name} is required and was not run: {each.reason}"
                brief = "required and not run"
                yield Reason(cause=NightCause.NOT_RUN, text=text, brief=brief, subject=name, cell=cell)
        case run_class:
            why = each.reason
            if run_class is RunClass.MACHINE and why:
                first = refused.setdefault(why, name)
                why = why if first == name else f"for the same reason as {first}"
            text = f"{name} is {run_class}: {why}"
            brief = _BRIEFS.get(run_class, run_class.value)
            yield Reason(cause=NightCause.CELL, text=text, brief=brief, subject=name, cell=cell)


def tested_in_words(cells: Sequence[CellOutcome]) -> str:
    """How many of these cells have a verdict: "2 of 4 cells tested, 1 of them without faults, 1 only in part"."""
    tested = [o for o in cells if o.is_tested]
    quiet = sum(not nemesis_of(o.cell) for o in tested)
    part = sum(bool(o.runs_tested[0]) for o in cells) - len(tested)
    parts = [f"{len(tested)} of {counted(len(cells), 'cell')} tested"]
    parts += [f"{quiet} of them without faults"] if quiet else []
    return ", ".join([*parts, *([f"{part} only in part"] if part else [])])


def _sentence(night: Night, reasons: Sequence[Reason]) -> str:
    """ "violation that is not known: c0; 13 of 14 cells tested", the first line everywhere; of a shard: which one."""
    cells = [o for o in night.cells if not o.cell.canary]
    tested = tested_in_words(cells)
    known = night.count(RunClass.KNOWN)
    beside = f", {counted(known, 'known issue')} seen" if known else ""
    if reasons:
        nothing = [reason for reason in reasons if reason.cause is NightCause.NOTHING_TESTED]
        parts = _NOTHING if nothing else f"{tested}{beside}"
        rest = [reason for reason in reasons if reason not in nothing]
        text = "; ".join([parts, *_briefly(rest)] if nothing else [*_briefly(rest), parts])
    else:
        caught = sum(o.is_caught for o in night.cells if o.cell.canary)
        text = f"{tested}: no new violation{beside}; {counted(caught, 'canary', 'canaries')} caught"
    return f"{night.shard_in_words}: {text}" if night.shard_in_words else text


def _briefly(reasons: Sequence[Reason]) -> Iterator[str]:
    """Each kind of reason once, with the names of those that it is about."""
    for brief in dict.fromkeys(reason.brief for reason in reasons):
        names = [reason.subject for reason in reasons if reason.brief == brief and reason.subject]
        more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
        yield f"{brief}: {', '.join(names[:_NAMES_MAX])}{more}" if names else brief
