"""The commands, one file each, loaded when called: each parses its flags, calls one function, prints the result."""

import importlib
import itertools
import sys
from collections.abc import Mapping
from typing import Final, cast

import click

from fencepost.harness.base.errors import UsageError, unknown_choice

_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_CLI: Final = "fencepost.harness.cli"
#: Module and first sentence of each command, so that `--help` loads none of them.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("demo", "Attack etcd and ZooKeeper alike and compare them."),
    "list": ("listing", "Print the systems, faults, workloads ... to choose from."),
    "run": ("run", "Run a plan against a real cluster and judge it."),
    "campaign": ("campaign", "Run a night of plans in a given time, or merge shards."),
    "gate": ("gate", "Decide whether a candidate meets a policy."),
    "replay": ("replay", "Run recorded faults again and count how often it breaks."),
    "shrink": ("shrink", "Find a smaller plan that still shows the violation."),
    "conformance": ("conformance", "Check that a system keeps its contract."),
    "check": ("check.command", "Judge a stored run or a history file again, offline."),
    "report": ("report", "Write the report of a stored run again."),
    "export": ("export", "Write a history in the form of another tool."),
    "warehouse": ("warehouse", "Keep the verdicts of all runs as tables, and query them."),
    "failover": ("failover", "Measure how long Kafka is without a controller."),
    "doctor": ("doctor", "Check what this machine can do, and how to mend it."),
    "images": ("images", "Build and list the images of the container runtime."),
    "prepare": ("prepare", "Make archives from which Java programs start faster."),
}
#: What a person wants to do, and the commands for it.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Try it": ("demo", "list", "conformance"),
    "Run": ("run", "replay", "shrink"),
    "Judge": ("check", "report", "export"),
    "Many runs": ("campaign", "gate", "warehouse", "failover"),
    "Machine": ("doctor", "images", "prepare"),
}


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
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise unknown_choice("command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{_CLI}.{COMMANDS[cmd_name][0]}")
        return cast(click.Command, module.command)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one screen of 24 lines: what it is, and the commands by what one wants to do."""
        formatter.write("Usage: fencepost [--version] [--plugin PATH] [--help] COMMAND [OPTIONS]\n")
        formatter.write("Test whether a coordination service keeps its promises when the network breaks.\n\n")
        title_width, width = max(map(len, GROUPS)), max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            for name in names:
                heading = title if name == names[0] else ""
                formatter.write(f"{heading:<{title_width}}  {name:<{width}}  {COMMANDS[name][1]}\n")
        formatter.write("\n`fencepost COMMAND --help` shows the options of a command, and examples.\n")


@click.group(cls=_Lazy, context_settings=_CONTEXT)
@click.version_option(package_name="fencepost", message="fencepost %(version)s")
@click.option("--plugin", multiple=True, metavar="PATH", expose_value=False, help="A plug-in, as commands take it.")
def app() -> None:
    """Test whether a coordination service keeps its promises when the network breaks."""


if sys.platform != "linux":  # pragma: no cover
    raise UsageError("the lab needs Linux", hint="run fencepost on Linux, or in a Linux container or virtual machine")
