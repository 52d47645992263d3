"""Whether a night is green, and if not, each reason: the one place that decides the exit code.

    0    every required cell is valid or known, every other cell that was run too, and each canary was caught
    1    a violation that is not known, or a known issue that has expired
    2    something is missing: a canary that passed or was not seen, a run that was lost, failed, disturbed or tested
         too little, a required cell that was not run, a shard, or anything tested at all

A night is never greener than any of its required cells. A cell that is not required may be left out by the budget.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.campaigns.night.night import CellOutcome, Night, State
from fencepost.harness.campaigns.night.run_class import RunClass

BLIND: Final = "this night could not have seen anything"


class Cause(StrEnum):
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
    """One reason why a night is not green; `cell` is the id of the cell that it is about, empty without one."""

    cause: Cause
    text: str
    cell: str = ""

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.INVALID if self.cause in (Cause.VIOLATION, Cause.EXPIRED) else ExitCode.UNKNOWN


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The night's exit code, one sentence on it, and every reason, gravest first."""

    exit_code: ExitCode
    sentence: str
    reasons: tuple[Reason, ...] = ()

    @property
    def is_green(self) -> bool:
        return self.exit_code is ExitCode.VALID


def outcome(night: Night) -> Outcome:
    """Decide whether a night that ended is green; of a running one: what it would be if it ended now."""
    order = list(Cause)
    reasons = sorted(_reasons(night), key=lambda reason: order.index(reason.cause))
    code = min((reason.exit_code for reason in reasons), default=ExitCode.VALID)
    return Outcome(exit_code=code, sentence=_sentence(night, reasons), reasons=tuple(reasons))


def _reasons(night: Night) -> Iterator[Reason]:
    for issue in night.known_issues:
        if issue.is_expired(night.today):
            yield Reason(
                cause=Cause.EXPIRED,
                text=f"the known issue {issue.fingerprint} of {issue.owner} expired on {issue.expires}: {issue.link}",
            )
    for shard in night.missing_shards:
        yield Reason(cause=Cause.SHARD_MISSING, text=f"shard {shard} of {night.shards} is missing")
    yield from _canary_reasons(night)
    cells = [o for o in night.cells if not o.cell.canary]
    for each in cells:
        yield from _cell_reasons(each)
    if not any(o.run_class.is_judged for o in cells):
        yield Reason(cause=Cause.NOTHING_TESTED, text="no cell but canaries has a verdict: nothing was tested")
    if night.state in (State.STOPPED, State.INTERRUPTED) and any(o.run_class is RunClass.NOT_RUN for o in cells):
        how = "was stopped" if night.state is State.STOPPED else "was interrupted"
        yield Reason(cause=Cause.STOPPED, text=f"the night {how} before its budget was spent; --resume goes on")


def _canary_reasons(night: Night) -> Iterator[Reason]:
    canaries = [o for o in night.cells if o.cell.canary]
    for each in canaries:
        passed = [a for a in each.attempts if a.run_class is RunClass.VALID]
        others = [a for a in each.attempts if a.run_class is RunClass.INVALID and each.cell.anomaly not in a.anomalies]
        if passed:
            text = f"the canary {each.cell.name} passed, though it must show {each.cell.anomaly}: {BLIND}"
            yield Reason(cause=Cause.CANARY_PASSED, text=text, cell=each.cell.id)
        elif others and not each.is_caught:
            shown = ", ".join(others[0].anomalies) or "no anomaly by name"
            text = f"the canary {each.cell.name} showed {shown}, not {each.cell.anomaly}: {BLIND}"
            yield Reason(cause=Cause.CANARY_PASSED, text=text, cell=each.cell.id)
        elif not each.is_caught and each.run_class not in (RunClass.NOT_RUN, RunClass.INVALID):
            text = f"the canary {each.cell.name} is {each.run_class}: {each.reason}"
            yield Reason(cause=Cause.CELL, text=text, cell=each.cell.id)
    for shard in night.shards_present:
        if not any(_caught_by(each, shard) for each in canaries):
            where = f" by shard {shard}" if night.shards > 1 else ""
            yield Reason(cause=Cause.CANARY_MISSING, text=f"no canary was caught{where}: {BLIND}")


def _caught_by(canary: CellOutcome, shard: int) -> bool:
    own = tuple(a for a in canary.attempts if a.shard == shard)
    return msgspec.structs.replace(canary, attempts=own).is_caught


def _cell_reasons(each: CellOutcome) -> Iterator[Reason]:
    name, cell = each.cell.name, each.cell.id
    match each.run_class:
        case RunClass.VALID | RunClass.KNOWN:
            return
        case RunClass.INVALID:
            alarm = "a false alarm, since it is a control: " if each.cell.control else ""
            yield Reason(cause=Cause.VIOLATION, text=f"{name}: {alarm}{each.reason}", cell=cell)
        case RunClass.NOT_RUN:
            if each.cell.required:
                yield Reason(cause=Cause.NOT_RUN, text=f"{name} is required and was not run: {each.reason}", cell=cell)
        case run_class:
            yield Reason(cause=Cause.CELL, text=f"{name} is {run_class}: {each.reason}", cell=cell)


def _sentence(night: Night, reasons: list[Reason]) -> str:
    """ "2 violations in 14 cells; ..." for the page, JUnit and the last line of the command; of a shard: which one."""
    text = _of_its_cells(night, reasons)
    return f"{night.shard_in_words}: {text}" if night.shard_in_words else text


def _of_its_cells(night: Night, reasons: list[Reason]) -> str:
    cells = [o for o in night.cells if not o.cell.canary]
    run = [o for o in cells if o.run_class is not RunClass.NOT_RUN]
    tested = f"{len(run)} of {_count(len(cells), 'cell')} tested"
    known = night.count(RunClass.KNOWN)
    beside = f", {_count(known, 'known issue')} seen" if known else ""
    if not reasons:
        caught = sum(o.is_caught for o in night.cells if o.cell.canary)
        return f"{tested}: no new violation{beside}; {_count(caught, 'canary', 'canaries')} caught"
    violations = [r for r in reasons if r.cause is Cause.VIOLATION]
    if violations:
        more = len(reasons) - len(violations)
        rest = f"; {_count(more, 'other reason')}" if more else ""
        return f"{_count(len(violations), 'cell')} with a violation that is not known, {tested}{beside}{rest}"
    rest = f"; {_count(len(reasons) - 1, 'more reason')}" if len(reasons) > 1 else ""
    return f"{reasons[0].text}{rest} ({tested}{beside})"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
