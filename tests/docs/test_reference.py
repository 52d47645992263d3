"""The reference says what the program says: pages made from it are up to date, and every model has its line."""

import re

import pytest

from fencepost.harness.interchange.formats.family import FAMILIES
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
