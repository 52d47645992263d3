"""Do all nodes say the same after healing?

Compared are the last answers of the final phase, node by node. Nodes that differ when the phase's deadline has passed
are slow: that is `unknown`, since nothing promises when a view catches up. Two answers that stand at the same offset of
the log and differ contradict each other, whenever they were given.
"""

from typing import Any, Final

from fencepost.checkers.derived.evidence import row, rows
from fencepost.checkers.derived.positions import in_final
from fencepost.checkers.rules import Agree, Rule, says, verdict
from fencepost.checkers.violations.finding import Doubt
from fencepost.harness.history import History, MigrationEvent, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Rows, Traced, tally
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChanges, completed

DIFFER: Final = Rule(
    guarantee="metadata-converges",
    anomaly="final-answers-differ",
    tested="settings and names that several nodes were asked for in the final phase, and answered",
)
TWO_VIEWS: Final = Agree(
    guarantee="metadata-converges",
    anomaly="two-views-of-one-offset",
    tested="answers at an offset that another answer about the setting names",
    lacks="no two answers name one offset",
    steps=lambda one, other: (
        f"{one.by.node} answered that {one.by.key} is {one.low}, as of offset {one.by.position}.",
        f"{other.by.node} answered that it is {other.low}, as of the same offset.",
    ),
)
#: Nodes that answer so do not show views at all.
_NO_VIEW: Final = frozenset({"unsupported-api"})
_SHOWN_MAX: Final = 20

_Answers = dict[tuple[str, str | None], dict[str, Operation]]


def judge(history: History, changes: MetadataChanges, facts: Facts) -> Verdict:
    """Judge whether all nodes gave the same answers in the final phase.

    Returns:
        `invalid` if two answers at one offset of the log differ; `unknown` if a node still lags or gave no answer.

    Cost: O(n) for n operations.
    """
    questions = [o for o in history.operations if o.f in ("describe", "exists") and in_final(history, o)]
    answers: _Answers = {}
    for read in sorted((o for o in questions if o.type is Outcome.OK), key=completed):
        answers.setdefault((read.f, read.key), {})[read.node] = read
    compared = {question: last for question, last in answers.items() if len(last) > 1}
    differing = {
        question: last for question, last in compared.items() if len({repr(read.result) for read in last.values()}) > 1
    }
    silent = _silent(questions, _gone(history))
    seen = _propagation(changes)
    placed = [read for read in changes.reads if read.position is not None]
    return verdict(
        facts,
        DIFFER.tally((), tuple(max(rows(last.values())) for last in compared.values())),
        TWO_VIEWS.judge(says(read, repr(read.result), of=(read.key, read.position)) for read in placed),
        doubt=_doubt(compared, differing, silent),
        kept=f"all nodes gave the same answers to {len(compared)} questions",
        figures={
            "differing": tuple(_row(question, last) for question, last in list(differing.items())[:_SHOWN_MAX]),
            "differing_count": tally(max(rows(last.values())) for last in differing.values()),
            "nodes_without_answer": silent,
            "last_change_seen_after_ns": {node: Traced(late_ns, proof) for node, (late_ns, proof) in seen.items()},
        },
    )


def _doubt(compared: _Answers, differing: _Answers, silent: list[str]) -> Doubt | None:
    if not compared:
        return Doubt(Cause.NO_EXPOSURE, "no two nodes answered the same question in the final phase")
    return Doubt(Cause.UNDECIDED, _slow(differing, silent)) if differing or silent else None


def _gone(history: History) -> frozenset[str]:
    """Return the nodes that the roll-back of a migration ended for good."""
    return frozenset(history.of(MigrationEvent)[-1].nodes) if history.of(MigrationEvent) else frozenset()


def _silent(questions: list[Operation], gone: frozenset[str]) -> list[str]:
    """List the nodes that have a view, were asked for it and gave no answer; those that are `gone` have none."""
    nodes: dict[str, bool] = {}
    for read in questions:
        if (
            read.f == "describe"
            and read.node not in gone
            and not (read.type is Outcome.FAIL and read.error in _NO_VIEW)
        ):
            nodes[read.node] = nodes.get(read.node, False) or read.type is Outcome.OK
    return [node for node, answered in nodes.items() if not answered]


def _slow(differing: _Answers, silent: list[str]) -> str:
    parts = []
    if differing:
        (f, key), last = next(iter(differing.items()))
        answers = ", ".join(f"{node}: {read.result!r}" for node, read in sorted(last.items()))
        parts.append(f"{len(differing)} answers differ between nodes at the end, the first {f} of {key} ({answers})")
    if silent:
        parts.append(f"{', '.join(silent)} answered no more")
    return "; ".join(parts)


def _row(question: tuple[str, str | None], last: dict[str, Operation]) -> dict[str, Any]:
    return {
        "f": question[0],
        "key": question[1],
        "answers": Traced({node: read.result for node, read in last.items()}, rows(last.values())),
    }


def _propagation(changes: MetadataChanges) -> dict[str, tuple[int, Rows]]:
    """Return how many ns after its acknowledgement each node showed the newest acknowledged change that was read."""
    acknowledged = [c for key in changes.keys for c in changes.of(key) if c.acknowledged and c.seen_by is not None]
    if not acknowledged:
        return {}
    newest = max(acknowledged, key=lambda c: c.invoked_ns).operation
    first: dict[str, Operation] = {}
    for read in changes.reads:
        if read.key == newest.key and read.result == newest.value:
            before = first.setdefault(read.node, read)
            first[read.node] = min(before, read, key=completed)
    return {
        node: (max(0, completed(read) - completed(newest)), (row(newest), row(read)))
        for node, read in sorted(first.items())
    }
