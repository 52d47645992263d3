"""Metadata: acknowledged changes stay, views move forward, nodes converge, epochs never go back.

Settings are read from each node's own copy, which may lag on every node. So they are judged by what a quorum promises
however far copies lag; how stale the answers were is a figure. Four verdicts:
  - "metadata-durable": every acknowledged change is in every final view that is proven to be late enough;
  - "metadata-forward": within one run of a server, no answer goes back behind what the server had shown;
  - "metadata-converges": all nodes give the same answers at the end (a node that lags: unknown; two different answers
    at one offset: invalid);
  - "epochs-never-go-back", by the nodes' own claims.

A node went back when an answer shows a change that is certainly older than one that the same server had shown before.
A change of unknown outcome may take effect late, and a forwarded one twice: only provable steps back count. A claim
counts as later only when it was asked for after the earlier one had come; what a broker passes on is another's word.

At the end the last answers of the final phase are compared, node by node. Nodes that differ when the phase's deadline
has passed are slow: that is `unknown`, since nothing promises when a view catches up. Two answers that stand at the
same offset of the log and differ contradict each other, whenever they were given.
"""

from collections.abc import Iterator
from typing import Any, Final

from fencepost.checkers.derived.evidence import Newest, number_of, row, rows
from fencepost.checkers.derived.positions import completed_ns, in_final
from fencepost.checkers.derived.reigns import exact_claims
from fencepost.checkers.derived.servers import Incarnations
from fencepost.checkers.rules import Agree, NothingOlder, Rule, Statement, says, verdict
from fencepost.checkers.violations.finding import Doubt, duration
from fencepost.harness.history import History, MigrationEvent, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Rows, Traced, tally
from fencepost.systems.kafka.checkers.metadata import durable
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChanges
from fencepost.systems.kafka.checkers.metadata.staleness import Staleness, staleness, staleness_figures


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all settings and names of a history.

    Args:
        history: changes of settings (`alter`), reads of them (`describe`), names (`create`, `exists`), and claims.
        facts: nodes, voters and the faults that the plan asks for.

    Returns:
        The four verdicts above, in that order; "metadata-forward" also carries how stale answers were.

    Source: a quorum keeps one log, and a committed entry is never lost (Ongaro, 2014, chapter 3, for KRaft; Junqueira,
    Reed, Serafini, "Zab", 2011, for ZooKeeper). Views lag behind that log, but only move forward in it.

    Cost: O(n log n) for n operations.
    """
    changes, incarnations = MetadataChanges(history, facts), Incarnations(history)
    return [
        durable.judge(history, changes, incarnations, facts),
        _forward(changes, incarnations, staleness(history, facts, changes), facts),
        _converges(history, changes, facts),
        _epochs(history, facts),
    ]


EPOCH_BACK: Final = NothingOlder(
    guarantee="epochs-never-go-back",
    anomaly="epoch-went-back",
    tested="claims to lead by a server that had claimed before",
    lacks="no server claimed twice to lead in an epoch that is exactly known",
    steps=lambda before, after: (
        f"{before.by.node} said that it led {before.by.subject} epoch {before.low}.",
        f"Asked again {duration(after.asked_ns - before.known_ns)} later, the same server said that it led "
        f"epoch {after.low}.",
    ),
)


def _epochs(history: History, facts: Facts) -> Verdict:
    """Judge whether the epochs in one server's claims only grow.

    Returns:
        `invalid` if a server claimed a lower epoch than it had claimed before; `unknown` if no server claimed twice.

    Source: a server never returns to a lower term (Ongaro, 2014, chapter 3: `currentTerm` increases monotonically);
    likewise the epochs that a follower has promised in Zab (Junqueira, Reed, Serafini, 2011).

    Cost: O(n log n) for n claims.
    """
    claims = exact_claims(history)
    led: dict[int, int] = {}
    for claim in (claim for own in claims.values() for claim in own):
        led.setdefault(claim.named or 0, claim.index)
    again = tuple(claim.index for own in claims.values() for claim in own[1:])
    back = EPOCH_BACK.judge(says(claim, claim.named or 0, of=server) for server, own in claims.items() for claim in own)
    return verdict(
        facts,
        EPOCH_BACK.tally(back.findings, again),
        kept=f"{len(again) + len(claims)} claims, of {len(led)} epochs",
        figures={
            "epochs_led": tally(led.values()),
            "epoch_max": Traced(max(led), (led[max(led)],)) if led else None,
        },
    )


def _steps(before: Statement, read: Statement) -> Iterator[str]:
    assert isinstance(before.by, Operation) and isinstance(read.by, Operation)
    change, shown, now = before.because[-1], before.by.result, read.by.result
    yield (
        f"{read.by.node} answered that {read.by.key} is {shown!r}, which process {change.process} had set through "
        f"{change.node}."
    )
    later = duration(read.asked_ns - before.known_ns)
    yield f"{later} later the same server was asked again, and answered {now!r}."
    yield (
        f"{now!r} had been set, for good, before {shown!r} was asked for."
        if read.because
        else "It was so before the first change of this run, and nobody set it to that again."
    )


VIEW_BACK: Final = NothingOlder(
    guarantee="metadata-forward",
    anomaly="view-went-back",
    tested="answered reads of a setting through a node that had shown a change of it before",
    lacks="no node was read again after it had shown a change",
    steps=_steps,
)


def _forward(changes: MetadataChanges, incarnations: Incarnations, stale: Staleness, facts: Facts) -> Verdict:
    """Judge whether each server's view only moved forward; how `stale` answers were is told beside it.

    Returns:
        `invalid` if a server's answer lacks a change that the same run of the server had shown; `unknown` if no server
        was read again after it had shown a change.

    Cost: O(n log n) for n operations.
    """
    views: dict[object, list[Statement]] = {}
    straddling: list[Operation] = []
    for read in changes.reads:
        incarnation = incarnations.of(read)
        if incarnation is None:
            straddling.append(read)
            continue
        server, shown, high = (read.node, incarnation, read.key), changes.shown(read), changes.last_by(read)
        # What it shows was made after its change was asked for, and for the last time by `last_by`.
        low = shown.invoked_ns if shown else None
        high = high if low is None or high is None else max(low, high)
        statement = Statement(read, server, low, high, read.invoked_ns, completed_ns(read))
        views.setdefault(server, []).append(statement._replace(because=(shown.operation,) if shown else ()))
    judged = VIEW_BACK.judge(statement for own in views.values() for statement in own)
    return verdict(
        facts,
        judged,
        kept=f"{judged.number} answers went back behind no change that their node had shown",
        figures={
            "describes": number_of(changes.reads),
            "describes_across_a_restart": number_of(straddling),
            "steps_back_not_provable": number_of(read for own in views.values() for read in _doubtful(changes, own)),
            **staleness_figures(stale),
        },
    )


def _doubtful(changes: MetadataChanges, answers: list[Statement]) -> Iterator[Operation]:
    """Yield the reads of one server that show an older change than before, which may have been made once more."""
    newest = Newest(
        (statement.low, statement.known_ns, statement) for statement in answers if statement.low is not None
    )
    for statement in answers:
        assert isinstance(statement.by, Operation)
        before, shown = newest.before(statement.asked_ns), changes.shown(statement.by)
        if before is None or statement.high is not None or shown is None or shown.first_by_ns is None:
            continue
        if before.low != shown.invoked_ns and shown.first_by_ns < before.low:
            yield statement.by


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


def _converges(history: History, changes: MetadataChanges, facts: Facts) -> Verdict:
    """Judge whether all nodes gave the same answers in the final phase.

    Returns:
        `invalid` if two answers at one offset of the log differ; `unknown` if a node still lags or gave no answer.

    Cost: O(n) for n operations.
    """
    questions = [o for o in history.operations if o.f in ("describe", "exists") and in_final(history, o)]
    answers: _Answers = {}
    for read in sorted((o for o in questions if o.type is Outcome.OK), key=completed_ns):
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
            first[read.node] = min(before, read, key=completed_ns)
    return {
        node: (max(0, completed_ns(read) - completed_ns(newest)), (row(newest), row(read)))
        for node, read in sorted(first.items())
    }
