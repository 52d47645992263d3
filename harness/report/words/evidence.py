"""The evidence behind the report's claims: a traced figure is a link to the rows of the history that prove it.

A traced text carries the indexes of its rows, and the page collects them while it is made. The page's last section
lists each claim with its rows, and the rows themselves as the history has them. Both lists have a limit, so that the
page of a long run stays small: each claim keeps its first and last rows, and the page counts the rest. `verdict.json`
holds more rows, and `fencepost report --events` prints any row.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup, escape

from fencepost.harness.history import BeliefEvent, History
from fencepost.harness.report.words.wording import clock, count, event

#: The most rows that the page holds, and the most claims that it lists.
ROWS_MAX: Final = 1_000
CLAIMS_MAX: Final = 500
#: How many of the first and of the last rows of one claim the page names.
_FIRST: Final = 16
_LAST: Final = 4
#: The most row numbers beside a step of a witness; with more rows it shows only their count.
_CITED_MAX: Final = 4
_SAID_MAX: Final = 160


class Traced(str):
    """A text that rests on rows of the history; `rows` holds their indexes."""

    __slots__ = ("rows",)
    rows: tuple[int, ...]

    def __new__(cls, phrase: str, rows: Iterable[int]) -> "Traced":
        made = super().__new__(cls, phrase)
        made.rows = tuple(rows)
        return made


def traced(phrase: str, rows: Iterable[int] | None) -> str:
    """Attach rows to a phrase; without rows the phrase stays plain."""
    return Traced(phrase, rows) if rows else phrase


def rows_of(row: msgspec.Struct | Mapping[str, Any], key: str) -> tuple[int, ...]:
    """Return the rows of the history that a figure's row names for one of its columns."""
    if not isinstance(row, Mapping):
        return tuple(row.events.get(key, ()) if hasattr(row, "events") else getattr(row, "indexes", ()))
    events = row.get("events")
    return tuple(events.get(key, ())) if isinstance(events, Mapping) else tuple(row.get("indexes", ()))


class Claim(msgspec.Struct, frozen=True, kw_only=True):
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
        self._claims: dict[tuple[int, ...], Claim] = {}

    def link(self, phrase: Any, *about: str) -> Markup:
        """Turn a traced figure into a link to its claim, which `about` describes; plain text stays as it is."""
        if not isinstance(phrase, Traced):
            return escape(phrase)
        claim = self._claim(phrase, ", ".join(part for part in about if part))
        if claim is None:
            return escape(str(phrase))
        link = '<a class="rows" href="#c{}" title="{}">{}</a>'
        return Markup(link).format(claim.number, _summary(claim.rows), str(phrase))

    def cited(self, phrase: Any) -> Markup:
        """Show a clause with the rows behind it: a few by number, more only by their count."""
        if not isinstance(phrase, Traced):
            return escape(phrase)
        claim = self._claim(phrase, "")
        if claim is None:
            return escape(str(phrase))
        few = len(claim.rows) <= _CITED_MAX
        shown = ", ".join(map(str, claim.rows)) if few else f"{count(len(claim.rows))} rows"
        cited = '{}<a class="cited" href="#c{}" title="{}">{}</a>'
        return Markup(cited).format(str(phrase), claim.number, _summary(claim.rows), shown)

    def _claim(self, phrase: Traced, about: str) -> Claim | None:
        rows = tuple(i for i in phrase.rows if 0 <= i < len(self._history.events))
        if rows not in self._claims:
            if not rows or len(self._claims) >= CLAIMS_MAX:
                return None
            statement = f"{about}: {phrase}" if about else phrase.lstrip(", ")
            statement = statement if len(statement) <= _SAID_MAX else f"{statement[: _SAID_MAX - 1]}…"
            self._claims[rows] = Claim(number=len(self._claims) + 1, statement=statement, rows=rows)
        return self._claims[rows]

    @property
    def claims(self) -> Sequence[Claim]:
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
