"""Debian packages, unpacked into a folder of the cache, not installed: no root, no scripts, no dependencies pulled in.

`apt-get download` asks the distribution's own repositories, with their signatures checked by apt, so what comes is what
this release of the distribution has; nothing is recorded with us. The tree has a merged /usr, as every current Debian
has: unpacking makes real folders /bin and /lib otherwise, beside which the dynamic linker's path dangles.
"""

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import tool
from fencepost.harness.runtime.artifacts.cache import kept, key_of, say

_DOWNLOAD_TIMEOUT_S: Final = 600.0
_UNPACK_TIMEOUT_S: Final = 120.0
_MERGED: Final = ("bin", "sbin", "lib", "lib64")
#: What no server reads.
_LEFT_OUT: Final = ("doc", "man", "locale", "lintian")


def unpacked(packages: Sequence[str]) -> Path:
    """The root of a tree that holds exactly these packages, in the cache.

    Args:
        packages: names, each with a version where it matters ("etcd-server" or "etcd-server=3.4.23+dfsg-4"). Without
            one it is the version that the distribution has when the tree is made.

    Raises:
        MachineError: no apt, no network, or a package that the distribution has not.
    """
    names = sorted(set(packages))
    parts = [*names, _release(), platform.machine()]
    return kept("debian", key_of(names[0].partition("=")[0], parts), lambda target: _unpack(names, target))


def _release() -> str:
    """Which distribution this is: the same name means another package in another release."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "unknown"
    return f"{release.get('ID')} {release.get('VERSION_ID')}"


def _unpack(names: Sequence[str], target: Path) -> None:
    missing = [program for program in ("apt-get", "dpkg-deb", "tar") if tool.found(program) is None]
    if missing:
        raise MachineError(
            f"{', '.join(names)} would come from Debian packages, but {' and '.join(missing)} cannot be found",
            hint="use a Debian or Ubuntu machine, or give a path",
        )
    say(f"fetching the Debian packages {', '.join(names)}, once")
    for folder in _MERGED:
        (target / "usr" / folder).mkdir(parents=True)
        (target / folder).symlink_to(f"usr/{folder}")
    with TemporaryDirectory(prefix="fencepost-debian-") as name:
        # apt gives up its rights while it downloads, so its own user must reach the folder.
        Path(name).chmod(0o755)
        tool.run(
            ["apt-get", "download", "-q", *names],
            what=f"downloading the Debian packages {', '.join(names)}",
            timeout_s=_DOWNLOAD_TIMEOUT_S,
            hint="run `sudo apt-get update` first; is there a network?",
            cwd=Path(name),
        )
        for package in sorted(Path(name).glob("*.deb")):
            _unpack_one(package, target)
    for left_out in _LEFT_OUT:
        shutil.rmtree(target / "usr" / "share" / left_out, ignore_errors=True)


def _unpack_one(package: Path, target: Path) -> None:
    archive = package.with_suffix(".tar")
    what, hint = f"unpacking {package.name}", "the download may be torn: try again"
    tool.run(
        ["dpkg-deb", "--fsys-tarfile", str(package)], what=what, hint=hint, timeout_s=_UNPACK_TIMEOUT_S, stdout=archive
    )
    flags = ["--keep-directory-symlink", "--no-same-owner", "-C", str(target), "-x", "-f", str(archive)]
    tool.run(["tar", *flags], what=what, hint=hint, timeout_s=_UNPACK_TIMEOUT_S)
    archive.unlink()
