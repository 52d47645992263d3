"""How old the settings are that nodes answer with: figures, never judged, since reading a node's copy may lag.

An answer is stale when it lacks a change that was acknowledged before the read was invoked: when that change was
certainly made after the state that is shown, by time (`changes`) or by the run's own metadata log, where the change
that is shown stands at the offset where it is committed. It is as old as the first such change.

Where neither says which of two changes came last, the answer is undecided: then the counts are lower bounds, and are
told as such.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import msgspec

from fencepost.checkers.derived.evidence import number_of, row, rows
from fencepost.checkers.derived.positions import completed_ns
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.figures import Figures, Traced, most, tally
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChange, MetadataChanges
from fencepost.systems.kafka.checkers.metadata.placed_changes import placed_changes


class StaleDescribe(msgspec.Struct, frozen=True, kw_only=True):
    """`read` lacks `missed`, the first such acknowledged change, which had been acknowledged `age_ns` before."""

    read: Operation
    missed: Operation
    age_ns: int


class Staleness(msgspec.Struct, frozen=True, kw_only=True):
    """The stale reads, and those that may be stale; both in the order of invocation."""

    stale: list[StaleDescribe]
    undecided: list[Operation]


class _Offsets(msgspec.Struct, frozen=True):
    """The first and the last offset at which a change is committed."""

    first: int
    last: int


def staleness(history: History, facts: Facts, changes: MetadataChanges) -> Staleness:
    """Find the answers that lack a change acknowledged before they were asked for; these are figures only.

    Cost: O(n log n) for n operations, and the changes that stale answers lack.
    """
    offsets = _offsets(history, facts)
    acknowledged = {
        key: sorted((c for c in changes.of(key) if c.acknowledged), key=lambda c: completed_ns(c.operation))
        for key in changes.keys
    }
    judged = Staleness(stale=[], undecided=[])
    known: dict[tuple[str | None, int, int], MetadataChange | bool] = {}
    for read in changes.reads:
        if changes.may_show_a_removal(read):
            continue
        own = acknowledged.get(read.key, [])
        count = bisect_left(own, read.invoked_ns, key=lambda c: completed_ns(c.operation))
        shown = changes.shown(read)
        question = read.key, -1 if shown is None else shown.operation.invoke_index, count
        if question not in known:
            known[question] = _first_missed(own[:count], shown, changes.last_by(read), offsets)
        missed = known[question]
        if isinstance(missed, MetadataChange):
            age_ns = read.invoked_ns - completed_ns(missed.operation)
            judged.stale.append(StaleDescribe(read=read, missed=missed.operation, age_ns=age_ns))
        elif not missed:
            judged.undecided.append(read)
    return judged


def _first_missed(
    acknowledged: list[MetadataChange],
    shown: MetadataChange | None,
    last_by_ns: int | None,
    offsets: Mapping[int, _Offsets],
) -> MetadataChange | bool:
    """Return the first change, by completion, that was made after the shown one; True: none; False: unknown."""
    # What had been acknowledged before the shown change was asked for is older.
    first = 0 if shown is None else bisect_left(acknowledged, shown.invoked_ns, key=lambda c: completed_ns(c.operation))
    certain = True
    for change in acknowledged[first:]:
        later = _is_later(change, shown, last_by_ns, offsets)
        if later:
            return change
        certain = certain and later is not None
    return certain


def _is_later(
    change: MetadataChange, shown: MetadataChange | None, last_by_ns: int | None, offsets: Mapping[int, _Offsets]
) -> bool | None:
    """Whether this acknowledged change was made after the one that is shown; None if that is unknown."""
    if change is shown:
        return False
    if last_by_ns is not None and change.invoked_ns > last_by_ns:
        return True
    if shown is None:
        return None
    own, other = offsets.get(change.operation.invoke_index), offsets.get(shown.operation.invoke_index)
    if own is None or other is None:
        return None
    if own.first > other.last:
        return True
    return False if own.last < other.first else None


def _offsets(history: History, facts: Facts) -> dict[int, _Offsets]:
    """Map changes, by their invocation, to the offsets at which the run's stored metadata log has them committed."""
    placed = placed_changes(history, facts)
    committed = ((change, placed.committed_offsets(places)) for change, places in placed.items)
    return {change.invoke_index: _Offsets(own[0], own[-1]) for change, own in committed if own}


def staleness_figures(judged: Staleness) -> Figures:
    """Return the report's figures: how many, where, how old; and by how much each number may be too low."""
    by_node: dict[str, Staleness] = {}
    for s in judged.stale:
        by_node.setdefault(s.read.node, Staleness(stale=[], undecided=[])).stale.append(s)
    for read in judged.undecided:
        by_node.setdefault(read.node, Staleness(stale=[], undecided=[])).undecided.append(read)
    oldest = max(judged.stale, key=lambda s: s.age_ns, default=None)
    return {
        "stale_describes": number_of(s.read for s in judged.stale),
        "undecided_describes": number_of(judged.undecided),
        "stale_by_node": tuple(_at_node(node, own) for node, own in sorted(by_node.items())),
        "stalest_describe": None
        if oldest is None
        else {
            "event": oldest.read.invoke_index,
            "node": oldest.read.node,
            "key": oldest.read.key,
            "answered": oldest.read.result,
            "lacks": oldest.missed.value,
            "lacks_event": oldest.missed.complete_index,
            "age_ns": age(oldest),
        },
    }


def _at_node(node: str, own: Staleness) -> Figures:
    return {
        "node": node,
        "stale": number_of(s.read for s in own.stale),
        "undecided": number_of(own.undecided),
        "age_ns_max": most(map(age, own.stale)),
        "missed": missed(own.stale),
    }


def age(stale: StaleDescribe) -> Traced[int]:
    """How old the answer was: the change that it lacks, and its question."""
    return Traced(stale.age_ns, (row(stale.missed), stale.read.invoke_index))


def missed(stale: Sequence[StaleDescribe]) -> Traced[int]:
    """Count the acknowledged changes that these answers lack."""
    return tally(dict.fromkeys(rows(s.missed for s in stale)))
