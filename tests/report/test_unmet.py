"""Terminal, page, JUnit and verdict.json say which condition of a promise was not met, and through which faults."""

import html
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from fencepost.harness.cli.output.verdict_text import say_judgement
from fencepost.harness.history import DiskEffect, Effects, History
from fencepost.harness.judging.judge import in_this_run
from fencepost.harness.judging.judgement import conclude
from fencepost.harness.report.documents import junit_of, verdict_document
from fencepost.harness.report.page import render
from fencepost.harness.report.section import ReportCase
from fencepost.harness.runtime.node import members_alike
from fencepost.harness.verdict import MINORITY_DAMAGED, Condition, Guarantee, Standing, Validity, Verdict
from fencepost.harness.verdict.figures import Traced
from tests.checkers.build import Tale, facts
from tests.report import sample

CONDITIONS: Final = (MINORITY_DAMAGED, Condition(loss=DiskEffect.UNSYNCED, most=1))
SAID: Final = (
    "promised only while at most 1 of the voters lose what they had not synced; in this run it was 3 of 3 (faults #1"
    " strange of n1, n2; #2 strange of n3)"
)


@pytest.mark.parametrize("required", [(), ("kept",)])
def test_every_reader_is_told_which_condition_was_not_met(
    required: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    case, validity = _case(required), Validity.INVALID if required else Validity.VALID
    assert case.validity is validity
    line, _ = verdict_document(case)["guarantees"]
    assert (line["standing"], line["decides"]) == ("measured", bool(required))
    assert line["conditions"] == [condition.text for condition in CONDITIONS]
    assert line["unmet"] == {
        "condition": CONDITIONS[1].text,
        "standing": "promised",
        "nodes": ("n1", "n2", "n3"),
        "faults": (0, 1),
        "events": tuple(range(8)),
        "text": SAID,
    }
    page = render(case).html
    assert SAID in html.unescape(page)
    told = ET.fromstring(junit_of(case)).find(".//testcase[@name='kept']")
    assert told is not None
    assert (told.find("failure") is not None) == bool(required)
    assert required or SAID in (told.findtext("system-out") or "")
    say_judgement(conclude(case.history, case.facts, case.verdicts))
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith(validity.value.upper())
    assert f"Nobody promises it of this run: it is {SAID}." in out
    assert out.count(SAID) == 2


def _case(required: tuple[str, ...]) -> ReportCase:
    history = _struck()
    kept = Guarantee(
        name="kept", standing=Standing.PROMISED, text="It is kept.", source="a book", conditions=CONDITIONS
    )
    stated = facts(guarantees=(in_this_run(kept, history, members_alike(3)),), read_guarantee="kept", required=required)
    lost = Verdict(checker="set", guarantee="kept", validity=Validity.INVALID, anomalies={"lost-element": Traced(2)})
    covered = Verdict(checker="coverage", guarantee="coverage", validity=Validity.VALID)
    judged = conclude(history, stated, (lost, covered))
    return sample.case(history, judged.verdicts, judged.validity, judged.headline, facts=stated)


def _struck() -> History:
    tale = Tale()
    for number, nodes in enumerate((("n1", "n2"), ("n3",))):
        at = 10 * number
        tale.fault("strange", nodes, (at, at + 1, at + 5, at + 6), effects=Effects(disk=DiskEffect.UNSYNCED))
    return tale.history()
