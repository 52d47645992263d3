"""What a claim of the report rests on: every figure that can be traced is a link to the rows that prove it.

Words carry the indexes of their rows from where they are made to where they are shown; the page collects them as it
is made. Its last section lists each claim with its rows, and the rows themselves as the history has them. Both are cut
at a bound, so that the page stays small however long the run was: the first rows and the last of each claim stay, and
what was cut is counted. `verdict.json` holds more of them, and `fencepost report --events` prints any.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup, escape

from fencepost.harness.history import BeliefEvent, History
from fencepost.harness.report.words.wording import clock, count, event
from fencepost.harness.verdict.figures import ControllerAttempt, ControllerElection, FigureRow

#: Rows that the page holds, and claims that it lists.
ROWS_MAX: Final = 1_000
CLAIMS_MAX: Final = 500
#: Of one claim the first and the last so many rows are named.
_FIRST: Final = 16
_LAST: Final = 4
#: Beside a clause of a story so many stand; of more, only how many they are.
_CITED_MAX: Final = 4
_SAID_MAX: Final = 160


class Traced(str):
    """Words that rest on rows of the history, whose indexes are `rows`."""

    __slots__ = ("rows",)
    rows: tuple[int, ...]

    def __new__(cls, said: str, rows: Iterable[int]) -> "Traced":
        made = super().__new__(cls, said)
        made.rows = tuple(rows)
        return made


def traced(said: str, rows: Iterable[int] | None) -> str:
    """`said` with its rows; as it is when there are none."""
    return Traced(said, rows) if rows else said


def rows_of(row: FigureRow | Mapping[str, Any], key: str) -> tuple[int, ...]:
    """The rows that a figure's row in a list names for one of its columns."""
    if not isinstance(row, Mapping):
        return row.indexes if isinstance(row, ControllerElection | ControllerAttempt) else row.events.get(key, ())
    events = row.get("events")
    return tuple(events.get(key, ())) if isinstance(events, Mapping) else tuple(row.get("indexes", ()))


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Words of the page and the rows behind them; `number` names it within the page."""

    number: int
    said: str
    rows: tuple[int, ...]

    @property
    def named(self) -> tuple[int, ...]:
        """The rows that the page names."""
        if len(self.rows) <= _FIRST + _LAST:
            return self.rows
        return (*self.rows[:_FIRST], *self.rows[-_LAST:])


class Ledger:
    """Collects the claims of one page, in the order in which they are shown; equal rows are one claim."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._claims: dict[tuple[int, ...], Claim] = {}

    def link(self, said: Any, *about: str) -> Markup:
        """A figure as a link to its claim, which is told by what the figure is about; other words as they are."""
        if not isinstance(said, Traced):
            return escape(said)
        claim = self._claim(said, ", ".join(words for words in about if words))
        if claim is None:
            return escape(str(said))
        link = '<a class="rows" href="#c{}" title="{}">{}</a>'
        return Markup(link).format(claim.number, _summary(claim.rows), str(said))

    def cited(self, said: Any) -> Markup:
        """A clause with the rows behind it: a few by number, of more how many they are."""
        if not isinstance(said, Traced):
            return escape(said)
        claim = self._claim(said, "")
        if claim is None:
            return escape(str(said))
        few = len(claim.rows) <= _CITED_MAX
        shown = ", ".join(map(str, claim.rows)) if few else f"{count(len(claim.rows))} rows"
        cited = '{}<a class="cited" href="#c{}" title="{}">{}</a>'
        return Markup(cited).format(str(said), claim.number, _summary(claim.rows), shown)

    def _claim(self, said: Traced, about: str) -> Claim | None:
        rows = tuple(i for i in said.rows if 0 <= i < len(self._history.events))
        if rows not in self._claims:
            if not rows or len(self._claims) >= CLAIMS_MAX:
                return None
            words = f"{about}: {said}" if about else said.lstrip(", ")
            words = words if len(words) <= _SAID_MAX else f"{words[: _SAID_MAX - 1]}…"
            self._claims[rows] = Claim(number=len(self._claims) + 1, said=words, rows=rows)
        return self._claims[rows]

    @property
    def claims(self) -> Sequence[Claim]:
        return list(self._claims.values())

    def shown(self) -> list[int]:
        """The rows that the page holds: of every claim the first two and the last, then more in turn; in order."""
        chosen: set[int] = set()
        for place in range(_FIRST + _LAST):
            for claim in self._claims.values():
                named = (*claim.named[:2], *claim.named[:1:-1])
                if place < len(named) and len(chosen) < ROWS_MAX:
                    chosen.add(named[place])
        return sorted(chosen)

    def rows(self) -> list[dict[str, Any]]:
        """The shown rows in words."""
        return [_row(self._history, index) for index in self.shown()]

    def listed(self) -> list[dict[str, Any]]:
        """Every claim with the rows that it names, as links where the page holds them."""
        shown = set(self.shown())
        return [
            {
                "number": claim.number,
                "said": claim.said,
                "count": len(claim.rows),
                "rows": Markup(" ").join(_number(index, index in shown) for index in claim.named),
                "more": len(claim.rows) - len(claim.named),
            }
            for claim in self._claims.values()
        ]


def _summary(rows: tuple[int, ...]) -> str:
    """For a reader who points at it."""
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
