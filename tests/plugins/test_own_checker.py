"""The checker of the how-to page, as a newcomer writes it: one file of at most 20 lines, with its guarantee."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from fencepost.harness.cli.listing import listing
from fencepost.harness.judging.judge import facts_of
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Cause, Standing, Validity
from tests.cases.language import facts_of as facts_of_case
from tests.cases.language import read
from tests.cases.test_cases import answer
from tests.plugins.without import plugins_of_this_test_alone

PAGE: Final = (Path(__file__).parents[2] / "docs/how-to/add-a-checker.md").read_text(encoding="utf-8")
CODE: Final = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
CASE: Final = re.findall(r"```\n(case .*?)```", PAGE, re.DOTALL)[0]
MORE: Final = """
case reads that grow are valid
  10..20 n1 read c -> 3
  40..50 n2 read c -> 3
  60..70 n1 read c -> 4
  60..70 n1 read d -> 1
  => valid: counter-never-falls 2

case one read of each counter tests nothing
  10..20 n1 read c -> 3
  40..50 n2 read d -> 1
  60..70 n2 read c info timeout
  => untested: counter-never-falls
"""
#: A workload that is judged by it.
WORKLOAD: Final = """
from fencepost.workloads.register import RegisterWorkload

class Counting(RegisterWorkload):
    name = "counting"
    def checkers(self, system, options):
        return ("counter-never-falls",)

WORKLOADS = {"counting": Counting}
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path) -> Iterator[Path]:
    """An empty package with the page's file alone."""
    with plugins_of_this_test_alone():
        (tmp_path / "never_falls.py").write_text(CODE, encoding="utf-8")
        registry.use_plugins([tmp_path / "never_falls.py"])
        yield tmp_path


def test_the_page_has_one_short_file() -> None:
    assert len(CODE.splitlines()) <= 20
    assert "counter-never-falls A read shows no less than any read" in " ".join(listing("checkers").split())


def test_it_judges_histories_as_the_page_says(package: Path) -> None:
    (package / "counter.case").write_text(f"checker counter-never-falls\n{CASE}{MORE}", encoding="utf-8")
    forms = read(package / "counter.case")
    assert [answer(form) for form in forms] == [form.answer for form in forms]
    invalid, valid, untested = (
        registry.checker("counter-never-falls")(form.history(), facts_of_case(form))[0] for form in forms
    )
    assert (invalid.validity, invalid.reason) == (Validity.INVALID, "1 fallen counter")
    assert invalid.witnesses[0].steps[1].startswith("20 ms later read of c by process")
    assert (valid.validity, valid.tested) == (Validity.VALID, 2)
    assert (untested.cause, untested.reason) == (Cause.NO_EXPOSURE, "no reads of a counter that had been read before")


def test_its_guarantee_decides_a_run_that_names_it(package: Path) -> None:
    (package / "counting.py").write_text(WORKLOAD, encoding="utf-8")
    registry.use_plugins([package / "counting.py"])
    checked = check_plan(Plan(system="example", workload="counting", nemesis="none", seed=1))
    facts = facts_of(checked, checked.system.releases.default)
    stated = facts.guarantee("counter-never-falls")
    assert stated is not None and stated.standing is Standing.PROMISED
    assert facts.decides("counter-never-falls")
