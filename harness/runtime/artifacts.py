"""Where server binaries come from, and which bytes they are.

Two sources so far: installed Python packages that carry binaries (found without importing them, since importing runs
their code) and paths that a person gives. Every binary that a run uses is recorded with its SHA-256; hashing some
tens of megabytes costs as much as starting a server, so digests are kept in the user's cache folder, keyed by path,
size and modification time. A cache that cannot be written costs time, never the run.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import platformdirs

from harness.errors import MachineError, UsageError

#: How long a binary may take to say its version.
_VERSION_TIMEOUT_S: Final = 10.0


def python_package_folder(name: str) -> Path | None:
    """The folder of an installed top-level package; None when it is absent."""
    if "." in name:
        raise ValueError(f"{name!r}: only a top-level package is found without importing its parents")
    spec = importlib.util.find_spec(name)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None


def required_package_folder(name: str, *, distribution: str) -> Path:
    """The same for a package that the run cannot do without; raises MachineError with the remedy."""
    folder = python_package_folder(name)
    if folder is None:
        raise _not_installed(distribution)
    return folder


def python_package_version(distribution: str) -> str:
    """The installed version of a distribution; raises MachineError with the remedy when it is absent."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise _not_installed(distribution) from None


def _not_installed(distribution: str) -> MachineError:
    return MachineError(
        f"the Python package {distribution!r} is not installed",
        hint=f"run `make setup`, or `pip install {distribution}` into the environment of this command",
    )


def executable(given: str | Path, *, what: str) -> Path:
    """The absolute path of an executable that a person named; raises UsageError saying what it is instead."""
    path = Path(given).expanduser().absolute()
    hint = f"give the path of an executable {what} binary"
    if not path.exists():
        raise UsageError(f"{path}: there is no such file", hint=hint)
    if not path.is_file():
        raise UsageError(f"{path}: expected an executable file, found a folder", hint=hint)
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path}: the file is not executable", hint=f"chmod +x {path}")
    return path


def asked_version(command: Sequence[str], pattern: str, *, what: str) -> str:
    """What a binary says of itself: group 1 of `pattern` in the output of `command`; raises UsageError if it does not.

    The output of a binary that is no `what` is quoted, since it usually says what it is.
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
    found = re.search(pattern, output)
    if found is None:
        raise UsageError(
            f"`{' '.join(command)}` does not name a version of {what}; it said: {output.strip()[:200]!r}",
            hint=f"is it {what}?",
        )
    return found.group(1)


def cache_folder() -> Path:
    """The user's cache folder for this product, made if it is absent and can be made."""
    folder = platformdirs.user_cache_path("fencepost")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(
            f"{folder}: the cache folder cannot be made: {error.strerror}",
            hint="set XDG_CACHE_HOME to a folder that you may write",
        ) from None
    return folder


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` at once: a reader sees the old bytes or the new ones, also when we are killed midway."""
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
    """The SHA-256 of a file, in hexadecimal; remembered for as long as path, size and modification time stay."""
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
            # A full or read-only cache: the digest is right all the same, the next run computes it again.
            return sha256
    return sha256


def _digest_file(path: Path) -> Path | None:
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
