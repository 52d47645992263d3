"""Whether the schedule could stop the quorum, and when proven faults did stop it."""

from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.faults.quorum import Quorum, QuorumSpan, quorum_spans
from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.tables.table import ROWS_MAX, Table, cut_note
from fencepost.harness.report.words.evidence import traced
from fencepost.harness.report.words.wording import clock, length

_WORDS: Final = {
    Quorum.STAR: "one voter reached a majority, whose members did not reach each other",
    Quorum.NONE: "lost: no voter reached a majority",
}


def voters_of(case: ReportCase) -> tuple[str, ...]:
    return case.facts.electorate or case.facts.nodes


def quorum_document(case: ReportCase) -> dict[str, Any]:
    """Return the quorum's part of `verdict.json`: the plan's demand, its worst case, and the proven intervals."""
    planned = _planned(case)
    spans = quorum_spans(case.history, voters_of(case))
    return {
        "asked": planned.get("asked"),
        "worst": planned.get("worst"),
        "by": list(planned.get("by", ())),
        "lost_ns": sum(s.to_ns - s.from_ns for s in spans if s.quorum is Quorum.NONE),
        "spans": [
            {
                "quorum": span.quorum.value,
                "from_ns": span.from_ns,
                "to_ns": span.to_ns,
                "fault_ids": list(span.fault_ids),
                "absent": list(span.absent),
            }
            for span in spans
        ],
    }


def quorum_table(case: ReportCase) -> Table:
    """Tabulate each proven interval; the note says what the plan could do."""
    spans = quorum_spans(case.history, voters_of(case))
    return Table(
        caption="Quorum lost",
        columns=("from", "to", "for", "what", "voters down", "faults"),
        rows=tuple(_row(case, span) for span in spans[:ROWS_MAX]),
        note=" ".join(note for note in (foretold(case), cut_note(len(spans))) if note),
    )


def foretold(case: ReportCase) -> str:
    """Say what the plan could do to the quorum; empty for a run that did not record it."""
    planned = _planned(case)
    by = ", ".join(planned.get("by", ()))
    if planned.get("asked") == "keep":
        return "The plan keeps the quorum: faults that would have stopped it were skipped."
    if planned.get("worst") == Quorum.MUTUAL.value:
        return "No fault of this schedule can stop the quorum."
    return f"This schedule can stop the quorum: {by}." if by else ""


def _row(case: ReportCase, span: QuorumSpan) -> tuple[str, ...]:
    number = {fault.fault_id: at for at, fault in enumerate(case.history.faults, 1)}
    rows = [i for fault in case.history.faults if fault.fault_id in span.fault_ids for i in fault.events]
    return (
        clock(span.from_ns),
        clock(span.to_ns),
        traced(length(span.to_ns - span.from_ns), rows),
        _WORDS[span.quorum],
        ", ".join(span.absent) or "none",
        ", ".join(f"#{number[fault_id]}" for fault_id in span.fault_ids) or "none",
    )


def _planned(case: ReportCase) -> Mapping[str, Any]:
    nemesis = case.run.get("nemesis")
    quorum = nemesis.get("quorum") if isinstance(nemesis, Mapping) else None
    return quorum if isinstance(quorum, Mapping) else {}


def left_out_table(case: ReportCase) -> Table | None:
    """List what `all` had to leave out, with the reason; None where nothing was left out."""
    nemesis = case.run.get("nemesis")
    if not isinstance(nemesis, Mapping):
        return None
    rows = [(str(item["fault"]), str(item["why"])) for item in nemesis.get("left_out", ())]
    rows += [(str(kind), "the main phase was too short for it") for kind in nemesis.get("without_time", ())]
    return Table(caption="Faults left out", columns=("fault", "why"), rows=tuple(rows)) if rows else None
