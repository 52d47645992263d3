"""How old the settings are that nodes answer with: figures, never judged, since reading a node's copy may lag.

An answer is stale when it shows a state that is certainly older than a change which was acknowledged before the read
was invoked. It is as old as the first such change.
"""

from bisect import bisect_left
from typing import Any

import msgspec

from fencepost.checkers.facts.evidence import Rows, row, rows
from fencepost.checkers.metadata.changes import Change, Changes, completed
from fencepost.harness.history import Operation


class StaleRead(msgspec.Struct, frozen=True, kw_only=True):
    """`read` shows something older than `missed`, the first acknowledged change that it lacks; `age_ns` since then."""

    read: Operation
    missed: Operation
    age_ns: int


def stale_reads(changes: Changes) -> list[StaleRead]:
    """In the order of invocation. Cost: O(n log n) and the changes that a stale answer lacks."""
    acknowledged = {
        key: sorted((c for c in changes.of(key) if c.acknowledged), key=lambda c: completed(c.operation))
        for key in changes.keys
    }
    times = {key: [completed(c.operation) for c in own] for key, own in acknowledged.items()}
    found = []
    for read in changes.reads:
        own = acknowledged.get(read.key, [])
        count = bisect_left(times.get(read.key, []), read.invoked_ns)
        missed = _first_missed(own[:count], changes.last_by(read))
        if missed is not None:
            age_ns = read.invoked_ns - completed(missed.operation)
            found.append(StaleRead(read=read, missed=missed.operation, age_ns=age_ns))
    return found


def _first_missed(acknowledged: list[Change], last_by_ns: int | None) -> Change | None:
    """The first of these, by completion, that was invoked after the shown state had certainly been made."""
    if last_by_ns is None:
        return None
    # What is invoked after `last_by_ns` is also acknowledged after it, so those before it need no look.
    first = bisect_left(acknowledged, last_by_ns, key=lambda c: completed(c.operation))
    return next((c for c in acknowledged[first:] if c.invoked_ns > last_by_ns), None)


def staleness_figures(stale: list[StaleRead], reads: int) -> dict[str, Any]:
    """What the report shows: how many, where, and the oldest."""
    by_node: dict[str, list[StaleRead]] = {}
    for s in stale:
        by_node.setdefault(s.read.node, []).append(s)
    oldest = max(stale, key=lambda s: s.age_ns, default=None)
    return {
        "describes": reads,
        "stale_describes": len(stale),
        "stale_by_node": [_at_node(node, own) for node, own in sorted(by_node.items())],
        "stalest_describe": None
        if oldest is None
        else {
            "event": oldest.read.invoke_index,
            "node": oldest.read.node,
            "key": oldest.read.key,
            "answered": oldest.read.result,
            "lacks": oldest.missed.value,
            "lacks_event": oldest.missed.complete_index,
            "age_ns": oldest.age_ns,
        },
    }


def staleness_evidence(stale: list[StaleRead]) -> dict[str, Rows]:
    """The rows behind the figures; those of the stalest answer are the change that it lacks, and its question."""
    oldest = max(stale, key=lambda s: s.age_ns, default=None)
    return {
        "stale_describes": rows(s.read for s in stale),
        "stalest_describe": () if oldest is None else _age_rows(oldest),
    }


def _at_node(node: str, stale: list[StaleRead]) -> dict[str, Any]:
    oldest = max(stale, key=lambda s: s.age_ns)
    return {
        "node": node,
        "stale": len(stale),
        "age_ns_max": oldest.age_ns,
        "events": {
            "stale": rows(s.read for s in stale),
            "age_ns_max": _age_rows(oldest),
            "missed": tuple(dict.fromkeys(rows(s.missed for s in stale))),
        },
    }


def _age_rows(stale: StaleRead) -> Rows:
    return row(stale.missed), stale.read.invoke_index
