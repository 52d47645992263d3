"""What makes two runs show the same anomaly: system, guarantee, the anomaly's name, the kinds of operations involved.

No time, value, key, node or count is part of it, since none of them comes again. Operations that change nothing are
named; all that change something count as one kind, `change`: which write a stale read happens to miss is chance.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fencepost.harness.history import History, OpEvent
from fencepost.harness.verdict.verdict import Facts, Validity, Verdict

#: Stands for every operation that changes something.
CHANGE: Final = "change"
#: Of a witness without operations, such as a leader's claims, and of an anomaly without a witness.
NO_OPERATIONS: Final = "none"
#: An invalid verdict that counts nothing by name.
_UNNAMED: Final = "unnamed"


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One anomaly of a run, over all checkers that found it.

    `fingerprints` are those of its witnesses, the first witness's first; there is at least one.
    """

    guarantee: str
    anomaly: str
    count: int
    decides: bool
    fingerprints: tuple[str, ...]


def anomalies(
    history: History, facts: Facts, verdicts: Sequence[Verdict], effect_free: frozenset[str]
) -> list[Anomaly]:
    """Every anomaly by guarantee and name, those that decide first; `effect_free` are the workload's functions."""
    counts: dict[tuple[str, str], int] = {}
    for verdict in verdicts:
        for name, number in verdict.anomalies.items():
            counts[verdict.guarantee, name] = counts.get((verdict.guarantee, name), 0) + number
        if verdict.validity is Validity.INVALID and not verdict.anomalies:
            counts.setdefault((verdict.guarantee, _UNNAMED), 1)
    all_anomalies = [
        Anomaly(
            guarantee=guarantee,
            anomaly=name,
            count=count,
            decides=facts.decides(guarantee),
            fingerprints=tuple(
                dict.fromkeys(
                    ":".join((facts.system, guarantee, name, _kinds(history, events, effect_free)))
                    for events in _witnessed(verdicts, guarantee, name) or [()]
                )
            ),
        )
        for (guarantee, name), count in counts.items()
    ]
    return sorted(all_anomalies, key=lambda anomaly: not anomaly.decides)


def all_fingerprints(all_anomalies: Iterable[Anomaly]) -> tuple[str, ...]:
    """Every fingerprint that a run shows, the one that names the run first."""
    return tuple(dict.fromkeys(text for anomaly in all_anomalies for text in anomaly.fingerprints))


def _witnessed(verdicts: Sequence[Verdict], guarantee: str, name: str) -> list[tuple[int, ...]]:
    """The events of each witness of this anomaly."""
    of_guarantee = (verdict for verdict in verdicts if verdict.guarantee == guarantee)
    return [witness.events for verdict in of_guarantee for witness in verdict.witnesses if witness.anomaly == name]


def _kinds(history: History, indexes: tuple[int, ...], effect_free: frozenset[str]) -> str:
    events = (history.events[i] for i in indexes if 0 <= i < len(history.events))
    functions = {event.f for event in events if isinstance(event, OpEvent)}
    kinds = sorted(functions & effect_free) + [CHANGE] * bool(functions - effect_free)
    return "+".join(kinds) or NO_OPERATIONS
