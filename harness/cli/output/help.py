"""Help of commands: options in groups, and examples as data that a test parses.

Paths as commands take them.

Values of flags that several commands take.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from fencepost.harness.base.errors import UsageError


class PathValue(click.Path):
    """A path; an empty text (of a variable that is not set) is refused, not taken for the current folder."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path_type=Path, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)


#: Options that stand in no group of their own.
_REST: Final = "Other options"


@dataclass(frozen=True, slots=True)
class HelpExample:
    """A command line that works as it stands, and what it does; `RUN` in it stands for a run's folder."""

    line: str
    about: str


class Documented(click.Command):
    """A command whose help ends with examples; `groups` are parameter names by the title that they stand below."""

    def __init__(
        self,
        *args: Any,
        examples: tuple[HelpExample, ...] = (),
        groups: Mapping[str, tuple[str, ...]] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.params.append(plugin_option())
        self.examples = examples
        self.groups = groups or {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.groups:
            super().format_options(ctx, formatter)
            return
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {option.name: option.get_help_record(ctx) for option in options}
        named = {name for names in self.groups.values() for name in names}
        rest = tuple(name for name in records if name is not None and name not in named)
        for title, names in {**self.groups, _REST: rest}.items():
            rows = [record for name in names if (record := records[name]) is not None]
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        write_examples(self.examples, formatter)


class DocumentedGroup(click.Group):
    """A command with subcommands whose help ends with examples."""

    def __init__(self, *args: Any, examples: tuple[HelpExample, ...] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each subcommand with its whole first sentence."""
        commands = {name: self.commands[name] for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(command)) for name, command in commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        write_examples(self.examples, formatter)


def plugin_option() -> click.Option:
    """Return the flag that every command takes; the names of a plug-in are known from then on."""

    def take(context: click.Context, option: click.Parameter, paths: tuple[str, ...]) -> None:
        if paths:
            from fencepost.harness.plugins import registry

            registry.use_plugins(paths)

    return click.Option(
        ["--plugin"],
        multiple=True,
        metavar="PATH",
        is_eager=True,
        expose_value=False,
        callback=take,
        help="A plug-in that is not installed: a Python file or a folder. May be repeated.",
    )


#: Flags that several commands take.
_SHARED: Final[Mapping[str, Mapping[str, Any]]] = {
    "times": {"type": click.IntRange(1), "metavar": "NUMBER", "help": "Number of runs."},
    "budget": {"metavar": "DURATION", "help": "Time for all runs together. No run begins that would end later."},
    "deadline": {"metavar": "DURATION", "help": "Limit for the whole command; what was not done in time is told."},
    "jobs": {"metavar": "NUMBER", "help": "Runs side by side. auto: as many as fit processors and memory."},
    "runtime": {"metavar": "NAME", "help": "Where the nodes live: lab or containers."},
    "resume": {"is_flag": True, "help": "Go on with the newest unfinished one in place of a new one."},
    "seed": {
        "type": click.IntRange(0),
        "metavar": "NUMBER",
        "show_default": "drawn",
        "help": "Number that every random choice derives from.",
    },
    "results": {"type": PathValue(), "default": "results", "show_default": True, "help": "Folder for the results."},
    "json": {"is_flag": True, "help": "Print its JSON document on standard output instead of text."},
}


def shared_flags(*names: str, **defaults: str | int) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Flags that several commands take, in this order; those with a default of the command's own come first."""

    def with_flags(command: Callable[..., int]) -> Callable[..., int]:
        for name in reversed((*defaults, *names)):
            own = {"default": defaults[name], "show_default": True} if name in defaults else {}
            called = ("as_json",) if name == "json" else ()
            command = click.option(f"--{name}", *called, **{**_SHARED[name], **own})(command)
        return command

    return with_flags


def _first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def write_examples(examples: tuple[HelpExample, ...], formatter: click.HelpFormatter) -> None:
    """Write each example with its sentence above it; lines are not wrapped, so that they can be copied."""
    if examples:
        formatter.write("\nExamples:\n")
        formatter.write("\n".join(f"  # {example.about}\n  {example.line}\n" for example in examples))


def seed_or_drawn(given: int | None) -> int:
    """The seed that was given, else one of the system's randomness."""
    return given if given is not None else int.from_bytes(os.urandom(4), "big")


def jobs_or_auto(text: str) -> int | None:
    """The number of runs side by side; None: as many as fit. Raises UsageError."""
    if text == "auto":
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise UsageError(f"--jobs {text!r}: expected auto, or a number from 1 to 1000")
    return int(text)


def print_document(document: dict[str, Any]) -> None:
    """Print plain data as JSON."""
    sys.stdout.write(json.dumps(document, indent=2, default=str) + "\n")


def pairs(texts: tuple[str, ...], flag: str) -> dict[str, str]:
    """`NAME=VALUE` by name; raises UsageError."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{flag} {text!r}: expected NAME=VALUE")
        if name in values:
            raise UsageError(f"{flag} {name}= is given twice", hint="leave one of them out")
        values[name] = value
    return values
