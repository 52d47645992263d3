"""Watches: every change is reported once and in order, none is lost, and none from before the start is reported.

There is one verdict for each guarantee that the system states about its watches. A change is lost if a later event was
reported instead; or, where answers are ordered among events, if a newer answer came. Otherwise it is only late. The run
ends with a change that every listener must report; if one does not by the deadline, the verdict is `unknown`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import numbers_of, rows
from fencepost.checkers.derived.positions import in_final
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, shown
from fencepost.checkers.watches.changes import KnownChanges
from fencepost.checkers.watches.heard import Event, HeardStretch, Mark, stretches
from fencepost.checkers.watches.listening import (
    BEFORE_START,
    BOOKMARK,
    DATA,
    DUPLICATE,
    LOST,
    REORDERED,
    REPLY,
    SPLIT,
    Heard,
    Rules,
    judge,
    judge_merged,
    unplaced,
)
from fencepost.harness.history import History, Operation, Outcome, PhaseName
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Traced

RELIABLE: Final = "watch-reliable"
RESUMABLE: Final = "watch-resumable"
ATOMIC: Final = "watch-atomic"
BEFORE_DATA: Final = "watch-before-data"
_ONE_SHOT: Final = "one-shot"
_MERGED: Final = "merged"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The judged stretches of listening, and the changes that were made."""

    heard: list[Heard]
    changes: KnownChanges
    findings: list[Finding]

    @property
    def events(self) -> list[Event]:
        return [event for one in self.heard for event in one.stretch.events]

    @property
    def marks(self) -> list[tuple[Heard, Mark]]:
        return [(one, mark) for one in self.heard for mark in one.stretch.marks]


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """One guarantee: the findings that break it, and by what it was put to the test, an operation for each time.

    `anomalies` are its rules: of each how often it could have fired (None: with every test).
    """

    guarantee: str
    anomalies: Mapping[str, Callable[[Case], int] | None]
    exposure: Callable[[Case], list[Operation]]
    tested: str


def _operations(case: Case) -> list[Operation]:
    return [event.op for event in case.events]


def _followers(case: Case) -> int:
    """List the events that were not the first of their watch."""
    return sum(max(0, len(one.stretch.events) - 1) for one in case.heard)


def _due(case: Case) -> list[Operation]:
    return [one.stretch.watch for one in case.heard for _ in one.due]


def _missed(case: Case) -> list[Operation]:
    return [one.stretch.watch for one in case.heard for _ in one.missed]


def _transactions(case: Case) -> list[Operation]:
    """List the first event of each change of several keys, on each watch."""
    sizes = Counter(known.position for known in case.changes.ordered)
    firsts: dict[tuple[int, int], Operation] = {}
    for one in case.heard:
        for event, known in one.reports:
            if sizes[known.position] > 1:
                firsts.setdefault((one.stretch.watch.invoke_index, known.position), event.op)
    return list(firsts.values())


def _bookmarks(case: Case) -> list[Operation]:
    """List the marks that cover a change."""
    positions = case.changes.positions
    if not positions:
        return []
    return [mark.op for one, mark in case.marks if mark.key is None and _covers_any(case, one, mark)]


def _answers(case: Case) -> list[Operation]:
    return [mark.op for one, mark in case.marks if mark.key is not None and _covers_any(case, one, mark)]


def _covers_any(case: Case, one: Heard, mark: Mark) -> bool:
    """Whether a change lies between the watch's start and this mark."""
    first = next((known for known in (*one.due[:1], *one.late[:1])), None)
    return first is not None and first.position <= mark.position


QUESTIONS: Final = (
    _Question(
        guarantee="watch-ordered",
        anomalies={REORDERED: _followers, BEFORE_START: None},
        exposure=_operations,
        tested="events that listeners were told",
    ),
    _Question(
        guarantee="watch-unique",
        anomalies={DUPLICATE: _followers},
        exposure=_operations,
        tested="events that listeners were told",
    ),
    _Question(
        guarantee=RELIABLE,
        anomalies={LOST: None},
        exposure=_due,
        tested="known changes that a listener had to be told of",
    ),
    _Question(
        guarantee=ATOMIC,
        anomalies={SPLIT: None},
        exposure=_transactions,
        tested="transactions of several keys that a listener was told of",
    ),
    _Question(
        guarantee=RESUMABLE,
        anomalies={LOST: None},
        exposure=_missed,
        tested="known changes that were made before a resumed watch began, and that it had to tell",
    ),
    _Question(
        guarantee="watch-bookmarkable",
        anomalies={BOOKMARK: None},
        exposure=_bookmarks,
        tested="bookmarks that cover a known change",
    ),
    _Question(
        guarantee=BEFORE_DATA,
        anomalies={DATA: None, REPLY: None},
        exposure=_answers,
        tested="answers among the events that are newer than a known change",
    ),
    _Question(
        guarantee="watch-truthful",
        anomalies={
            "invented-event": lambda case: len(case.events),
            "wrong-value": lambda case: sum(event.value is not None for event in case.changes.explained),
            "wrong-kind": None,
        },
        exposure=lambda case: [event.op for event in case.changes.explained],
        tested="events that a write explains",
    ),
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the watches of one history.

    Returns:
        One verdict for each of `QUESTIONS` that the system states as a guarantee; one of them carries the figures.

    Cost: O(n log n) for n changes and events.
    """
    rules = Rules(
        atomic=facts.guarantee(ATOMIC) is not None,
        answers_ordered=facts.guarantee(BEFORE_DATA) is not None,
        one_shot=facts.options.get("watches") == _ONE_SHOT,
    )
    listening = stretches(history)
    merged = facts.options.get("watches") == _MERGED
    blind = [] if merged else [event for stretch in listening for event in unplaced(stretch)]
    changes = KnownChanges(history, listening)
    judged = (judge_merged(one, changes) if merged else judge(one, changes, rules) for one in listening)
    heard = [] if blind else list(judged)
    findings = [*changes.findings, *(finding for one in heard for finding in one.findings)]
    case = Case(heard=heard, changes=changes, findings=findings)
    doubts = _doubts(history, case, blind)
    questions = [question for question in QUESTIONS if facts.guarantee(question.guarantee) is not None]
    verdicts = [_verdict(question, case, doubts, facts) for question in questions]
    if not verdicts:
        return []
    at = next((i for i, verdict in enumerate(verdicts) if verdict.guarantee == RELIABLE), 0)
    verdicts[at] = msgspec.structs.replace(verdicts[at], figures={**_counted(history, case), **_lags(case)})
    return verdicts


def _of(question: _Question, case: Case) -> list[Finding]:
    """List the findings that break this guarantee.

    A change that was made while its listener was away, and lost, is the resumption's; every other loss the sequence's.
    """
    findings = [finding for finding in case.findings if finding.anomaly in question.anomalies]
    if question.guarantee not in (RELIABLE, RESUMABLE):
        return findings
    resumed = {id(finding) for one in case.heard for finding in one.away}
    return [finding for finding in findings if (id(finding) in resumed) == (question.guarantee == RESUMABLE)]


def _verdict(question: _Question, case: Case, doubts: list[str], facts: Facts) -> Verdict:
    exposed = rows(question.exposure(case))
    chances = {
        Rule(guarantee=question.guarantee, anomaly=name, tested=question.tested): (
            exposed if count is None else count(case)
        )
        for name, count in question.anomalies.items()
    }
    return verdict(
        facts,
        *sorted_out(_of(question, case), chances),
        doubt=Doubt(Cause.UNDECIDED, "; ".join(doubts)) if doubts and question.guarantee == RELIABLE else None,
        exposed=exposed,
    )


def _doubts(history: History, case: Case, blind: list[Event]) -> list[str]:
    """List the reasons why a loss cannot be ruled out."""
    if blind:
        return [
            f"{len(blind)} events carry no position, as before ZooKeeper 3.9: which changes they tell of is not known"
        ]
    if PhaseName.FINAL not in history.phases:
        return ["the run has no final phase, so what was not told may be late"]
    last = max((known.position for known in case.changes.acknowledged), default=None)
    if last is None:
        return ["no change was acknowledged"]
    ends = _ends(history, case)
    doubts = [
        f"the listener of process {one.stretch.watch.process} on {one.stretch.watch.node} had not come to"
        f" {len(one.late)} changes, up to position {shown(last)}, when the run ended: late, not lost"
        for one in ends
        if one.late
    ]
    silent = {one.stretch.watch.node for one in case.heard} - {one.stretch.watch.node for one in ends}
    # A process retires with an operation of unknown outcome; one that has been told of everything need not go on.
    retired = {op.process for op in history.operations if op.type is Outcome.INFO}
    left = {one.stretch.watch.process: one for one in case.heard}
    for process in retired.union(one.stretch.watch.process for one in ends):
        left.pop(process, None)
    doubts += [f"the listener of process {own} did not listen to the end" for own, one in left.items() if one.late]
    return doubts + [f"no listener on {node} listened to the end" for node in sorted(silent)]


def _ends(history: History, case: Case) -> list[Heard]:
    """List the last stretch of each process that listened in the final phase."""
    ends = {one.stretch.watch.process: one for one in case.heard}
    return [one for one in ends.values() if in_final(history, one.stretch.last)]


def _counted(history: History, case: Case) -> dict[str, Traced[int]]:
    watches = [op for op in history.operations if op.f == "watch"]
    writes = [op for op in history.operations if op.f in ("put", "cas", "delete", "put-all")]
    begun = [one.stretch for one in case.heard]
    counted = {
        "watches": [one.stretch.watch for one in case.heard],
        "watches_resumed": [one.stretch.watch for one in case.heard if one.stretch.resumed],
        "watches_in_the_past": [own.watch for own in begun if own.resumed and own.after < _store(own)],
        "watches_in_the_future": [own.watch for own in begun if own.resumed and own.after > _store(own)],
        "watches_while_cut_off": [own.watch for own in begun if _is_cut_off(history, own.watch)],
        "watches_compacted": [op for op in history.operations if op.error == "compacted"],
        "watches_refused": [op for op in watches if op.type is not Outcome.OK and op.error != "compacted"],
        "writes_ok": [op for op in writes if op.type is Outcome.OK],
        "writes_info": [op for op in writes if op.type is Outcome.INFO],
        "compactions": [op for op in history.operations if op.f == "compact" and op.type is Outcome.OK],
        "changes": [known.proof for known in case.changes.ordered],
        "events": _operations(case),
        "bookmarks": [mark.op for _, mark in case.marks if mark.key is None],
        "answers": [mark.op for _, mark in case.marks if mark.key is not None],
        "late": [one.stretch.last for one in _ends(history, case) for _ in one.late],
    }
    return numbers_of(counted)


def _store(stretch: HeardStretch) -> int:
    """Where the node's store stood when the watch began; where the watch begins if nobody said."""
    return stretch.after if stretch.store is None else stretch.store


def _is_cut_off(history: History, watch: Operation) -> bool:
    """Whether a fault that cuts links of the listener's node was in force when its watch began."""
    return any(fault.effects.cuts and watch.node in fault.nodes for fault in history.in_force(watch.invoked_ns))


def _lags(case: Case) -> dict[str, Traced[int]]:
    """Return quantiles of the time from a change's acknowledgement to its event."""
    lags: list[Traced[int]] = []
    for one in case.heard:
        away = one.missed[-1].position if one.missed else -1
        for event, known in one.reports:
            if known.acknowledged_ns is not None and known.position > away:
                lags.append(Traced(max(0, event.at_ns - known.acknowledged_ns), rows((known.proof, event.op))))
    if not lags:
        return {}
    lags.sort(key=lambda lag: lag.value)
    at = {"lag_ns_p50": len(lags) // 2, "lag_ns_p99": len(lags) * 99 // 100, "lag_ns_max": len(lags) - 1}
    return {name: lags[i] for name, i in at.items()}
