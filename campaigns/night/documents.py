"""The files of a night: index.html, campaign.json, junit.xml, summary.md; each is written whole, also while it runs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.junit import junit_of
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.outcome import NightOutcome, outcome
from fencepost.campaigns.night.page import page
from fencepost.campaigns.night.summary import summary_md
from fencepost.campaigns.night.telling import from_here
from fencepost.harness.base.files import write_whole

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
