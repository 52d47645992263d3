"""The table as Markdown; of each row it shows one witness."""

from collections.abc import Iterable
from typing import Final

from fencepost.campaigns.kip.rows import EXPERIMENTS, KipPart, Proposal, experiments_of, rows_of
from fencepost.campaigns.kip.table import CellState, KipTable, Measured, TableCell, TableRow
from fencepost.harness.base.quantities import counted

_TITLES: Final = {
    Proposal.KIP_30: "KIP-30 as a table: what a pluggable keeper of metadata can promise",
    Proposal.KIP_273: "KIP-273 as a table: whether another store gives the semantics of ZooKeeper",
}
#: What the words of the cells mean; with a state, only where some cell has it.
_LEGEND: Final[tuple[tuple[CellState | None, str], ...]] = (
    (None, "promised: the system's documentation says so; the source stands below."),
    (None, "by recipe: the row holds as long as what the recipe relies on does."),
    (None, "cannot: the system offers nothing that would hold the row."),
    (CellState.NO_RECIPE, "no recipe: the system does not put this part of the interface into practice."),
    (
        CellState.UNEXERCISED,
        "nothing exercised it: the runs gave the row no chance to be broken; this is never a pass.",
    ),
    (
        CellState.BY_CONSTRUCTION,
        "by construction: it follows from how the interface is built, without a run; why stands below.",
    ),
    (CellState.NOT_MEASURED, "not measured: nothing in fencepost measures the row; why stands below."),
    (
        None,
        "Exposures count how often a rule could have been broken; without any, nothing is said to hold. One exposure"
        " can show several violations, where a row has several rules.",
    ),
    (None, "A violation of a promised row is a finding; one of a row by recipe shows what the recipe rests on."),
)


def measured_words(cell: TableCell) -> str:
    """What was measured of a cell, in a few words."""
    match cell.state:
        case CellState.HELD:
            return f"{counted(cell.exposures, 'exposure')}, no violation"
        case CellState.VIOLATED:
            return f"{counted(cell.exposures, 'exposure')}, {counted(cell.violations, 'violation')}"
        case CellState.UNEXERCISED | CellState.NOT_RUN:
            return f"{cell.state}: {cell.why}" if cell.why else cell.state.value
        case CellState.NOT_MEASURED | CellState.BY_CONSTRUCTION:
            return cell.state.value
        case _:
            return ""


def claim_words(cell: TableCell) -> str:
    return CellState.NO_RECIPE.value if cell.claim is None else cell.claim.backing.value


def markdown(table: KipTable) -> str:
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
        how = f"{counted(cell.violations, 'violation')} of {shown.guarantee} ({shown.standing}); `{shown.command}`"
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


def _legend(table: KipTable) -> list[str]:
    return [text for state, text in _LEGEND if state is None or table.count(state)]


def _markdown_cell(one: TableRow, cell: TableCell) -> str:
    text = ": ".join(filter(None, (claim_words(cell), measured_words(cell))))
    if cell.witness is None:
        return _escaped(text)
    return f"**{_escaped(text)}** ([witness](#{_anchor(one.row.id)}))"


def _markdown_sources(table: KipTable, part: KipPart) -> list[str]:
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
            if cell.state in (CellState.NOT_MEASURED, CellState.BY_CONSTRUCTION):
                unmeasured.setdefault(f"{one.row.id}, {cell.state}: {cell.why}", []).append(cell.system)
    if unmeasured:
        blocks.append("\n".join(f"- {text} ({', '.join(of)})" for text, of in unmeasured.items()))
    return blocks


def _recipes(table: KipTable, system: str, part: KipPart) -> str:
    """The recipes of a system for one part."""
    prefix = f"{part}: "
    return "; or ".join(text.removeprefix(prefix) for text in table.recipes[system] if text.startswith(prefix))


def _name(one: TableRow, cell: TableCell) -> str:
    return f"{one.row.id} on {cell.system}"


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _witnesses(one: TableRow) -> list[tuple[str, TableCell, Measured]]:
    return [(_name(one, cell), cell, cell.witness) for cell in one.cells if cell.witness is not None]


def _lacks(table: KipTable) -> list[tuple[str, str]]:
    return _same_text((one.row.id, one.row.lacks) for one in table.rows if one.row.lacks)


def _same_text(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join the rows of which the same is said."""
    ids: dict[str, list[str]] = {}
    for row, text in rows:
        ids.setdefault(text, []).append(row)
    return [(", ".join(of), text) for text, of in ids.items()]


def _experiments(table: KipTable) -> list[str]:
    wanted = experiments_of(rows_of(table.proposal))
    return [
        f"{one.id}: workload {one.workload}, faults {one.nemesis}: {one.about}"
        for one in EXPERIMENTS
        if one.id in wanted
    ]


def _run_words(table: KipTable) -> str:
    versions = ", ".join(f"{system} {table.versions.get(system, '')}".strip() for system in table.systems)
    cores, kernel = table.machine.get("cores", "?"), table.machine.get("kernel", "?")
    return (
        f"{versions}; {counted(table.runs, 'run')} ({table.runtime}) of {table.played_s:.0f} s in all; "
        f"{table.started_at}; {cores} cores, Linux {kernel}"
    )


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
