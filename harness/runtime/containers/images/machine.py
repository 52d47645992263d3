"""The parts that images take from this machine: a Java runtime, and the libraries that a program needs.

The dynamic loader (`ldd`) names the libraries, so nothing here depends on a processor or a distribution; they go to the
same paths in the image, where the loader finds them again. Name resolution loads further libraries by itself:
`_LOADED_LATER` lists those.
"""

import os
import platform
import py_compile
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import kept, key_of, tool
from fencepost.harness.runtime.containers.images import parts
from fencepost.harness.runtime.containers.images.parts import Part

_LDD_TIMEOUT_S: Final = 60.0
_DUMP_TIMEOUT_S: Final = 300.0
_RESOLVED: Final = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_MISSING: Final = re.compile(r"^\s+(\S+) => not found$", re.MULTILINE)
_LOADED_LATER: Final = ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")
#: Java's window system, sound and printing: no server loads them, and they need many more libraries.
_DESKTOP: Final = re.compile(
    r"lib(awt|awt_\w+|fontmanager|freetype|harfbuzz|jawt|javajpeg|jsound|lcms|mlib_image|splashscreen)\.so"
)
#: Packages of the standard library that are worth compiling: those that its top modules import at once.
_COMPILED: Final = ("collections", "encodings", "importlib", "json", "re")


def java_root(home: Path, version: str) -> list[Part]:
    """Return the root folder of a base image with the Java runtime in `home` as /opt/java."""
    runtime = list(
        parts.tree(
            "root/opt/java",
            home,
            without=lambda path: bool(_DESKTOP.fullmatch(path.rpartition("/")[2])) or path in ("jmods", "lib/src.zip"),
        )
    )
    programs = [part.source for part in runtime if part.source and _is_program(part.source)]
    return [*skeleton(), *runtime, *_class_archive(home, version), *libraries(programs, of=home)]


def _class_archive(home: Path, version: str) -> list[Part]:
    """Return the archive of a runtime's own classes, which halves the start time of each server; make it if it lacks.

    It is bound to the size and time of the runtime's modules, not to where they lie.
    """
    within = Path("lib", "server", "classes.jsa")
    modules = home / "lib" / "modules"
    if (home / within).is_file() or not modules.is_file():
        return []
    status = modules.stat()
    key = key_of(f"classes-{version}", [str(home), platform.machine(), str(status.st_size), str(status.st_mtime_ns)])
    dump = partial(_dump, [str(home / "bin" / "java"), "-Xshare:dump", "-XX:+UseSerialGC"], within.name)
    folder = kept("images", key, dump)
    return [parts.file(f"root/opt/java/{within}", folder / within.name)]


def _dump(command: list[str], name: str, making: Path) -> None:
    archive = tool.Command(argv=[*command, f"-XX:SharedArchiveFile={making / name}"], timeout_s=_DUMP_TIMEOUT_S)
    hint = "use another Java, or an official base: --base java=eclipse-temurin:17-jre"
    tool.run(archive, what="archiving the classes of the image's Java runtime", hint=hint)


def _is_program(path: Path) -> bool:
    """Say whether the file contains machine instructions (an ELF file)."""
    with path.open("rb") as start:
        return start.read(4) == b"\x7fELF"


def libraries(programs: Iterable[Path], *, of: Path | None = None) -> list[Part]:
    """Return the libraries that `programs` load, except those below `of`, their own folder; empty when static."""
    paths = [str(path) for path in programs]
    output = _ldd(paths)
    libraries_used = {Path(path) for path in _RESOLVED.findall(output)}
    own = {path.name for path in of.rglob("*.so*")} if of else set()
    missing = sorted(set(_MISSING.findall(output)) - own)
    if missing:
        raise MachineError(
            f"{', '.join(missing)}: needed by {of or ', '.join(paths)}, but not on this machine",
            hint="install the package that has it, or use an official image as base (--base)",
        )
    outside = {path for path in libraries_used if of is None or not path.resolve().is_relative_to(of.resolve())}
    if outside and any(path.name.startswith("ld-musl") for path in outside):
        raise MachineError(
            "this machine's C library is musl; the base images are made of the GNU one",
            hint="use official images as bases: --base java=eclipse-temurin:17-jre-alpine",
        )
    for libc in [path for path in outside if path.name.startswith("libc.so")]:
        outside |= {later for name in _LOADED_LATER if (later := libc.with_name(name)).is_file()}
    return [parts.file(f"root{path}", path.resolve()) for path in sorted(outside)]


def _ldd(paths: list[str]) -> str:
    if not paths:
        return ""
    ldd = shutil.which("ldd")
    if ldd is None:
        raise MachineError(
            "`ldd` is not on the PATH, so the libraries that a program needs cannot be found",
            hint="install it (Debian: libc-bin), or use official images as bases (--base)",
        )
    # `ldd` ends with 1 when one of several programs is static, but its output on the others is still right.
    done = subprocess.run(
        [ldd, *paths],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LDD_TIMEOUT_S,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    return done.stdout


def compiled(root: Path, library: str, version: str) -> list[Part]:
    """Compile the modules that a side-car imports: Debian does so at the installation of a package, which we skip.

    This needs a Python of the same version as the side-car's, since each version reads only its own compiled form.
    """
    if f"{sys.version_info.major}.{sys.version_info.minor}" != version:
        return []
    sources = [path for package in ("", *_COMPILED) for path in sorted((root / library / package).glob("*.py"))]
    key = key_of(f"python-{version}", [root.name, sys.version, *_COMPILED])

    def make(making: Path) -> None:
        for source in sources:
            inside = source.relative_to(root)
            # Where the side-car's Python looks; this one may keep its own elsewhere (PYTHONPYCACHEPREFIX).
            target = making / inside.parent / "__pycache__" / f"{inside.stem}.{sys.implementation.cache_tag}.pyc"
            target.parent.mkdir(parents=True, exist_ok=True)
            # Unchecked: the compiled file is valid for any time of the source's copy in the image.
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(source), str(target), dfile=f"/{inside}", invalidation_mode=mode, doraise=True)

    return list(parts.tree("root", kept("images", key, make)))


def skeleton() -> list[Part]:
    """Return the files that programs expect in any root folder."""
    return [
        Part(target="root/tmp", mode=0o1777),
        Part(target="root/data"),
        parts.text("root/etc/passwd", "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"),
        parts.text("root/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
        parts.text("root/etc/nsswitch.conf", "hosts: files dns\n"),
    ]
