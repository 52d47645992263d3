"""Pages of docs/reference made from the program: `python -m tools.reference [--write]`.

The commands come from the click objects, everything else from the catalogue that `fencepost list` prints, so a sentence
is written once, beside the code that it describes. A test compares the pages with what this module makes.
"""

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from fencepost.harness.base.options import OptionRow
from fencepost.harness.cli.app import COMMANDS, app
from fencepost.harness.plugins import catalogue
from fencepost.harness.verdict import consistency_models

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "reference"
#: Kinds of names that have a page; a page may hold several kinds.
_PAGES: Final = {
    "systems": ("systems", "abilities", "runtimes"),
    "workloads": ("workloads",),
    "faults": ("faults",),
    "guarantees": ("guarantees",),
    "checkers": ("checkers",),
}
_WIDTH: Final = 110
#: A source of the consistency models: its letters, then lines that are indented further.
_SOURCE: Final = re.compile(r"^  ([A-Z]{1,2}) +(.+(?:\n {6}.+)*)", re.M)
_MADE: Final = "<!-- Made by `python -m tools.reference --write`; a test compares. -->"


def pages() -> dict[str, str]:
    """The text of every page by its file's name."""
    made = {f"{name}.md": _join(_names(name, kinds)) for name, kinds in _PAGES.items()}
    return {"commands.md": _join(_commands()), "consistency-models.md": _join(_consistency_models()), **made}


def _join(blocks: Iterable[str]) -> str:
    return "\n\n".join(blocks) + "\n"


# -- names ------------------------------------------------------------------------------------------------------------


def _names(page: str, kinds: tuple[str, ...]) -> Iterator[str]:
    """A title, a table of all names, then a section for each name."""
    for position, name in enumerate(kinds):
        kind = catalogue.kind(name)
        yield f"# {name.capitalize()}" if position == 0 else f"## All {name}"
        if position == 0:
            yield _MADE
        yield f"{_text(kind.about)} `fencepost list {name}` prints the same in a terminal."
        has_sections = any(_sections(entry) for entry in kind.entries)
        linked = "[`{0}`](#{0})" if has_sections else "`{0}`"
        yield _table(("name", "meaning"), ((linked.format(e.name), _text(e.about)) for e in kind.entries))
        for section in kind.sections:
            yield _titled(section)
        for entry in kind.entries if has_sections else ():
            yield from (f"## {entry.name}", *_sections(entry))


def _sections(entry: catalogue.Entry) -> list[str]:
    """What the section of one name says after its heading."""
    if not (entry.text or entry.options or entry.sections):
        return []
    blocks = [_sentence(entry.about)]
    blocks += [_text(textwrap.dedent(entry.text))] if entry.text else []
    blocks += [_fenced([entry.example])] if entry.example else []
    if entry.options:
        blocks.append(f"Options (`{entry.option_form}`):")
        blocks.append(_table(("option", "meaning", "value", "default"), map(_option, entry.options)))
    return blocks + [_titled(section) for section in entry.sections]


def _option(row: OptionRow) -> tuple[str, ...]:
    value = ", ".join(f"`{choice}`" for choice in row.choices) or row.kind
    return (
        f"`{row.name}`",
        _text(row.about),
        f"{value}, {row.limits}" if row.limits else value,
        f"`{row.default}`" if row.default else "",
    )


def _titled(section: catalogue.Section) -> str:
    rows = [(f"`{name}`" if name else "", _text(text)) for name, text in section.rows]
    return f"{section.title}:\n\n{_table(('', ''), rows)}"


# -- commands ---------------------------------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield _MADE
    yield "`fencepost COMMAND --help` prints the same in a terminal."
    context = click.Context(app, info_name="fencepost", **app.context_settings)
    listed = [(name, about) for name, (_, about) in COMMANDS.items() if about]
    yield _table(("command", "what it does"), ((f"[`{n}`](#fencepost-{n})", _text(about)) for n, about in listed))
    for name, _ in listed:
        command = app.get_command(context, name)
        assert command is not None, f"{name} is listed, so it can be loaded"
        yield from _command(command, f"fencepost {name}", context)


def _command(command: click.Command, path: str, parent: click.Context) -> Iterator[str]:
    """One command, then its own commands."""
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, max_content_width=_WIDTH)
    yield f"## {path}"
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield _fenced([usage])
    yield from _paragraphs(command.help or "")
    examples = getattr(command, "examples", ())
    if examples:
        yield _fenced("\n\n".join(f"# {example.about}\n{example.line}" for example in examples).splitlines())
    yield from _flags(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _command(below, f"{path} {name}", context)


def _flags(command: click.Command, context: click.Context) -> Iterator[str]:
    """The flags of a command as tables: one for each of its groups, and one for the rest."""
    records = {param.name: param.get_help_record(context) for param in command.get_params(context)}
    groups = dict(getattr(command, "groups", {}))
    named = {name for names in groups.values() for name in names}
    groups[""] = tuple(name for name in records if name not in named)
    for title, names in groups.items():
        chosen = filter(None, (records.get(name) for name in names))
        rows = [(f"`{flags}`", _text(about)) for flags, about in chosen if about and "--help" not in flags]
        if rows:
            yield _table((title.lower() or ("others" if named else "flag"), "meaning"), rows)


def _paragraphs(text: str) -> Iterator[str]:
    """Help text as Markdown: a block that click must not wrap (after a \\b) is a block of code."""
    for paragraph in textwrap.dedent(text).strip().split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0].strip() == "\b":
            yield _fenced(textwrap.dedent("\n".join(lines[1:])).splitlines())
        elif lines:
            yield "\n".join(_text(line.strip()) for line in lines)


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


def _text(text: str) -> str:
    """Plain text as Markdown: what would be read as a tag, or as emphasis, is escaped outside of code."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)


def _sentence(text: str) -> str:
    return _text(text[:1].upper() + text[1:]).rstrip(".") + "."


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
