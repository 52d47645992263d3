"""The reference says what the program says: pages made from it are up to date, and every model has its line."""

import re

import pytest

from fencepost.harness.interchange.formats.family import FAMILIES
from fencepost.harness.plugins import catalogue
from tests.docs.pages import DOCS
from tools import reference


@pytest.mark.parametrize(
    "name",
    ["commands.md", "consistency-models.md", "systems.md", "workloads.md", "faults.md", "guarantees.md", "checkers.md"],
)
def test_pages_are_up_to_date(name: str) -> None:
    page = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert reference.pages()[name] == page, "run: python -m tools.reference --write"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_model_has_its_line(family: str) -> None:
    text = (DOCS / "reference" / "models.md").read_text(encoding="utf-8")
    assert re.search(rf"^\|.*`{family}[`:]", text, re.M), f"the table of models.md lacks {family}"


@pytest.mark.parametrize("kind", ["systems", "workloads", "faults"])
def test_every_option_and_target_has_its_row(kind: str) -> None:
    page = reference.pages()[f"{kind}.md"]
    options, of = set(), ""
    for cells in (line.split(" | ") for line in page.partition("## Options")[2].splitlines() if line.startswith("| ")):
        of = cells[0].strip("| *") or of
        options |= {(name, cells[1].strip("`")) for name in of.split(", ")}
    shared = {name for of, name in options if of == f"all {kind}"}
    for entry in catalogue.kind(kind).entries:
        assert {row.name for row in entry.options} - shared == {name for of, name in options if of == entry.name}
        for section in entry.sections:
            if f"| {section.title.lower()} |" in page:
                (row,) = re.findall(rf"^\| `{entry.name}` \|.*$", page, re.M)
                ((name, text),) = section.rows
                assert f"`{name}`" in row or reference.as_text(text) in row, (entry.name, section.title)
                continue
            rows = page.partition(f"## {section.title}\n")[2].partition("\n## ")[0].splitlines()
            of_entry = [row for row in rows if row.endswith("| all |") or re.search(rf"[|,] {entry.name}[, ]", row)]
            names = [name for name, _ in section.rows if not {name, section.title} & reference.ELSEWHERE.keys()]
            for name in [name.split(", ")[0] for name in names]:
                assert any(f"`{name}`" in row for row in of_entry), (entry.name, section.title, name)
