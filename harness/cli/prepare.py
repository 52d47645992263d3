"""The start-up archives of the Java programs: made once per user, during set-up, or when first missed."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.plugins import registry
from fencepost.harness.systems.contract.servers import StartsFromArchive


def prepare_archives() -> int:
    """Make what is missing; a machine that cannot still works, only slower, so this never fails set-up."""
    makers = _makers()
    for name, path in archives().items():
        if path is not None:
            continue
        sys.stderr.write(f"making the start-up archive of {name}, once\n")
        try:
            made = makers[name]()
        except FencepostError as error:
            made = None
            sys.stderr.write(f"warning: {error.message}\n")
        if made is None:
            sys.stderr.write(f"warning: no start-up archive of {name}; its starts stay slow\n")
    return 0


def archives() -> dict[str, Path | None]:
    """Where each archive is; None when it is absent."""
    from fencepost.harness.warehouse import spark_session

    systems = {name: system.startup_archive() for name, system in _systems().items()}
    return {**systems, "Spark": spark_session.prepared_archive()}


def _makers() -> dict[str, Callable[[], Path | None]]:
    from fencepost.harness.warehouse import spark_session
    from fencepost.harness.warehouse.training import exercise

    return {
        **{name: partial(_made, name) for name in _systems()},
        "Spark": lambda: spark_session.prepare_archive(exercise),
    }


def _systems() -> dict[str, StartsFromArchive]:
    """The systems that start from an archive, by name."""
    systems = {name: registry.system(name) for name in registry.SYSTEMS}
    return {name: system for name, system in systems.items() if isinstance(system, StartsFromArchive)}


def _made(name: str) -> Path | None:
    """Resolving the packaged release makes its archive."""
    releases = registry.system(name).releases
    archive = releases.resolve(releases.default).paths.get("archive")
    return Path(archive) if archive else None


@click.command("prepare", hidden=True)
def command() -> int:
    """Set-up's last step: make the start-up archives of the two Java programs, once for this user."""
    return prepare_archives()
