"""What went on around an operation, in words for a witness: its node was paused or cut off."""

from fencepost.checkers.derived.reigns import Reign
from fencepost.checkers.violations.finding import duration
from fencepost.harness.history import History, Operation

#: Longer after it woke, a node's answers are no longer told by its waking.
_JUST_WOKEN_NS = 10_000_000_000


def answered_words(history: History, operation: Operation, reign: Reign | None) -> str:
    """How `operation` came to be answered, as one sentence.

    For example: "n2, leader of epoch 3, answered 4 ms after it resumed, 5.2 s after epoch 4 had begun".
    """
    node = operation.node
    at_ns = operation.completed_ns if operation.completed_ns is not None else operation.invoked_ns
    pauses = [f for f in history.faults if history.paused(f, node)]
    ends = [f.certain_to_ns for f in pauses if f.certain_to_ns is not None and f.certain_to_ns <= at_ns]
    woken_ns = max(ends, default=None)
    pieces: list[str] = []
    if woken_ns is not None and at_ns - woken_ns <= _JUST_WOKEN_NS:
        pieces.append(f"{duration(at_ns - woken_ns)} after it resumed")
    begin = reign.superseded if reign is not None else None
    if begin is not None and begin.at_ns <= at_ns:
        pieces.append(f"{duration(at_ns - begin.at_ns)} after epoch {begin.epoch} had begun")
    paused = "the paused leader " if reign is not None and woken_ns is not None and pieces else ""
    title = f"{paused}{node} (epoch {reign.epoch})" if reign is not None else node
    during = [f"{f.fault} of {', '.join(f.nodes)}" for f in history.in_force(at_ns)]
    sentence = f"{title} answered {', '.join(pieces)}" if pieces else f"{title} answered"
    return sentence + (f", during {'; '.join(during)}" if during else "")


def epoch_words(operation: Operation) -> str:
    return "" if operation.epoch is None else f" in epoch {operation.epoch}"
