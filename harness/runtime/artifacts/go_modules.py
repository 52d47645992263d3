"""Server binaries built from Go modules with the user's own `go`.

`go install module@version` refuses modules with replace directives, such as etcd's and Consul's. As a dependency of an
empty module of ours the same version builds, since Go ignores the replace directives of dependencies. The build uses
neither cgo nor paths, so the binary is static, and the same Go makes the same bytes again. The user's settings of
proxy, checksum database and caches apply. Go checks every module against its checksum database where that is on; we
also check the main module against the sum that we have recorded.

Whether a release can be built here shows only when Go has asked for each of its modules: one that the checksum database
lacks ends the build after half a minute. So the cache remembers which builds failed, until one succeeds.
"""

import contextlib
import platform
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import cache_folder, kept, key_of, say, tool, write_atomically

_ASK_TIMEOUT_S: Final = 60.0
_GET_TIMEOUT_S: Final = 900.0
_BUILD_TIMEOUT_S: Final = 3600.0
_FAILED: Final = ".failed"


def binary(
    module: str, version: str, *, package: str, name: str, ldflags: str = "", module_sum: str | None = None
) -> Path:
    """Return the executable `name`, built from `package` of `module` at `version` ("v3.5.4") and kept in the cache.

    Args:
        package: the import path of a main package inside the module.
        ldflags: further flags for the linker, such as "-X main.version=1".
        module_sum: the sum that go.sum must have for the module ("h1:..."); None where none is recorded.

    A newer Go does not rebuild the binary: it is the same server, and `go version -m` names its compiler.

    Raises:
        MachineError: there is no `go` or no network, the build fails, or the module has another content than recorded.
    """
    key = _key(module, version, package, name, ldflags, module_sum)
    failed = cache_folder() / "go" / f"{key}{_FAILED}"
    try:
        folder = kept("go", key, lambda target: _build(module, version, package, target / name, ldflags, module_sum))
    except MachineError as error:
        if tool.path_of("go") is not None:
            with contextlib.suppress(OSError):
                write_atomically(failed, f"{module} {version}: {_last_line(error.message)}".encode())
        raise
    if failed.exists():
        failed.unlink(missing_ok=True)
    return folder / name


def failures() -> list[str]:
    """Return which builds failed here when they were last tried, each with the last line of its error."""
    try:
        markers = sorted((cache_folder() / "go").glob(f"*{_FAILED}"))
    except MachineError:
        return []
    return [marker.read_text(encoding="utf-8") for marker in markers]


def _last_line(message: str) -> str:
    return [line.strip() for line in message.splitlines() if line.strip()][-1]


def is_built(
    module: str, version: str, *, package: str, name: str, ldflags: str = "", module_sum: str | None = None
) -> bool:
    """Whether `binary` would find this executable in the cache."""
    return (cache_folder() / "go" / _key(module, version, package, name, ldflags, module_sum)).is_dir()


def _key(module: str, version: str, package: str, name: str, ldflags: str, module_sum: str | None) -> str:
    parts = [module, version, package, ldflags, module_sum or "", platform.system(), platform.machine()]
    return key_of(f"{name}-{version.removeprefix('v')}", parts)


def _build(module: str, version: str, package: str, target: Path, ldflags: str, module_sum: str | None) -> None:
    what = f"building {target.name} {version} from its Go module"
    go = tool.path_of("go")
    if go is None:
        raise MachineError(
            f"{what}: there is no `go` on the PATH",
            hint=f"install Go, or give a binary by its path (with a slash): --version ./{target.name}",
        )
    settings = tool.Command(argv=[go, "env", "GOVERSION", "GOFLAGS"], timeout_s=_ASK_TIMEOUT_S)
    compiler = tool.run(settings, what="asking `go` for its settings", hint="does `go env` work?")
    known, _, flags = compiler.strip().partition("\n")
    environment = {"CGO_ENABLED": "0", "GOFLAGS": f"{flags} -mod=mod".strip(), "GOWORK": "off"}
    say(f"{what} with {known}: takes a minute or two; later runs use the cache")
    with TemporaryDirectory(prefix="fencepost-go-") as name:
        folder = Path(name)
        (folder / "go.mod").write_text("module fencepost.invalid/servers\n", encoding="utf-8")
        get = [go, "get", f"{module}@{version}"]
        tool.run(
            tool.Command(argv=get, timeout_s=_GET_TIMEOUT_S, cwd=folder, environment=environment),
            what=what,
            hint="is there a network, and does `go env GOPROXY` name a proxy that it reaches?",
        )
        _check(folder / "go.sum", module, version, module_sum)
        build = [go, "build", "-trimpath", "-ldflags", f"-s -w {ldflags}".strip(), "-o", str(target), package]
        tool.run(
            tool.Command(argv=build, timeout_s=_BUILD_TIMEOUT_S, cwd=folder, environment=environment),
            what=what,
            hint="does this version build with this Go? `go version` names it",
        )


def _check(go_sum: Path, module: str, version: str, expected: str | None) -> None:
    """Raise MachineError unless go.sum has the recorded sum of the module."""
    if expected is None:
        return
    line = re.search(
        rf"^{re.escape(f'{module} {version}')} (h1:\S+)$", go_sum.read_text(encoding="utf-8"), re.MULTILINE
    )
    came = line.group(1) if line else "no sum"
    if came != expected:
        raise MachineError(
            f"{module}@{version}: expected the sum {expected}, the module proxy served {came}",
            hint="do not run it: the proxy of `go env GOPROXY` serves another content under this version",
        )
