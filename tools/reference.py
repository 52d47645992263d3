"""Pages of docs/reference made from the program: `python -m tools.reference [--write]`.

The commands come from the click objects, everything else from the catalogue that `fencepost list` prints, so a sentence
is written once, beside the code that it describes. A test compares the pages with what this module makes.
"""

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

import click

from fencepost.harness.base.options import OptionRow
from fencepost.harness.cli.app import app
from fencepost.harness.cli.app import commands as app_commands
from fencepost.harness.plugins import catalogue, registry
from fencepost.harness.verdict import consistency_models
from fencepost.harness.verdict.guarantee import MINORITY_DAMAGED

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "reference"
#: Kinds of names that have a page; a page may hold several kinds.
_PAGES: Final = {
    "systems": ("systems", "runtimes"),
    "workloads": ("workloads",),
    "faults": ("faults",),
}
_WIDTH: Final = 110
#: Sections by title and rows by name that another table says as well: the sentence instead, and the title above it.
ELSEWHERE: Final = {
    "--workload": ("Flags", "[Workloads](workloads.md#guarantee-on-each-system) has those that each system offers."),
    "--require": ("Flags", "`--require` takes the names of [guarantees](guarantees.md)."),
    "Also": (
        "Targets",
        "[Choose faults](../how-to/faults.md) says how faults are joined, and what `all` and `none` mean.",
    ),
    "Possible on": (
        "Not possible on",
        "A fault is possible on every system and runtime that this table does not name.",
    ),
}
#: A source of the consistency models: its letters, then lines that are indented further.
_SOURCE: Final = re.compile(r"^  ([A-Z]{1,2}) +(.+(?:\n {6}.+)*)", re.M)
_MADE: Final = "<!-- Made by `python -m tools.reference --write`; a test compares. -->"


def pages() -> dict[str, str]:
    """The text of every page by its file's name."""
    made = {
        "commands": _commands(),
        "consistency-models": _consistency_models(),
        "guarantees": _guarantees(),
        "checkers": _checkers(),
        **{name: _names(kinds) for name, kinds in _PAGES.items()},
    }
    return {f"{name}.md": _join(blocks) for name, blocks in made.items()}


def _join(blocks: Iterable[str]) -> str:
    return "\n\n".join(blocks) + "\n"


# -- names ------------------------------------------------------------------------------------------------------------


def _names(kinds: tuple[str, ...]) -> Iterator[str]:
    """A title, a table of all names, what entries say by titles, then the options of each in one table."""
    for position, name in enumerate(kinds):
        kind = catalogue.kind(name)
        yield f"# {name.capitalize()}" if position == 0 else f"## All {name}"
        if position == 0:
            yield _MADE
        example = ", with an example" if any(entry.example for entry in kind.entries) else ""
        yield f"{as_text(kind.about)} `fencepost list {name} NAME` prints the same in a terminal{example}."
        columns = _columns(kind)
        rows = ((f"`{e.name}`", as_text(e.about), *(texts[e.name] for texts in columns.values())) for e in kind.entries)
        yield _table(("name", "meaning", *(title.lower() for title in columns)), rows)
        sections = [section for section in kind.sections if section.title not in ELSEWHERE]
        yield from (*map(_titled, sections), *_by_titles(kind), *_all_options(kind))


def _columns(kind: catalogue.NameKind) -> dict[str, dict[str, str]]:
    """Sections that have one row for every entry, by title; what is the same in all of their rows is left out."""
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for entry in kind.entries:
        for section in entry.sections:
            rows.setdefault(section.title, []).extend((entry.name, name, text) for name, text in section.rows)
    columns = {}
    for title, of in rows.items():
        if [entry for entry, _, _ in of] == [entry.name for entry in kind.entries]:
            if len({text for _, _, text in of}) == 1:
                columns[title] = {entry: f"`{name}`" for entry, name, _ in of}
            elif len({name for _, name, _ in of}) == 1:
                columns[title] = {entry: as_text(text) for entry, _, text in of}
    return columns


def _all_options(kind: catalogue.NameKind) -> Iterator[str]:
    """The options of every entry as one table; what several entries have in common comes first, in one row."""
    defaults: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for entry in kind.entries:
        for row in entry.options:
            *says, default = _option(row)
            has_default = "yes" if default else "no"
            defaults.setdefault((*says, has_default), {}).setdefault(default, []).append(entry.name)
    rows = [([name for names in of.values() for name in names], says, of) for (*says, _), of in defaults.items()]
    if rows:
        several = sorted((row for row in rows if len(row[0]) > 1), key=lambda row: (-len(row[0]), row[0]))
        yield "## Options"
        form = next(entry.option_form for entry in kind.entries if entry.option_form)
        yield f"They are given as `{form}`. Those that several {kind.name} have come first."
        head = (f"of {kind.name}", "option", "meaning", "value", "default")
        lines, last = [], ""
        for names, says, of in [*several, *(row for row in rows if len(row[0]) == 1)]:
            first = f"all {kind.name}" if len(names) == len(kind.entries) > 1 else ", ".join(names)
            lines.append((f"**{first}**" if first != last else "", *says, _defaults(of)))
            last = first
        yield _table(head, lines)


def _defaults(of: Mapping[str, list[str]]) -> str:
    """One default, or each with the entries that have it."""
    if len(of) == 1:
        return next(iter(of))
    return "; ".join(f"{default} of {', '.join(names)}" for default, names in of.items())


def _by_titles(kind: catalogue.NameKind) -> Iterator[str]:
    """What entries say as one table for each title, whose rows name the entries."""
    rows: dict[str, dict[tuple[str, str], list[str]]] = {}
    columns = _columns(kind)
    for entry in kind.entries:
        for section in entry.sections:
            for row in section.rows if section.title not in columns else ():
                if not {section.title, row[0]} & ELSEWHERE.keys():
                    rows.setdefault(section.title, {}).setdefault(row, []).append(entry.name)
    for title, of in rows.items():
        yield f"## {title}"
        if sentences := [sentence for above, sentence in ELSEWHERE.values() if above == title]:
            yield " ".join(sentences)
        yield _table(("", "", f"of {kind.name}"), _inverted(_by_meaning(of), len(kind.entries)))


def _by_meaning(rows: Mapping[tuple[str, str], list[str]]) -> dict[tuple[str, str], list[str]]:
    """The rows of the same entries and the same meaning as one row; a meaning names its own system "that system"."""
    names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (name, text), of in rows.items():
        meaning = re.sub(rf"\b{name}\b", "that system", text) if name in registry.systems() else text
        names.setdefault((meaning, tuple(of)), []).append(name)
    return {(", ".join(of), text): [*entries] for (text, entries), of in names.items()}


def _inverted(rows: Mapping[tuple[str, str], list[str]], all_of_them: int) -> Iterator[tuple[str, ...]]:
    for (name, text), of in rows.items():
        yield _codes(name.split(", ")), as_text(text), "all" if len(of) == all_of_them else ", ".join(of)


def _option(row: OptionRow) -> tuple[str, ...]:
    value = ", ".join(f"`{choice}`" for choice in row.choices) or row.kind
    return (
        f"`{row.name}`",
        as_text(row.about),
        f"{value}, {row.limits}" if row.limits else value,
        f"`{row.default}`" if row.default else "",
    )


def _guarantees() -> Iterator[str]:
    """One row for each wording of a guarantee, with all systems that give it and the source of each."""
    yield "# Guarantees"
    yield _MADE
    yield (
        "What each system is held to. `--require NAME` makes a run invalid that violates it, whatever its standing. "
        "`fencepost list guarantees NAME` prints the same in a terminal, with a run that has it judged. Each holds "
        "only while " + MINORITY_DAMAGED.text + "; the rows name further conditions."
    )
    sources: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for system_name, system in registry.systems().items():
        for guarantee in system.promises():
            conditions = "; ".join(one.rule for one in guarantee.conditions if one != MINORITY_DAMAGED)
            issues = "; ".join([guarantee.known_issue or "", *(issue.text for issue in guarantee.issues)]).strip("; ")
            of = (guarantee.name, guarantee.standing.value, guarantee.text, conditions, issues)
            sources.setdefault(of, {}).setdefault(guarantee.source, []).append(system_name)
    rows = (
        (f"`{name}`", standing, ", ".join(chain(*by.values())), *map(as_text, (text, only, _sources(by), issues)))
        for (name, standing, text, only, issues), by in sorted(sources.items())
    )
    yield _table(("guarantee", "standing", "on", "what holds", "only while", "source", "known issues"), rows)


def _sources(systems: Mapping[str, list[str]]) -> str:
    """Each source of a guarantee, with its systems where there are several."""
    named = (f"{', '.join(of)}: {source}" if len(systems) > 1 else source for source, of in systems.items())
    return "; ".join(named)


def _checkers() -> Iterator[str]:
    """One row for each checker; its rules are told by the module, which the command prints."""
    yield "# Checkers"
    yield _MADE
    yield (
        "What judges a history; each workload names its own. `fencepost list checkers NAME` prints the rules of one, "
        "its anomalies and its sources."
    )
    rows = (
        (f"`{entry.name}`", as_text(entry.about), ", ".join(f"`{name}`" for s in entry.sections for name, _ in s.rows))
        for entry in catalogue.kind("checkers").entries
    )
    yield _table(("checker", "what it judges", "workloads"), rows)


def _titled(section: catalogue.NameTable) -> str:
    """A section as a table; names of which the same is said share a row."""
    names: dict[str, list[str]] = {}
    for name, text in section.rows:
        names.setdefault(text, []).extend([f"`{name}`"] if name else [])
    rows = [(", ".join(of), as_text(text)) for text, of in names.items()]
    return f"{section.title}:\n\n{_table(('', ''), rows)}"


# -- commands ---------------------------------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield _MADE
    yield "`fencepost COMMAND --help` prints the same in a terminal, with examples."
    context = click.Context(app, info_name="fencepost", **app.context_settings)
    listed = [(name, about) for name, (_, about, _) in app_commands().items() if about]
    yield _table(("command", "what it does"), ((f"[`{n}`](#fencepost-{n})", as_text(about)) for n, about in listed))
    every: list[tuple[str, click.Command, click.Context]] = []
    for name, _ in listed:
        command = app.get_command(context, name)
        assert command is not None, f"{name} is listed, so it can be loaded"
        every += _with_its_own(command, f"fencepost {name}", context)
    commands: dict[tuple[str, str], list[str]] = {}
    for path, command, own in every:
        for flag in dict.fromkeys(flag for flags in _flags(command, own).values() for flag in flags):
            commands.setdefault(flag, []).append(path.removeprefix("fencepost "))
    shared = {flag: of for flag, of in commands.items() if len(of) > 2 or _are_one_group(of)}
    for path, command, own in every:
        yield from _command(command, path, own)
    yield "## Flags"
    yield "Of several commands:"
    several = ((f"`{flag}`", as_text(about), ", ".join(of)) for (flag, about), of in shared.items())
    yield _table(("flag", "meaning", "commands"), several)
    yield "Of one command:"
    rows = (
        (f"**{path.removeprefix('fencepost ')}** {title}".strip() if position == 0 else "", f"`{flag}`", as_text(about))
        for path, command, own in every
        for title, flags in _flags(command, own).items()
        for position, (flag, about) in enumerate(row for row in flags if row not in shared)
    )
    yield _table(("command", "flag", "meaning"), rows)


def _are_one_group(commands: list[str]) -> bool:
    """Say whether these are several commands below one, as those of `fencepost images`."""
    return len(commands) > 1 and len({path.split()[0] for path in commands}) == 1


def _with_its_own(
    command: click.Command, path: str, parent: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """A command with its path and context, then the commands below it."""
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, max_content_width=_WIDTH)
    yield path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _with_its_own(below, f"{path} {name}", context)


def _command(command: click.Command, path: str, context: click.Context) -> Iterator[str]:
    """What the help of a command says before its flags."""
    first, *paragraphs = _paragraphs(command.help or "")
    yield f"## {path}"
    yield f"`{' '.join([path, *command.collect_usage_pieces(context)])}`: {first}"
    yield from paragraphs


def _flags(command: click.Command, context: click.Context) -> dict[str, list[tuple[str, str]]]:
    """The flags of a command with what they mean, by its groups; those of no group come last."""
    records = {param.name: param.get_help_record(context) for param in command.get_params(context)}
    groups = dict(getattr(command, "groups", {}))
    named = {name for names in groups.values() for name in names}
    groups["(others)" if named else ""] = tuple(name for name in records if name not in named)
    flags = {title.lower(): filter(None, (records.get(name) for name in names)) for title, names in groups.items()}
    return {
        title: [(flag, about) for flag, about in rows if about and "--help" not in flag]
        for title, rows in flags.items()
    }


def _paragraphs(text: str) -> Iterator[str]:
    """Help text as Markdown: a block that click must not wrap (after a \\b) is a block of code."""
    for paragraph in textwrap.dedent(text).strip().split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0].strip() == "\b":
            yield _fenced(textwrap.dedent("\n".join(lines[1:])).splitlines())
        elif lines:
            yield "\n".join(as_text(line.strip()) for line in lines)


# -- consistency models -----------------------------------------------------------------------------------------------


def _consistency_models() -> Iterator[str]:
    """What each model implies and forbids, then the sources by their letters."""
    yield "# Consistency models"
    yield _MADE
    yield (
        "What `fencepost check FILE --consistency NAME` judges transactions by; without it, strict-serializable. "
        "A model forbids what stands in its row, and what the models that it implies forbid. "
        "[How transactions are judged](../explanation/transactions.md)."
    )
    rows = ((f"`{m.name}`", _codes(m.implies), _codes(m.forbids), m.source) for m in consistency_models.MODELS)
    yield _table(("model", "implies", "forbids", "source"), rows)
    yield "\n".join(f"- **{letters}**: {' '.join(text.split())}" for letters, text in _SOURCE.findall(_document()))


def _document() -> str:
    return consistency_models.__doc__ or ""


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# -- Markdown ---------------------------------------------------------------------------------------------------------


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _fenced(lines: Iterable[str]) -> str:
    return "\n".join(["```", *lines, "```"])


def as_text(text: str) -> str:
    """Plain text as Markdown: what would be read as a tag, or as emphasis, is escaped outside of code."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)


def main(arguments: list[str]) -> int:
    """Print the pages, or write them."""
    for name, text in pages().items():
        if arguments == ["--write"]:
            (FOLDER / name).write_text(text, encoding="utf-8")
        else:
            print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
