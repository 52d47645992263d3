"""What nodes did that led a partition when they were cut off from every majority of voters."""

from fencepost.checkers.derived.claims import Landmarks, end_rows
from fencepost.checkers.derived.evidence import number_of, row
from fencepost.checkers.derived.partitions import PartitionView
from fencepost.checkers.derived.reigns import Reign, Reigns
from fencepost.checkers.derived.servers import Cut, cuts
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.figures import Figures, Traced, tally


def cut_leaders(
    history: History, facts: Facts, views: list[PartitionView], reigns: dict[str, Reigns], marks: Landmarks
) -> list[Figures]:
    """Describe, for each node that led a partition when it was cut off from every majority, how it went on."""
    leaders = []
    for cut in cuts(history, facts.nodes, facts.voters):
        led = [view for view in views if _led(reigns[view.key], cut)]
        if led:
            leaders.append(_cut_leader(cut, led, reigns, marks))
    return leaders


def _led(reigns: Reigns, cut: Cut) -> list[Reign]:
    """List the broker's reigns that held when it was cut off."""
    return [
        r
        for r in reigns.reigns
        if r.node == cut.node and r.first_ns <= cut.from_ns and (r.over_ns is None or r.over_ns > cut.from_ns)
    ]


def _cut_leader(cut: Cut, led: list[PartitionView], reigns: dict[str, Reigns], marks: Landmarks) -> Figures:
    def inside(operation: Operation) -> bool:
        done_ns = operation.completed_ns
        return operation.node == cut.node and operation.invoked_ns >= cut.from_ns and (done_ns or 0) <= cut.to_ns

    appends = [(view, a) for view in led for a in view.acknowledged if inside(a)]
    reads = [r for view in led for r in view.reads if inside(r)]
    lost = [a for view, a in appends if a.value not in view.final_values and view.scans and view.complete]
    own = [(reigns[view.key], r) for view in led for r in reigns[view.key].reigns if r.node == cut.node]
    over = [(of, r) for of, r in own if r.over_ns is not None and r.over_ns > cut.from_ns]
    first_over = min(over, key=lambda pair: pair[1].over_ns or 0, default=None)
    begins = [r.superseded for _, r in own if r.superseded is not None]
    superseded = min((b for b in begins if cut.from_ns <= b.at_ns <= cut.to_ns), key=lambda b: b.at_ns, default=None)
    last_append = max((a for _, a in appends), key=_done, default=None)
    last_read = max(reads, key=_done, default=None)
    began = marks.at(cut.from_ns)

    def since(at_ns: int, *rows: int) -> Traced[int]:
        return Traced(at_ns - cut.from_ns, (*began, *rows))

    return {
        "node": cut.node,
        "cut_from_ns": Traced(cut.from_ns, began),
        "cut_ns": since(cut.to_ns, *marks.at(cut.to_ns)),
        "partitions_led": tally(_led(reigns[view.key], cut)[0].samples[0].index for view in led),
        "superseded_after_ns": None if superseded is None else since(superseded.at_ns, superseded.event),
        "appends_acknowledged": number_of(a for _, a in appends),
        "appends_lost": number_of(lost),
        "last_append_after_ns": None if last_append is None else since(_done(last_append), row(last_append)),
        "last_read_after_ns": None if last_read is None else since(_done(last_read), row(last_read)),
        "stopped_leading_after_ns": None
        if first_over is None
        else since(first_over[1].over_ns or 0, *end_rows(*first_over, marks)),
    }


def _done(operation: Operation) -> int:
    return operation.completed_ns or 0
