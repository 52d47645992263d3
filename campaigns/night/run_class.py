"""The class of a run: decided by one function from its verdict.json and from how its process ended.

    valid, invalid       as the verdict says
    known                invalid, and an issue in force covers every fingerprint that decides
    unknown-coverage     the run put too little to the test (a valid run without an effective fault, though it asks for
                         one, too), or what it saw fits a kept and a broken guarantee
    unknown-budget       the checkers' budget was spent, or the night's
    unknown-disturbed    the run's own figures say that it stood still while other runs were beside it
    harness              fencepost failed: no verdict, a checker that raised, checkers that contradict each other, a
                         verdict that is not this run's, a run that stood still though nothing was beside it
    machine              this machine cannot do what the plan asks, or other work on it held the processors for which
                         the run waited while it stood still
    lost                 the run was begun and never reported
    not-run              it was never begun

Nothing here is ever greener than the verdict: what cannot be read is `harness`.
"""

import datetime
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.cells import NightCell
from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.findings.known_issues import TrackedIssue, uncovered
from fencepost.harness.history import FaultOutcome
from fencepost.harness.report import documents
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Cause, Validity
from fencepost.harness.verdict.by_guarantee import COVERAGE
from fencepost.harness.verdict.figures import LOOP_LAG, STALLED_BY

#: From this lag of its own timer on, a run that decided nothing beside others is taken for disturbed by them.
DISTURBED_LAG_NS: Final = 250_000_000


class RunClass(StrEnum):
    VALID = "valid"
    INVALID = "invalid"
    KNOWN = "known"
    UNKNOWN_COVERAGE = "unknown-coverage"
    UNKNOWN_BUDGET = "unknown-budget"
    UNKNOWN_DISTURBED = "unknown-disturbed"
    HARNESS = "harness"
    MACHINE = "machine"
    LOST = "lost"
    NOT_RUN = "not-run"

    @property
    def is_judged(self) -> bool:
        """Whether a verdict decided it."""
        return self in (RunClass.VALID, RunClass.INVALID, RunClass.KNOWN)

    @property
    def is_green(self) -> bool:
        """Whether a night may be green with it."""
        return self in (RunClass.VALID, RunClass.KNOWN)


class RunEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run that ended.

    `exit_code` is that of its process, negative for a signal, None when nobody saw it end. `document` is its
    verdict.json, None without a readable one, and `failure` why. `late`: it was stopped at its deadline. `cut`: it was
    stopped by the end of the night. `company`: how many runs were in flight with it at some time.
    """

    exit_code: int | None
    document: dict[str, Any] | None = None
    failure: str = ""
    late: bool = False
    cut: bool = False
    company: int = 0


class Classed(msgspec.Struct, frozen=True, kw_only=True):
    """A class and the reason in one line; `known` are the fingerprints that known issues cover."""

    run_class: RunClass
    reason: str = ""
    known: tuple[str, ...] = ()


def classify(
    evidence: RunEvidence, cell: NightCell, seed: int, issues: Sequence[TrackedIssue], today: datetime.date
) -> Classed:
    """Decide the class of a run of `cell` with `seed`.

    Args:
        evidence: how the run ended, and its verdict.
        issues: known issues; a canary has none, since it must fail.
        today: the night's date, by which issues expire.
    """
    document = evidence.document
    if document is None:
        return _without_verdict(evidence)
    foreign = _foreign(document, cell, seed)
    if foreign:
        return Classed(run_class=RunClass.HARNESS, reason=foreign)
    validity = Validity(document["validity"])
    if validity is Validity.INVALID:
        return _invalid(document, () if cell.canary else issues, today)
    code = document["exit_code"]
    if code == ExitCode.INTERNAL:
        return Classed(run_class=RunClass.HARNESS, reason=document["headline"])
    if validity is Validity.UNKNOWN:
        return _unknown(evidence, document)
    if evidence.exit_code not in (None, ExitCode.VALID) or code != ExitCode.VALID:
        reason = f"its verdict is valid, and it ended with {evidence.exit_code}"
        return Classed(run_class=RunClass.HARNESS, reason=reason)
    nemesis = nemesis_of(cell)
    if nemesis and not any(faults_of(document).values()):
        return Classed(
            run_class=RunClass.UNKNOWN_COVERAGE, reason=f"it is valid, and no fault of {nemesis!r} took hold"
        )
    return Classed(run_class=RunClass.VALID)


def nemesis_of(cell: NightCell) -> str:
    """The faults that a cell asks for, as its plan names them; empty: it asks for none."""
    plan = cell.plan
    return "" if plan.nemesis.strip() == "none" else plan.nemesis or plan.schedule


def evidence_of(folder: Path | None, exit_code: int | None, log: Path) -> RunEvidence:
    """Read what a run left: its verdict, or the last error line of its log."""
    document, failure = None, ""
    if folder is not None and (folder / store.VERDICT).exists():
        try:
            document = documents.read_verdict(folder / store.VERDICT)
        except UsageError as error:
            failure = error.message
    return RunEvidence(exit_code=exit_code, document=document, failure=_error_line(log) or failure)


def fingerprints_of(document: dict[str, Any] | None, *, decide: bool = True) -> tuple[str, ...]:
    """Every fingerprint of the anomalies that decide, or of those that do not, the first one first."""
    deciding = [a for a in (document or {}).get("anomalies", ()) if bool(a.get("decides")) is decide]
    return tuple(dict.fromkeys(text for a in deciding for text in a.get("fingerprints") or [a["fingerprint"]]))


def shown_by(document: dict[str, Any] | None) -> dict[str, Any]:
    """What a verdict shows, by the fields of an attempt that have it; a guarantee that nobody counted is left out."""
    known = document or {}
    return {
        "fingerprints": fingerprints_of(document),
        "undecisive": fingerprints_of(document, decide=False),
        "anomalies": tuple(dict.fromkeys(a["anomaly"] for a in known.get("anomalies", ()) if a.get("decides"))),
        "exposures": {
            g["name"]: g["exposure"] for g in known.get("guarantees", ()) if isinstance(g.get("exposure"), int)
        },
        "faults": faults_of(document),
        "mechanisms": known.get("mechanisms") or {},
        "lag_ms": lag_ns_of(document) // 1_000_000,
    }


def faults_of(document: dict[str, Any] | None) -> dict[str, int]:
    """How many faults of each kind that was tried were proven to have taken hold."""
    kinds: dict[str, dict[str, int]] = (document or {}).get("faults") or {}
    return {kind: of.get(FaultOutcome.INSTALLED, 0) for kind, of in kinds.items()}


def lag_ns_of(document: dict[str, Any] | None) -> int:
    """How late the run's own timer was at worst."""
    return max((f[LOOP_LAG]["value"] for f in _coverage(document) if LOOP_LAG in f), default=0)


def stalled_by(document: dict[str, Any] | None) -> str:
    """Who stalled in the main phase, as `checkers.derived.clocks.stalled_by` says it; empty where nobody did."""
    return next((f[STALLED_BY] for f in _coverage(document) if f.get(STALLED_BY)), "")


def _coverage(document: dict[str, Any] | None) -> list[dict[str, Any]]:
    return [v.get("figures", {}) for v in (document or {}).get("verdicts", ()) if v.get("checker") == COVERAGE]


def _without_verdict(evidence: RunEvidence) -> Classed:
    why = evidence.failure
    if evidence.late:
        return Classed(run_class=RunClass.HARNESS, reason="it did not end by its deadline, and left no verdict")
    if evidence.cut:
        return Classed(run_class=RunClass.UNKNOWN_BUDGET, reason="the night ended before it was judged")
    match evidence.exit_code:
        case ExitCode.USAGE:
            return Classed(run_class=RunClass.MACHINE, reason=why or "it was refused before its cluster started")
        case None | ExitCode.STOPPED:
            return Classed(run_class=RunClass.LOST, reason=why or "it was ended before it was judged")
        case code if code < 0:
            return Classed(run_class=RunClass.HARNESS, reason=f"its process was killed by signal {-code}")
        case code:
            return Classed(run_class=RunClass.HARNESS, reason=why or f"it ended with {code} and left no verdict")


def _foreign(document: dict[str, Any], cell: NightCell, seed: int) -> str:
    """Why a verdict is not that of this run; empty: it is."""
    wanted = {"system": cell.plan.system, "workload": cell.plan.workload, "seed": seed}
    for name, value in wanted.items():
        if document.get(name) != value:
            return f"its verdict is of {name} {document.get(name)!r}, and the plan says {value!r}"
    return ""


def _invalid(document: dict[str, Any], issues: Sequence[TrackedIssue], today: datetime.date) -> Classed:
    fingerprints = fingerprints_of(document)
    version = str(document.get("version") or "")
    left = uncovered(fingerprints, version, issues, today)
    known = tuple(f for f in fingerprints if f not in left)
    if fingerprints and not left:
        return Classed(run_class=RunClass.KNOWN, reason=document["headline"], known=known)
    beside = f"; beside {len(known)} that are known: {', '.join(left)}" if known else ""
    return Classed(run_class=RunClass.INVALID, reason=f"{document['headline']}{beside}", known=known)


def _unknown(evidence: RunEvidence, document: dict[str, Any]) -> Classed:
    """By the gravest cause of the verdicts that may have kept the run from being valid."""
    reason = document["headline"]
    causes = _causes(document)
    if evidence.late:
        return Classed(run_class=RunClass.HARNESS, reason=f"it was stopped at its deadline; {reason}")
    if Cause.FAILED in causes:
        return Classed(run_class=RunClass.HARNESS, reason=reason)
    if evidence.cut:
        return Classed(run_class=RunClass.UNKNOWN_BUDGET, reason=f"the night ended; {reason}")
    lag_ns = lag_ns_of(document)
    stalled = Cause.STALLED in causes
    if stalled or (evidence.company and lag_ns >= DISTURBED_LAG_NS):
        if evidence.company:
            beside = f"{evidence.company} runs were beside it, its timer was late by {lag_ns / 1e6:.0f} ms"
            return Classed(run_class=RunClass.UNKNOWN_DISTURBED, reason=f"{beside}; {reason}")
        if stalled_by(document) == "machine":
            reason = f"other work on this machine held the processors that it waited for; {reason}"
            return Classed(run_class=RunClass.MACHINE, reason=reason)
        return Classed(run_class=RunClass.HARNESS, reason=f"it stood still though nothing ran beside it; {reason}")
    if Cause.CUT_SHORT in causes:
        return Classed(run_class=RunClass.HARNESS, reason=reason)
    if Cause.OUT_OF_BUDGET in causes:
        return Classed(run_class=RunClass.UNKNOWN_BUDGET, reason=reason)
    return Classed(run_class=RunClass.UNKNOWN_COVERAGE, reason=reason)


def _causes(document: dict[str, Any]) -> set[Cause]:
    """The causes of what is unknown and weighs: of coverage and of guarantees that decide, else of all."""
    unknown = [v for v in document["verdicts"] if v["validity"] == Validity.UNKNOWN and v.get("weighs", True)]
    decisive = [v for v in unknown if v["checker"] == COVERAGE or v.get("decides") or v.get("cause") == Cause.FAILED]
    return {Cause(v["cause"]) for v in decisive or unknown if v.get("cause") in list(Cause)}


def _error_line(log: Path) -> str:
    """The last "error: ..." of a run's log; empty without one."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("error: ") for line in reversed(lines) if line.startswith("error: ")), "")
