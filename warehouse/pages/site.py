"""All pages, from values to files that need no server and no network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import command_line
from fencepost.harness.base.files import write_whole
from fencepost.harness.base.quantities import counted
from fencepost.harness.report.documents import typed_path
from fencepost.harness.report.page_kit import PageKit
from fencepost.harness.report.words import count
from fencepost.warehouse.pages import telling
from fencepost.warehouse.pages.drawing import findability_curve
from fencepost.warehouse.pages.tonight import gate_values, tonight_values
from fencepost.warehouse.pages.trends import trends_values
from fencepost.warehouse.pages.values import RUNS_TO_OPEN, ListedFinding, Overview

PAGES: Final = (
    ("Tonight", "index.html"),
    ("Matrix", "matrix.html"),
    ("Findings", "findings.html"),
    ("Trends", "trends.html"),
    ("Gate", "gate.html"),
)
#: Pages of findings that are no longer there are removed by this pattern.
_FINDING_PAGES: Final = "finding-F-*.html"
_LEGEND: Final = (
    ("✓", "valid", "valid"),
    ("✓", "none", "valid, without any fault"),
    ("≈", "valid", "known issue"),
    ("✗", "invalid", "invalid, or a canary that passed"),
    ("c", "valid", "made to fail (a canary), and invalid as it must be"),
    ("?", "unknown", "unknown"),
    ("!", "unknown", "lost, or the harness or the machine failed"),
    ("·", "none", "planned, not run"),
    ("", "empty", "not planned"),
)


def write_pages(overview: Overview, out: Path) -> list[Path]:
    """Write every page into the folder `out`, each whole or not at all; returns them, Tonight first."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages(overview):
        write_whole(out / name, text)
        written.append(out / name)
    for path in set(out.glob(_FINDING_PAGES)) - set(written):
        path.unlink()
    return written


def pages(overview: Overview) -> Iterator[tuple[str, str]]:
    """Every page by its file's name."""
    kit = _kit()
    yield "index.html", _page(kit, "tonight", "index.html", "Tonight", tonight_values(overview))
    matrix = {"matrix": overview.matrix, "nights": overview.latest, "legend": _LEGEND, "days": _days(overview)}
    yield "matrix.html", _page(kit, "matrix", "matrix.html", "Matrix", matrix)
    listed = {"findings": overview.findings, "days": _days(overview)}
    yield "findings.html", _page(kit, "findings", "findings.html", "Findings", listed)
    yield "trends.html", _page(kit, "trends", "trends.html", "Trends", trends_values(overview))
    yield "gate.html", _page(kit, "gate", "gate.html", "Gate", gate_values(overview))
    nights = {night.night: night.page for night in overview.nights}
    for each in overview.findings:
        values = {**_finding_values(each), "pages_of_nights": nights, "days": _days(overview)}
        yield each.page, _page(kit, "finding", each.page, each.finding.title, values)


def _days(overview: Overview) -> dict[str, str]:
    return {night.night: night.day for night in overview.nights}


def _finding_values(each: ListedFinding) -> dict[str, Any]:
    values = {"each": each, "curve": findability_curve(each)}
    if each.examples is None:
        return values
    fastest = typed_path(each.examples["fastest"])
    return {
        **values,
        "runs": [(why, each.examples[name]) for name, why in RUNS_TO_OPEN.items()],
        "shrink": command_line("shrink", fastest),
        "replay": command_line("replay", fastest, "--times", "10", "--until-invalid"),
    }


def _kit() -> PageKit:
    return PageKit(
        "fencepost.warehouse.pages",
        Path(__file__).with_name("templates").joinpath("nights.css").read_text(encoding="utf-8"),
        rests=telling.rests,
        clean=telling.clean,
        release_state=telling.release_state,
        tone=telling.tone_of,
        sign=telling.sign_of,
        state_tone=telling.state_tone,
        expected=telling.expected_text,
        seen=telling.seen,
        square_tone=telling.square_tone,
        square_sign=telling.square_sign,
        square_text=telling.square_text,
        percent=telling.percent,
        figure=telling.figure,
        counted=counted,
        grouped=count,
    )


def _page(kit: PageKit, template: str, here: str, title: str, values: dict[str, Any]) -> str:
    return kit.page(template, title=f"fencepost: {title}", here=here, pages=PAGES, **values)
