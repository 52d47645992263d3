"""The files of a museum's night: museum.json, museum.md, junit.xml; each is written whole, also while it runs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fencepost.campaigns.museum.exhibits import Exhibit
from fencepost.campaigns.museum.museum import ExhibitOutcome, ExhibitState, Tally, exit_code
from fencepost.campaigns.night.documents import Files
from fencepost.campaigns.night.junit import suite_of
from fencepost.campaigns.night.night import Night
from fencepost.harness.base.quantities import counted
from fencepost.harness.findings.rate import Rate
from fencepost.harness.report.junit import JUnitCase, NotPassed, junit_xml

DOCUMENT: Final = "museum.json"
PAGE: Final = "museum.md"
JUNIT: Final = "junit.xml"
SIGNS: Final = {
    ExhibitState.REPRODUCED: "✓",
    ExhibitState.FALSE_ALARM: "✗",
    ExhibitState.LOST: "✗",
    ExhibitState.UNKNOWN: "?",
    ExhibitState.SKIPPED: "·",
}
_DONE: Final = ExhibitState.REPRODUCED
_ENDINGS: Final = {
    ExhibitState.FALSE_ALARM: NotPassed.FAILURE,
    ExhibitState.LOST: NotPassed.FAILURE,
    ExhibitState.UNKNOWN: NotPassed.ERROR,
    ExhibitState.SKIPPED: NotPassed.SKIPPED,
}


def files_of(night: Night, results: Sequence[ExhibitOutcome]) -> Files:
    """The files of a night, as it is."""
    return {
        DOCUMENT: lambda: document(night, results),
        JUNIT: lambda: junit_of(night, results),
        PAGE: lambda: page(night, results),
    }


def sentence(results: Sequence[ExhibitOutcome]) -> str:
    """ "30 of 36 exhibits reproduced, 1 lost, 5 skipped"."""
    states = Counter(each.state for each in results)
    others = [f"{states[state]} {state}" for state in ExhibitState if states[state] and state is not _DONE]
    return ", ".join([f"{states[_DONE]} of {counted(len(results), 'exhibit')} reproduced", *others])


def document(night: Night, results: Sequence[ExhibitOutcome]) -> dict[str, Any]:
    """What museum.json holds: the night, and each exhibit with its runs, rates and the commits that found it."""
    return {
        "id": night.id,
        "state": night.state,
        "seed": night.seed,
        "command": night.command,
        "exit_code": int(exit_code(results)),
        "sentence": sentence(results),
        "exhibits": [
            {
                "id": each.exhibit.id,
                "system": each.exhibit.system,
                "affected": each.exhibit.affected,
                "known": each.exhibit.known,
                "state": each.state.value,
                "reason": each.reason,
                "first_and_last_commit": each.commits,
                "bug": _tally(each.bug),
                "control": _tally(each.control),
            }
            for each in results
        ],
    }


def page(night: Night, results: Sequence[ExhibitOutcome]) -> str:
    """The page for people: a row for each exhibit."""
    rows = [
        f"| {SIGNS[each.state]} {each.state} | {each.exhibit.id} | {each.exhibit.system} {each.exhibit.affected} | "
        f"{_cell(each.bug)} | {_cell(each.control)} | {', '.join(each.commits)} | {_plain(each.reason)} |"
        for each in results
    ]
    head = ["| state | exhibit | release | bug | control | first and last commit | |", "| --- " * 7 + "|"]
    return "\n".join([f"# {night.id}: {sentence(results)}", "", f"{night.command}", "", *head, *rows, ""])


def findings_table(exhibits: Sequence[Exhibit]) -> str:
    """The table of docs/findings/index.md: each exhibit with what was measured of it, over all entries of its file."""
    head = ["| release | finding | known as | plan | bug | control | exhibit |", "| --- " * 7 + "|"]
    rows = []
    for each in sorted(exhibits, key=lambda each: (each.system, each.affected, each.id)):
        name = each.id if each.page is None else each.page
        title = f"[{each.title}]({name}.md)" if name else each.title
        known = ", ".join(each.known)
        known = f"[{known}]({each.source})" if known and each.source else known
        control = f"{each.fixed or each.cause_away}: {rate_in_words(each.control_rate)}" if not each.unjudged else ""
        rows.append(
            f"| {each.system} {each.affected} | {title} | {known} | {each.kind} | {rate_in_words(each.bug_rate)} | "
            f"{control} | `{each.id}`{' (no verdict)' if each.unjudged else ''} |"
        )
    return "\n".join([*head, *rows])


def rate_in_words(rate: Rate) -> str:
    """ "3 of 4 (19 to 99 %)"."""
    if not rate.runs:
        return "not run"
    low, high = rate.interval()
    return f"{rate.seen} of {rate.runs} ({100 * low:.0f} to {100 * high:.0f} %)"


def junit_of(night: Night, results: Sequence[ExhibitOutcome]) -> str:
    """A case for each exhibit: what is lost has failed, what nobody can tell is an error."""
    cases = []
    for each in results:
        shown = each.bug.shown
        cases.append(
            JUnitCase(
                classname=f"fencepost.{night.campaign}.{each.exhibit.system}",
                name=each.exhibit.id,
                ended=_ENDINGS.get(each.state),
                message="" if each.state is _DONE else each.reason,
                kind=each.state.value,
                output=each.reason if each.state is _DONE else "",
                properties={"report": shown[-1].report} if shown else {},
            )
        )
    return junit_xml([suite_of(night, sentence(results), cases, night.spent_s)], night.spent_s)


def _tally(tally: Tally) -> dict[str, Any]:
    low, high = tally.rate.interval()
    return {
        "shown": tally.rate.seen,
        "runs": tally.rate.runs,
        "interval": [round(low, 4), round(high, 4)],
        "undecided": tally.undecided,
        "runs_of_it": msgspec.to_builtins(tally.sightings),
    }


def _cell(tally: Tally) -> str:
    undecided = f", {tally.undecided} undecided" if tally.undecided else ""
    return f"{rate_in_words(tally.rate)}{undecided}"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
