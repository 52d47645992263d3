"""The log: acknowledged appends stay at their offsets, in order and once; records that were read were committed.

One history gives six verdicts, each over all partitions: durable, offsets stable, order, committed reads, leader epochs
and duplicates. The run's options decide under which guarantee each is judged:
with acks=all and min.insync.replicas of 2 or more an acknowledged record is on two nodes, and Kafka promises that it
stays. With less the same is asked, as a figure, under the name with "-unreplicated". Duplicates are excluded by an
idempotent producer only.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.derived.partitions import PartitionView, partitions
from fencepost.checkers.derived.servers import Risk
from fencepost.checkers.log import findings as find
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Doubt, Finding
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import PARTITIONS

DURABLE: Final = "log-durable"
STABLE: Final = "log-offsets-stable"
ORDER: Final = "log-order"
COMMITTED: Final = "log-committed-reads"
EPOCHS: Final = "log-leader-epochs"
DUPLICATES: Final = "log-no-duplicates"
ZOMBIE: Final = "zombie-broker-does-not-act"


def replicated(facts: Facts) -> bool:
    """Whether an acknowledged append of this run is on at least two nodes."""
    return bool(facts.options.get("acks", "all") == "all" and facts.options.get("min_isr", 2) >= 2)


def judged_as(base: str, facts: Facts) -> str:
    """Return the name of the guarantee `base` with this run's options."""
    if base == DUPLICATES:
        given = facts.options.get("idempotence", "auto")
        idempotent = facts.options.get("acks", "all") == "all" if given == "auto" else given == "on"
        return base if idempotent else f"{base}-without-idempotence"
    return base if replicated(facts) else f"{base}-unreplicated"


#: What a rule lacked where nothing was at risk: an acknowledged append can be lost, moved or repeated when its
#: partition's leader changes after it was sent, or when a fault touches a broker after that.
LACKS: Final = "no partition's leader changed and no fault touched a broker after an append was sent"
_Count = Callable[[PartitionView, Risk], int]


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """One guarantee: what breaks it, and by what it was put to the test, an operation for each time.

    `rules` count for each anomaly what could have shown it (None: every test), and say what was lacking where nothing
    could.
    """

    guarantee: str
    broken: Callable[[PartitionView], Iterator[Finding]]
    exposure: Callable[[PartitionView, Risk], list[Operation]]
    tested: str
    rules: dict[str, tuple[_Count | None, str]]
    #: Whether nothing can be said without the partition's whole final content.
    needs_final: bool = False


def _acknowledged(view: PartitionView, risk: Risk) -> list[Operation]:
    unseen = {append.invoke_index for append in find.unseen(view)}
    passed = [a for a in view.acknowledged if a.invoke_index not in unseen] if view.scans else []
    return [a for a in passed if risk.runs(a, view.changed_ns)]


def _seen_twice(view: PartitionView, risk: Risk) -> list[Operation]:
    """List the appends whose offset was acknowledged and read as well, and that something disturbed."""
    return [
        append
        for append in view.acknowledged
        if append.position in view.values_at and risk.runs(append, view.changed_ns)
    ]


def _polled_before(view: PartitionView, risk: Risk) -> list[Operation]:
    """List the first poll of each record."""
    return [read for (offset, _), read in view.shown.items() if offset < view.covered_to and read.f != "scan"]


def _first_read(view: PartitionView, risk: Risk) -> list[Operation]:
    """List the first read of each value whose append something disturbed."""
    appends = {append.value: append for append in view.appends}
    return [
        view.shown[offsets[0], value]
        for value, offsets in view.offsets_of.items()
        if value not in appends or risk.runs(appends[value], view.changed_ns)
    ]


def _replies(view: PartitionView, least: int) -> int:
    return sum(len(own) >= least for own in view.rows.values())


def _followers(view: PartitionView) -> int:
    """Count the acknowledged appends that are not the first of their process."""
    return len(view.acknowledged) - len({append.process for append in view.acknowledged})


QUESTIONS: Final = (
    _Question(
        guarantee=DURABLE,
        broken=find.lost,
        exposure=_acknowledged,
        tested="acknowledged appends that something disturbed, and whose offset the final scan passes",
        rules={"lost-append": (None, LACKS)},
        needs_final=True,
    ),
    _Question(
        guarantee=STABLE,
        broken=find.unstable,
        exposure=_seen_twice,
        tested="acknowledged offsets that something disturbed, and that were read as well",
        rules=dict.fromkeys(("reassigned-offset", "moved-record"), (None, LACKS)),
    ),
    _Question(
        guarantee=ORDER,
        broken=find.disordered,
        exposure=lambda view, risk: view.acknowledged,
        tested="acknowledged appends",
        rules={
            "append-order": (lambda view, risk: _followers(view), "no process had two appends acknowledged"),
            "unordered-poll": (lambda view, risk: _replies(view, 1), "no reply had a record"),
            "skipped-record": (lambda view, risk: _replies(view, 2), "no reply had two records"),
        },
    ),
    _Question(
        guarantee=COMMITTED,
        broken=find.uncommitted,
        exposure=_polled_before,
        tested="records polled before the final scan that passes their offsets",
        rules={
            "vanished-read": (
                lambda view, risk: sum(risk.runs(read, view.changed_ns) for read in _polled_before(view, risk)),
                "after a record was polled no partition's leader changed and no fault touched a broker",
            ),
            "read-uncommitted": (
                lambda view, risk: sum(find.is_above(offset, read) for (offset, _), read in view.shown.items()),
                "no record was shown above a high watermark",
            ),
            "phantom-record": (lambda view, risk: len(view.shown), "no record was read"),
        },
        needs_final=True,
    ),
    _Question(
        guarantee=EPOCHS,
        broken=find.stale_epochs,
        exposure=lambda view, risk: find.sent_after_change(view),
        tested="acknowledged appends of known epoch, sent after their partition's leader had changed",
        rules={
            "stale-leader-epoch": (
                None,
                "no append was acknowledged that had been sent after its partition's leader had changed",
            ),
            "epoch-went-back": (
                lambda view, risk: len(view.final) if len(view.begun) > 1 else 0,
                "no partition's leader changed",
            ),
        },
    ),
    _Question(
        guarantee=DUPLICATES,
        broken=find.duplicated,
        exposure=_first_read,
        tested="values that were read, of appends that something disturbed",
        rules={"duplicated-record": (None, LACKS)},
    ),
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all partitions of one history.

    Returns:
        One verdict for each of `QUESTIONS`; the first one carries the figures.

    Cost: O(n log n) for n records read and appended.
    """
    views = partitions(history)
    risk = Risk(history, facts, {o.node for view in views for o in (*view.appends, *view.attempts)})
    verdicts = [_verdict(question, views, risk, history, facts) for question in QUESTIONS]
    first = msgspec.structs.replace(verdicts[0], figures=_figures(views))
    return [first, *verdicts[1:]]


def _verdict(question: _Question, views: list[PartitionView], risk: Risk, history: History, facts: Facts) -> Verdict:
    guarantee = judged_as(question.guarantee, facts)
    exposed = rows(operation for view in views for operation in question.exposure(view, risk))
    chances = {
        Rule(guarantee=guarantee, anomaly=name, tested=question.tested, lacks=lacks): (
            exposed if count is None else sum(count(view, risk) for view in views)
        )
        for name, (count, lacks) in question.rules.items()
    }
    return verdict(
        facts,
        *sorted_out([finding for view in views for finding in question.broken(view)], chances),
        doubt=_doubt(question, views, history),
        exposed=exposed,
    )


def _doubt(question: _Question, views: list[PartitionView], history: History) -> Doubt | None:
    if not views:
        return Doubt(Cause.NO_EXPOSURE, "no append and no poll in this history")
    unread = [view.key for view in views if not view.complete]
    if not question.needs_final or not unread:
        return None
    if history.healed_ns is None:
        return Doubt(Cause.CUT_SHORT, "the run never healed")
    return Doubt(Cause.UNDECIDED, f"the final scan did not reach the end of {', '.join(unread)}")


def _figures(views: list[PartitionView]) -> dict[str, Any]:
    """Count over all partitions for the report."""
    appends = [append for view in views for append in view.appends]
    info = [(view, a) for view in views for a in view.appends if a.type is Outcome.INFO]
    return {
        "records_read": sum(len(rows_read) for view in views for rows_read in view.rows.values()),
        "records_final": sum(len(view.final) for view in views),
        PARTITIONS: number_of(view.first for view in views),
        "appends_ok": number_of(a for a in appends if a.type is Outcome.OK),
        "appends_fail": number_of(a for a in appends if a.type is Outcome.FAIL),
        "appends_info": number_of(a for _, a in info),
        "recovered": number_of(a for view, a in info if a.value in view.final_values),
        "unseen": number_of(a for view in views for a in find.unseen(view)),
        "polls_ok": number_of(read for view in views for read in view.reads),
        "leader_changes": number_of(begun.proof for view in views for begun in view.begun[1:]),
        "records_above_high_watermark": number_of(read for view in views for read in _above(view)),
        "high_watermark_went_back": number_of(read for view in views for read in _went_back(view)),
        "real_time_inversions": number_of(a for view in views for a in find.real_time_inversions(view.acknowledged)),
    }


def _above(view: PartitionView) -> list[Operation]:
    """List replies, once for each record at or above the high watermark, which a node reads before the records."""
    return [
        read
        for read in view.reads
        if read.position is not None
        for own in view.rows[read.invoke_index]
        if own.offset >= read.position
    ]


def _went_back(view: PartitionView) -> list[Operation]:
    """List replies whose high watermark is below one that their process had seen: a new leader learns it late."""
    last: dict[int, int] = {}
    lower = []
    for read in view.reads:
        if read.position is not None:
            if read.position < last.get(read.process, 0):
                lower.append(read)
            last[read.process] = max(read.position, last.get(read.process, 0))
    return lower
