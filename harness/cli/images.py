"""`fencepost images`: build the images of the container runtime, list them, prepare a context for building by hand."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.output.help import Documented, DocumentedGroup, HelpExample, PathValue, pairs
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.containers import images

if TYPE_CHECKING:
    import docker


def build(names: Sequence[str], *, base: Mapping[str, str], versions: Mapping[str, str], rebuild: bool) -> int:
    """One line per image on stdout; what takes long is said on stderr."""
    request = images.BuildRequest(images=names, bases=base, versions=versions, rebuild=rebuild)
    images.build(_connect(), _known(), request, done=_say_built, progress=_say)
    return 0


def list_images() -> int:
    rows = images.listed(_connect(), _known())
    width = max(len(line.reference) for line in rows)
    head = ("IMAGE", "STATE", "ID", "SIZE", "AGE", "PARTS", "BASE")
    click.echo(_row(width, *head))
    now = datetime.now(UTC)
    for line in rows:
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


def _known() -> dict[str, images.ImageSource]:
    recipes = [system.releases.image_recipe for system in registry.systems().values()]
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


EXAMPLES = (
    HelpExample("fencepost images list", "Every image: built or not, up to date or not"),
    HelpExample("fencepost images build", "Build what is missing or out of date"),
    HelpExample("fencepost images context etcd ./etcd-image", "Prepare a folder for `docker build`"),
)
BUILD_EXAMPLES = (
    HelpExample("fencepost images build", "Build what is missing or out of date"),
    HelpExample("fencepost images build etcd --version etcd=3.5.21", "Another release of one image"),
    HelpExample("fencepost images build --base java=eclipse-temurin:17-jre", "On an official base image"),
)


@click.group("images", cls=DocumentedGroup, examples=EXAMPLES)
def command() -> None:
    """Build and list the images of the container runtime.

    They are made from docker/ and from binaries on this machine: no image registry is needed.
    """


@command.command("build", cls=Documented, examples=BUILD_EXAMPLES)
@click.argument("names", nargs=-1)
@click.option(
    "--base",
    multiple=True,
    metavar="NAME=IMAGE",
    help="Use another base image, such as java=eclipse-temurin:17-jre. May be repeated.",
)
@click.option(
    "--version",
    "versions",
    multiple=True,
    metavar="NAME=RELEASE",
    help="Build another release than the usual one, such as etcd=3.5.21. May be repeated.",
)
@click.option("--rebuild", "--anew", "rebuild", is_flag=True, help="Build everything, also what is up to date.")
def _build(names: tuple[str, ...], base: tuple[str, ...], versions: tuple[str, ...], rebuild: bool) -> int:
    """Build the images NAMES, or all of them, where they are missing or out of date."""
    return build(names, base=pairs(base, "--base"), versions=pairs(versions, "--version"), rebuild=rebuild)


@command.command("list", cls=Documented, examples=EXAMPLES[:1])
def _list() -> int:
    """List every image: whether it is built and up to date, its size, age and base."""
    return list_images()


@command.command("context", cls=Documented, examples=EXAMPLES[2:])
@click.argument("name")
@click.argument("folder", type=PathValue())
@click.option("--version", default="", metavar="RELEASE", help="Another release than the usual one.")
@click.option("--base", default="", metavar="IMAGE", help="Another base image.")
def _context(name: str, folder: Path, version: str, base: str) -> int:
    """Fill FOLDER with what image NAME is built from, and print the `docker build` command for it."""
    return context(name, folder, version=version, base=base)
