"""The commands, one file each, loaded when called: each parses its flags, calls one function, prints the result."""

import importlib
import itertools
import sys
from collections.abc import Mapping
from typing import Final, cast

import click

from fencepost.harness.base import offers
from fencepost.harness.base.errors import UsageError, unknown_choice

_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
#: Module, first sentence and heading of each command of the core, so that `--help` loads none of them.
_CORE: Final[Mapping[str, tuple[str, str, str]]] = {
    "list": ("fencepost.harness.cli.listing", "Print the systems, faults, workloads ... to choose from.", "Try it"),
    "conformance": ("fencepost.harness.cli.conformance", "Check that a system keeps its contract.", "Try it"),
    "run": ("fencepost.harness.cli.run", "Run a plan against a real cluster and judge it.", "Run"),
    "check": ("fencepost.harness.cli.check.command", "Judge stored runs or history files again, offline.", "Judge"),
    "report": ("fencepost.harness.cli.report", "Write the report of a stored run again.", "Judge"),
    "export": ("fencepost.harness.cli.export", "Write a history in the form of another tool.", "Judge"),
    "doctor": ("fencepost.harness.cli.doctor", "Check what this machine can do, and how to mend it.", "Machine"),
    "images": ("fencepost.harness.cli.images", "Build and list the images of the container runtime.", "Machine"),
    "prepare": ("fencepost.harness.cli.prepare", "Make archives from which Java programs start faster.", "Machine"),
}
#: What a person wants to do, in this order.
HEADINGS: Final = ("Try it", "Run", "Judge", "Many runs", "Machine")


def commands() -> dict[str, tuple[str, str, str]]:
    """Module, first sentence and heading of every command, in the order of `--help`: the core's, then others'."""
    every = {**_CORE, **{name: entry for name, entry in offers.targets("commands").items() if name not in _CORE}}
    by_heading = sorted(every, key=lambda name: (*HEADINGS, every[name][2]).index(every[name][2]))
    return {name: every[name] for name in by_heading}


class _Lazy(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find plug-ins anywhere on the line first: the help of a command names what they offer."""
        tokens = args[: args.index("--")] if "--" in args else args
        paths = [word.partition("=")[2] for word in tokens if word.startswith("--plugin=")]
        paths += [path for flag, path in itertools.pairwise(tokens) if flag == "--plugin"]
        if paths:
            from fencepost.harness.plugins import registry

            registry.use_plugins(paths)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _CORE and args[0] not in commands() and not args[0].startswith("-"):
            raise unknown_choice("command", args[0], commands())
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _CORE.get(cmd_name) or commands().get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(entry[0])
        return cast(click.Command, module.command)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one screen of 24 lines: what it is, and the commands by what one wants to do."""
        formatter.write("Usage: fencepost [--version] [--plugin PATH] [--help] COMMAND [OPTIONS]\n")
        formatter.write("Test whether a coordination service keeps its promises when the network breaks.\n\n")
        every = commands()
        title_width, width = max(map(len, HEADINGS)), max(map(len, every))
        above = ""
        for name, (_, about, heading) in every.items():
            formatter.write(f"{'' if heading == above else heading:<{title_width}}  {name:<{width}}  {about}\n")
            above = heading
        formatter.write("`fencepost COMMAND --help` shows the options of a command, and examples.\n")


@click.group(cls=_Lazy, context_settings=_CONTEXT)
@click.version_option(package_name="fencepost", message="fencepost %(version)s")
@click.option("--plugin", multiple=True, metavar="PATH", expose_value=False, help="A plug-in, as commands take it.")
def app() -> None:
    """Test whether a coordination service keeps its promises when the network breaks."""


if sys.platform != "linux":  # pragma: no cover
    raise UsageError("the lab needs Linux", hint="run fencepost on Linux, or in a Linux container or virtual machine")
