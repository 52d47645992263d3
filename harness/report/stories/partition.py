"""The story of a broker that went on leading topic partitions after others led them: its writes and its reads.

The figures are `deeds` and `cut_brokers` of the zombie-brokers checker.
"""

from collections.abc import Iterable
from typing import Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story, some
from fencepost.harness.report.words.evidence import Traced, rows_of
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict.figure_rows import BrokerDeeds, CutBroker
from fencepost.harness.verdict.figures import ZombieBrokerFigures
from fencepost.harness.verdict.reading import figures_of

_CHECKER: Final = BrokerDeeds.checker
#: The most partitions that a story names one by one.
_TOLD_MAX: Final = 3


def partition_leaders(case: ReportCase) -> list[Story]:
    """Tell one story for each broker and each of its cuts in which other brokers took over its partitions."""
    figures = figures_of(case.verdicts, ZombieBrokerFigures)
    cuts = [cut for f in figures for cut in f.cut_brokers]
    groups: dict[tuple[str, int | None], tuple[CutBroker | None, list[BrokerDeeds]]] = {}
    for deed in (d for f in figures for d in f.deeds):
        cut = _cut_of(deed, cuts)
        key = (deed.node, None if cut is None else cut.cut_from_ns)
        groups.setdefault(key, (cut, []))[1].append(deed)
    return [_story(case, cut, deeds) for cut, deeds in groups.values()]


def _cut_of(deed: BrokerDeeds, cuts: Iterable[CutBroker]) -> CutBroker | None:
    """Return the cut in which the partition went to another leader."""
    return next(
        (
            cut
            for cut in cuts
            if cut.node == deed.node and cut.cut_from_ns <= deed.superseded_ns <= cut.cut_from_ns + cut.cut_ns
        ),
        None,
    )


def _story(case: ReportCase, cut: CutBroker | None, deeds: list[BrokerDeeds]) -> Story:
    node = deeds[0].node
    deeds = sorted(deeds, key=lambda deed: -deed.claimed_for_ns)
    clauses = [*(_was_cut(cut) if cut is not None else ()), *_went_on(deeds)]
    clauses += _writes(deeds, _acks(case))
    clauses += _reads(deeds)
    if cut is not None and cut.stopped_leading_after_ns is not None:
        clause = f"it stopped leading {length(cut.stopped_leading_after_ns)} after the cut"
        clauses.append(Traced(clause, rows_of(cut, "stopped_leading_after_ns")))
    return Story(
        checker=_CHECKER,
        node=node,
        from_ns=min(deed.superseded_ns for deed in deeds),
        to_ns=max(deed.superseded_ns + deed.claimed_for_ns for deed in deeds),
        clauses=tuple(clauses),
    )


def _acks(case: ReportCase) -> str:
    return next((f.acks for f in figures_of(case.verdicts, ZombieBrokerFigures)), "")


def _was_cut(cut: CutBroker) -> list[Traced]:
    led = some(cut.partitions_led, "topic partition", "topic partitions", count(cut.partitions_led))
    clauses = [
        Traced(
            f"{cut.node} was cut off from the nodes that hold the metadata at {clock(cut.cut_from_ns)}",
            rows_of(cut, "cut_from_ns"),
        ),
        Traced(f" for {length(cut.cut_ns)}", rows_of(cut, "cut_ns")),
        Traced(f"it led {led}", rows_of(cut, "partitions_led")),
    ]
    if cut.superseded_after_ns is not None:
        clause = f", and another broker led the first of them {length(cut.superseded_after_ns)} after the cut"
        clauses.append(Traced(clause, rows_of(cut, "superseded_after_ns")))
    return clauses


def _went_on(deeds: list[BrokerDeeds]) -> list[Traced]:
    clauses = []
    for number, deed in enumerate(deeds[:_TOLD_MAX]):
        of = f"{deed.partition} (epoch {deed.epoch})"
        who = f"{deed.node} went on leading " if number == 0 else ", and "
        if deed.claimed_for_ns:
            clause = f"{who}{of} for at least {length(deed.claimed_for_ns)} after epoch {deed.superseded_by} had begun"
            clauses.append(Traced(clause, rows_of(deed, "claimed_for_ns")))
        else:
            clause = f"{deed.node} was asked for {of} once epoch {deed.superseded_by} had begun"
            clauses.append(Traced(clause, rows_of(deed, "superseded_by")))
    if len(deeds) > _TOLD_MAX:
        rest = deeds[_TOLD_MAX:]
        claims = [i for deed in rest for i in rows_of(deed, "superseded_by")]
        clauses.append(Traced(f", and {count(len(rest))} more for at most as long", claims))
    return clauses


def _writes(deeds: list[BrokerDeeds], acks: str) -> list[Traced]:
    acknowledged = _sum(deeds, "acknowledged")
    appends = some(acknowledged, "append", "appends", count(acknowledged))
    clauses = [Traced(f"in that time it acknowledged {appends} (acks={acks})", _rows(deeds, "acknowledged"))]
    if acknowledged:
        survived, lost = _sum(deeds, "survived"), _sum(deeds, "lost")
        clauses.append(Traced(f", of which {count(survived)} survived", _rows(deeds, "survived")))
        clauses.append(Traced(f" and {count(lost)} were lost", _rows(deeds, "lost")))
        if unread := acknowledged - survived - lost:
            clauses.append(Traced(f", and the fate of {count(unread)} is unknown", ()))
    if fenced := _sum(deeds, "fenced"):
        clauses.append(Traced(f"it refused {count(fenced)}", _rows(deeds, "fenced")))
    if unknown := _sum(deeds, "unknown"):
        clauses.append(Traced(f"{count(unknown)} were left unanswered", _rows(deeds, "unknown")))
    return clauses


def _reads(deeds: list[BrokerDeeds]) -> list[Traced]:
    reads, stale, gone = (_sum(deeds, name) for name in ("reads", "stale_reads", "vanished_reads"))
    if not reads:
        return []
    answers = some(reads, "answer", "answers", count(reads))
    clauses = [Traced(f"its consumers got {answers}", _rows(deeds, "reads"))]
    if stale:
        oldest = max(deeds, key=lambda deed: deed.stale_ns_max)
        clauses.append(Traced(f", {count(stale)} of them stale", _rows(deeds, "stale_reads")))
        clauses.append(Traced(f" by up to {length(oldest.stale_ns_max)}", rows_of(oldest, "stale_ns_max")))
    if gone:
        clauses.append(Traced(f", {count(gone)} with records that were lost later", _rows(deeds, "vanished_reads")))
    return clauses


def _sum(deeds: list[BrokerDeeds], name: str) -> int:
    return sum(int(getattr(deed, name)) for deed in deeds)


def _rows(deeds: list[BrokerDeeds], name: str) -> list[int]:
    return sorted({i for deed in deeds for i in rows_of(deed, name)})
