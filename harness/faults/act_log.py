"""Writes each act of a fault twice: as an event of the history, and as a line of the schedule."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from fencepost.harness.faults.fault_options import Seen
from fencepost.harness.faults.kind import Act, FaultKind, Proof, Records, Skip, View
from fencepost.harness.faults.schedule import ScheduledFault
from fencepost.harness.history import PART_OF, FaultAction, FaultEvent, FaultOutcome, FaultStage
from fencepost.harness.results.schedule_rows import FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class ActRecord:
    """One fault, or one part of a fault, as it is recorded. `act` is None until it is known what it acts on."""

    fault_id: int
    entry: ScheduledFault
    view: View
    act: Act | None = None
    seen: Seen | None = None
    #: What was seen of the event of `end=`; None before the fault is healed, and without that option.
    ended: Seen | None = None
    waited_ns: int = 0
    part_of: int | None = None


class ActLog:
    """Writes acts. The times of the schedule count from `zero_ns`, the beginning of the main phase."""

    def __init__(
        self, records: Records, faults: Mapping[str, FaultKind], schedule_sink: Callable[[dict[str, object]], None]
    ) -> None:
        self._records = records
        self._faults = faults
        self._sink = schedule_sink
        self.zero_ns = 0

    def write(
        self,
        record: ActRecord,
        action: FaultAction,
        stage: FaultStage,
        *,
        proof: Proof | None = None,
        skip: Skip | None = None,
    ) -> None:
        """Write one event and one line; `skip` and `proof` go with the end of an action."""
        entry, view = record.entry, record.view
        resolved = record.act.resolved if record.act else None
        outcome = FaultOutcome.SKIPPED if skip else proof.outcome if proof else FaultOutcome.PENDING
        details = {**(resolved.details if resolved else {}), **(proof.details if proof else {})}
        if record.part_of is not None:
            details[PART_OF] = record.part_of
        if action is FaultAction.INJECT and proof is not None and record.seen is not None and record.seen.met:
            late_ns = self._records.now_ns() - self.zero_ns - (record.seen.seen_at_ns or 0)
            details |= {"after": record.seen.seen or "", "after_ms": round(late_ns / 1e6, 1)}
        if action is FaultAction.HEAL and record.ended is not None:
            details["ended_by"] = record.ended.seen or "its length: the event did not come"
        event = self._records.record(
            FaultEvent,
            fault_id=record.fault_id,
            fault=entry.spec.fault,
            action=action,
            stage=stage,
            outcome=outcome,
            target=entry.spec.text.partition(":")[2],
            nodes=resolved.nodes if resolved else (),
            severed=tuple(str(link) for link in resolved.links) if resolved else (),
            leader=view.leader,
            epoch=view.epoch,
            proof=proof.text if proof else None,
            why=skip.why if skip else None,
            details=details,
            effects=self._faults[entry.spec.fault].effects(entry.spec),
        )
        self._sink(
            {
                "format": FORMAT,
                "fault_id": record.fault_id,
                "worker": entry.worker,
                "number": entry.number,
                "part_of": record.part_of,
                "spec": entry.spec.text,
                "action": str(action),
                "stage": str(stage),
                "outcome": str(outcome),
                "nominal_ns": entry.inject_ns,
                "at_ns": event.time_ns - self.zero_ns,
                "time_ns": event.time_ns,
                "duration_ns": entry.duration_ns,
                "draw_seed": entry.draw_seed,
                "when": asdict(record.seen) if record.seen else None,
                "end": asdict(record.ended) if record.ended and action is FaultAction.HEAL else None,
                "waited_ns": record.waited_ns,
                "nodes": list(resolved.nodes) if resolved else [],
                "severed": [str(link) for link in resolved.links] if resolved else [],
                "details": details,
                "leader": view.leader,
                "epoch": view.epoch,
                "proof": proof.text if proof else None,
                "why": skip.why if skip else None,
            }
        )
