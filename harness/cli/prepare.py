"""The start-up archives of the Java programs: made once per user, ZooKeeper's at set-up."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from fencepost.harness.base.errors import FencepostError, unknown_choice
from fencepost.harness.cli.output.help import Documented, HelpExample
from fencepost.harness.plugins import registry


def prepare_archives(programs: Sequence[str] = ()) -> int:
    """Make the missing archives of these programs; without a choice of those that need no download.

    Raises UsageError for an unknown one.

    A machine that cannot make one works without it, only slower, so the exit code is 0 all the same.
    """
    from fencepost.harness.runtime.artifacts import cache_folder, go_modules, java

    makers = _makers()
    for program in programs:
        if program not in makers:
            raise unknown_choice("program", program, makers)
    cache_folder()  # without one nothing can be kept
    # The machine may have been busy when an earlier attempt failed.
    java.forget_failures()
    there = archives()
    for name in programs or there:
        if there.get(name) is not None:
            continue
        sys.stderr.write(f"making the start-up archive of {name}, once\n")
        try:
            made = makers[name]()
        except FencepostError as error:
            made = None
            sys.stderr.write(f"warning: {error.message}\n")
        if made is None:
            sys.stderr.write(f"warning: no start-up archive of {name}; its starts stay slow\n")
    for reason in java.failures():
        sys.stderr.write(f"warning: {reason}; it is tried again after an hour, or by the next `fencepost prepare`\n")
    for reason in go_modules.failures():
        sys.stderr.write(f"warning: a release that could not be built here: {reason}\n")
    return 0


def archives() -> dict[str, Path | None]:
    """Where each archive is whose program needs no download; None when it is absent."""
    systems = registry.systems().items()
    return {name: system.startup_archive() for name, system in systems if system.startup_archive is not None}


def _makers() -> dict[str, Callable[[], Path | None]]:
    return {name: partial(_made, name) for name, system in registry.systems().items() if system.profile.java}


def _made(name: str) -> Path | None:
    """Resolving the packaged release makes its archive."""
    releases = registry.system(name).releases
    archive = releases.resolve(releases.default).paths.get("archive")
    return Path(archive) if archive else None


EXAMPLES = (
    HelpExample("fencepost prepare", "Make every archive that is missing, once for this user"),
    HelpExample("fencepost prepare zookeeper", "Make that of ZooKeeper only"),
    HelpExample("fencepost prepare zookeeper kraft", "Make those of both; what a release needs is downloaded first"),
)


@click.command("prepare", cls=Documented, examples=EXAMPLES)
@click.argument("programs", metavar="[PROGRAM]...", nargs=-1)
def command(programs: tuple[str, ...]) -> int:
    """Make archives from which Java programs start faster.

    PROGRAM is a system whose servers are Java programs; without one, that of ZooKeeper is made, as by `make setup`.
    Without its archive a program works, but starts more slowly; so the command exits 0 even when an archive could not
    be made.
    """
    return prepare_archives(programs)
