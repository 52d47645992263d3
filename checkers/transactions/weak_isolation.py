"""Models that ask less than serializability: an order of commits, or of starts and commits, shows them; or why none.

Read committed, monotonic atomic view, read atomic and causal consistency, with and without sessions, are decided
(Biswas & Enea, OOPSLA 2019; Moldrup & Pavlogiannis, PLDI 2025): the search collects every pair of transactions that an
order of commits must keep. If these pairs close a circle, the circle is the finding; else there is an order. For
snapshot isolation the search looks for a schedule; that it finds none proves nothing.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers import _core
from fencepost.checkers.transactions.columns import TransactionColumns
from fencepost.checkers.transactions.native import call_core
from fencepost.checkers.transactions.proof import CycleStep, ListProof, Proof, RegisterProof
from fencepost.harness.base.errors import Contradiction
from fencepost.harness.verdict import Stop

#: Models of which an order of commits decides: what a transaction must have seen, and whether sessions count.
COMMITS: Final = {
    "read-committed": ("committed", False),
    "monotonic-atomic-view": ("view", False),
    "read-atomic": ("atomic", False),
    "causal-cerone": ("causal", False),
    "session-read-committed": ("view", True),
    "session-read-atomic": ("atomic", True),
    "causal": ("causal", True),
}
#: Models that a schedule of starts and commits shows, weakest first: whether sessions, whether real time is kept.
SNAPSHOTS: Final = {
    "snapshot-isolation": (False, False),
    "strong-session-snapshot-isolation": (True, False),
    "strong-snapshot-isolation": (False, True),
}
#: Steps for the order of commits of causal consistency; and where it is only to refute a stronger model.
STEPS: Final = 2_000_000_000
REFUTING_STEPS: Final = 5_000_000
#: Seconds, a backstop for an order of commits: the steps take less, also beside other programs.
_WALL_S: Final = 600.0
_NAMES: Final = {
    "view": "observed-transaction-vanishes",
    "atomic": "fractured-reads",
    "causal": "causality-violation",
}


class CommitStep(NamedTuple):
    """One step of a circle in what an order of commits must hold.

    `path` leads from `step.before`, whose write had to be seen, to the transaction of the micro-operation `read`, which
    read the version of `step.after_op` of the same key instead (-1: nothing). Without a path, `step` stands for itself.
    """

    step: CycleStep
    read: int
    path: tuple[CycleStep, ...]


class CommitCircle(NamedTuple):
    """Why no order of commits exists; a single step leads to nothing, before which there is no commit."""

    name: str
    steps: tuple[CommitStep, ...]


def order_of_commits(columns: TransactionColumns, model: str, *, lists: bool, steps: int = STEPS) -> _core.WeakReport:
    """Look for an order of commits that shows `model`, and for all anomalies that are no cycles.

    Raises:
        Contradiction: the native core does not confirm its own answer.
    """
    level, sessions = COMMITS[model]
    return call_core(
        columns,
        _core.check_weak_isolation,
        lists=lists,
        level=level,
        sessions=sessions,
        realtime=False,
        steps=steps,
        wall_s=_WALL_S,
    )


def commits(
    columns: TransactionColumns, model: str, *, lists: bool, steps: int = STEPS
) -> NDArray[np.uint32] | CommitCircle | Stop | None:
    """Find an order of commits that shows `model`, or the confirmed circle that rules it out, or what ended the search.

    The history must show no anomaly that read committed forbids. Raises Contradiction for a circle that is not
    confirmed.
    """
    report = order_of_commits(columns, model, lists=lists, steps=steps)
    level, _ = COMMITS[model]
    if report.order is not None:
        return report.order
    if not report.circle:
        return _stop_of(report)
    commit_steps = tuple(
        CommitStep(CycleStep(*step), read, tuple(CycleStep(*other) for other in path))
        for step, read, path in report.circle
    )
    circle = CommitCircle(_name(level, commit_steps), commit_steps)
    if not is_circle(ListProof(columns) if lists else RegisterProof(columns), circle):
        raise Contradiction(
            f"the native checker of transactions found a {circle.name}, and the rows of its circle do not confirm it: "
            f"{circle.steps}"
        )
    return circle


def schedule(columns: TransactionColumns, model: str, *, lists: bool) -> NDArray[np.uint32] | Stop | None:
    """Starts (twice the row) and commits (one more) that show a kind of snapshot isolation.

    Else what ended the search; None where it came to its end, which is no proof that there are none.
    """
    sessions, realtime = SNAPSHOTS[model]
    report = call_core(
        columns,
        _core.check_weak_isolation,
        lists=lists,
        level="snapshot",
        sessions=sessions,
        realtime=realtime,
        steps=STEPS,
    )
    return _stop_of(report) if report.order is None else report.order


def _stop_of(report: _core.WeakReport) -> Stop | None:
    return None if report.stop is None else Stop(report.stop)


def _name(level: str, steps: tuple[CommitStep, ...]) -> str:
    kinds = {step.step.kind for step in steps} | {step.kind for weak in steps for step in weak.path}
    suffix = "-process" if "process" in kinds else ""
    if any(weak.path for weak in steps):
        return _NAMES[level] + suffix
    return ("G1c" if "wr" in kinds else "G0") + suffix


def is_circle(proof: Proof, circle: CommitCircle) -> bool:
    """Whether every step of a circle holds, and the circle is of the kind that its name says."""
    steps = circle.steps
    base = circle.name.removesuffix("-process")
    if not steps or _name(next((level for level, name in _NAMES.items() if name == base), ""), steps) != circle.name:
        return False
    to_nothing = len(steps) == 1 and steps[0].step.after < 0
    joined = all(weak.step.after == steps[(at + 1) % len(steps)].step.before for at, weak in enumerate(steps))
    return (to_nothing or (joined and len(steps) > 1)) and all(_holds(proof, base, weak) for weak in steps)


def _holds(proof: Proof, base: str, weak: CommitStep) -> bool:
    """Whether a step holds: by itself, or since a reader had to see one version and read another one instead."""
    step = weak.step
    if not weak.path:
        return proof.step(step)
    reader = proof.owner(weak.read)
    places = [step.before, *(other.after for other in weak.path)]
    joined = all(other.before == places[at] for at, other in enumerate(weak.path)) and places[-1] == reader
    held = all(other.kind in ("wr", "process") and proof.step(other) for other in weak.path)
    wrote = proof.is_write(step.before_op, step.before) and proof.key(step.before_op) == proof.key(weak.read)
    instead = (
        proof.is_read(weak.read, reader)
        and reader != step.before != step.after
        and proof.shows(weak.read, step.after_op)
    )
    if step.after >= 0:
        instead = instead and proof.is_write(step.after_op, step.after) and reader != step.after
    match base:
        case "observed-transaction-vanishes":
            near = len(weak.path) == 1 and weak.path[0].kind == "wr" and weak.path[0].after_op < weak.read
        case "fractured-reads":
            near = len(weak.path) == 1
        case _:
            near = True
    return joined and held and wrote and instead and near and proof.happened(step.before)
