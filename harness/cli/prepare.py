"""The start-up archives of the Java programs: made once per user, during set-up, or when first missed."""

import sys
from collections.abc import Callable
from pathlib import Path

import click

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.plugins import registry


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
    from fencepost.harness.runtime.artifacts.java import existing_archive
    from fencepost.harness.systems.zookeeper import server
    from fencepost.harness.warehouse import spark_session

    return {
        "ZooKeeper": existing_archive("zookeeper", server.archive_key(server.packaged())),
        "Spark": spark_session.prepared_archive(),
    }


def _makers() -> dict[str, Callable[[], Path | None]]:
    from fencepost.harness.warehouse import spark_session
    from fencepost.harness.warehouse.archive_training import exercise

    return {"ZooKeeper": _zookeeper, "Spark": lambda: spark_session.prepare_archive(exercise)}


def _zookeeper() -> Path | None:
    """Resolving the packaged server makes its archive."""
    system = registry.system("zookeeper")
    made = system.releases.resolve(system.releases.default).paths.get("archive")
    return Path(made) if made else None


@click.command("prepare", hidden=True)
def command() -> int:
    """Set-up's last step: make the start-up archives of the two Java programs, once for this user."""
    return prepare_archives()
