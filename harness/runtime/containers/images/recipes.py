"""The recipe of each image, by name.

A recipe separates two things: its *identity*, everything that the image depends on, known in milliseconds and without
a network; and its *parts*, the files themselves, which may have to be built or fetched first. The identity alone shows
whether an image is stale, so an image that is up to date needs neither a compiler nor a package index.
"""

import hashlib
import importlib.metadata
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError, command_line
from fencepost.harness.base.files import source_tree
from fencepost.harness.runtime.artifacts import ImageContents, ImageRecipe, java_runtimes, sha256_of
from fencepost.harness.runtime.artifacts.java import find_java
from fencepost.harness.runtime.containers.images import folder, machine, parts
from fencepost.harness.runtime.containers.images.parts import Part

#: The prefix of every image's name.
OWNER: Final = "fencepost"
_PARTS_DIGITS: Final = 12
_TAG_LONGEST: Final = 128
_PACKAGE: Final = source_tree() / "fencepost"
#: What the side-car consists of, below `harness`.
_SIDECAR: Final = (
    *("base/errors.py", "base/files.py", "runtime/network.py", "runtime/containers/rules/sidecar_agent.py"),
    *("runtime/links/*.py", "runtime/linux/*.py", "runtime/shaping/*.py"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to make one image. `base` is another recipe's name, or empty for no base."""

    name: str
    version: str
    identity: Mapping[str, str]
    parts: Callable[[], list[Part]]
    base: str = ""
    #: True for a user's own binary: its tag holds its digest, so that it cannot replace a released version.
    is_given: bool = False

    @property
    def reference(self) -> str:
        tag = f"{self.version}-{self.digest('')[:_PARTS_DIGITS]}" if self.is_given else self.version
        return reference_of(self.name, tag)

    def digest(self, base: str) -> str:
        """Return the digest of all parts on this base (the base's digest, or the reference of an official image)."""
        sums = hashlib.sha256(folder.dockerfile(self.name) + _making())
        for text in (base, *(f"{name}={value}" for name, value in sorted(self.identity.items()))):
            sums.update(b"\0" + text.encode())
        return sums.hexdigest()


@lru_cache(maxsize=1)
def _making() -> bytes:
    """Return the code that makes the parts: when it changes, the parts may change."""
    return b"".join(Path(str(module.__file__)).read_bytes() for module in (machine, parts, sys.modules[__name__]))


def reference_of(name: str, version: str) -> str:
    """Return the tag of an image; characters that a tag must not have ("3.6.0+git") become a hyphen."""
    version = re.sub(r"[^A-Za-z0-9_.-]", "-", version)[:_TAG_LONGEST]
    return f"{OWNER}/{name}:{version}"


def is_ours(reference: str) -> bool:
    return reference.startswith(f"{OWNER}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """An image that can be built. `make` returns the recipe of a version; it raises UsageError or MachineError.

    `version` is built when nobody chooses another; empty when this machine decides it. `base` is another image's name,
    or empty: from nothing.
    """

    name: str
    make: Callable[[str], Recipe]
    version: str = ""
    base: str = ""
    has_versions: bool = False

    def recipe(self, version: str = "") -> Recipe:
        return self.make(version or self.version)


def of_system(system: ImageRecipe) -> ImageSource:
    """Return the image that a system declares; its version may also be a path, as for `--version`."""

    def make(version: str) -> Recipe:
        contents = system.contents(version)
        return Recipe(
            name=system.name,
            version=contents.version,
            identity={f"{system.folder}/{name}": sha256 for name, sha256 in contents.sums.items()},
            parts=lambda: _system_parts(system, contents),
            base=contents.base or system.base,
            is_given="/" in version or Path(version).exists(),
        )

    return ImageSource(name=system.name, make=make, version=system.version, base=system.base, has_versions=True)


def _system_parts(system: ImageRecipe, contents: ImageContents) -> list[Part]:
    files = contents.files()
    own = [parts.file(f"{system.folder}/{name}", path) for name, path in files.items()]
    return own if system.base else [*machine.skeleton(), *own, *machine.libraries(files.values())]


def own() -> dict[str, ImageSource]:
    """Return the runtime's own images by name: the proxy, the side-car, and the bases."""
    makers = {"toxiproxy": _toxiproxy, "sidecar": _sidecar, "java": _java, "python": _python}
    makers |= {f"java-{feature}": partial(_older_java, feature) for feature in java_runtimes.WHEELS}
    return {
        name: ImageSource(
            name=name, make=makers[name], version=pin.version, base=pin.base, has_versions=bool(pin.module)
        )
        for name, pin in folder.pinned().items()
    }


def known(systems: Iterable[ImageRecipe]) -> dict[str, ImageSource]:
    """Return every image by name: those of these systems, then the runtime's own."""
    return {system.name: of_system(system) for system in systems} | own()


def _toxiproxy(version: str) -> Recipe:
    pin = folder.pinned()["toxiproxy"]
    module_sum = pin.sum if version == pin.version and pin.sum else None
    # Toxiproxy built from its module reports "git" as its version.
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
    files = {f"fencepost/{path.relative_to(_PACKAGE)}": path for path in _sidecar_files()}
    return Recipe(
        name="sidecar",
        version=importlib.metadata.version("fencepost"),
        identity={target: sha256_of(path) for target, path in files.items()},
        parts=lambda: [parts.file(f"fencepost/{target}", path) for target, path in files.items()],
        base=folder.pinned()["sidecar"].base,
    )


def _sidecar_files() -> list[Path]:
    """Return the modules of the side-car, whose Python has the standard library only, and their packages' heads."""
    modules = [path for name in _SIDECAR for path in _PACKAGE.glob(f"harness/{name}")]
    heads = {above / "__init__.py" for path in modules for above in path.parents if above.is_relative_to(_PACKAGE)}
    return sorted({*modules, *heads})


def _java(_: str) -> Recipe:
    java = find_java()
    return Recipe(
        name="java",
        version=java.version,
        identity={"java": java.version, "for": platform.machine(), "libc": " ".join(platform.libc_ver())},
        parts=lambda: machine.java_root(java.home, java.version),
    )


def _older_java(feature: int, _: str) -> Recipe:
    """The Java of an older feature release, for servers that do not run on the one of this machine."""
    wheel = java_runtimes.WHEELS[feature]

    def root() -> list[Part]:
        java = java_runtimes.java_runtime(feature)
        return machine.java_root(java.home, java.version)

    return Recipe(
        name=f"java-{feature}",
        version=wheel.release,
        identity={"wheel": wheel.sha256, "for": platform.machine(), "libc": " ".join(platform.libc_ver())},
        parts=root,
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
    """Return the packages for this machine's release of Debian; raise MachineError elsewhere."""
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
            hint="use an official image as its base: "
            + command_line("images", "build", "--base", f"python={pin.official}"),
        )
    return pin.packages[codename]


def _python_root(version: str, packages: tuple[str, ...]) -> list[Part]:
    from fencepost.harness.runtime.artifacts import debian

    root = debian.unpacked(packages)
    return [
        *machine.skeleton(),
        *parts.tree("root", root),
        *machine.compiled(root, f"usr/lib/python{version}", version),
        # Python's own link is in another package than the interpreter.
        Part(target="root/usr/bin/python3", link=f"python{version}"),
    ]
