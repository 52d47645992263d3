"""`fencepost list`: the kinds of names, the names of one kind, or everything about one name."""

import textwrap
from collections.abc import Iterable

import click

from fencepost.harness.base.errors import ExitCode, command_line
from fencepost.harness.base.options import OptionRow
from fencepost.harness.cli.output.help import Documented, HelpExample
from fencepost.harness.plugins import catalogue
from fencepost.harness.plugins.catalogue import NameEntry, NameKind, NameTable

#: Wide enough for a sentence, narrow enough to read; a narrower terminal wins.
_WIDTH_MAX = 100
EXAMPLES = (
    HelpExample("fencepost list faults", "Every fault in one line"),
    HelpExample("fencepost list faults pause", "Targets, options and effects of one fault"),
    HelpExample("fencepost list systems etcd", "Releases, options and guarantees of one system"),
)
#: A longer name stands on a line of its own.
_FIRST_MAX = 39


def listing(what: str = "", name: str = "") -> str:
    """The kinds, one kind as a table, or one name in full; raises UsageError for a name that there is not."""
    formatter = click.HelpFormatter(max_width=_WIDTH_MAX)
    if not what:
        _write_kinds(formatter)
    elif not name:
        _write_table(formatter, catalogue.kind(what))
    else:
        _write_entry(formatter, catalogue.kind(what).entry(name))
    return formatter.getvalue()


def _write_kinds(formatter: click.HelpFormatter) -> None:
    formatter.write_dl(list(catalogue.KINDS.items()))
    formatter.write_text("")
    formatter.write_text("`fencepost list KIND` prints one line each, `fencepost list KIND NAME` everything about one.")


def _write_table(formatter: click.HelpFormatter, kind: NameKind) -> None:
    formatter.write(f"{kind.about}\n\n")
    if kind.entries:
        _write_rows(formatter, [(entry.name, entry.about) for entry in kind.entries])
    else:
        formatter.write("  none\n")
    for section in kind.sections:
        _write_section(formatter, section)
    if kind.entries:
        formatter.write(f"\n`{command_line('list', kind.name, kind.entries[0].name)}` says everything about one.\n")


def _write_entry(formatter: click.HelpFormatter, entry: NameEntry) -> None:
    formatter.write_text(f"{entry.name}: {entry.about}")
    if entry.text:
        formatter.write(f"\n{entry.text}\n")
    if entry.options:
        rows = tuple((_typed(entry, row), _sentence(row)) for row in entry.options)
        _write_section(formatter, NameTable(title="Options", rows=rows))
    for section in entry.sections:
        _write_section(formatter, section)
    if entry.example:
        formatter.write(f"\nExample:\n  {entry.example}\n")


def _typed(entry: NameEntry, row: OptionRow) -> str:
    """An option as it is typed, with its choices where there are some."""
    return entry.option_form.replace("NAME", row.name).replace("VALUE", "|".join(row.choices) or "...")


def _sentence(row: OptionRow) -> str:
    """What an option does, which values it takes, and its default."""
    kind = "" if row.choices else row.kind
    facts = [text for text in (kind, row.limits, row.default and f"default {row.default}") if text]
    return f"{row.about} ({'; '.join(facts)})" if facts else row.about


def _write_section(formatter: click.HelpFormatter, section: NameTable) -> None:
    formatter.write(f"\n{section.title}:\n")
    _write_rows(formatter, section.rows)


def _write_rows(formatter: click.HelpFormatter, rows: Iterable[tuple[str, str]]) -> None:
    """Two columns, names never broken at a hyphen; a long name has a line of its own."""
    rows = list(rows)
    first = min(max(len(name) for name, _ in rows), _FIRST_MAX)
    for name, text in rows:
        lines = textwrap.wrap(text, formatter.width - first - 4, break_on_hyphens=False) or [""]
        if len(name) > first:
            formatter.write(f"  {name}\n")
            name = ""
        for line in lines:
            formatter.write(f"  {name:<{first}}  {line}".rstrip() + "\n")
            name = ""


@click.command("list", cls=Documented, examples=EXAMPLES)
@click.argument("what", metavar="[KIND]", default="")
@click.argument("name", metavar="[NAME]", default="")
def command(what: str, name: str) -> int:
    """Print the systems, faults, workloads ... to choose from.

    Without KIND it prints the kinds, with KIND one line for each name, with NAME everything about that one: options
    with units, limits and defaults, and an example.
    """
    click.echo(listing(what, name), nl=False)
    return int(ExitCode.VALID)
