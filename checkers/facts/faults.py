"""Acts on faults that nobody can vouch for."""

from fencepost.harness.history import FaultEvent, FaultOutcome, FaultStage, History


def unproven_acts(history: History) -> list[FaultEvent]:
    """List the last attempt of each injection or healing of which nobody knows whether it took effect."""
    last = {(e.fault_id, e.action): e for e in history.of(FaultEvent) if e.stage is FaultStage.END}
    return [event for event in last.values() if event.outcome is FaultOutcome.INDETERMINATE]
