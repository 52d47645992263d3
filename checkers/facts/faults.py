"""Acts on faults that nobody can vouch for."""

from fencepost.harness.history import FaultAction, FaultEvent, FaultOutcome, FaultStage, History

Act = FaultEvent


def unproven_acts(history: History) -> list[Act]:
    """List the last attempt of each injection or healing of which nobody knows whether it took effect.

    The healing of a part counts as proven once the whole is proven to be healed.
    """
    last = {(e.fault_id, e.action): e for e in history.of(FaultEvent) if e.stage is FaultStage.END}
    return [e for e in last.values() if e.outcome is FaultOutcome.INDETERMINATE and not _healed_later(history, e)]


def _healed_later(history: History, act: FaultEvent) -> bool:
    whole = history.healing_of_whole(act.details) if act.action is FaultAction.HEAL else None
    return whole is not None and whole.index > act.index
