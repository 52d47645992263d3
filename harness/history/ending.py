"""Decides whether a run was played as planned, from its history and plan alone, so that a later check says the same.

A run is complete when its main phase lasted as long as planned and all later phases were played. A note says what cut
it short. A harness that was killed leaves no note, but then phases are missing, and the outer process writes into the
run's facts what ended it.
"""

from typing import Final

import msgspec

from fencepost.harness.history.history import History
from fencepost.harness.history.operation import DISK_FULL, HARNESS_ERROR, STOPPED_EARLY, NoteEvent, PhaseName

#: After one of these notes no load is begun, except the final reads.
_STOPS: Final = frozenset({STOPPED_EARLY, DISK_FULL})
#: The main phase ends with the last operation that fits, so it may be shorter than planned by a pause of the load.
_SLACK_NS: Final = 1_000_000_000
_ENDS_THERE: Final = "the history ends there, as when the harness is killed or its machine goes down"
_UNTOLD: Final = "nothing that was recorded says why"


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How long the main phase lasted, and was planned to last, in ns; `planned_ns` is None without a plan.

    `cut_short` says in one sentence when and why the run was cut short; None for a complete run.
    """

    planned_ns: int | None
    played_ns: int
    cut_short: str | None


def ending_of(history: History, planned_ns: int | None, failure: str | None = None) -> Ending:
    """Decide how a run ended.

    Args:
        planned_ns: the planned length of the main phase; None without a plan. Then only a note or a failure can show
            that the run was cut short.
        failure: what ended the harness before the history was complete, as the outer process recorded it.
    """
    start_ns, end_ns = history.phases.get(PhaseName.MAIN, (0, 0))
    # The history's last phase reaches one nanosecond beyond its last event.
    played_ns = min(end_ns, history.end_ns) - start_ns if end_ns else 0
    cut = _where_and_why(history, played_ns, planned_ns, failure)
    if cut is None:
        return Ending(planned_ns=planned_ns, played_ns=played_ns, cut_short=None)
    phase, why = cut
    if phase is PhaseName.MAIN:
        planned = f"the planned {planned_ns / 1e9:g} s of " if planned_ns is not None else ""
        where = f"after {played_ns / 1e9:.1f} s of {planned}its main phase"
    elif PhaseName.MAIN in history.phases:
        where = f"in its {phase} phase"
    else:
        where = "before its main phase"
    return Ending(planned_ns=planned_ns, played_ns=played_ns, cut_short=f"the run was cut short {where}: {why}")


def _where_and_why(
    history: History, played_ns: int, planned_ns: int | None, failure: str | None
) -> tuple[PhaseName | None, str] | None:
    note = _cutting_note(history)
    if note is not None:
        phases = [name for name, (start_ns, _) in history.phases.items() if start_ns <= note.time_ns]
        return phases[-1] if phases else None, note.text
    if failure is not None:
        return next(reversed(history.phases), None), failure
    if planned_ns is None:
        return None
    if PhaseName.FINAL not in history.phases:
        return next(reversed(history.phases), None), _ENDS_THERE
    if played_ns < planned_ns - _SLACK_NS:
        return PhaseName.MAIN, _UNTOLD
    return None


def _cutting_note(history: History) -> NoteEvent | None:
    """Return the first note that explains a short run: a stop before the final reads, or a failure."""
    final_ns, _ = history.phases.get(PhaseName.FINAL, (history.end_ns + 1, 0))
    for event in history.of(NoteEvent):
        if event.topic == HARNESS_ERROR or (event.topic in _STOPS and event.time_ns < final_ns):
            return event
    return None
