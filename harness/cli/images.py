"""`fencepost images`: build the images of the container runtime, list them, prepare a context for building by hand."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.flags import pairs
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.containers import images

if TYPE_CHECKING:
    import docker


def build(names: Sequence[str], *, base: Mapping[str, str], versions: Mapping[str, str], anew: bool) -> int:
    """One line per image on stdout; what takes long is said on stderr."""
    images.build(_connect(), _known(), names, base=base, versions=versions, anew=anew, done=_say_built, progress=_say)
    return 0


def list_images() -> int:
    found = images.listed(_connect(), _known())
    width = max(len(line.reference) for line in found)
    head = ("IMAGE", "STATE", "ID", "SIZE", "AGE", "PARTS", "BASE")
    click.echo(_row(width, *head))
    now = datetime.now(UTC)
    for line in found:
        built = (line.id[:12], _size(line.size_bytes), _age(line.created, now), line.parts[:12], line.base)
        click.echo(_row(width, line.reference, line.state.value, *(built if line.id else ())))
        if line.why:
            click.echo(f"{'':<{width}}  {line.why.splitlines()[0]}")
    return 0


def context(name: str, into: Path, *, version: str, base: str) -> int:
    """Fill the folder, then say on stdout the command that builds from it."""
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise UsageError(f"{into}: expected a folder that is empty or not there", hint="name another one")
    command = images.write_context(_known(), name, into, version=version, base=base)
    click.echo(command)
    return 0


def _known() -> dict[str, images.Source]:
    recipes = [registry.system(name).releases.image_recipe for name in registry.SYSTEMS]
    return images.known(recipe for recipe in recipes if recipe is not None)


def _connect() -> "docker.DockerClient":
    from fencepost.harness.runtime.containers.engine.engine import connect

    return connect()


def _say(text: str) -> None:
    click.echo(text, err=True)


def _say_built(built: images.Built) -> None:
    took = "up to date" if built.was_current else f"{built.elapsed_s:8.1f} s"
    click.echo(f"{built.reference:<32} {took:>10} {_size(built.size_bytes):>9}  {built.id[:12]}")


def _row(width: int, reference: str, state: str, *rest: str) -> str:
    columns = (12, 9, 9, 12, 0)
    cells = [f"{cell:<{size}}" for cell, size in zip(rest, columns, strict=False)]
    return f"{reference:<{width}}  {state:<14}  {'  '.join(cells)}".rstrip()


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def _age(created: str, now: datetime) -> str:
    """Since an engine's time of creation, to the largest unit: "12 min"."""
    try:
        # Engines write nanoseconds; Python reads microseconds.
        seconds = (now - datetime.fromisoformat(f"{created[:19]}+00:00")).total_seconds()
    except ValueError:
        return "?"
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds / size)} {unit}"
    return f"{int(max(seconds, 0))} s"


@click.group("images")
def command() -> None:
    """The images of the container runtime: built from docker/, with or without an image registry."""


@command.command("build")
@click.argument("names", nargs=-1)
@click.option("--base", multiple=True, metavar="NAME=IMAGE", help="An official base: java=eclipse-temurin:17-jre.")
@click.option("--version", "versions", multiple=True, metavar="NAME=VERSION", help="Not the pinned one: etcd=3.5.21.")
@click.option("--anew", is_flag=True, help="Also what is up to date, on our own bases, without the build cache.")
def _build(names: tuple[str, ...], base: tuple[str, ...], versions: tuple[str, ...], anew: bool) -> int:
    """Build the images NAMES (none named: all) that are absent or whose parts have changed."""
    return build(names, base=pairs(base, "--base"), versions=pairs(versions, "--version"), anew=anew)


@command.command("list")
def _list() -> int:
    """Every image, built or not: is it up to date, how large, how old, on which base."""
    return list_images()


@command.command("context")
@click.argument("name")
@click.argument("folder", type=PathValue())
@click.option("--version", default="", help="Not the pinned one.")
@click.option("--base", default="", metavar="IMAGE", help="An official base.")
def _context(name: str, folder: Path, version: str, base: str) -> int:
    """Prepare in FOLDER what image NAME is built from, and say the `docker build` command that does it by hand."""
    return context(name, folder, version=version, base=base)
