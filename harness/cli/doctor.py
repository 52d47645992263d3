"""`fencepost doctor`: check what this machine can do; for each thing that it cannot, say why and give the remedy."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from fencepost.harness.base import offers
from fencepost.harness.base.errors import ExitCode, FencepostError, UsageError, command_line, lacking, unknown_choice
from fencepost.harness.cli.output.help import Documented, HelpExample
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.disks import availability
from fencepost.harness.runtime.provider import Check

EXAMPLES = (
    HelpExample("fencepost doctor", "Check this machine"),
    HelpExample("fencepost doctor containers", "Check the container engine only"),
    HelpExample("fencepost doctor --sweep", "Remove networks, containers and mounts of runs that were killed"),
)
#: Groups without which the default runs are still possible.
_OPTIONAL = ("containers", "faults", "report")


def examine(chosen: Sequence[str] = ()) -> int:
    """Print the checks of the chosen groups, one line each; without a choice those of every group.

    Returns:
        0 when the default runs can be made; with a choice, when every check of it passes. Else 254.
    """
    groups = _groups()
    for name in chosen:
        if name not in groups:
            raise unknown_choice("group of checks", name, groups)
    needed = True
    for title in chosen or groups:
        click.echo(title)
        for check in groups[title]():
            click.echo(f"  {'ok ' if check.ok else 'NO '} {check.name}: {check.state}")
            if not check.ok:
                click.echo(f"      why: {check.why}")
            if check.remedy:
                click.echo(f"      remedy: {check.remedy}")
            needed = needed and (check.ok or (not chosen and title in _OPTIONAL))
    if chosen:
        click.echo("nothing is missing" if needed else "something is missing")
    else:
        click.echo(
            "this machine can make the default runs" if needed else "something that the default runs need is missing"
        )
    return int(ExitCode.VALID if needed else ExitCode.USAGE)


def _groups() -> dict[str, Callable[[], list[Check]]]:
    """The checks by the name of their group, in the order of printing; made when they are printed."""
    return {
        **{name: registry.runtime(name).checks for name in sorted(registry.RUNTIMES, reverse=True)},
        "systems": lambda: [_cache(), *(_system(name) for name in registry.SYSTEMS), *_unbuilt()],
        "analysis": lambda: [_native_core(), *_of_leaves(), *_archives()],
        "faults": lambda: [availability.check()],
        "report": lambda: [_browser()],
    }


def sweep() -> int:
    """Remove what killed runs left behind; exit 0 when nothing stays."""
    left = [what for name in registry.RUNTIMES for what in registry.runtime(name).sweep(None)]
    for what in left:
        click.echo(f"still there: {what}")
    if not left:
        click.echo("nothing is left of earlier runs")
    return int(ExitCode.INTERNAL if left else ExitCode.VALID)


def _guarded(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except FencepostError as error:
        return Check(name, False, "not usable", error.message, error.hint)
    except Exception as error:
        return Check(name, False, "not usable", f"{type(error).__name__}: {error}", "run `make setup`")


def _cache() -> Check:
    def look() -> str:
        from fencepost.harness.runtime.artifacts import cache_folder

        folder = cache_folder()
        return f"{folder}" if os.access(folder, os.W_OK) else f"{folder}, read-only: nothing can be added to it"

    return _guarded("cache folder", look)


def _system(name: str) -> Check:
    def look() -> str:
        system = registry.system(name)
        others = [v for v in system.releases.known() if v != system.releases.default and system.releases.at_hand(v)]
        beside = f"; at hand as well: {', '.join(others)}" if others else ""
        if not system.releases.at_hand(system.releases.default):
            return f"{system.releases.default}, fetched when first used{beside}"
        artifacts = system.releases.resolve(system.releases.default)
        program = Path(next(iter(artifacts.paths.values()))).name
        archived = ", start-up archive made" if "archive" in artifacts.paths else ""
        return f"{artifacts.version} ({program}{archived}){beside}"

    return _guarded(name, look)


def _unbuilt() -> list[Check]:
    """Releases that `list systems` names and that did not build here when they were last tried."""
    from fencepost.harness.runtime.artifacts import go_modules

    remedy = "name another release, or give a binary by its path (with a slash): --version ./PROGRAM"
    return [Check("a release that cannot be built here", True, text, remedy=remedy) for text in go_modules.failures()]


def _native_core() -> Check:
    def look() -> str:
        return " ".join(str(value) for value in registry.native("build-info")().values())

    return _guarded("native core", look)


def _of_leaves() -> list[Check]:
    """What leaves look at."""
    checks = []
    for name, look in offers.targets("machine_checks").items():
        try:
            checks.append(offers.attribute(look)())
        except FencepostError as error:
            checks.append(Check(name, False, "not usable", error.message, error.hint))
        except Exception as error:
            missing = lacking(error)
            why = missing.message if missing else f"{type(error).__name__}: {error}"
            checks.append(Check(name, False, "not usable", why, (missing and missing.hint) or "run `make setup`"))
    return checks


def _archives() -> list[Check]:
    from fencepost.harness.cli.prepare import archives

    try:
        made = archives()
    except FencepostError as error:
        return [Check("start-up archives", False, "not usable", error.message, error.hint)]
    return [
        Check(
            f"start-up archive of {name}",
            True,
            "made" if path else f"absent, so starts are slower: `{command_line('prepare', name)}` makes it",
        )
        for name, path in made.items()
    ]


def _browser() -> Check:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return Check("Chromium, for the report's own test", True, path)
    return Check(
        "Chromium, for the report's own test",
        False,
        "absent",
        "no chromium on the PATH; reports are made all the same",
        "install your distribution's chromium package",
    )


@click.command("doctor", cls=Documented, examples=EXAMPLES)
@click.argument("groups", metavar="[GROUP]...", nargs=-1)
@click.option("--sweep", "sweeping", is_flag=True, help="Remove what earlier runs left behind, and check nothing.")
def command(groups: tuple[str, ...], sweeping: bool) -> int:
    """Check what this machine can do, and how to mend it.

    Each line says ok or NO; a NO says why, and the remedy. The machine is not changed. GROUP is lab, containers,
    systems, analysis, faults or report; without one, all are checked.

    Exits 0 when runs in the lab are possible, else 254. Containers, faults of disks and the browser are optional unless
    their group is named.
    """
    if sweeping and groups:
        raise UsageError("--sweep checks nothing", hint=f"leave out --sweep or {' '.join(groups)}")
    return sweep() if sweeping else examine(groups)
