"""What makes two runs show the same anomaly: system, guarantee, its name, kinds of operations, effects of faults.

    zookeeper:fresh-after-sync:stale-read:read+change:stops

No time, value, key, node or count is part of it, since none of them comes again. Operations that change nothing are
named; all that change something count as one kind, `change`: which write a stale read happens to miss is chance. The
effects are those that faults had on the witness's nodes meanwhile: under a mixture one violation may have several.
Without them, the first four parts say which violation it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from fencepost.harness.history import FaultOutcome, History, OpEvent
from fencepost.harness.history.effects import Effects, Stops
from fencepost.harness.verdict import Facts, Validity, Verdict, Witness

#: Stands for every operation that changes something.
CHANGE: Final = "change"
#: Of a witness without operations, such as a leader's claims, of one without faults, and of an anomaly without either.
NOTHING: Final = "none"
_PARTS_OF_VIOLATION: Final = 4
#: An invalid verdict that counts nothing by name.
_UNNAMED: Final = "unnamed"


class FoundAnomaly(msgspec.Struct, frozen=True, kw_only=True):
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
) -> list[FoundAnomaly]:
    """Every anomaly by guarantee and name, those that decide first; `effect_free` are the workload's functions."""
    counts: dict[tuple[str, str], int] = {}
    for verdict in verdicts:
        for name, number in verdict.counts.items():
            counts[verdict.guarantee, name] = counts.get((verdict.guarantee, name), 0) + number
        if verdict.validity is Validity.INVALID and not verdict.anomalies:
            counts.setdefault((verdict.guarantee, _UNNAMED), 1)
    all_anomalies = [
        FoundAnomaly(
            guarantee=guarantee,
            anomaly=name,
            count=count,
            decides=facts.decides(guarantee),
            fingerprints=tuple(
                dict.fromkeys(
                    ":".join((facts.system, guarantee, name, *parts))
                    for parts in [
                        (_kinds(history, witness.events, effect_free), _effects(history, witness))
                        for witness in _witnesses(verdicts, guarantee, name)
                    ]
                    or [(NOTHING, NOTHING)]
                )
            ),
        )
        for (guarantee, name), count in counts.items()
    ]
    return sorted(all_anomalies, key=lambda anomaly: not anomaly.decides)


def all_fingerprints(all_anomalies: Iterable[FoundAnomaly]) -> tuple[str, ...]:
    """Every fingerprint that a run shows, the one that names the run first."""
    return tuple(dict.fromkeys(text for anomaly in all_anomalies for text in anomaly.fingerprints))


def violation_of(fingerprint: str) -> str:
    """A fingerprint without the effects of faults, which differ where a run is repeated or shrunk."""
    return ":".join(fingerprint.split(":")[:_PARTS_OF_VIOLATION])


def is_shown(wanted: str | None, fingerprints: Iterable[str]) -> bool:
    """Whether one of these fingerprints is of the wanted violation, whatever the effects of faults."""
    return wanted is not None and violation_of(wanted) in map(violation_of, fingerprints)


def _witnesses(verdicts: Sequence[Verdict], guarantee: str, name: str) -> list[Witness]:
    """Every witness of this anomaly."""
    of_guarantee = (verdict for verdict in verdicts if verdict.guarantee == guarantee)
    return [witness for verdict in of_guarantee for witness in verdict.witnesses if witness.anomaly == name]


def _effects(history: History, witness: Witness) -> str:
    """The effects of faults that were in force on the witness's nodes, proven or not, at some time of it."""
    names: set[str] = set()
    for fault in history.faults:
        began_ns, ended_ns = history.possible(fault)
        meanwhile = began_ns <= witness.to_ns and witness.from_ns <= ended_ns
        if meanwhile and fault.outcome is not FaultOutcome.SKIPPED and set(fault.nodes) & set(witness.nodes):
            names |= set(_names(fault.effects))
    return "+".join(sorted(names)) or NOTHING


def _names(effects: Effects) -> Iterator[str]:
    """The effects of a fault by name."""
    if effects.stops is not Stops.NO:
        yield "stops"
    yield from (name for name in ("cuts", "holds", "delays", "skews") if getattr(effects, name))
    if effects.changes_members:
        yield "members"


def _kinds(history: History, indexes: tuple[int, ...], effect_free: frozenset[str]) -> str:
    events = (history.events[i] for i in indexes if 0 <= i < len(history.events))
    functions = {event.f for event in events if isinstance(event, OpEvent)}
    kinds = sorted(functions & effect_free) + [CHANGE] * bool(functions - effect_free)
    return "+".join(kinds) or NOTHING
