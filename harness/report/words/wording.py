"""The wording of numbers, times, values and events, the same in every part of a report.

Every verdict and outcome has a sign and a word, so no meaning rests on colour.
"""

from typing import Any, Final

import msgspec

from fencepost.harness.history import (
    AttemptEvent,
    BeliefEvent,
    CatchUpEvent,
    EpochEvent,
    Event,
    FaultEvent,
    FaultOutcome,
    LogEvent,
    MigrationDelayEvent,
    MigrationEvent,
    NodeEvent,
    NoteEvent,
    Operation,
    OpEvent,
    Outcome,
    PhaseEvent,
    SampleEvent,
    log_of,
)
from fencepost.harness.verdict import Standing, Validity

SIGNS: Final = {Validity.VALID: "✓", Validity.INVALID: "✗", Validity.UNKNOWN: "?"}

OUTCOME_SIGNS: Final = {Outcome.INVOKE: "→", Outcome.OK: "✓", Outcome.FAIL: "✗", Outcome.INFO: "?"}

FAULT_SIGNS: Final = {
    FaultOutcome.PENDING: "…",
    FaultOutcome.INSTALLED: "✓",
    FaultOutcome.SKIPPED: "–",
    FaultOutcome.INDETERMINATE: "?",
    FaultOutcome.HEALED: "✓",
}

#: Short enough to stand in a cell.
STANDINGS: Final = {
    Standing.PROMISED: "by the maker",
    Standing.RELIED_UPON: "by users, disclaimed by the maker",
    Standing.MEASURED: "only, promised by nobody",
}


def clock(ns: int | None) -> str:
    """Show a moment of the run: seconds since its start, to the millisecond."""
    return "" if ns is None else f"{ns / 1e9:.3f} s"


def length(ns: float | None) -> str:
    """Show a length of time with three significant digits and a fitting unit."""
    if ns is None:
        return ""
    for limit, unit, name in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if abs(ns) < limit:
            return f"{_three(ns / unit)} {name}"
    return f"{_three(ns / 1e9)} s" if abs(ns) < 1e12 else f"{ns / 1e9:,.0f} s"


def _three(number: float) -> str:
    digits = 0 if abs(number) >= 100 else 1 if abs(number) >= 10 else 2
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(number: int) -> str:
    """Show a count in groups of three digits: 12 345."""
    return f"{number:,}".replace(",", "\u202f")


def text(value: Any, limit: int = 60) -> str:
    """Show a value as JSON, cut at `limit` characters; a value that JSON cannot hold is shown by `repr`."""
    if isinstance(value, str) and value.isprintable():
        out = value
    else:
        try:
            out = msgspec.json.encode(value).decode()
        except (TypeError, ValueError):
            out = repr(value)
    return out if len(out) <= limit else out[: limit - 1] + "…"


def request(f: str, key: str | None, value: Any) -> str:
    """Describe a request: `write r1 ← 17`, `read r1`, `cas r1 4 → 5`."""
    parts = [f] if key is None else [f, key]
    if f == "cas" and isinstance(value, list | tuple) and len(value) == 2:
        parts.append(f"{text(value[0], 24)} → {text(value[1], 24)}")
    elif value is not None:
        parts.append(f"← {text(value, 48)}")
    return " ".join(parts)


def operation(op: Operation) -> str:
    """Describe an operation with its result: `read r1 = 12`."""
    asked_for = request(op.f, op.key, op.value)
    if op.type is Outcome.OK and op.result is not None and op.result != op.value:
        return f"{asked_for} = {text(op.result, 48)}"
    return asked_for


#: The beginning of an error by which the store says that the compared value is another one.
_LOST_COMPARE: Final = "cas-mismatch"


def lost_compare(op: Operation) -> bool:
    """Say whether the store answered a compare-and-set with "another value": it served the request, so no error."""
    return op.type is Outcome.FAIL and (op.error or "").startswith(_LOST_COMPARE)


def logged(item: LogEvent) -> str:
    """Describe a change of which a log tells, such as "n1's log: resigned as controller, epoch 4"."""
    whose = log_of(item.node) if item.source == "log" else item.source
    about = "" if item.source == "log" else f"{item.node} "
    parts = [
        f"{about}{item.change}",
        "" if item.subject is None else f"as {item.subject}",
        "" if item.key is None else f"of {item.key}",
        "" if item.detail is None else item.detail,
    ]
    numbers = [("epoch", item.epoch), ("position", item.position)]
    phrases = [" ".join(part for part in parts if part), *(f"{name} {n}" for name, n in numbers if n is not None)]
    return f"{whose}: {', '.join(phrases)}"


def event(item: Event) -> str:
    """Describe any event in one phrase."""
    match item:
        case OpEvent():
            return f"{request(item.f, item.key, item.value)}" + (f" ({item.error})" if item.error else "")
        case FaultEvent():
            return f"{item.action} {item.fault} on {', '.join(item.nodes) or item.target}: {item.stage}, {item.outcome}"
        case BeliefEvent():
            claim = f"{item.node} claims {item.claims}"
            # With only one subject its name is always `leader`, and the phrase leaves it out.
            claim += "" if item.subject == "leader" else f" ({item.subject})"
            claim += "" if item.leader in (None, item.node) or item.subject == "leader" else f", names {item.leader}"
            return claim if item.epoch is None else f"{claim}, epoch {'' if item.epoch_exact else '≥ '}{item.epoch}"
        case NodeEvent():
            return f"{item.node} {item.change}" + ("" if item.expected else " by itself")
        case EpochEvent():
            return f"{item.node}'s log: leader of epoch {item.epoch}"
        case CatchUpEvent():
            return f"{item.node}'s log: caught up by {item.change}"
        case LogEvent():
            return logged(item)
        case AttemptEvent():
            what = item.f if item.key is None else f"{item.f} {item.key}"
            under = "" if item.epoch is None else f" under epoch {item.epoch}"
            return f"{item.source}: {item.node} tried {what}{under}, refused: {item.error}"
        case PhaseEvent():
            return f"phase {item.phase} begins"
        case MigrationEvent():
            return f"the migration is in its phase {item.phase}: {item.text}"
        case MigrationDelayEvent():
            return f"the migration did not reach its phase {item.phase} within {length(item.length_ns)}: {item.text}"
        case NoteEvent():
            return f"{item.topic}: {item.text}"
        case SampleEvent():
            waited = "" if item.cpu_stall_ns is None else f", tasks waited {length(item.cpu_stall_ns)} for a processor"
            return f"health sample: the timer up to {length(item.loop_lag_ns_max)} late{waited}"
        case _:
            return type(item).__name__
