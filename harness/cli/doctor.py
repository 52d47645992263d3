"""`fencepost doctor`: what this machine can do, and for each thing it cannot: why, and the remedy."""

import shutil
from collections.abc import Callable
from pathlib import Path

import click

from fencepost.harness.base.errors import ExitCode, FencepostError
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.disks import availability
from fencepost.harness.runtime.provider import Check

#: Groups without which the default runs are possible all the same.
_OPTIONAL = ("containers", "faults", "report")


def examine() -> int:
    """Print one line a check; exit 0 when the default runs can be made, else 254."""
    groups: list[tuple[str, list[Check]]] = [
        *((name, registry.runtime(name).checks()) for name in sorted(registry.RUNTIMES, reverse=True)),
        ("systems", [*(_system(name) for name in registry.SYSTEMS), _kafka_jars()]),
        ("analysis", [_native_core(), _spark(), *_archives()]),
        ("faults", [availability.check()]),
        ("report", [_browser()]),
    ]
    needed = True
    for title, checks in groups:
        click.echo(title)
        for check in checks:
            click.echo(f"  {'ok ' if check.ok else 'NO '} {check.name}: {check.found}")
            if not check.ok:
                click.echo(f"      why: {check.why}")
            if check.remedy:
                click.echo(f"      remedy: {check.remedy}")
            needed = needed and (check.ok or title in _OPTIONAL)
    click.echo(
        "this machine can make the default runs" if needed else "something that the default runs need is missing"
    )
    return int(ExitCode.VALID if needed else ExitCode.USAGE)


def sweep() -> int:
    """Remove what runs whose processes are gone left behind; exit 0 when nothing stays."""
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


def _kafka_jars() -> Check:
    """Both generations of Kafka run from the same jars; a start-up archive belongs to a mode and is told there."""

    def look() -> str:
        from fencepost.harness.systems.kafka.server import versions

        found = ", ".join(version for version in versions.known() if versions.are_fetched(version))
        return f"fetched: {found}" if found else "none fetched yet: each release is when it is first used"

    return _guarded("Kafka's jars", look)


def _native_core() -> Check:
    def look() -> str:
        return " ".join(str(value) for value in registry.native("build-info")().values())

    return _guarded("native core", look)


def _spark() -> Check:
    def look() -> str:
        from importlib.metadata import version

        from fencepost.harness.runtime.artifacts.java import find_java

        java = find_java()
        return f"PySpark {version('pyspark')} on Java {java.version}"

    return _guarded("Spark", look)


def _archives() -> list[Check]:
    from fencepost.harness.cli.prepare import archives

    return [
        Check(f"start-up archive of {name}", True, "made" if path else "absent: starts are slower")
        for name, path in archives().items()
    ]


def _browser() -> Check:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return Check("Chromium, for the report's own test", True, found)
    return Check(
        "Chromium, for the report's own test",
        False,
        "absent",
        "no chromium on the PATH; reports are made all the same",
        "install your distribution's chromium package",
    )


@click.command("doctor")
@click.option("--sweep", "sweeping", is_flag=True, help="Remove what runs left behind whose processes are gone.")
def command(sweeping: bool) -> int:
    """What this machine can do, and for each thing it cannot: why, and the remedy."""
    return sweep() if sweeping else examine()
