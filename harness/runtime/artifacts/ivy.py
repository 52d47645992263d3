"""Resolve Maven coordinates without Maven: the Ivy jar that pyspark carries, run by our own Java.

Ivy asks its built-in default repository, or the mirror that the user's `~/.m2/settings.xml` names for it. It gets three
things: a cache folder of its own, so that the user's `~/.ivy2` has no influence; the machine's certificates where our
Java lacks them (`trust`); and the proxy of the environment, which Java does not read by itself.
"""

import os
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from xml.etree import ElementTree

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import required_package_folder, say, tool, trust

#: The values of `mirrorOf` that include the default repository (Maven's settings reference).
_FOR_CENTRAL: Final = frozenset({"*", "central", "external:*"})
_PATTERN: Final = "[artifact]-[revision](-[classifier]).[ext]"


def retrieve(coordinates: Sequence[str], exclude: Sequence[str], target: Path, *, timeout_s: float) -> None:
    """Put the jars into `target`; raise MachineError with the last lines of Ivy's output."""
    from fencepost.harness.runtime.artifacts.java import find_java  # it uses the cache of this package

    java = find_java()
    with TemporaryDirectory(prefix="fencepost-ivy-") as name:
        home = Path(name)
        mirror = mirror_of_central(Path(os.path.expanduser("~/.m2/settings.xml")))
        (home / "settings.xml").write_text(settings_of(home / "cache", mirror), encoding="utf-8")
        (home / "ivy.xml").write_text(module_of(coordinates, exclude), encoding="utf-8")
        flags = [f"-Duser.home={home}", *trust.java_flags(java), *proxy_flags()]
        options = ["-settings", str(home / "settings.xml"), "-ivy", str(home / "ivy.xml"), "-confs", "default"]
        argv = [str(java.binary), *flags, "-jar", str(_jar()), *options, "-retrieve", str(target / _PATTERN)]
        tool.run(
            tool.Command(argv=argv, timeout_s=timeout_s),
            what=f"resolving {', '.join(coordinates)}",
            hint="is there a network? A mirror can be named in ~/.m2/settings.xml; an installed `mvn` is used first",
            excerpt=lambda output: tool.last_lines(tool.without_hosts(output)),
        )


def _jar() -> Path:
    folder = required_package_folder("pyspark", distribution="pyspark") / "jars"
    ivy_jars = sorted(folder.glob("ivy-*.jar"))
    if not ivy_jars:
        raise MachineError(
            f"{folder}: there is no ivy-<version>.jar in this folder",
            hint="install `mvn`, or the pyspark of fencepost[spark]",
        )
    return ivy_jars[-1]


def settings_of(cache: Path, mirror: str | None) -> str:
    """Return Ivy's settings: one repository with Maven's layout, the mirror or the built-in one."""
    settings = ElementTree.Element("ivysettings")
    ElementTree.SubElement(settings, "settings", defaultResolver="repository")
    ElementTree.SubElement(settings, "caches", defaultCacheDir=str(cache))
    resolvers = ElementTree.SubElement(settings, "resolvers")
    repository = ElementTree.SubElement(resolvers, "ibiblio", name="repository", m2compatible="true")
    if mirror is not None:
        repository.set("root", mirror)
    return ElementTree.tostring(settings, encoding="unicode")


def module_of(coordinates: Sequence[str], exclude: Sequence[str]) -> str:
    """Return a module that depends on the coordinates at run time, without what is excluded."""
    module = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(module, "info", organisation="fencepost", module="servers")
    configurations = ElementTree.SubElement(module, "configurations")
    ElementTree.SubElement(configurations, "conf", name="default")
    dependencies = ElementTree.SubElement(module, "dependencies")
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        # "*:*" keeps the jar itself; excluding everything would remove its own artifact, too.
        transitive = "false" if "*:*" in exclude else "true"
        dependency = ElementTree.SubElement(
            dependencies, "dependency", org=group, name=artifact, rev=version, transitive=transitive
        )
        dependency.set("conf", "default->master" if transitive == "false" else "default->default")
    if "*:*" not in exclude:
        for excluded in exclude:
            group, artifact = excluded.split(":")
            # The exact matcher takes "*" for everything and any other text for itself.
            ElementTree.SubElement(dependencies, "exclude", org=group, module=artifact, matcher="exact")
    return ElementTree.tostring(module, encoding="unicode")


def mirror_of_central(settings: Path) -> str | None:
    """Return the URL of the first mirror of Maven's default repository; None when the file names none.

    A file that is no XML is skipped with a warning: it is Maven's, and Maven is not used here.
    """
    try:
        root = ElementTree.parse(settings).getroot()
    except FileNotFoundError:
        return None
    except (OSError, ElementTree.ParseError) as error:
        say(f"warning: {settings} cannot be read and is ignored: {error}")
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        named = {word.strip() for word in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        url = (mirror.findtext("{*}url") or "").strip()
        if url and named & _FOR_CENTRAL and "!central" not in named:
            return url if url.endswith("/") else url + "/"
    return None


def proxy_flags() -> list[str]:
    """Return the proxies of the environment as Java's system properties."""
    proxies = urllib.request.getproxies_environment()
    flags = []
    for scheme in ("http", "https"):
        parts = urllib.parse.urlsplit(proxies.get(scheme, ""))
        if parts.hostname:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            flags += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={port}"]
    without = [host.strip() for host in os.environ.get("no_proxy", "").split(",") if host.strip()]
    if flags and without:
        flags.append(f"-Dhttp.nonProxyHosts={'|'.join('*' + h if h.startswith('.') else h for h in without)}")
    return flags
