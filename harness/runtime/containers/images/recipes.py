"""What each image is made of, by name.

A recipe says two things apart: its *identity*, everything that the image depends on, known in milliseconds and without
a network; and its *parts*, the files themselves, which may have to be built or fetched first. Whether an image is stale
is a question about identities alone, so one that is up to date needs neither a compiler nor a package index.
"""

import hashlib
import importlib.metadata
import platform
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError, unknown_choice
from fencepost.harness.runtime.artifacts.cache import sha256_of
from fencepost.harness.runtime.containers.images import agent, folder, machine, parts
from fencepost.harness.runtime.containers.images.parts import Part

#: Before every image's name.
OWNER: Final = "fencepost"
_PARTS_DIGITS: Final = 12
_TAG_LONGEST: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to make one image. `base` is another recipe's name, or empty: from nothing."""

    name: str
    version: str
    identity: Mapping[str, str]
    parts: Callable[[], list[Part]]
    base: str = ""
    #: A person's own binary: its tag holds its digest, so that it cannot take a released version's place.
    is_given: bool = False

    @property
    def reference(self) -> str:
        tag = f"{self.version}-{self.digest('')[:_PARTS_DIGITS]}" if self.is_given else self.version
        return reference_of(self.name, tag)

    def digest(self, base: str) -> str:
        """Of everything that the image is made of, on this base (its digest, or the reference of an official image)."""
        sums = hashlib.sha256(folder.dockerfile(self.name) + _making())
        for text in (base, *(f"{name}={value}" for name, value in sorted(self.identity.items()))):
            sums.update(b"\0" + text.encode())
        return sums.hexdigest()


@lru_cache(maxsize=1)
def _making() -> bytes:
    """The code that makes the parts: when it changes, so may they."""
    return b"".join(Path(str(module.__file__)).read_bytes() for module in (machine, parts, sys.modules[__name__]))


def reference_of(name: str, version: str) -> str:
    """The tag of an image; what a version says and a tag must not ("3.6.0+git") becomes a hyphen."""
    version = re.sub(r"[^A-Za-z0-9_.-]", "-", version)[:_TAG_LONGEST]
    return f"{OWNER}/{name}:{version}"


def is_ours(reference: str) -> bool:
    return reference.startswith(f"{OWNER}/")


def names() -> tuple[str, ...]:
    """Every image, in the order in which versions.toml names them."""
    return tuple(folder.pinned())


def recipe(name: str, version: str = "") -> Recipe:
    """The recipe of an image; `version` stands in for the pinned one, for a system also a path as for `--version`.

    Raises:
        UsageError: no such image, or no such version.
        MachineError: this machine lacks what the image would be made of.
    """
    maker = _MAKERS.get(name)
    if maker is None or name not in names():
        raise unknown_choice("image", name, names())
    return maker(version or folder.pinned()[name].version)


def _etcd(version: str) -> Recipe:
    from fencepost.harness.plugins import registry

    found = registry.system("etcd").resolve(version)
    binary = Path(found.paths["etcd"])

    def files() -> list[Part]:
        target = "root/usr/local/bin/etcd"
        return [*machine.skeleton(), parts.file(target, binary), *machine.libraries([binary])]

    return Recipe(
        name="etcd",
        version=found.version,
        identity={"etcd": found.sha256["etcd"]},
        parts=files,
        is_given=_is_path(version),
    )


def _zookeeper(version: str) -> Recipe:
    from fencepost.harness.plugins import registry

    found = registry.system("zookeeper").resolve(version)
    jars = [Path(jar) for jar in found.paths["classpath"].split(":")]
    return Recipe(
        name="zookeeper",
        version=found.version,
        identity={jar.name: sha256_of(jar) for jar in jars},
        parts=lambda: [parts.file(f"lib/{jar.name}", jar) for jar in jars],
        base=folder.pinned()["zookeeper"].base,
        is_given=_is_path(version),
    )


def _kraft(version: str) -> Recipe:
    from fencepost.harness.systems.kafka.kraft.system import refuse

    return _kafka("kraft", version, refuse)


def _kafka_zk(version: str) -> Recipe:
    from fencepost.harness.systems.kafka.zookeeper_mode.system import refuse

    return _kafka("kafka-zk", version, refuse)


def _kafka(name: str, version: str, refuse: Callable[[str], None]) -> Recipe:
    """The jars of a Kafka; of a known release their sums are recorded, so that nothing need be fetched to compare."""
    from fencepost.harness.systems.kafka.server import start as server
    from fencepost.harness.systems.kafka.server import versions

    known = None if _is_path(version) else versions.recorded_sums(version)

    def jars() -> list[Path]:
        return server.found_jars(version, refuse=refuse)[1]

    if known is not None:
        refuse(version)
        found, sums = version, known
    else:
        found, own = server.found_jars(version, refuse=refuse)
        sums = {jar.name: sha256_of(jar) for jar in own}
    return Recipe(
        name=name,
        version=found,
        identity=sums,
        parts=lambda: [parts.file(f"libs/{jar.name}", jar) for jar in jars()],
        base=folder.pinned()[name].base,
        is_given=_is_path(version),
    )


def _is_path(version: str) -> bool:
    return "/" in version or Path(version).exists()


def _toxiproxy(version: str) -> Recipe:
    pin = folder.pinned()["toxiproxy"]
    module_sum = pin.sum if version == pin.version and pin.sum else None
    # Toxiproxy built from its module says "git" when it is asked for its version.
    ldflags = f"-X {pin.module}.Version={version}"

    def files() -> list[Part]:
        from fencepost.harness.runtime.artifacts import go_modules

        server = go_modules.binary(
            pin.module,
            f"v{version}",
            package=pin.package,
            name="toxiproxy-server",
            ldflags=ldflags,
            module_sum=module_sum,
        )
        return [parts.file("toxiproxy-server", server)]

    return Recipe(
        name="toxiproxy",
        version=version,
        identity={pin.module: version, "sum": module_sum or "", "ldflags": ldflags, "for": platform.machine()},
        parts=files,
    )


def _sidecar(_: str) -> Recipe:
    files = agent.module_files()
    return Recipe(
        name="sidecar",
        version=importlib.metadata.version("fencepost"),
        identity={target: sha256_of(path) for target, path in files.items()},
        parts=lambda: [parts.file(f"fencepost/{target}", path) for target, path in files.items()],
        base=folder.pinned()["sidecar"].base,
    )


def _java(_: str) -> Recipe:
    source, modules = machine.java_source(), folder.pinned()["java"].modules
    origin = {"linked from": str(source.home), "modules": " ".join(modules)} if source.linked else {}
    return Recipe(
        name="java",
        version=source.version,
        identity={"java": source.version, "for": platform.machine(), "libc": " ".join(platform.libc_ver()), **origin},
        parts=lambda: machine.java_root(source, modules),
    )


def _python(version: str) -> Recipe:
    packages = _debian_packages()
    return Recipe(
        name="python",
        version=version,
        identity={"packages": " ".join(packages), "for": platform.machine(), "compiled by": sys.version},
        parts=lambda: _python_root(version, packages),
    )


def _debian_packages() -> tuple[str, ...]:
    """The packages of this machine's release of Debian; raises MachineError elsewhere."""
    pin = folder.pinned()["python"]
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    codename = release.get("VERSION_CODENAME", "")
    if codename not in pin.packages:
        raise MachineError(
            f"the side-car's Python is made of Debian packages ({', '.join(pin.packages)}); this machine is"
            f" {release.get('PRETTY_NAME', 'of an unknown distribution')}",
            hint=f"use an official image as its base: fencepost images build --base python={pin.official}",
        )
    return pin.packages[codename]


def _python_root(version: str, packages: tuple[str, ...]) -> list[Part]:
    from fencepost.harness.runtime.artifacts import debian

    root = debian.unpacked(packages)
    shell = machine.applets("root/usr/bin", "busybox") if (root / "usr/bin/busybox").exists() else []
    return [
        *machine.skeleton(),
        *parts.tree("root", root),
        *machine.compiled(root, f"usr/lib/python{version}", version),
        # Python's own link is in another package than the interpreter.
        Part(target="root/usr/bin/python3", link=f"python{version}"),
        *shell,
    ]


_MAKERS: Final[Mapping[str, Callable[[str], Recipe]]] = {
    "etcd": _etcd,
    "zookeeper": _zookeeper,
    "kraft": _kraft,
    "kafka-zk": _kafka_zk,
    "toxiproxy": _toxiproxy,
    "sidecar": _sidecar,
    "java": _java,
    "python": _python,
}
