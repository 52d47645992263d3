"""When the voters that ran, and the links that carried packets, were certainly no full quorum."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from fencepost.checkers.facts.servers import stopped
from fencepost.harness.base.quorum import Damage, Quorum, as_pair, quorum_of
from fencepost.harness.history import History
from fencepost.harness.verdict.fact_tables import QUORUM_LOSSES


class QuorumLoss(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a run in which the quorum was provably less than `MUTUAL`, and the faults that caused it."""

    quorum: Quorum
    from_ns: int
    to_ns: int
    fault_ids: tuple[int, ...]
    absent: tuple[str, ...]


def quorum_losses(history: History, voters: Sequence[str]) -> list[QuorumLoss]:
    """Find the stretches of a run in which the quorum was certainly less than mutual.

    Only proven cuts and stops count, and servers that were dead. The stretches may be too short: a restarted server
    counts as running before it serves.

    Returns:
        The stretches in order of time, in ns of the history; neighbours with the same state are joined.
    """
    cuts = [(*span, f) for f in history.faults if f.severed and (span := history.certain(f)) is not None]
    stops = [(start, end, voter) for voter in voters for start, end in stopped(history, voter)]
    times = sorted({t for start, end, _ in (*cuts, *stops) for t in (start, end)})
    losses: list[QuorumLoss] = []
    for start, end in pairwise(times):
        cutting = [f for from_ns, to_ns, f in cuts if from_ns <= start and end <= to_ns]
        absent = frozenset(voter for from_ns, to_ns, voter in stops if from_ns <= start and end <= to_ns)
        severed = frozenset(pair for f in cutting for pair in (as_pair(link) for link in f.severed))
        state = quorum_of(voters, Damage(absent=absent, severed=severed))
        if state is Quorum.MUTUAL:
            continue
        stopping = [
            f.fault_id
            for f in history.faults
            if not f.severed and f.began_ns <= start and absent & set(f.nodes) and history.possible(f)[1] >= end
        ]
        loss = QuorumLoss(
            quorum=state,
            from_ns=start,
            to_ns=end,
            fault_ids=tuple(sorted({*(f.fault_id for f in cutting), *stopping})),
            absent=tuple(sorted(absent)),
        )
        _append(losses, loss)
    return losses


def _append(losses: list[QuorumLoss], loss: QuorumLoss) -> None:
    """Append a loss; join it to the last one when the state is the same and no time lies between."""
    if losses and losses[-1].to_ns == loss.from_ns and losses[-1].quorum is loss.quorum:
        last = losses.pop()
        loss = QuorumLoss(
            quorum=loss.quorum,
            from_ns=last.from_ns,
            to_ns=loss.to_ns,
            fault_ids=tuple(sorted({*last.fault_ids, *loss.fault_ids})),
            absent=tuple(sorted({*last.absent, *loss.absent})),
        )
    losses.append(loss)


def quorum_losses_table(history: History, voters: Sequence[str]) -> Any:
    """Lay out the losses (-> QUORUM_LOSSES)."""
    return QUORUM_LOSSES.of_rows(
        [{**msgspec.structs.asdict(loss), "quorum": loss.quorum.value} for loss in quorum_losses(history, voters)]
    )
