"""Resolve Maven coordinates without Maven: the Ivy jar that pyspark carries, run by our own Java.

Ivy asks its built-in default repository, or the mirror that the user's `~/.m2/settings.xml` names for it. It gets a
folder of its own for its cache, so that nothing of the user's `~/.ivy2` decides what comes; the machine's certificates
where our Java lacks them (`trust`); and the proxy that the environment names, which Java does not read by itself.
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
from fencepost.harness.runtime.artifacts import tool, trust
from fencepost.harness.runtime.artifacts.cache import say
from fencepost.harness.runtime.artifacts.python_packages import required_package_folder

#: In `mirrorOf`, what stands for the default repository (Maven's settings reference; "external:*" is every remote one).
_FOR_CENTRAL: Final = frozenset({"*", "central", "external:*"})
_PATTERN: Final = "[artifact]-[revision](-[classifier]).[ext]"


def retrieve(coordinates: Sequence[str], exclude: Sequence[str], target: Path, *, timeout_s: float) -> None:
    """Put the jars into `target`; raises MachineError with what Ivy said."""
    from fencepost.harness.runtime.artifacts.java import find_java  # it uses the cache of this package

    java = find_java()
    with TemporaryDirectory(prefix="fencepost-ivy-") as name:
        home = Path(name)
        mirror = mirror_of_central(Path.home() / ".m2" / "settings.xml")
        (home / "settings.xml").write_text(settings_of(home / "cache", mirror), encoding="utf-8")
        (home / "ivy.xml").write_text(module_of(coordinates, exclude), encoding="utf-8")
        flags = [f"-Duser.home={home}", *trust.java_flags(java), *proxy_flags()]
        asked = ["-settings", str(home / "settings.xml"), "-ivy", str(home / "ivy.xml"), "-confs", "default"]
        tool.run(
            [str(java.binary), *flags, "-jar", str(_jar()), *asked, "-retrieve", str(target / _PATTERN)],
            what=f"resolving {', '.join(coordinates)}",
            timeout_s=timeout_s,
            hint="is there a network? A mirror is taken from ~/.m2/settings.xml; `mvn`, once on the PATH, goes first",
            excerpt=lambda words: tool.last_lines(tool.without_hosts(words)),
        )


def _jar() -> Path:
    folder = required_package_folder("pyspark", distribution="pyspark") / "jars"
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise MachineError(
            f"{folder}: no ivy-<version>.jar there", hint="install `mvn`, or the pyspark of `make setup`"
        )
    return found[-1]


def settings_of(cache: Path, mirror: str | None) -> str:
    """Ivy's settings: one repository of Maven's layout, the built-in one unless there is a mirror."""
    settings = ElementTree.Element("ivysettings")
    ElementTree.SubElement(settings, "settings", defaultResolver="repository")
    ElementTree.SubElement(settings, "caches", defaultCacheDir=str(cache))
    resolvers = ElementTree.SubElement(settings, "resolvers")
    repository = ElementTree.SubElement(resolvers, "ibiblio", name="repository", m2compatible="true")
    if mirror is not None:
        repository.set("root", mirror)
    return ElementTree.tostring(settings, encoding="unicode")


def module_of(coordinates: Sequence[str], exclude: Sequence[str]) -> str:
    """A module that depends on the coordinates, at run time, less what is excluded."""
    module = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(module, "info", organisation="fencepost", module="servers")
    configurations = ElementTree.SubElement(module, "configurations")
    ElementTree.SubElement(configurations, "conf", name="default")
    dependencies = ElementTree.SubElement(module, "dependencies")
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        # "*:*" leaves the jar itself; an exclude of everything would take its own artifact away, too.
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
    """The URL of the first mirror that stands in for Maven's default repository; None when the file names none.

    A file that is no XML is said and passed over: it is Maven's, and Maven is not asked here.
    """
    try:
        root = ElementTree.parse(settings).getroot()
    except FileNotFoundError:
        return None
    except (OSError, ElementTree.ParseError) as error:
        say(f"warning: {settings} cannot be read and is passed over: {error}")
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        named = {word.strip() for word in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        url = (mirror.findtext("{*}url") or "").strip()
        if url and named & _FOR_CENTRAL and "!central" not in named:
            return url if url.endswith("/") else url + "/"
    return None


def proxy_flags() -> list[str]:
    """The proxies of the environment as Java's system properties."""
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
