"""The documents of a run beside its page: `verdict.json`, `junit.xml`, the commands to see it again, its rows as JSON.

`verdict.json` is the verdict for gates and scripts (docs/reference/verdict-format.md documents the format). It stands
alone: a witness carries its events, a guarantee its standing and source. A reader refuses a format version that it does
not know, since a misread verdict is worse than none.

`junit.xml` has one suite per run, one case per guarantee, so that CI shows which guarantee broke. It is never greener
than the verdict: a run that is invalid or unknown has at least one failure or error, whatever its single verdicts say.
A violation that does not decide is a passed case that carries a note, and an unknown that does not decide is skipped
with its reason, so that it is never redder either.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import UsageError, command_line
from fencepost.harness.base.files import write_whole
from fencepost.harness.history import SCHEMA_VERSION, FaultOutcome, Outcome, ending_of
from fencepost.harness.report.junit import JUnitCase, JUnitSuite, NotPassed, junit_xml
from fencepost.harness.report.leaders import quorum_document
from fencepost.harness.report.section import ReportCase
from fencepost.harness.report.words import clock, text
from fencepost.harness.results.reader import read_history
from fencepost.harness.verdict import Standing, Validity, Verdict, Witness
from fencepost.harness.verdict.by_guarantee import (
    OfGuarantee,
    all_figures,
    by_guarantee,
    counts,
    counts_in_words,
    exit_code,
)
from fencepost.harness.verdict.fact_tables import MECHANISMS
from fencepost.harness.verdict.fingerprint import FoundAnomaly, anomalies

FORMAT: Final = 3
#: Formats that are read. Format 1 had `stories` too; both had the rows of figures beside them, as `evidence`.
READABLE: Final = (1, 2, FORMAT)

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
        "mechanisms": {row["mechanism"]: row["count"] for row in case.rows(MECHANISMS.name)},
        "quorum": quorum_document(case),
        "history_schema": SCHEMA_VERSION,
        "files": dict(case.files or _FILES),
    }


def write_verdict(document: Mapping[str, Any], path: Path) -> None:
    """Write the document whole or not at all."""
    data = msgspec.json.format(msgspec.json.encode(document), indent=2)
    write_whole(path, data + b"\n")


def read_verdict(path: Path) -> dict[str, Any]:
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
    try:
        return document if document["format"] == FORMAT else _upgraded(document)
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: 'verdicts': not as format {document['format']} has them ({error})",
            hint="`fencepost check` on the run's folder makes it again",
        ) from None


def _upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """Give a document of format 1 or 2 the form of format 3: each number of a verdict together with its rows."""

    def traced(name: str, figure: Any, rows: Mapping[str, Any]) -> Any:
        match figure:
            case dict():
                return {key: traced(f"{name}.{key}", value, rows) for key, value in figure.items()}
            case list():
                return [row if not isinstance(row, dict) else of_row(row, row.get("events", {})) for row in figure]
            case int() | float() if not isinstance(figure, bool):
                return {"value": figure, "rows": rows.get(name, [])}
            case _:
                return figure

    def of_row(row: dict[str, Any], rows: Mapping[str, Any]) -> dict[str, Any]:
        return {key: traced(key, value, rows) for key, value in row.items() if key != "events"}

    def of_verdict(old: dict[str, Any]) -> dict[str, Any]:
        rows = {name: named["rows"] for name, named in old.get("evidence", {}).items()}
        new = {key: traced(key, old.get(key), rows) for key in ("exposure", "anomalies")}
        figures = {name: traced(name, figure, rows) for name, figure in old.get("figures", {}).items()}
        return {**{key: value for key, value in old.items() if key != "evidence"}, **new, "figures": figures}

    return {**document, "format": FORMAT, "verdicts": [of_verdict(verdict) for verdict in document["verdicts"]]}


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
        "exposure": _figure(verdict.exposure),
        "exposure_of": verdict.exposure_of,
        "exposure_min": case.facts.thresholds.exposure_min,
        "rules": _plain(verdict.rules),
        "anomalies": _figure(verdict.anomalies),
        "witnesses": [_witness(case, w) for w in verdict.witnesses],
        "proofs": [_plain(proof) for proof in verdict.proofs],
        "remarks": list(verdict.remarks),
        "figures": _figure(all_figures(verdict)),
    }


def _figure(figure: Any) -> Any:
    """A figure as plain data, with the rows of each number cut at the bound."""
    return _cut(_plain(figure), ROWS_MAX)


def _cut(plain: Any, most: int) -> Any:
    match plain:
        case {"value": value, "rows": [*rows]} if len(plain) == 2:
            return {"value": value, "rows": rows[:most], **({"count": len(rows)} if len(rows) > most else {})}
        case dict():
            return {name: _cut(value, most) for name, value in plain.items()}
        case list() | tuple():
            return [_cut(row, ROWS_OF_ROW_MAX) for row in plain]
        case _:
            return plain


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


_LINES_MAX: Final = 40


def junit_of(case: ReportCase) -> str:
    """Return junit.xml as text, with its declaration."""
    named = {name: case.fact(name) for name in ("system", "version", "seed", "kernel", "git_commit")}
    run_ending = msgspec.to_builtins(ending_of(case.history, case.facts.planned_ns, case.facts.failure))
    cases = [_case(case, line) for line in by_guarantee(case.verdicts, case.facts)]
    # Where no single verdict says what the run is, it has a case of its own.
    needed = _WHOLE[case.validity]
    if not any(needed is None or one.ended is needed for one in cases):
        own = _testcase(case, "the run")
        ending = {"ended": needed, "message": case.headline, "text": case.command, "kind": case.validity.value}
        cases.append(own if needed is None else msgspec.structs.replace(own, **ending))
    suite = JUnitSuite(
        name=f"fencepost {case.name}",
        cases=tuple(cases),
        properties={
            **{name: text(value, 200) for name, value in named.items() if value is not None},
            **{name: str(value) for name, value in run_ending.items() if value is not None},
            "command": case.command,
        },
        timestamp=str(case.run.get("started_at") or ""),
        seconds=case.history.end_ns / 1e9,
    )
    return junit_xml([suite])


#: What some case of a run must be, so that the file is never greener than the verdict; None: any case will do.
_WHOLE: Final = {Validity.INVALID: NotPassed.FAILURE, Validity.UNKNOWN: NotPassed.ERROR, Validity.VALID: None}


def _case(case: ReportCase, line: OfGuarantee) -> JUnitCase:
    first = line.verdicts[0]
    ending: dict[str, Any] = {}
    output = [remark for verdict in line.verdicts for remark in verdict.remarks]
    if line.effect is Validity.UNKNOWN:
        message = line.contradiction or _reasons(line)
        ending = {"ended": NotPassed.ERROR, "message": message, "text": _story(case, first), "kind": "unknown"}
    elif line.validity is Validity.INVALID and line.effect is Validity.INVALID:
        kind = next(iter(first.anomalies), "invalid")
        ending = {"ended": NotPassed.FAILURE, "message": _counted(line), "text": _story(case, first), "kind": kind}
    elif line.validity is Validity.INVALID:
        violated = f"violated, but it does not decide ({_standing(case, line.name)}): {_counted(line)}"
        output = [violated, _story(case, first), *output]
    elif line.validity is Validity.UNKNOWN:
        ending = {"ended": NotPassed.SKIPPED, "message": f"unknown; does not affect the result: {_reasons(line)}"}
    return msgspec.structs.replace(_testcase(case, line.name), output="\n".join(output), **ending)


def _testcase(case: ReportCase, name: str) -> JUnitCase:
    return JUnitCase(classname=f"fencepost.{case.facts.system}.{case.facts.workload}", name=name)


def _counted(line: OfGuarantee) -> str:
    reasons = "; ".join(v.reason for v in line.verdicts if v.validity is Validity.INVALID and v.reason)
    return ": ".join(part for part in (counts_in_words(line.verdicts), reasons) if part) or "violated"


def _reasons(line: OfGuarantee) -> str:
    unknown = (v.reason for v in line.verdicts if v.validity is Validity.UNKNOWN and v.reason)
    return "; ".join(dict.fromkeys(unknown)) or line.validity.value


def _standing(case: ReportCase, name: str) -> str:
    guarantee = case.facts.guarantee(name)
    if guarantee is not None and guarantee.unmet is not None:
        return guarantee.unmet.text
    return guarantee.standing.value if guarantee else Standing.MEASURED.value


def _story(case: ReportCase, verdict: Verdict) -> str:
    """The first witness in words, and how to see it again."""
    lines = []
    for witness in verdict.witnesses[:1]:
        lines.append(f"{witness.anomaly}, {clock(witness.from_ns)} to {clock(witness.to_ns)}:")
        lines += [f"  {step}" for step in witness.steps[:_LINES_MAX]]
    return "\n".join([*lines, f"repeat: {case.command}"])


class Reproduce(msgspec.Struct, frozen=True, kw_only=True):
    """`shrink` is None for a run without a violation: there is nothing to keep while things are left out."""

    deciding: tuple[FoundAnomaly, ...]
    check: str
    replay: str
    shrink: str | None


def reproduce(case: ReportCase) -> Reproduce | None:
    """None for a run that is kept nowhere."""
    if case.folder is None:
        return None
    folder = typed_path(case.folder)
    every = anomalies(case.history, case.facts, case.verdicts, case.effect_free)
    deciding = tuple(anomaly for anomaly in every if anomaly.decides)
    return Reproduce(
        deciding=deciding,
        check=command_line("check", folder),
        replay=command_line("replay", folder, "--times", "10"),
        shrink=command_line("shrink", folder, "--budget", "30m") if deciding else None,
    )


def typed_path(folder: str) -> str:
    """Make a path relative where it lies below the current folder, as a person would type it."""
    below = os.path.relpath(folder)
    return folder if below.startswith("..") else below


_HINT = "all, or indexes and ranges of them: 7,9-12"


def event_lines(folder: Path, wanted: str) -> Iterator[str]:
    """The rows of the run in `folder` that `wanted` names, in its order; UsageError when one is not there."""
    events = read_history(folder).events
    for first, last in _ranges(wanted, len(events)):
        for event in events[first : last + 1]:
            yield msgspec.json.encode(event).decode()


def _ranges(wanted: str, count: int) -> list[tuple[int, int]]:
    if wanted.strip() == "all":
        return [(0, count - 1)]
    spans = []
    for part in wanted.replace(" ", ",").split(","):
        if not part:
            continue
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or part.endswith("-"):
            raise UsageError(f"--events: {part!r} names no row", hint=_HINT)
        span = int(first), int(last or first)
        if not span[0] <= span[1] < count:
            raise UsageError(f"--events: {part}: the rows of this history are 0 to {count - 1}", hint=_HINT)
        spans.append(span)
    if not spans:
        raise UsageError("--events: no row is named", hint=_HINT)
    return spans
