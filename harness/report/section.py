"""A section of a report: what it is made from (one run, already judged, as plain data), and the tables that it shows.

Tables are rows of plain text; any figures become tables, and the name of a column decides how its cells look.

Leaves add sections of their own, and tables in sections of the core; they stand in the leaves' tables REPORT_SECTIONS.
An addition that cannot be loaded becomes a section that says so.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from fencepost.harness.base import offers
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.history import History
from fencepost.harness.report.words import clock, count, length, text, traced
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.harness.verdict.by_guarantee import listed
from fencepost.harness.verdict.figures import PolledReign, Traced


class ReportCase(msgspec.Struct, frozen=True, kw_only=True):
    """One judged run.

    `validity` is the run's merged verdict and `headline` says it in one sentence. `run` is `run.json` (seed, system,
    version, sha256 of the binaries, kernel, git commit, started_at, ...). `command` repeats the run. `derived` holds
    the tables of facts by name; empty where they could not be derived.
    `files` names what else lies in the run's folder, by what it is; empty means the usual names. `effect_free` are the
    workload's functions that change nothing. `folder` is where the run is kept; None for one that is not.
    """

    history: History
    facts: Facts
    verdicts: tuple[Verdict, ...]
    validity: Validity
    headline: str
    run: dict[str, Any]
    command: str
    plan_toml: str
    derived: Mapping[str, Any] = {}
    files: dict[str, str] = {}
    effect_free: frozenset[str] = frozenset()
    folder: str | None = None

    def deciding(self) -> tuple[Verdict, ...]:
        """The verdicts on guarantees that can make this run invalid."""
        return tuple(v for v in self.verdicts if self.facts.decides(v.guarantee))

    def not_deciding(self) -> tuple[Verdict, ...]:
        """The verdicts that are reported with their counts only."""
        return tuple(v for v in self.verdicts if not self.facts.decides(v.guarantee))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table of facts; none where it was not derived."""
        table = self.derived.get(name)
        return [] if table is None else table.to_pylist()

    def fact(self, name: str) -> Any:
        """A fact of `run.json`, wherever it stands there: `version`, `seed`, `kernel`, ...; None when it is absent."""
        machine = self.run.get("machine")
        places = (self.run, machine if isinstance(machine, dict) else {})
        names = (f"system_{name}", name) if name == "version" else (name,)
        return next((place[n] for place in places for n in names if place.get(n) is not None), None)

    @property
    def settings(self) -> Settings:
        """What was set on the servers themselves."""
        given = self.run.get("settings")
        return given.get("asked", {}) if isinstance(given, dict) else {}

    @property
    def name(self) -> str:
        """system-workload-nemesis, as the results folder is called."""
        return "-".join((self.facts.system, self.facts.workload, "+".join(self.facts.nemesis) or "none"))


def reigns_by_partition(case: ReportCase) -> dict[str, list[PolledReign]]:
    """Who led each topic partition that changed its leader; first those that a superseded broker went on leading."""
    by_partition: dict[str, list[PolledReign]] = {}
    for reign in listed(case.verdicts, PolledReign):
        by_partition.setdefault(reign.partition, []).append(reign)
    return dict(sorted(by_partition.items(), key=lambda item: not any(r.claimed_samples.value for r in item[1])))


#: Longer tables are cut, and a note says so.
ROWS_MAX: Final = 60
#: Columns in nanoseconds that are moments of the run; all other `_ns` columns are lengths of time.
_MOMENTS: Final = frozenset(
    f"{name}_ns"
    for name in (
        *(
            "from",
            "to",
            "at",
            "begin",
            "end",
            "begun",
            "began",
            "ended",
            "asked",
            "answered",
            "lo",
            "hi",
            "first",
            "last",
        ),
        *("invoked", "completed", "read", "healed", "injected", "certain_from", "certain_to", "superseded", "since"),
        *("claimed_from", "claimed_to", "claimed_until", "known_since", "first_ok", "last_ok", "gap_from", "cut_from"),
        *("without_ok_from", "new_leader_at", "proven_from", "proven_to", "possible_from", "possible_to"),
        "recovered_at",
    )
)
#: Integers in columns with these words in their names are identifiers, not counts.
_NAMES: Final = ("index", "seed", "pid", "epoch", "position", "session", "port")


class TextTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of texts, some of them traced; `note` says what was cut."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


#: A column: its name, and the field that it shows as `cell` does, or how it shows a row.
Column = tuple[str, str | Callable[[Any], str]]


def tabulated(caption: str, columns: Sequence[Column], rows: Sequence[Any], *notes: str) -> TextTable:
    """Make a table by its columns; of too many rows the first are shown, and the note says so."""
    return TextTable(
        caption=caption,
        columns=tuple(name for name, _ in columns),
        rows=tuple(
            tuple(cell(of, row[of]) if isinstance(of, str) else of(row) for _, of in columns) for row in rows[:ROWS_MAX]
        ),
        note=" ".join(filter(None, (*notes, cut_note(len(rows))))),
    )


def counts(*names: str) -> list[Column]:
    """Make a column for each of these counts of a row."""
    return [(name, functools.partial(_counted, name)) for name in names]


def _counted(name: str, row: Mapping[str, Any]) -> str:
    return count(row[name])


def flat(run: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """List the run's facts by dotted name: the short ones, and those of the binaries (paths and hashes)."""
    short: list[tuple[str, str]] = []
    long: list[tuple[str, str]] = []

    def walk(prefix: str, data: Mapping[str, Any], into: list[tuple[str, str]]) -> None:
        for key, value in data.items():
            name = f"{prefix}{key}"
            if isinstance(value, Mapping) and value:
                walk(f"{name}: ", value, long if key in ("paths", "sha256") else into)
            else:
                into.append((name.replace("_", " "), cell(key, value)))

    walk("", run, short)
    return tuple(short), tuple(long)


def generic(name: str, data: Any) -> list[TextTable]:
    """Turn any figures into tables: one per list of rows, one per nested mapping, one of names and values."""
    caption = name.replace("_", " ").replace(".", ": ")
    if _is_list(data):
        fields = [_fields(row) for row in data]
        columns = tuple(dict.fromkeys(key for row in fields for key in row))
        rows = tuple(tuple(shown(key, row.get(key)) for key in columns) for row in fields[:ROWS_MAX])
        names = tuple(column_name(key) for key in columns)
        return [TextTable(caption=caption, columns=names, rows=rows, note=cut_note(len(data)))]
    if isinstance(data, Mapping):
        nested = {k: v for k, v in data.items() if _is_list(v) or (isinstance(v, Mapping) and v)}
        plain = tuple((column_name(k), shown(k, v)) for k, v in data.items() if k not in nested)
        out = [TextTable(caption=caption, columns=("figure", "value"), rows=plain)] if plain else []
        return out + [table for key, value in nested.items() for table in generic(f"{name}.{key}", value)]
    return [TextTable(caption=caption, columns=("value",), rows=((shown(name, data),),))]


def _is_list(value: Any) -> bool:
    rows = isinstance(value, list | tuple) and all(isinstance(row, Mapping | msgspec.Struct) for row in value)
    return bool(rows and value)


def _fields(row: Mapping[str, Any] | msgspec.Struct) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    return {field.encode_name: getattr(row, field.name) for field in msgspec.structs.fields(row)}


def shown(key: str, figure: Any) -> str:
    """Show a figure with its rows, by the name of its column."""
    return traced(cell(key, figure.value), figure.rows) if isinstance(figure, Traced) else cell(key, figure)


def column_name(key: str) -> str:
    return key.removesuffix("_ns").replace("_ns_", " ").replace("_", " ")


def cell(key: str, value: Any) -> str:
    """Show a figure by the name of its column: moments and lengths of time with units, counts with groups."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int() | float() if key in _MOMENTS:
            return clock(int(value))
        case int() | float() if key.endswith("_ns") or "_ns_" in key:
            return length(value)
        case int():
            named = any(word in key for word in _NAMES)
            return count(value) if abs(value) >= 10_000 and not named else str(value)
        case float():
            return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3f}"
        case list() | tuple():
            return ", ".join(cell(key, v) for v in value[:12]) + (" …" if len(value) > 12 else "") or "none"
        case dict() if all(isinstance(v, int | float | str | None) for v in value.values()):
            return ", ".join(f"{k}: {cell(key, v)}" for k, v in list(value.items())[:12]) or "none"
        case str():
            return text(value, 400)
        case _:
            return text(value, 200)


def cut_note(total: int) -> str:
    """Return the note below a cut table; empty when all rows are shown."""
    return "" if total <= ROWS_MAX else f"{ROWS_MAX} of {count(total)} rows shown."


#: Where tables can stand: at the end of the section on faults, and in that on leaders behind the episodes of superseded
#: leaders, or behind the claims that outlived their epoch.
FAULTS: Final = "faults"
EPISODES: Final = "episodes"
CLAIMS: Final = "claims"


class AddedSection(msgspec.Struct, frozen=True, kw_only=True):
    """A section after the one named `after`; `make` gives None where there is nothing to say."""

    heading: str
    after: str
    make: Callable[[ReportCase], Markup | None]


class AddedTables(msgspec.Struct, frozen=True, kw_only=True):
    """Tables that stand at `within`; `shows` names the figures that they show, which the general tables leave out."""

    within: str
    make: Callable[[ReportCase], list[TextTable]]
    shows: frozenset[str] = frozenset()


def additions(case: ReportCase) -> dict[str, AddedSection | AddedTables]:
    """Load what leaves add to the page of this run, by name and in the order of their tables."""
    return {offer.name: _loaded(offer) for offer in offers.declared_for("report_sections", case.facts.system)}


def tables_within(place: str, case: ReportCase) -> list[TextTable]:
    """Make the tables that leaves add at this place."""
    added = (one for one in additions(case).values() if isinstance(one, AddedTables))
    return [table for one in added if one.within == place for table in one.make(case)]


def _loaded(offer: offers.NamedOffer) -> AddedSection | AddedTables:
    try:
        loaded: AddedSection | AddedTables = offer.load()
    except Exception as error:
        return AddedSection(heading=offer.name, after=FAULTS, make=functools.partial(_fail, error))
    return loaded


def _fail(error: Exception, _: ReportCase) -> Markup | None:
    raise error
