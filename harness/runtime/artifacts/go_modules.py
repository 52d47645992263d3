"""Server binaries built from Go modules with the user's own `go`.

`go install module@version` refuses modules with replace directives, as etcd's and Consul's have; as a dependency of an
empty module of ours the same version builds, since replace directives of dependencies are ignored. The build is without
cgo and paths, so the binary is static and the same Go makes the same bytes again. The user's proxy, checksum database
and caches are used as they are set. Go checks every module against its checksum database where that is on; the sum of
the main module recorded with us is checked besides.
"""

import platform
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import tool
from fencepost.harness.runtime.artifacts.cache import kept, key_of, say

_ASK_TIMEOUT_S: Final = 60.0
_GET_TIMEOUT_S: Final = 900.0
_BUILD_TIMEOUT_S: Final = 1800.0


def binary(
    module: str, version: str, *, package: str, name: str, ldflags: str = "", module_sum: str | None = None
) -> Path:
    """The executable `name` built from `package` of `module` at `version` ("v3.5.4"), in the cache.

    Args:
        package: the import path of a main package inside the module.
        ldflags: further flags for the linker, such as "-X main.version=1".
        module_sum: what go.sum must say of the module ("h1:..."); None where nothing is recorded.

    The binary stays when the user's Go changes: it is the same server, and `go version -m` names its compiler.

    Raises:
        MachineError: no `go`, no network, a build that fails, or a module of another content than recorded.
    """
    parts = [module, version, package, ldflags, module_sum or "", platform.system(), platform.machine()]
    folder = kept(
        "go",
        key_of(f"{name}-{version.removeprefix('v')}", parts),
        lambda target: _build(module, version, package, target / name, ldflags, module_sum),
    )
    return folder / name


def _build(module: str, version: str, package: str, target: Path, ldflags: str, module_sum: str | None) -> None:
    what = f"building {target.name} {version} from its Go module"
    go = tool.found("go")
    if go is None:
        raise MachineError(
            f"{what}: there is no `go` on the PATH",
            hint=f"install Go, or give a binary by its path (with a slash): --version ./{target.name}",
        )
    compiler = tool.run([go, "env", "GOVERSION", "GOFLAGS"], what="asking `go`", timeout_s=_ASK_TIMEOUT_S, hint="")
    known, _, flags = compiler.strip().partition("\n")
    environment = {"CGO_ENABLED": "0", "GOFLAGS": f"{flags} -mod=mod".strip(), "GOWORK": "off"}
    say(f"{what} with {known}, once: a minute or two")
    with TemporaryDirectory(prefix="fencepost-go-") as name:
        folder = Path(name)
        (folder / "go.mod").write_text("module fencepost.invalid/servers\n", encoding="utf-8")
        tool.run(
            [go, "get", f"{module}@{version}"],
            what=what,
            timeout_s=_GET_TIMEOUT_S,
            hint="is there a network, and does `go env GOPROXY` name a proxy that it reaches?",
            cwd=folder,
            environment=environment,
        )
        _check(folder / "go.sum", module, version, module_sum)
        tool.run(
            [go, "build", "-trimpath", "-ldflags", f"-s -w {ldflags}".strip(), "-o", str(target), package],
            what=what,
            timeout_s=_BUILD_TIMEOUT_S,
            hint="does this version build with this Go? `go version` names it",
            cwd=folder,
            environment=environment,
        )


def _check(go_sum: Path, module: str, version: str, expected: str | None) -> None:
    """Raise MachineError unless go.sum says of the module what is recorded."""
    if expected is None:
        return
    line = re.search(
        rf"^{re.escape(f'{module} {version}')} (h1:\S+)$", go_sum.read_text(encoding="utf-8"), re.MULTILINE
    )
    came = line.group(1) if line else "no sum"
    if came != expected:
        raise MachineError(
            f"{module}@{version}: expected the content {expected}, the module proxy gave {came}",
            hint="the proxy that `go env GOPROXY` names serves another content under this version; do not run it",
        )
