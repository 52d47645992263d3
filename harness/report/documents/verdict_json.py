"""`verdict.json`: the verdict for gates and scripts (docs/reference/verdict-format.md documents the format).

The document stands alone: a witness carries its events, a guarantee its standing and source. A reader refuses a format
version that it does not know, since a misread verdict is worse than none.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import SCHEMA_VERSION, FaultOutcome, Outcome, ending_of
from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.tables.quorum import quorum_document
from fencepost.harness.report.words.wording import text
from fencepost.harness.verdict import Validity, Verdict, Witness
from fencepost.harness.verdict.by_guarantee import by_guarantee, counts, exit_code, plain_figures
from fencepost.harness.verdict.fingerprint import anomalies

FORMAT: Final = 2
#: Formats that are read. Format 1 had `stories` too.
READABLE: Final = (1, FORMAT)

#: A witness with more events keeps their indexes; the events themselves are in the history.
EVENTS_MAX: Final = 64
#: Of the rows behind a figure, and of those behind a figure of a row in a list, so many are named.
ROWS_MAX: Final = 1_000
ROWS_OF_ROW_MAX: Final = 200

_FILES: Final = {
    "plan": "plan.toml",
    "run": "run.json",
    "history": "history.parquet",
    "schedule": "schedule.jsonl",
    "junit": "junit.xml",
    "report": "report.html",
}

_NEEDED: Final = {
    "validity": str,
    "headline": str,
    "exit_code": int,
    "system": str,
    "workload": str,
    "guarantees": list,
    "verdicts": list,
    "anomalies": list,
}


def verdict_document(case: ReportCase) -> dict[str, Any]:
    """The document as plain data (strings, numbers, lists, objects)."""
    listed = _anomalies(case)
    return {
        "format": FORMAT,
        "validity": case.validity.value,
        "exit_code": int(exit_code(case.validity, case.verdicts, case.facts)),
        "headline": case.headline,
        "system": case.facts.system,
        "version": _plain(case.fact("version")),
        "workload": case.facts.workload,
        "nemesis": list(case.facts.nemesis),
        "nodes": list(case.facts.nodes),
        "seed": _plain(case.fact("seed")),
        "settings": _plain(case.settings),
        "started_at": _plain(case.fact("started_at")),
        "duration_ns": case.history.end_ns,
        **msgspec.to_builtins(ending_of(case.history, case.facts.planned_ns, case.facts.failure)),
        "command": case.command,
        "fingerprint": next((a["fingerprint"] for a in listed if a["decides"]), None),
        "anomalies": listed,
        "guarantees": _guarantees(case),
        "verdicts": [_verdict(case, v) for v in case.verdicts],
        "operations": _operations(case),
        "faults": _faults(case),
        "quorum": quorum_document(case),
        "history_schema": SCHEMA_VERSION,
        "files": dict(case.files or _FILES),
    }


def write(document: Mapping[str, Any], path: Path) -> None:
    """Write the document whole or not at all."""
    data = msgspec.json.format(msgspec.json.encode(document), indent=2)
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        hidden.write_bytes(data + b"\n")
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    """Read a document of this format; raises UsageError that names the file and what is wrong with it."""
    try:
        document = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="`fencepost check` on the run's folder makes it") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(
            f"{path}: not JSON: {error}", hint="`fencepost check` on the run's folder makes it again"
        ) from None
    if not isinstance(document, dict) or document.get("format") not in READABLE:
        version = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise UsageError(
            f"{path}: format {version!r} where {FORMAT} was expected",
            hint="`fencepost check` on the run's folder makes it again in this version's format",
        )
    for name, kind in _NEEDED.items():
        if not isinstance(document.get(name), kind):
            raise UsageError(f"{path}: {name!r}: expected {kind.__name__}, got {document.get(name)!r}")
    if document["validity"] not in list(Validity):
        raise UsageError(f"{path}: 'validity': expected one of {', '.join(Validity)}, got {document['validity']!r}")
    return document


def _anomalies(case: ReportCase) -> list[dict[str, Any]]:
    """Every anomaly by name, those that decide first."""
    return [
        {
            "fingerprint": anomaly.fingerprints[0],
            "fingerprints": list(anomaly.fingerprints),
            "guarantee": anomaly.guarantee,
            "anomaly": anomaly.anomaly,
            "count": anomaly.count,
            "decides": anomaly.decides,
        }
        for anomaly in anomalies(case.history, case.facts, case.verdicts, case.effect_free)
    ]


def _guarantees(case: ReportCase) -> list[dict[str, Any]]:
    out = []
    for line in by_guarantee(case.verdicts, case.facts):
        name, guarantee = line.name, case.facts.guarantee(line.name)
        out.append(
            {
                "name": name,
                "validity": line.validity.value,
                "contradiction": line.contradiction,
                "decides": case.facts.decides(name),
                "required": name in case.facts.required,
                "standing": guarantee.standing.value if guarantee else None,
                "text": guarantee.text if guarantee else None,
                "source": guarantee.source if guarantee else None,
                "known_issue": guarantee.known_issue if guarantee else None,
                "conditions": [condition.text for condition in guarantee.conditions] if guarantee else [],
                "unmet": _plain(guarantee.unmet) if guarantee else None,
                "exposure": line.exposure,
                "anomalies": _plain(counts(line.verdicts)),
                "checkers": list(line.checkers),
            }
        )
    return out


def _verdict(case: ReportCase, verdict: Verdict) -> dict[str, Any]:
    return {
        "checker": verdict.checker,
        "guarantee": verdict.guarantee,
        "validity": verdict.validity.value,
        "decides": case.facts.decides(verdict.guarantee),
        "weighs": verdict.weighs,
        "complete": verdict.complete,
        "confirmed": verdict.confirmed,
        "reason": verdict.reason,
        "cause": verdict.cause.value if verdict.cause else None,
        "exposure": verdict.exposure,
        "exposure_of": verdict.exposure_of,
        "exposure_min": case.facts.thresholds.exposure_min,
        "rules": _plain(verdict.rules),
        "anomalies": dict(verdict.anomalies),
        "witnesses": [_witness(case, w) for w in verdict.witnesses],
        "proofs": [_plain(proof) for proof in verdict.proofs],
        "remarks": list(verdict.remarks),
        "figures": _plain(_cut(plain_figures(verdict))),
        "evidence": {
            name: {"count": len(rows), "rows": list(rows[:ROWS_MAX])} for name, rows in verdict.evidence.items() if rows
        },
    }


def _cut(figures: Any) -> Any:
    """Figures with the rows behind their own rows cut at the bound."""
    match figures:
        case dict():
            return {k: _cut_rows(v) if k == "events" and isinstance(v, dict) else _cut(v) for k, v in figures.items()}
        case list() | tuple():
            return [_cut(row) for row in figures]
        case _:
            return figures


def _cut_rows(events: dict[str, Any]) -> dict[str, Any]:
    return {name: rows[:ROWS_OF_ROW_MAX] for name, rows in events.items() if rows}


def _witness(case: ReportCase, witness: Witness) -> dict[str, Any]:
    events = case.history.events
    return {
        "anomaly": witness.anomaly,
        "key": witness.key,
        "nodes": list(witness.nodes),
        "from_ns": witness.from_ns,
        "to_ns": witness.to_ns,
        "steps": list(witness.steps),
        "proof": _plain(witness.proof),
        "indexes": list(witness.events),
        "events": [_plain(events[i]) for i in witness.events[:EVENTS_MAX] if 0 <= i < len(events)],
    }


def _operations(case: ReportCase) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for op in case.history.operations:
        seen = out.setdefault(op.f, {Outcome.OK.value: 0, Outcome.FAIL.value: 0, Outcome.INFO.value: 0})
        seen[op.type.value] += 1
    return out


def _faults(case: ReportCase) -> dict[str, dict[str, int]]:
    """How many of each kind ended how."""
    out: dict[str, dict[str, int]] = {}
    for fault in case.history.faults:
        outcomes = (FaultOutcome.INSTALLED, FaultOutcome.SKIPPED, FaultOutcome.INDETERMINATE)
        seen = out.setdefault(fault.fault, {o.value: 0 for o in outcomes})
        seen[fault.outcome.value] = seen.get(fault.outcome.value, 0) + 1
    return out


def _plain(value: Any) -> Any:
    """Anything as plain data; what JSON cannot say becomes text."""
    return msgspec.to_builtins(value, enc_hook=lambda v: text(v, 400), str_keys=True)
