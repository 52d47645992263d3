"""Debian packages that are unpacked into the cache, not installed: no root, no scripts, no dependencies.

`apt-get download` asks the distribution's own repositories, and apt checks their signatures. So the packages are those
of this machine's release; we record no sums of them. The tree has a merged /usr, as every current Debian has: otherwise
unpacking would make real folders /bin and /lib, and the dynamic linker would not find its libraries.
"""

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import kept, key_of, say, tool

_DOWNLOAD_TIMEOUT_S: Final = 600.0
_UNPACK_TIMEOUT_S: Final = 120.0
_MERGED: Final = ("bin", "sbin", "lib", "lib64")
#: Folders that no server reads; they are removed.
_LEFT_OUT: Final = ("doc", "man", "locale", "lintian")


def unpacked(packages: Sequence[str]) -> Path:
    """Return the root of a tree in the cache that holds exactly these packages.

    Args:
        packages: names, each with a version where it matters ("etcd-server" or "etcd-server=3.4.23+dfsg-4"). Without
            one it is the version that the distribution has when the tree is made.

    Raises:
        MachineError: there is no apt or no network, or the distribution has no such package.
    """
    names = sorted(set(packages))
    parts = [*names, _release(), platform.machine()]
    return kept("debian", key_of(names[0].partition("=")[0], parts), lambda target: _unpack(names, target))


def _release() -> str:
    """Return this distribution's release: the same name is another package in another release."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "unknown"
    return f"{release.get('ID')} {release.get('VERSION_ID')}"


def _unpack(names: Sequence[str], target: Path) -> None:
    missing = [program for program in ("apt-get", "dpkg-deb", "tar") if tool.path_of(program) is None]
    if missing:
        raise MachineError(
            f"{', '.join(names)} comes from Debian packages, but this machine lacks {' and '.join(missing)}",
            hint="use a Debian or Ubuntu machine, or give the path of a binary",
        )
    say(f"downloading the Debian packages {', '.join(names)}; later runs use the cache")
    for folder in _MERGED:
        (target / "usr" / folder).mkdir(parents=True)
        (target / folder).symlink_to(f"usr/{folder}")
    with TemporaryDirectory(prefix="fencepost-debian-") as name:
        # apt drops its rights while it downloads, so its own user must be able to reach the folder.
        Path(name).chmod(0o755)
        download = ["apt-get", "download", "-q", *names]
        tool.run(
            tool.Command(argv=download, timeout_s=_DOWNLOAD_TIMEOUT_S, cwd=Path(name)),
            what=f"downloading the Debian packages {', '.join(names)}",
            hint="run `sudo apt-get update` first; is there a network?",
        )
        for package in sorted(Path(name).glob("*.deb")):
            _unpack_one(package, target)
    for left_out in _LEFT_OUT:
        shutil.rmtree(target / "usr" / "share" / left_out, ignore_errors=True)


def _unpack_one(package: Path, target: Path) -> None:
    archive = package.with_suffix(".tar")
    to_tar = ["dpkg-deb", "--fsys-tarfile", str(package)]
    extract = ["tar", "--keep-directory-symlink", "--no-same-owner", "-C", str(target), "-x", "-f", str(archive)]
    for argv, stdout in ((to_tar, archive), (extract, None)):
        tool.run(
            tool.Command(argv=argv, timeout_s=_UNPACK_TIMEOUT_S, stdout=stdout),
            what=f"unpacking {package.name}",
            hint="the downloaded file may be incomplete: try again",
        )
    archive.unlink()
