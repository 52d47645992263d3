"""The page, the exit code, JUnit, verdict.json and the warehouse say the same of a run, whatever its class."""

import html
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli import main
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import FACTS, read_table
from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.fact_tables import FactTables
from fencepost.warehouse.rebuild import rebuild
from fencepost.warehouse.sources import sources_of

FOUND: Final = Path(__file__).parents[1] / "histories" / "found" / "zookeeper-3.9.5-stale-after-sync"
REQUIRED: Final = 'require = [\n    "fresh-after-sync",\n]'
ENGINE: Final = "the container engine stopped answering"


def _edit_plan(folder: Path, before: str, after: str) -> None:
    plan = folder / store.PLAN
    text = plan.read_text(encoding="utf-8")
    assert before in text
    plan.write_text(text.replace(before, after), encoding="utf-8")


def _nothing(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The run as it was found: stale reads after a sync, which the plan requires to be fresh."""


def _not_required(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The same stale reads break no promise."""
    _edit_plan(folder, REQUIRED, "require = []")


def _too_few(folder: Path, patch: pytest.MonkeyPatch) -> None:
    _not_required(folder, patch)
    _edit_plan(folder, "effective_faults_min = 1", "effective_faults_min = 50")


def _engine_gone(folder: Path, patch: pytest.MonkeyPatch) -> None:
    _not_required(folder, patch)
    run = store.read_json(folder / store.RUN)
    store.write_json(folder / store.RUN, {**run, "failure": ENGINE})


def _contradicting(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A second checker that finds every violation calls the accused guarantee valid, and no proof settles it."""
    whole = registry.checker

    def checker(name: str) -> Callable[..., list[Verdict]]:
        kept = Verdict(checker="another", guarantee="fresh-after-sync", validity=Validity.VALID, complete=True)
        return lambda history, facts: [*whole(name)(history, facts), *([kept] if name == "freshness" else [])]

    patch.setattr(registry, "checker", checker)
    patch.setattr(registry, "confirmed", lambda history, verdict: False)


CLASSES: Final = {
    "valid": (_not_required, Validity.VALID, ExitCode.VALID),
    "invalid": (_nothing, Validity.INVALID, ExitCode.INVALID),
    "unknown": (_too_few, Validity.UNKNOWN, ExitCode.UNKNOWN),
    "cut short": (_engine_gone, Validity.UNKNOWN, ExitCode.UNKNOWN),
    "contradiction": (_contradicting, Validity.UNKNOWN, ExitCode.INTERNAL),
}


@pytest.mark.parametrize("name", CLASSES)
def test_all_of_them_say_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, validity, code = CLASSES[name]
    folder = tmp_path / "zookeeper-register-pause" / "20261123T000000.000Z"
    shutil.copytree(FOUND, folder)
    store.write_json(folder / store.RUN, {"format": 1, "run_id": "ab" * 16, "system_version": "3.9.5", "seed": 5})
    change(folder, monkeypatch)
    assert main(["check", str(folder)]) == code

    document = store.read_json(folder / store.VERDICT)
    said = {line["name"]: line["validity"] for line in document["guarantees"]}
    assert (document["validity"], document["exit_code"]) == (validity, code)

    page = (folder / store.REPORT).read_text(encoding="utf-8")
    assert f'<header class="verdict {validity}">' in page
    rows = re.findall(r'<tr class="(\w+)(?: beside)?">\s*<th scope="row">([\w-]+)', _table(page))
    assert {guarantee: shown for shown, guarantee in rows} == said

    suite = ET.parse(folder / store.JUNIT).getroot().find("testsuite")
    assert suite is not None
    assert (bool(int(suite.attrib["failures"])), bool(int(suite.attrib["errors"]))) == {
        Validity.VALID: (False, False),
        Validity.INVALID: (True, bool(int(suite.attrib["errors"]))),
        Validity.UNKNOWN: (False, True),
    }[validity]
    assert {case.attrib["name"] for case in suite.iter("testcase")} == set(said)

    kept = {name: read_table(folder / FACTS / f"{name}.parquet").to_pylist() for name in ("run", "guarantees")}
    (source,) = sources_of([folder])
    row, tables = rebuild(source)
    assert row["error"] is None and not row["changes"], row
    for run, guarantees in (
        (kept["run"], kept["guarantees"]),
        (tables["run"].to_pylist(), tables["guarantees"].to_pylist()),
    ):
        assert [(one["outcome"], one["exit_class"]) for one in run] == [(validity, code)]
        assert {one["guarantee"]: one["validity"] for one in guarantees} == said
        assert run[0]["headline"] == document["headline"]
    if name == "cut short":
        _assert_told(document, page, suite, tables)


def _table(page: str) -> str:
    found = re.search(r'<table class="guarantees.*?</table>', page, re.DOTALL)
    assert found is not None
    return found.group()


def _assert_told(document: dict[str, Any], page: str, suite: ET.Element, tables: FactTables) -> None:
    """Each of them says what ended the run."""
    assert ENGINE in document["headline"] and ENGINE in html.unescape(page)
    assert any(ENGINE in case.attrib["message"] for case in suite.iter("error"))
    assert ENGINE in tables["run"].to_pylist()[0]["cut_short"]
