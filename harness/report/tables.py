"""The report's tables as rows of plain text: guarantees, faults, exposure, health, servers, results.

Each function makes the rows of one section and knows nothing of HTML. If it fails, the report loses only that section.
"""

from collections.abc import Sequence
from typing import Any, Final

from fencepost.harness.history import (
    PART_OF,
    Event,
    FaultEvent,
    FaultOutcome,
    FaultSpan,
    History,
    NodeChange,
    NodeEvent,
    NoteEvent,
    Outcome,
)
from fencepost.harness.report.section import ROWS_MAX, Column, ReportCase, TextTable, cut_note, tabulated
from fencepost.harness.report.words import (
    FAULT_SIGNS,
    SIGNS,
    STANDINGS,
    Cited,
    clock,
    count,
    length,
    text,
    traced,
)
from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.by_guarantee import OfGuarantee, by_guarantee, counts, must_be_known, share
from fencepost.harness.verdict.fact_tables import MECHANISMS, STALLS
from fencepost.harness.verdict.guarantee import anomaly_count

#: The most characters of a note; the history holds the whole note.
_NOTE_MAX: Final = 300
_ORDER: Final = {Validity.INVALID: 0, Validity.UNKNOWN: 1, Validity.VALID: 2}


def guarantees(case: ReportCase) -> list[dict[str, Any]]:
    """Make one row per judged guarantee; those that decide come first, and the invalid ones first among these."""
    rows = []
    for line in by_guarantee(case.verdicts, case.facts):
        name, of_name, validity = line.name, line.verdicts, line.validity
        guarantee = case.facts.guarantee(name)
        rows.append(
            {
                "name": name,
                "validity": validity,
                "sign": SIGNS[validity],
                "decides": case.facts.decides(name),
                "required": name in case.facts.required,
                "about": name == case.facts.read_guarantee,
                "role": _role(case, name, of_name),
                "standing": guarantee.standing if guarantee else None,
                "standing_text": STANDINGS[guarantee.standing] if guarantee else _no_standing(name),
                "text": guarantee.text if guarantee else "",
                "source": guarantee.source if guarantee else "",
                # Beside a guarantee that was kept it would read as a finding.
                "known_issue": guarantee.known_issue if guarantee and validity is Validity.INVALID else None,
                "unmet": traced(guarantee.unmet.text, guarantee.unmet.events)
                if guarantee and guarantee.unmet
                else None,
                "reasons": [line.contradiction] if line.contradiction else _reasons(line),
                "anomalies": counted_anomalies(of_name),
                "checkers": ", ".join(line.checkers),
            }
        )
    return sorted(
        rows,
        key=lambda r: (
            not (r["decides"] and r["validity"] is Validity.INVALID),
            not (r["role"] == "must be known" and r["validity"] is Validity.UNKNOWN),
            not (r["about"] or r["required"]),
            not r["decides"],
            _ORDER[r["validity"]],
        ),
    )


def _reasons(line: OfGuarantee) -> list[str]:
    """List the verdicts' reasons, the deciding ones first; with several subjects each reason names its own."""
    about = {v.subject for v in line.verdicts if v.subject is not None}
    if len(about) < 2:
        return [traced(reason, _decided_by(v)) for v, reason in line.reasons]
    return [traced(f"{v.subject or v.checker}: {v.reason}", _decided_by(v)) for v in line.verdicts if v.reason]


def _decided_by(verdict: Verdict) -> tuple[int, ...]:
    """Return the rows behind a verdict's reason: those of its violations, else those that tested the guarantee."""
    return verdict.violating_rows or (() if verdict.exposure is None else verdict.exposure.rows)


def _role(case: ReportCase, name: str, verdicts: Sequence[Verdict]) -> str:
    if name in case.facts.required:
        return "required by the plan"
    if name == case.facts.read_guarantee:
        return "what the run is about" if case.facts.decides(name) else "what the run is about, but not promised"
    if case.facts.decides(name):
        return "decides"
    return "must be known" if any(must_be_known(v, case.facts) for v in verdicts) else "does not decide"


def _no_standing(name: str) -> str:
    return "a condition of the run itself" if name == "coverage" else "the system makes no statement"


def counted_anomalies(verdicts: Sequence[Verdict]) -> list[str]:
    """List each anomaly with its count, the most frequent first, and which guarantee allows some of them."""
    seen = counts(verdicts)
    by_name = {c.anomaly: c for c in seen}
    return [
        traced(
            anomaly_count(c.count, c.anomaly, count(c.count))
            + (f" (allowed by {c.allowed_by})" if c.allowed_by else "")
            if c.among is None
            else f"{share(c, by_name[c.among])}",
            c.rows,
        )
        for c in seen
    ]


def _cut(note: str) -> str:
    return note if len(note) <= _NOTE_MAX else f"{note[:_NOTE_MAX]} ..."


def notes(history: History) -> list[tuple[str, str]]:
    """List what a reader must know about the run, each note once with its count."""
    by_text: dict[tuple[str, str], list[int]] = {}
    for e in history.events:
        if isinstance(e, NoteEvent):
            by_text.setdefault((e.topic, _cut(e.text)), []).append(e.index)
    most = sorted(by_text.items(), key=lambda item: -len(item[1]))[:20]
    return [
        (topic, traced(note if len(rows) == 1 else f"{note} ({len(rows)} times)", rows)) for (topic, note), rows in most
    ]


def _acts_with(fault: FaultSpan) -> str:
    """List the figures of a fault without its seeds, which mean nothing to a reader."""
    shown = {k: v for k, v in fault.details.items() if k != PART_OF and not k.endswith("_seed")}
    return ", ".join(f"{key}={value}" for key, value in shown.items())


def faults(history: History, word: str) -> TextTable:
    numbers = {f.fault_id: number for number, f in enumerate(history.faults, 1)}

    def number(f: FaultSpan) -> str:
        whole = numbers.get(int(f.details.get(PART_OF, -1)))
        return f"{numbers[f.fault_id]}" + ("" if whole is None else f", part of {whole}")

    def outcome(f: FaultSpan) -> str:
        began = f.ended_ns is None and f.outcome is not FaultOutcome.SKIPPED
        return f"{FAULT_SIGNS[f.outcome]} {f.outcome}" + (", never healed" if began else "")

    def proven(f: FaultSpan) -> str:
        proof = "never" if f.certain_from_ns is None else f"{clock(f.certain_from_ns)} – {_until(f.certain_to_ns)}"
        return traced(proof, f.events[1:3])

    def lasted(f: FaultSpan) -> str:
        ns = None if f.certain_from_ns is None else (f.certain_to_ns or history.end_ns) - f.certain_from_ns
        return traced(length(ns), f.events[1:3])

    columns: tuple[Column, ...] = (
        ("#", number),
        ("fault", lambda f: f.fault),
        ("target", lambda f: f.target),
        ("with", _acts_with),
        ("nodes", lambda f: ", ".join(f.nodes) or "none"),
        ("outcome", outcome),
        ("possible", lambda f: traced(f"{clock(f.began_ns)} – {_until(f.ended_ns)}", f.events)),
        ("proven", proven),
        ("for", lasted),
        ("leader then", lambda f: f"{f.leader or 'unknown'}" + ("" if f.epoch is None else f", {word} {f.epoch}")),
        ("proof or reason", lambda f: f.proof or f.why or ""),
        ("severed", lambda f: " ".join(f.severed) if len(f.severed) <= 12 else f"{len(f.severed)} links"),
    )
    return tabulated("Faults with their proof", columns, history.faults)


def _until(ns: int | None) -> str:
    return clock(ns) if ns is not None else "the end"


def exposure(case: ReportCase) -> TextTable:
    """Say how often each guarantee was tested, and by which rules."""

    def tested(v: Verdict) -> str:
        if v.exposure is None:
            return "not counted"
        return traced(count(v.exposure.value), v.exposure.rows) if v.tested else "never"

    columns: tuple[Column, ...] = (
        ("guarantee", lambda v: v.guarantee),
        ("checker", lambda v: v.checker),
        ("tested", tested),
        ("by", lambda v: v.exposure_of),
        ("rules and their chances", _rules),
        ("at least", lambda v: str(case.facts.thresholds.exposure_min) if v.tested is not None else ""),
        ("verdict", lambda v: f"{SIGNS[v.validity]} {v.validity}"),
        ("violations", lambda v: traced(", ".join(counted_anomalies([v])) or "none", v.violating_rows)),
    )
    return tabulated("How often each guarantee was tested", columns, case.verdicts)


def mechanisms(case: ReportCase) -> list[TextTable]:
    """Tabulate which of the system's mechanisms this run met, and which it never met."""
    texts = {one.name: one.text for one in case.facts.mechanisms}
    rows = [row for row in case.rows(MECHANISMS.name) if row["mechanism"] in texts]
    met = [row for row in rows if row["count"]]
    never = [row for row in rows if not row["count"]]
    events = case.history.events
    about: tuple[Column, ...] = (("mechanism", "mechanism"), ("what", lambda row: texts[row["mechanism"]]))
    when: tuple[Column, ...] = (
        ("times", lambda row: traced(count(row["count"]), row["events"])),
        ("first", lambda row: Cited(clock(events[row["event"]].time_ns), (row["event"],))),
        ("nodes", lambda row: ", ".join(sorted({node for i in row["events"] for node in _nodes(events[i])}))),
    )
    return [
        tabulated(f"Met: {len(met)} of {len(rows)}", (*about, *when), met),
        tabulated(f"Never met in this run: {len(never)} of {len(rows)}", about, never),
    ]


def _nodes(event: Event) -> tuple[str, ...]:
    return event.nodes if isinstance(event, FaultEvent) else tuple(filter(None, (getattr(event, "node", ""),)))


def _rules(verdict: Verdict) -> str:
    """List the checker's rules, each with its chances in this run or with what the run lacked for it."""
    named = (
        f"{rule.name}: {'once' if rule.chances == 1 else f'{count(rule.chances)} times'}"
        if rule.chances
        else f"{rule.name}: never ({rule.lacks})"
        for rule in verdict.rules
    )
    return "; ".join(named) or "not counted by rule"


def operations(history: History) -> list[TextTable]:
    """Tabulate operations by function and outcome, and their errors."""
    by_f: dict[str, dict[Outcome, list[int]]] = {}
    answered: dict[str, list[tuple[int, int, int]]] = {}
    errors: dict[tuple[str, str, str], list[int]] = {}
    lost: list[int] = []
    for op in history.operations:
        ended = op.invoke_index if op.complete_index is None else op.complete_index
        by_f.setdefault(op.f, {}).setdefault(op.type, []).append(ended)
        if op.type is Outcome.OK and op.completed_ns is not None:
            answered.setdefault(op.f, []).append((op.completed_ns - op.invoked_ns, op.invoke_index, ended))
        elif op.lost_compare:
            lost.append(ended)
        elif op.type is not Outcome.OK:
            errors.setdefault((op.f, op.type, op.error or "no reason recorded"), []).append(ended)
    rows = []
    for f, seen in by_f.items():
        latencies = sorted(answered.get(f, []))
        last = len(latencies) - 1
        quantiles = [latencies[min(int(q * len(latencies)), last)] if latencies else None for q in (0.5, 0.99, 1.0)]
        counted = (seen.get(t, []) for t in (Outcome.OK, Outcome.FAIL, Outcome.INFO))
        rows.append(
            (
                f,
                *(traced(count(len(own)), own) for own in counted),
                *("" if one is None else Cited(length(one[0]), one[1:]) for one in quantiles),
            )
        )
    most = sorted(errors.items(), key=lambda item: -len(item[1]))[:ROWS_MAX]
    return [
        TextTable(
            caption="Operations", columns=("f", "ok", "fail", "info", "p50", "p99", "slowest ok"), rows=tuple(rows)
        ),
        TextTable(
            caption="Errors",
            columns=("f", "outcome", "error", "count"),
            rows=tuple((f, type_, text(error, 120), traced(count(len(own)), own)) for (f, type_, error), own in most),
            note=" ".join(part for part in (_lost_compares(len(lost)), cut_note(len(errors))) if part),
        ),
    ]


def _lost_compares(number: int) -> str:
    """Say why `fail` counts more than the errors."""
    if not number:
        return ""
    were = "1 lost compare (cas-mismatch) is" if number == 1 else f"{count(number)} lost compares (cas-mismatch) are"
    return f"{were} counted as fail: an answer, not an error."


def servers(history: History) -> TextTable:
    """Tabulate starts and deaths of the server processes."""
    columns: tuple[Column, ...] = (
        ("at", lambda e: Cited(clock(e.time_ns), (e.index,))),
        ("node", lambda e: e.node),
        ("change", lambda e: e.change),
        ("incarnation", lambda e: str(e.incarnation)),
        ("pid", lambda e: str(e.pid or "")),
        ("ended", _ended),
        ("unexpected", lambda e: "" if e.expected or e.change is not NodeChange.EXITED else "✗ by itself"),
    )
    return tabulated("Server processes", columns, history.of(NodeEvent))


def _ended(event: NodeEvent) -> str:
    return "" if event.exit_status is None else f"status {event.exit_status}"


def health(case: ReportCase) -> dict[str, Any]:
    """Show how late the harness itself was: verdicts that depend on time are only as good as these figures."""
    samples = case.history.samples
    lags = sorted((s.loop_lag_ns_max, s.index) for s in samples)
    stalls = case.rows(STALLS.name)
    waited = [s for s in samples if s.cpu_stall_ns is not None]
    stalled: tuple[Column, ...] = (
        ("what stalled", "what"),
        ("from", "from_ns"),
        ("to", "to_ns"),
        ("late, or waited, for", "length_ns"),
    )

    def quantile(place: int) -> str:
        return Cited(length(lags[place][0]), (lags[place][1],)) if lags else ""

    return {
        "samples": traced(count(len(samples)), [s.index for s in samples]),
        "lag_p50": quantile(len(lags) // 2),
        "lag_p99": quantile(min(int(0.99 * len(lags)), len(lags) - 1)),
        "lag_max": quantile(len(lags) - 1),
        "waited": traced(length(sum(s.cpu_stall_ns or 0 for s in waited)), [s.index for s in waited])
        if waited
        else "not measured",
        "threshold": length(case.facts.thresholds.stall_ns_max),
        "stalls": tabulated("Stalls of the harness and of its machine", stalled, stalls),
        "stall_count": len(stalls),
    }
