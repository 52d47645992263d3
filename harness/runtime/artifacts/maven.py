"""Jars by Maven coordinates.

`mvn` resolves them where it is installed, since it knows the user's repositories, mirrors and passwords. Otherwise the
Ivy inside pyspark does, run by our own Java (`ivy`), so a Python environment is enough. The two resolve conflicts of
versions differently (Maven: the nearest, Ivy: the latest). A caller that needs the same jars from both names every jar
and excludes everything else: `exclude=EVERYTHING`.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import cache_folder, ivy, kept, key_of, say, tool

#: Excludes what the named jars depend on.
EVERYTHING: Final = ("*:*",)

#: The cache's folder for jars.
_KIND: Final = "maven"
_RESOLVE_TIMEOUT_S: Final = 600.0
_COORDINATE: Final = re.compile(r"[\w.-]+:[\w.-]+:[\w.+-]+")
#: How mvn marks and colours its errors; the errors about missing artifacts; and the part that names a repository.
_ERROR: Final = "[ERROR]"
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_LACKING: Final = re.compile(
    r"(?:Could not (?:find|transfer) artifact|Failure to (?:find|transfer)|[\w.-]+:[\w.:-]+ was not found).*"
)
_WHERE: Final = re.compile(r" (?:in|from/to|from|to) \S+ its repository")
_EXCLUDED: Final = re.compile(r"([\w.-]+|\*):([\w.-]+|\*)")


def jars(coordinates: Sequence[str], *, exclude: Sequence[str] = ()) -> list[Path]:
    """Return the jars of these coordinates and of what they need to run, from the cache, sorted by name.

    Args:
        coordinates: "group:artifact:version"; on a conflict Maven prefers the earlier one.
        exclude: "group:artifact" of dependencies to leave out; either part may be "*".

    Raises:
        MachineError: they cannot be resolved; the message ends with the resolver's error.
    """
    for text, pattern in [*((c, _COORDINATE) for c in coordinates), *((e, _EXCLUDED) for e in exclude)]:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text!r} is no Maven coordinate")
    folder = kept(_KIND, _key(coordinates, exclude), lambda target: _fetch(coordinates, exclude, target))
    return sorted(folder.glob("*.jar"))


def are_kept(coordinates: Sequence[str], *, exclude: Sequence[str] = ()) -> bool:
    """Whether these jars are in the cache already."""
    return (cache_folder() / _KIND / _key(coordinates, exclude)).is_dir()


def _key(coordinates: Sequence[str], exclude: Sequence[str]) -> str:
    first = coordinates[0].split(":")
    return key_of(f"{first[1]}-{first[2]}", [*coordinates, "exclude", *exclude])


def _fetch(coordinates: Sequence[str], exclude: Sequence[str], target: Path) -> None:
    mvn = tool.path_of("mvn")
    say(f"downloading {coordinates[0]} with {'mvn' if mvn else 'Ivy'}; later runs use the cache")
    if mvn:
        _through_mvn(mvn, coordinates, exclude, target)
    else:
        ivy.retrieve(coordinates, exclude, target, timeout_s=_RESOLVE_TIMEOUT_S)
    if not any(target.glob("*.jar")):
        raise MachineError(f"{', '.join(coordinates)}: the resolver reported success but left no jar")


def _through_mvn(mvn: str, coordinates: Sequence[str], exclude: Sequence[str], target: Path) -> None:
    pom = target / "pom.xml"
    pom.write_text(pom_of(coordinates, exclude), encoding="utf-8")
    flags = ["-q", "-B", "-Dstyle.color=never", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    argv = [mvn, *flags, "-f", str(pom), "dependency:copy-dependencies"]
    tool.run(
        tool.Command(argv=argv, timeout_s=_RESOLVE_TIMEOUT_S, cwd=target),
        what=f"resolving {', '.join(coordinates)}",
        hint="is there a network, and does `mvn` reach its repository? A mirror is named in ~/.m2/settings.xml",
        excerpt=errors_of_mvn,
    )
    pom.unlink()


def errors_of_mvn(output: str) -> str:
    """Return mvn's first error about a missing artifact; else its first error, or its last lines."""
    lines = tool.without_hosts(_COLOUR.sub("", output)).splitlines()
    errors = [line.removeprefix(_ERROR).partition(" -> [Help")[0].strip() for line in lines if line.startswith(_ERROR)]
    errors = [_WHERE.sub("", line) for line in errors if line]
    named = (match[0] for line in errors if (match := _LACKING.search(line)))
    return next(named, errors[0] if errors else tool.last_lines("\n".join(lines)))


def pom_of(coordinates: Sequence[str], exclude: Sequence[str]) -> str:
    """Return a project that has only these dependencies."""
    project = ElementTree.Element("project", xmlns="http://maven.apache.org/POM/4.0.0")
    _children(project, modelVersion="4.0.0", groupId="fencepost", artifactId="servers", version="1", packaging="pom")
    dependencies = ElementTree.SubElement(project, "dependencies")
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        dependency = ElementTree.SubElement(dependencies, "dependency")
        _children(dependency, groupId=group, artifactId=artifact, version=version)
        exclusions = ElementTree.SubElement(dependency, "exclusions")
        for excluded in exclude:
            group, artifact = excluded.split(":")
            _children(ElementTree.SubElement(exclusions, "exclusion"), groupId=group, artifactId=artifact)
    return ElementTree.tostring(project, encoding="unicode")


def _children(parent: ElementTree.Element, **texts: str) -> None:
    for tag, text in texts.items():
        ElementTree.SubElement(parent, tag).text = text
