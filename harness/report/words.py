"""The words of a report, and the evidence behind its claims: the same in every part of it.

Every verdict and outcome has a sign and a word, so no meaning rests on colour.

A traced figure is a link to the rows of the history that prove it. A traced text carries the indexes of its rows, and
the page collects them while it is made. The page's last section lists each claim with its rows, and the rows themselves
as the history has them. Both lists have a limit, so that the page of a long run stays small: each claim keeps its first
and last rows, and the page counts the rest. `verdict.json` holds more rows, and `fencepost report --events` prints any
row.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup, escape

from fencepost.harness.history import (
    AttemptEvent,
    BeliefEvent,
    CatchUpEvent,
    EpochEvent,
    Event,
    FaultEvent,
    FaultOutcome,
    History,
    LogEvent,
    MigrationDelayEvent,
    MigrationEvent,
    NodeEvent,
    NoteEvent,
    Operation,
    OpEvent,
    Outcome,
    PhaseEvent,
    ReplicaEvent,
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
        case ReplicaEvent():
            where = "" if item.key is None else f" at {item.key}"
            return f"{item.node} holds of its {item.subject}{where}: {item.value or item.detail or 'nothing'}"
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


#: The most rows that the page holds, and the most claims that it lists.
ROWS_MAX: Final = 1_000
CLAIMS_MAX: Final = 500
#: How many of the first and of the last rows of one claim the page names.
_FIRST: Final = 16
_LAST: Final = 4
#: The most row numbers beside a step of a witness; with more rows it shows only their count.
_CITED_MAX: Final = 4
_SAID_MAX: Final = 160


class Cited(str):
    """A text that rests on rows of the history; `rows` holds their indexes."""

    __slots__ = ("rows",)
    rows: tuple[int, ...]

    def __new__(cls, phrase: str, rows: Iterable[int]) -> "Cited":
        made = super().__new__(cls, phrase)
        made.rows = tuple(rows)
        return made


def traced(phrase: str, rows: Iterable[int] | None) -> str:
    """Attach rows to a phrase; without rows the phrase stays plain."""
    return Cited(phrase, rows) if rows else phrase


class _Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A statement of the page with the rows behind it; `number` names the claim within the page."""

    number: int
    statement: str
    rows: tuple[int, ...]

    @property
    def named(self) -> tuple[int, ...]:
        """Return the rows that the page names."""
        if len(self.rows) <= _FIRST + _LAST:
            return self.rows
        return (*self.rows[:_FIRST], *self.rows[-_LAST:])


class Ledger:
    """The claims of one page in the order in which it shows them; claims with equal rows are one claim."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._claims: dict[tuple[int, ...], _Claim] = {}

    def link(self, phrase: Any, *about: str) -> Markup:
        """Turn a traced figure into a link to its claim, which `about` describes; plain text stays as it is."""
        if not isinstance(phrase, Cited):
            return escape(phrase)
        claim = self._claim(phrase, ", ".join(part for part in about if part))
        if claim is None:
            return escape(str(phrase))
        link = '<a class="rows" href="#c{}" title="{}">{}</a>'
        return Markup(link).format(claim.number, _summary(claim.rows), str(phrase))

    def cited(self, phrase: Any) -> Markup:
        """Show a clause with the rows behind it: a few by number, more only by their count."""
        if not isinstance(phrase, Cited):
            return escape(phrase)
        claim = self._claim(phrase, "")
        if claim is None:
            return escape(str(phrase))
        few = len(claim.rows) <= _CITED_MAX
        shown = ", ".join(map(str, claim.rows)) if few else f"{count(len(claim.rows))} rows"
        cited = '{}<a class="cited" href="#c{}" title="{}">{}</a>'
        return Markup(cited).format(str(phrase), claim.number, _summary(claim.rows), shown)

    def _claim(self, phrase: Cited, about: str) -> _Claim | None:
        rows = tuple(i for i in phrase.rows if 0 <= i < len(self._history.events))
        if rows not in self._claims:
            if not rows or len(self._claims) >= CLAIMS_MAX:
                return None
            statement = f"{about}: {phrase}" if about else phrase.lstrip(", ")
            statement = statement if len(statement) <= _SAID_MAX else f"{statement[: _SAID_MAX - 1]}…"
            self._claims[rows] = _Claim(number=len(self._claims) + 1, statement=statement, rows=rows)
        return self._claims[rows]

    @property
    def claims(self) -> Sequence[_Claim]:
        return list(self._claims.values())

    def shown(self) -> list[int]:
        """Return the page's rows in order: the first two and the last of every claim, then more in turn."""
        chosen: set[int] = set()
        for place in range(_FIRST + _LAST):
            for claim in self._claims.values():
                named = (*claim.named[:2], *claim.named[:1:-1])
                if place < len(named) and len(chosen) < ROWS_MAX:
                    chosen.add(named[place])
        return sorted(chosen)

    def rows(self) -> list[dict[str, Any]]:
        """Describe the rows that the page holds."""
        return [_row(self._history, index) for index in self.shown()]

    def listed(self) -> list[dict[str, Any]]:
        """List every claim with the rows that it names; rows that the page holds are links."""
        shown = set(self.shown())
        return [
            {
                "number": claim.number,
                "said": claim.statement,
                "count": len(claim.rows),
                "rows": Markup(" ").join(_number(index, index in shown) for index in claim.named),
                "more": len(claim.rows) - len(claim.named),
            }
            for claim in self._claims.values()
        ]


def _summary(rows: tuple[int, ...]) -> str:
    """Make the tooltip of a claim: its rows in brief."""
    if len(rows) == 1:
        return f"row {rows[0]}"
    named = [str(i) for i in rows] if len(rows) <= 6 else [str(i) for i in rows[:4]] + ["…", str(rows[-1])]
    return f"{count(len(rows))} rows: {', '.join(named)}"


def _number(index: int, shown: bool) -> Markup:
    return Markup('<a href="#e{0}">{0}</a>').format(index) if shown else Markup(str(index))


def _row(history: History, index: int) -> dict[str, Any]:
    item = history.events[index]
    return {
        "index": index,
        "at": clock(item.time_ns),
        "asked": clock(item.asked_ns) if isinstance(item, BeliefEvent) else "",
        "kind": str(getattr(item, "type", "")) or type(item).__name__.removesuffix("Event").lower(),
        "process": getattr(item, "process", ""),
        "node": getattr(item, "node", ""),
        "said": event(item),
        "epoch": "" if getattr(item, "epoch", None) is None else str(getattr(item, "epoch", "")),
    }


_WORDS: Final = {
    "linearizable": "Each operation seems to happen at one instant between its invocation and its completion.",
    "no-lost-acknowledged-writes": "Later reads return every acknowledged write, and nothing else.",
    "ordered-sequential": "Writes are linearizable in one order; each session sees the states of the store in that "
    "order, and after a sync everything that was acknowledged before it.",
    "strict-serializable": "Transactions behave as in one order, in which a completed transaction comes before every "
    "transaction that was invoked later.",
}


def guarantee_words(name: str) -> str:
    """Return one sentence on a guarantee; empty for an unknown name."""
    return _WORDS.get(name, "")
