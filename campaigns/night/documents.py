"""The files of a night: index.html, campaign.json, junit.xml, summary.md; each is written whole, also while it runs.

summary.md is the night in at most 60 lines, as a CI job shows it beside its steps.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.junit import junit_of
from fencepost.campaigns.night.night import CellOutcome, Night
from fencepost.campaigns.night.outcome import NightOutcome, outcome
from fencepost.campaigns.night.page import page
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.telling import about, class_in_words, counted, from_here, sign_of
from fencepost.harness.base.files import write_whole

LINES_MAX: Final = 60
_REASONS_MAX: Final = 15
_ROWS_MAX: Final = 25
_TEXT_MAX: Final = 220


def summary_md(night: Night, outcome: NightOutcome) -> str:
    """The text; what does not fit is counted, never dropped without a word."""
    sign = "✅ green" if outcome.is_green else f"❌ exit code {int(outcome.exit_code)}"
    lines = [f"## {_cell(night.id)}: {sign}", "", _cell(outcome.sentence), "", about(night), ""]
    canaries = [each for each in night.cells if each.cell.canary]
    caught = sum(each.is_caught for each in canaries)
    lines += [f"Canaries, expected to be invalid: {caught} of {len(canaries)} caught.", ""]
    lines += _listed([f"- {_cell(reason.text)}" for reason in outcome.reasons], _REASONS_MAX, "reasons")
    ordered = sorted(night.cells, key=_urgency)
    rows = [f"| {sign_of(o)} {class_in_words(o)} | {_cell(o.cell.name)} | {_note(o)} |" for o in ordered]
    lines += ["", "| | cell | |", "| --- | --- | --- |", *_listed(rows, _ROWS_MAX, "cells", row=True)]
    return "\n".join(lines[:LINES_MAX]) + "\n"


def _listed(lines: list[str], most: int, what: str, *, row: bool = False) -> list[str]:
    if len(lines) <= most:
        return lines
    more = f"{len(lines) - most} more {what}: index.html has all"
    return [*lines[:most], f"| | {more} | |" if row else f"- {more}"]


def _urgency(each: CellOutcome) -> tuple[int, int]:
    """What somebody must look at first; within a class as the campaign has it."""
    order = (RunClass.INVALID, RunClass.LOST, RunClass.HARNESS, RunClass.MACHINE)
    if each.cell.canary:
        return 5, 0
    if each.run_class in order:
        return order.index(each.run_class), 0
    return (8 if each.run_class is RunClass.NOT_RUN else 7 if each.run_class.is_green else 6), 0


def _note(each: CellOutcome) -> str:
    parts = ["canary" * each.cell.canary, "control" * each.cell.control, "required" * each.cell.required, counted(each)]
    if each.exposure:
        parts.append(f"tested {each.exposure} time{'' if each.exposure == 1 else 's'}")
    return _cell("; ".join(part for part in parts if part))


def _cell(text: str) -> str:
    """Text that cannot break a table or become markup."""
    line = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return line if len(line) <= _TEXT_MAX else f"{line[: _TEXT_MAX - 1]}…"


DOCUMENT: Final = "campaign.json"
PAGE: Final = "index.html"
JUNIT: Final = "junit.xml"
SUMMARY: Final = "summary.md"


#: What makes each file of a night, by name: a text, or data for JSON.
Files = Mapping[str, Callable[[], Any]]


def document(night: Night, result: NightOutcome) -> dict[str, Any]:
    """What campaign.json holds: the night as `campaigns.night.night` has it, and its outcome."""
    data: dict[str, Any] = msgspec.to_builtins(night)
    return {**data, "outcome": {**msgspec.to_builtins(result), "green": result.is_green}}


def files_of(night: Night, folder: Path, expected_end_s: float | None = None) -> Files:
    """All four files of a night in its folder, what a gate reads first."""
    result = outcome(night)
    return {
        DOCUMENT: lambda: document(night, result),
        JUNIT: lambda: junit_of(night, result, from_here(folder)),
        SUMMARY: lambda: summary_md(night, result),
        PAGE: lambda: page(night, result, from_here(folder), expected_end_s=expected_end_s),
    }


def write_documents(
    night: Night, folder: Path, *, expected_end_s: float | None = None, warn: Callable[[str], None] = lambda _: None
) -> NightOutcome:
    """Write all four files into the night's folder; returns the outcome that they tell."""
    write_each(files_of(night, folder, expected_end_s), folder, warn)
    return outcome(night)


def json_text(data: Any) -> str:
    """Return data as the text of a JSON file."""
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"


def write_each(files: Files, folder: Path, warn: Callable[[str], None]) -> None:
    """Make and write each file of a night.

    A file that cannot be written costs itself and is told to `warn`: neither a full disk nor a defect of the page may
    end a night, whose register has everything.
    """
    for name, make in files.items():
        try:
            made = make()
            write_whole(folder / name, made if isinstance(made, str) else json_text(made))
        except Exception as error:
            warn(f"{name} could not be written: {type(error).__name__}: {error}")
