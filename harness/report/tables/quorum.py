"""When proven faults stopped the quorum, and what a plan had to leave out."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencepost.harness.base.quorum import Quorum
from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.tables.table import ROWS_MAX, Table, cut_note
from fencepost.harness.report.words.evidence import traced
from fencepost.harness.report.words.wording import clock, length
from fencepost.harness.verdict.fact_tables import QUORUM_LOSSES

_WORDS: Final = {
    Quorum.STAR.value: "one voter reached a majority, whose members did not reach each other",
    Quorum.NONE.value: "lost: no voter reached a majority",
}


def quorum_document(case: ReportCase) -> dict[str, Any]:
    """Return the quorum's part of `verdict.json`: the plan's demand, and the proven intervals."""
    losses = case.rows(QUORUM_LOSSES.name)
    return {
        "asked": _planned(case).get("asked"),
        "lost_ns": _lost_ns(losses) if _derived(case) else None,
        "spans": [{column.name: loss[column.name] for column in QUORUM_LOSSES.columns} for loss in losses],
    }


def quorum_table(case: ReportCase) -> Table:
    """Tabulate each proven interval; the note says whether the plan keeps the quorum."""
    losses = case.rows(QUORUM_LOSSES.name)
    return Table(
        caption="Quorum lost",
        columns=("from", "to", "for", "what", "voters down", "faults"),
        rows=tuple(_row(case, loss) for loss in losses[:ROWS_MAX]),
        note=" ".join(note for note in (_kept(case), cut_note(len(losses)), _unknown(case)) if note),
    )


def _derived(case: ReportCase) -> bool:
    return QUORUM_LOSSES.name in case.derived


def _unknown(case: ReportCase) -> str:
    if _derived(case):
        return ""
    return "The facts of this run could not be derived, so when the quorum was lost is not known."


def _lost_ns(losses: Sequence[Mapping[str, Any]]) -> int:
    return sum(loss["to_ns"] - loss["from_ns"] for loss in losses if loss["quorum"] == Quorum.NONE)


def _kept(case: ReportCase) -> str:
    """Say that the plan keeps the quorum; empty where it does not."""
    kept = _planned(case).get("asked") == "keep"
    return "The plan keeps the quorum: faults that would have stopped it were skipped." if kept else ""


def _row(case: ReportCase, loss: Mapping[str, Any]) -> tuple[str, ...]:
    number = {fault.fault_id: at for at, fault in enumerate(case.history.faults, 1)}
    rows = [i for fault in case.history.faults if fault.fault_id in loss["fault_ids"] for i in fault.events]
    return (
        clock(loss["from_ns"]),
        clock(loss["to_ns"]),
        traced(length(loss["to_ns"] - loss["from_ns"]), rows),
        _WORDS[loss["quorum"]],
        ", ".join(loss["absent"]) or "none",
        ", ".join(f"#{number[fault_id]}" for fault_id in loss["fault_ids"]) or "none",
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
