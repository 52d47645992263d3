"""The class of a run, from how its process ended and what its verdict says: never greener than the verdict."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.campaigns.night.run_class import RunClass, RunEvidence, classify, evidence_of
from fencepost.harness.findings.known_issues import TrackedIssue
from tests.campaigns.night.made import FINGERPRINT, OTHER, cell, document

TODAY = datetime.date(2026, 11, 23)
ISSUE = TrackedIssue(fingerprint=FINGERPRINT, link="x", owner="o", expires=TODAY, versions=("0.1.0",))
STALL: dict[str, Any] = {"cause": "stalled", "lag_ns": 900_000_000}


@pytest.mark.parametrize(
    ("evidence", "run_class", "reason"),
    [
        (RunEvidence(exit_code=0, document=document()), RunClass.VALID, ""),
        (RunEvidence(exit_code=None, document=document()), RunClass.VALID, ""),
        (RunEvidence(exit_code=255, document=document()), RunClass.HARNESS, "it ended with 255"),
        (RunEvidence(exit_code=0, document=document(seed=3)), RunClass.HARNESS, "its verdict is of seed 3"),
        (RunEvidence(exit_code=0, document={**document(), "system": "etcd"}), RunClass.HARNESS, "of system 'etcd'"),
        (RunEvidence(exit_code=1, document=document("invalid")), RunClass.INVALID, "it is invalid"),
        (RunEvidence(exit_code=1, document=document("invalid", fingerprints=[FINGERPRINT])), RunClass.KNOWN, ""),
        (RunEvidence(exit_code=1, document=document("invalid", fingerprints=[OTHER])), RunClass.INVALID, ""),
        (
            RunEvidence(exit_code=1, document=document("invalid", fingerprints=[FINGERPRINT]), late=True),
            RunClass.KNOWN,
            "",
        ),
        (RunEvidence(exit_code=255, document=document("unknown", exit_code=255)), RunClass.HARNESS, ""),
        (RunEvidence(exit_code=2, document=document("unknown", cause="no-exposure")), RunClass.UNKNOWN_COVERAGE, ""),
        (RunEvidence(exit_code=2, document=document("unknown", cause="undecided")), RunClass.UNKNOWN_COVERAGE, ""),
        (RunEvidence(exit_code=2, document=document("unknown", cause="out-of-budget")), RunClass.UNKNOWN_BUDGET, ""),
        (RunEvidence(exit_code=2, document=document("unknown", cause="failed")), RunClass.HARNESS, ""),
        (RunEvidence(exit_code=2, document=document("unknown", cause="cut-short")), RunClass.HARNESS, ""),
        (
            RunEvidence(exit_code=2, document=document("unknown", cause="cut-short"), cut=True),
            RunClass.UNKNOWN_BUDGET,
            "the night ended",
        ),
        (
            RunEvidence(exit_code=2, document=document("unknown", **STALL), company=1),
            RunClass.UNKNOWN_DISTURBED,
            "900 ms",
        ),
        (RunEvidence(exit_code=2, document=document("unknown", **STALL)), RunClass.HARNESS, "nothing ran beside it"),
        (
            RunEvidence(exit_code=2, document=document("unknown", stalled_by="machine", **STALL)),
            RunClass.MACHINE,
            "other work on this machine held the processors",
        ),
        (
            RunEvidence(exit_code=2, document=document("unknown", stalled_by="harness", **STALL)),
            RunClass.HARNESS,
            "still",
        ),
        (
            RunEvidence(exit_code=2, document=document("unknown", stalled_by="machine", **STALL), company=1),
            RunClass.UNKNOWN_DISTURBED,
            "900 ms",
        ),
        (
            RunEvidence(exit_code=2, document=document("unknown", cause="no-exposure", lag_ns=300_000_000), company=2),
            RunClass.UNKNOWN_DISTURBED,
            "2 runs were beside it",
        ),
        (RunEvidence(exit_code=254, failure="no engine"), RunClass.MACHINE, "no engine"),
        (RunEvidence(exit_code=255, failure="did not start"), RunClass.HARNESS, "did not start"),
        (RunEvidence(exit_code=-9), RunClass.HARNESS, "killed by signal 9"),
        (RunEvidence(exit_code=-9, late=True), RunClass.HARNESS, "its deadline"),
        (RunEvidence(exit_code=-9, cut=True), RunClass.UNKNOWN_BUDGET, "the night ended"),
        (RunEvidence(exit_code=130), RunClass.LOST, "ended before it was judged"),
        (RunEvidence(exit_code=None), RunClass.LOST, ""),
        (RunEvidence(exit_code=0), RunClass.HARNESS, "left no verdict"),
    ],
)
def test_the_class_of_a_run(evidence: RunEvidence, run_class: RunClass, reason: str) -> None:
    classed = classify(evidence, cell("c"), 0, (ISSUE,), TODAY)
    assert classed.run_class is run_class and reason in classed.reason, classed


@pytest.mark.parametrize("change", [{"expires": TODAY - datetime.timedelta(days=1)}, {"versions": ("9.9",)}])
def test_an_issue_out_of_force_or_scope_covers_nothing(change: dict[str, Any]) -> None:
    fields = {"fingerprint": FINGERPRINT, "link": "x", "owner": "o", "expires": TODAY, **change}
    evidence = RunEvidence(exit_code=1, document=document("invalid", fingerprints=[FINGERPRINT]))
    classed = classify(evidence, cell("c"), 0, (TrackedIssue(**fields),), TODAY)
    assert classed.run_class is RunClass.INVALID


def test_no_issue_covers_a_canary() -> None:
    evidence = RunEvidence(exit_code=1, document=document("invalid", fingerprints=[FINGERPRINT]))
    assert classify(evidence, cell("c", canary=True), 0, (ISSUE,), TODAY).run_class is RunClass.INVALID


def test_a_verdict_that_cannot_be_read_is_none_and_the_log_says_why(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("begun\nerror: the cluster did not start\nhint: look\n")
    assert evidence_of(None, 255, log) == RunEvidence(exit_code=255, failure="the cluster did not start")
    log.write_text("")
    assert evidence_of(tmp_path, 130, log) == RunEvidence(exit_code=130)
    (tmp_path / "verdict.json").write_text(json.dumps({"format": 99}))
    assert "format 99" in evidence_of(tmp_path, 0, log).failure
    (tmp_path / "verdict.json").write_text('{"format": 1, ')
    evidence = evidence_of(tmp_path, 0, log)
    assert evidence.document is None and "not JSON" in evidence.failure
