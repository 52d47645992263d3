"""The table as a page, self-contained and without scripts, and as Markdown.

Both say the same, but for witnesses: the page shows one for each cell, Markdown one for each row.
"""

import base64
import hashlib
from collections.abc import Iterable
from importlib import resources
from typing import Final

from markupsafe import Markup

from fencepost.campaigns.kip.columns import Part, Proposal
from fencepost.campaigns.kip.experiments import EXPERIMENTS
from fencepost.campaigns.kip.rows import experiments_of, rows_of
from fencepost.campaigns.kip.table import Measured, State, Table, TableCell, TableRow

_TITLES: Final = {
    Proposal.KIP_30: "KIP-30 as a table: what a pluggable keeper of metadata can promise",
    Proposal.KIP_273: "KIP-273 as a table: whether another store gives the semantics of ZooKeeper",
}
#: What the words of the cells mean; with a state, only where some cell has it.
_LEGEND: Final[tuple[tuple[State | None, str], ...]] = (
    (None, "promised: the system's documentation says so; the source stands below."),
    (None, "by recipe: the row holds as long as what the recipe relies on does."),
    (None, "cannot: the system offers nothing that would hold the row."),
    (State.NO_RECIPE, "no recipe: the system does not put this part of the interface into practice."),
    (
        State.UNEXERCISED,
        "nothing exercised it: the runs gave the row no chance to be broken; this is never a pass.",
    ),
    (
        State.BY_CONSTRUCTION,
        "by construction: it follows from how the interface is built, without a run; why stands below.",
    ),
    (State.NOT_MEASURED, "not measured: nothing in fencepost measures the row; why stands below."),
    (
        None,
        "Exposures count how often a rule could have been broken; without any, nothing is said to hold. One exposure"
        " can show several violations, where a row has several rules.",
    ),
    (None, "A violation of a promised row is a finding; one of a row by recipe shows what the recipe rests on."),
)

_OWN_STYLE: Final = """
td.violated { font-weight: 600; } td small { display: block; }
table { font-size: .9em; } td, th { vertical-align: top; }
"""
_PAGE: Final = Markup("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src '{hash}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>fencepost {proposal}</title>
<style>{style}</style>
</head>
<body><main id="main">
<h1>{title}</h1>
<p class="run">{run}</p>
<p>{sentence}.</p>
{missing}
<section aria-label="Table"><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>
<ul class="steps">{legend}</ul></section>
{lacks}
<section><h2>Witnesses</h2>{witnesses}</section>
<section><h2>Sources and recipes</h2>{sources}</section>
<section><h2>What was run</h2><ul class="steps">{runs}</ul></section>
</main></body></html>
""")


def measured_words(cell: TableCell) -> str:
    """What was measured of a cell, in a few words."""
    match cell.state:
        case State.HELD:
            return f"{_count(cell.exposures, 'exposure')}, no violation"
        case State.VIOLATED:
            return f"{_count(cell.exposures, 'exposure')}, {_count(cell.violations, 'violation')}"
        case State.UNEXERCISED | State.NOT_RUN:
            return f"{cell.state}: {cell.why}" if cell.why else cell.state.value
        case State.NOT_MEASURED | State.BY_CONSTRUCTION:
            return cell.state.value
        case _:
            return ""


def claim_words(cell: TableCell) -> str:
    return State.NO_RECIPE.value if cell.claim is None else cell.claim.backing.value


def markdown(table: Table) -> str:
    """Make the page in Markdown."""
    blocks = [f"# {_TITLES[table.proposal]}", f"{_run_words(table)}.", f"{table.sentence}."]
    if table.missing:
        blocks.append("Not everything was run:\n\n" + "\n".join(f"- {text}" for text in table.missing))
    head = f"| row | what must hold | {' | '.join(table.systems)} |"
    lines = [head, "| --- " * (2 + len(table.systems)) + "|"]
    for one in table.rows:
        cells = " | ".join(_markdown_cell(one, cell) for cell in one.cells)
        lines.append(f"| {one.row.id} | {_escaped(one.row.text)} | {cells} |")
    blocks += ["\n".join(lines), "\n".join(f"- {text}" for text in _legend(table))]
    if _lacks(table):
        blocks += ["## What the interface lacks", "\n".join(f"- **{i}**: {text}." for i, text in _lacks(table))]
    blocks.append("## Witnesses")
    of_rows = {one.row.id: witnesses[0] for one in table.rows if (witnesses := _witnesses(one))}
    for row, (name, cell, shown) in of_rows.items():
        steps = [_escaped(step) for step in shown.steps]
        how = f"{_count(cell.violations, 'violation')} of {shown.guarantee} ({shown.standing}); `{shown.command}`"
        listed = f". {steps[0]}" if len(steps) == 1 else "\n\n" + "\n".join(f"- {step}" for step in steps)
        blocks.append(f"### {row}\n\n{name}: {how}{listed}")
    if not of_rows:
        blocks.append("Nothing was violated.")
    blocks += [
        "## Sources and recipes",
        "What each claim rests on: its source, what the recipe needs, or why there is none.",
    ]
    for part in dict.fromkeys(one.row.part for one in table.rows):
        blocks += _markdown_sources(table, part)
    blocks += ["## What was run", "\n".join(f"- {text}" for text in _experiments(table))]
    return "\n\n".join(blocks) + "\n"


def page(table: Table) -> str:
    """Make the page in HTML."""
    style = (resources.files("fencepost.harness.report") / "templates" / "style.css").read_text(
        encoding="utf-8"
    ) + _OWN_STYLE
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    head = _joined('<th scope="col">{}</th>', ["row", "what must hold", *table.systems])
    witnesses = Markup("").join(
        Markup(
            "<details id='{}'><summary>{}: {} of {} ({})</summary><ul class='steps'>{}</ul><p><code>{}</code>{}</p>"
            "</details>"
        ).format(
            _anchor(name),
            name,
            _count(cell.violations, "violation"),
            one.guarantee,
            one.standing,
            _joined("<li>{}</li>", one.steps),
            one.command,
            Markup(' <a href="{}">report</a>').format(one.report) if one.report else "",
        )
        for row in table.rows
        for name, cell, one in _witnesses(row)
    ) or Markup("<p>Nothing was violated.</p>")
    sources = Markup("").join(
        Markup("<details><summary>{}</summary><ul class='steps'>{}</ul></details>").format(
            system,
            _joined("<li>recipe for {}</li>", table.recipes[system])
            + _joined("<li>{}</li>", [f"{row}: {text}" for row, text in _sources(table, system)]),
        )
        for system in table.systems
    )
    missing = Markup("")
    if table.missing:
        missing = Markup('<div class="notes"><strong>Not everything was run</strong><ul>{}</ul></div>').format(
            _joined("<li>{}</li>", table.missing)
        )
    return str(
        _PAGE.format(
            hash=Markup(f"sha256-{digest}"),
            style=Markup(style),  # our own file
            proposal=table.proposal,
            title=_TITLES[table.proposal],
            run=_run_words(table),
            sentence=table.sentence,
            missing=missing,
            head=head,
            body=Markup("").join(_html_row(one) for one in table.rows),
            legend=_joined("<li>{}</li>", _legend(table)),
            lacks=_html_lacks(table),
            witnesses=witnesses,
            sources=sources,
            runs=_joined("<li>{}</li>", _experiments(table)),
        )
    )


def _legend(table: Table) -> list[str]:
    return [text for state, text in _LEGEND if state is None or table.count(state)]


def _html_lacks(table: Table) -> Markup:
    items = _joined("<li>{}</li>", [f"{row}: {text}." for row, text in _lacks(table)])
    if not items:
        return items
    return Markup('<section><h2>What the interface lacks</h2><ul class="steps">{}</ul></section>').format(items)


def _html_row(one: TableRow) -> Markup:
    cells = Markup("")
    for cell in one.cells:
        text = Markup("{}<small>{}</small>").format(claim_words(cell), measured_words(cell))
        if cell.witness is not None:
            text += Markup(' <a href="#{}">witness</a>').format(_anchor(_name(one, cell)))
        kind = "violated" if cell.state is State.VIOLATED else ""
        cells += Markup('<td class="{}" title="{}">{}</td>').format(kind, cell.why, text)
    return Markup('<tr><th scope="row">{}</th><td>{}<small>else: {}</small></td>{}</tr>').format(
        one.row.id, one.row.text, one.row.anomaly, cells
    )


def _markdown_cell(one: TableRow, cell: TableCell) -> str:
    text = ": ".join(filter(None, (claim_words(cell), measured_words(cell))))
    if cell.witness is None:
        return _escaped(text)
    return f"**{_escaped(text)}** ([witness](#{_anchor(one.row.id)}))"


def _markdown_sources(table: Table, part: Part) -> list[str]:
    """A part of the interface: recipes and sources as a table, then why no run measures a row."""
    rows = [one for one in table.rows if one.row.part is part]
    systems = [name for name in table.systems if any(c.claim for one in rows for c in one.cells if c.system == name)]
    if not systems:
        return []
    recipes = [_recipes(table, system, part) for system in systems]
    lines = [("row", *systems), ("---",) * (1 + len(systems)), ("recipe", *recipes)]
    for one in rows:
        texts = {cell.system: cell.claim.text for cell in one.cells if cell.claim is not None}
        lines.append((one.row.id, *(texts.get(system, "") for system in systems)))
    blocks = [f"### {part.capitalize()}", "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)]
    unmeasured: dict[str, list[str]] = {}
    for one in rows:
        for cell in one.cells:
            if cell.state in (State.NOT_MEASURED, State.BY_CONSTRUCTION):
                unmeasured.setdefault(f"{one.row.id}, {cell.state}: {cell.why}", []).append(cell.system)
    if unmeasured:
        blocks.append("\n".join(f"- {text} ({', '.join(of)})" for text, of in unmeasured.items()))
    return blocks


def _recipes(table: Table, system: str, part: Part) -> str:
    """The recipes of a system for one part."""
    prefix = f"{part}: "
    return "; or ".join(text.removeprefix(prefix) for text in table.recipes[system] if text.startswith(prefix))


def _name(one: TableRow, cell: TableCell) -> str:
    return f"{one.row.id} on {cell.system}"


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _witnesses(one: TableRow) -> list[tuple[str, TableCell, Measured]]:
    return [(_name(one, cell), cell, cell.witness) for cell in one.cells if cell.witness is not None]


def _lacks(table: Table) -> list[tuple[str, str]]:
    return _same_text((one.row.id.value, one.row.lacks) for one in table.rows if one.row.lacks)


def _same_text(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join the rows of which the same is said."""
    ids: dict[str, list[str]] = {}
    for row, text in rows:
        ids.setdefault(text, []).append(row)
    return [(", ".join(of), text) for text, of in ids.items()]


def _sources(table: Table, system: str) -> list[tuple[str, str]]:
    """What each claim of a system rests on, and why a row has no measurement."""
    rows = []
    for row, cell in table.cells():
        if cell.system == system and cell.claim is not None:
            lacks_runs = cell.state in (State.NOT_MEASURED, State.BY_CONSTRUCTION)
            why = f" ({cell.state}: {cell.why})" if lacks_runs else ""
            rows.append((row.id.value, f"{cell.claim.backing}: {cell.claim.text}{why}"))
    return _same_text(rows)


def _experiments(table: Table) -> list[str]:
    wanted = experiments_of(rows_of(table.proposal))
    return [
        f"{one.id}: workload {one.workload}, faults {one.nemesis}: {one.about}"
        for one in EXPERIMENTS
        if one.id in wanted
    ]


def _run_words(table: Table) -> str:
    versions = ", ".join(f"{system} {table.versions.get(system, '')}".strip() for system in table.systems)
    cores, kernel = table.machine.get("cores", "?"), table.machine.get("kernel", "?")
    return (
        f"{versions}; {_count(table.runs, 'run')} ({table.runtime}) of {table.played_s:.0f} s in all; "
        f"{table.started_at}; {cores} cores, Linux {kernel}"
    )


def _joined(item: str, texts: Iterable[str]) -> Markup:
    return Markup("").join(Markup(item).format(text) for text in texts)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _count(number: int, one: str) -> str:
    return f"{number:,} {one if number == 1 else one + 's'}"
