"""Elections as the nodes' own logs tell them ("became leader at term N"), on the history's clock."""

from typing import Final

from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.stalls import worst_sample
from fencepost.harness.history import EpochEvent, History

#: How long after it was written a log line may be read, besides the harness's own lateness.
_LOG_DELAY_NS: Final = 1_000_000_000


class LoggedElections:
    """The lines of one history about reigns that began."""

    def __init__(self, history: History) -> None:
        self.lines: Final[list[EpochEvent]] = history.of(EpochEvent)
        #: The lines in the log of each incarnation of a node.
        self.by_server: Final[dict[tuple[str, int], list[EpochEvent]]] = {}
        for line in self.lines:
            self.by_server.setdefault((line.node, line.incarnation), []).append(line)
        self._delay_ns: Final = log_delay_ns(history)

    def own_epoch(self, node: str, index: int) -> int | None:
        """Return the last epoch that the node's own log had named before the event `index`; None if it named none."""
        own = [line.epoch for line in self.lines if line.node == node and line.index < index]
        return own[-1] if own else None

    def had_begun(self, epoch: int, read_ns: int) -> bool:
        """Whether this epoch or a later one had certainly begun when a line was written that was read at `read_ns`."""
        return any(line.epoch >= epoch and line.time_ns <= read_ns - self._delay_ns for line in self.lines)

    def rows(self, node: str, epoch: int) -> tuple[int, ...]:
        """Return the lines of the node's own log that tell of its election."""
        return tuple(line.index for line in self.lines if (line.node, line.epoch) == (node, epoch))


@once
def logged_elections(history: History) -> LoggedElections:
    """Read the lines once for each history."""
    return LoggedElections(history)


@once
def log_delay_ns(history: History) -> int:
    """How late at most a line of a log was read in this run."""
    worst = worst_sample(history)
    return _LOG_DELAY_NS + (0 if worst is None else worst.loop_lag_ns_max)
