"""When nodes ceased to lead, by the word of their own logs ("Resigned", "Renouncing")."""

from collections.abc import Mapping, Sequence
from typing import Final

from fencepost.harness.history import BeliefEvent, EpochEvent, History, LogEvent, Logged

#: Nodes by name and incarnation.
_Which = tuple[str, int]


class Resignations:
    """The lines about one subject, each with the epoch that ended: its own, else the last that the log had begun."""

    def __init__(self, resigned: Sequence[LogEvent], lines: Mapping[_Which, Sequence[EpochEvent]]) -> None:
        self._of: Final[dict[_Which, list[tuple[int, LogEvent]]]] = {}
        for event in resigned:
            which = event.node, event.incarnation
            epoch = event.epoch if event.epoch is not None else _begun(lines.get(which, ()), event)
            # A node that did not lead may say so, too.
            if epoch is not None:
                self._of.setdefault(which, []).append((epoch, event))

    def of(self, node: str, incarnation: int, epoch: int, since_ns: int) -> LogEvent | None:
        """The first line by which the reign of `epoch`, which had begun at `since_ns`, was over."""
        own = self._of.get((node, incarnation), ())
        return next((line for ended, line in own if ended == epoch and line.time_ns > since_ns), None)

    def left(self, lines: Sequence[EpochEvent], belief: BeliefEvent) -> list[EpochEvent]:
        """The elections in the log of an answer's node that it can be of: none that was over before it was asked."""
        over = {e for e, line in self._of.get((belief.node, belief.incarnation), ()) if line.time_ns <= belief.asked_ns}
        return [line for line in lines if line.epoch not in over] if over else list(lines)


#: For leaders of which no log tells.
NO_RESIGNATIONS: Final = Resignations((), {})


def resignations_of(history: History, subject: str, lines: Mapping[_Which, Sequence[EpochEvent]]) -> Resignations:
    """Read the lines about `subject`; `lines` are the elections in each log."""
    logged = (e for e in history.events if type(e) is LogEvent)
    return Resignations([e for e in logged if e.change is Logged.RESIGNED and e.subject == subject], lines)


def _begun(lines: Sequence[EpochEvent], line: LogEvent) -> int | None:
    """The last epoch that the same log had begun before this line."""
    return next((begun.epoch for begun in reversed(lines) if begun.index < line.index), None)
