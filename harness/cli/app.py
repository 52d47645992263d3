"""The commands, one file each, loaded when they are called: each parses, calls one function, says what came out."""

import importlib
import sys
from typing import Final, cast

import click

from fencepost.harness.base.errors import UsageError

_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_CLI: Final = "fencepost.harness.cli"
#: Module and first sentence of each command, so that `--help` loads none of them; "" is not listed.
COMMANDS: Final = {
    "check": ("check.command", "Judge a stored history again, offline."),
    "demo": (
        "demo",
        "Two real clusters attacked in the same way: etcd does no harm, ZooKeeper's woken leader answers stale.",
    ),
    "doctor": ("doctor", "What this machine can do, and for each thing it cannot: why, and the remedy."),
    "export": (
        "export",
        "Write a history in another form: EDN as Jepsen has it, operations as Porcupine has them, or JSON lines.",
    ),
    "failover": (
        "failover",
        "How long Kafka is without a controller, by the number of its partitions; both generations side by side.",
    ),
    "images": (
        "images",
        "The images of the container runtime: built from docker/, with or without an image registry.",
    ),
    "list": ("listing", "What there is to choose from."),
    "prepare": ("prepare", ""),
    "replay": (
        "replay",
        "Carry out the recorded schedule of RUN again, with the same plan, and count how often the same shows.",
    ),
    "report": ("report", "Make the report of a stored run again; exits 0 when it was made, whatever the verdict."),
    "run": ("run", "Run a plan against a real cluster and judge it."),
    "shrink": (
        "shrink",
        "Cut time, leave out faults and load, narrow parameters, while RUN's violation still shows; then confirm.",
    ),
    "warehouse": (
        "warehouse",
        "Judge any number of stored runs again through Spark, and ask all of them together.",
    ),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{_CLI}.{COMMANDS[cmd_name][0]}")
        return cast(click.Command, module.command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = [click.Command(name, help=about) for name, (_, about) in COMMANDS.items() if about]
        limit = formatter.width - 6 - max(len(command.name or "") for command in listed)
        rows = [(command.name or "", command.get_short_help_str(limit)) for command in listed]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=_Lazy, context_settings=_CONTEXT)
@click.version_option(package_name="fencepost", message="fencepost %(version)s")
def app() -> None:
    """Tests whether a coordination service keeps its promises when the network breaks.

    `fencepost demo` shows it in a minute and a half; `fencepost doctor` says what this machine can do.
    """


if sys.platform != "linux":  # pragma: no cover
    raise UsageError("the lab needs Linux", hint="run fencepost on Linux, or in a Linux container or virtual machine")
