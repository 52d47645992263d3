"""Binaries of Go modules and Debian packages: what the tools are asked, what is checked, what is said without them."""

import subprocess
from pathlib import Path

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.cli import doctor
from fencepost.harness.runtime.artifacts import debian, go_modules, tool
from tests.runtime.artifacts.artifact_tools import Tools

#: Answers `env`, writes go.sum for `get`, a binary for `build`; keeps the environment it saw.
_GO = """
env | grep -E '^(GOFLAGS|CGO_ENABLED|GOWORK)=' | sort > "$0.env"
case $1 in
  env) printf 'go1.99\\n-buildvcs=false\\n';;
  get) printf 'm.example/s v1.2.3 h1:right=\\nm.example/s v1.2.3/go.mod h1:other=\\n' > go.sum;;
  build) while [ "$1" != -o ]; do shift; done; echo binary > $2; chmod +x $2;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Tools(tmp_path / "tools", monkeypatch)


def _binary(module_sum: str | None = None) -> Path:
    return go_modules.binary(
        "m.example/s", "v1.2.3", package="m.example/s/cmd", name="server", ldflags="-X a.b=c", module_sum=module_sum
    )


def test_a_module_is_built_once(tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools.add("go", _GO)
    path = _binary("h1:right=")
    assert path.name == "server"
    assert path.read_text() == "binary\n"
    assert [call.split()[1] for call in tools.calls] == ["env", "get", "build"]
    assert tools.calls[1] == "go get m.example/s@v1.2.3"
    assert "-trimpath -ldflags -s -w -X a.b=c" in tools.calls[2]
    seen = (tmp_path / "tools" / "go.env").read_text()
    assert seen == "CGO_ENABLED=0\nGOFLAGS=-buildvcs=false -mod=mod\nGOWORK=off\n"
    assert "building server v1.2.3 from its Go module with go1.99: takes" in capsys.readouterr().err
    (tmp_path / "tools" / "go").unlink()
    assert _binary("h1:right=") == path, "what is kept needs no Go"


def test_a_module_of_another_content_is_refused(tools: Tools) -> None:
    tools.add("go", _GO)
    with pytest.raises(MachineError, match=r"v1\.2\.3: expected the sum h1:recorded=, .* served h1:right="):
        _binary("h1:recorded=")
    assert not any("go build" in call for call in tools.calls)
    assert _binary().is_file(), "without a record there is nothing to compare"


def test_a_build_that_fails_says_why(tools: Tools) -> None:
    tools.add("go", "[ $1 != get ] || { echo 'go: module m.example/s: 404 Not Found' >&2; exit 1; }")
    with pytest.raises(MachineError, match=r"`go` ended with 1\n  go: module m\.example/s: 404") as caught:
        _binary()
    assert "GOPROXY" in (caught.value.hint or "")


def test_a_build_that_failed_is_remembered_until_one_succeeds(tools: Tools) -> None:
    assert go_modules.failures() == []
    tools.add("go", "[ $1 != get ] || { echo 'go: fetching' >&2; echo 'verifying module: 404 Not Found' >&2; exit 1; }")
    for _ in range(2):
        with pytest.raises(MachineError):
            _binary()
        assert go_modules.failures() == ["m.example/s v1.2.3: verifying module: 404 Not Found"]
    assert [check.state for check in doctor._unbuilt()] == go_modules.failures()
    tools.add("go", _GO)
    _binary()
    assert go_modules.failures() == [] and doctor._unbuilt() == []


def test_without_go_no_release_is_said_to_be_at_fault(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "path_of", lambda name: None)
    with pytest.raises(MachineError):
        _binary()
    assert go_modules.failures() == []


def test_without_go_the_alternative_is_said(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "path_of", lambda name: None)
    with pytest.raises(MachineError, match="there is no `go` on the PATH") as caught:
        _binary()
    assert "--version ./server" in (caught.value.hint or "")


def _package(folder: Path, name: str, files: dict[str, str]) -> Path:
    """A tar as `dpkg-deb --fsys-tarfile` gives it, under the name of a package."""
    tree = folder / name
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(content)
    package = folder / f"{name}_1_all.deb"
    subprocess.run(["tar", "-C", str(tree), "-cf", str(package), "."], check=True, timeout=30)
    return package


def _debian(tools: Tools, *packages: Path) -> None:
    tools.add("apt-get", f"cp {' '.join(map(str, packages))} .")
    tools.add("dpkg-deb", 'cat "$2"')


def test_packages_are_unpacked_into_one_tree_with_a_merged_usr(tools: Tools, tmp_path: Path) -> None:
    old = _package(tmp_path, "libc6", {"lib/libc.so": "c", "usr/share/doc/libc6/copyright": "text"})
    new = _package(tmp_path, "etcd-server", {"usr/bin/etcd": "etcd", "etc/default/etcd": "x", "bin/tool": "t"})
    _debian(tools, old, new)
    root = debian.unpacked(["libc6", "etcd-server=3.4"])
    assert (root / "lib").is_symlink()
    assert (root / "usr/lib/libc.so").read_text() == "c"
    assert (root / "usr/bin/tool").read_text() == "t"
    assert (root / "bin/etcd").read_text() == "etcd"
    assert not (root / "usr/share/doc").exists()
    assert tools.calls[0] == "apt-get download -q etcd-server=3.4 libc6"
    tools.add("apt-get", "exit 100")
    assert debian.unpacked(["etcd-server=3.4", "libc6"]) == root, "the order of names does not matter"


def test_another_version_is_another_tree(tools: Tools, tmp_path: Path) -> None:
    _debian(tools, _package(tmp_path, "etcd-server", {"usr/bin/etcd": "etcd"}))
    assert debian.unpacked(["etcd-server=1"]) != debian.unpacked(["etcd-server=2"])


def test_a_package_that_apt_does_not_know_is_said(tools: Tools) -> None:
    tools.add("apt-get", "echo 'E: Unable to locate package etcd-server' >&2; exit 100")
    with pytest.raises(MachineError, match=r"(?s)etcd-server: `apt-get` ended with 100.*Unable to locate") as caught:
        debian.unpacked(["etcd-server"])
    assert "apt-get update" in (caught.value.hint or "")


def test_a_torn_package_is_said(tools: Tools, tmp_path: Path) -> None:
    _debian(tools, _package(tmp_path, "etcd-server", {"usr/bin/etcd": "etcd" * 5000}))
    tools.add("dpkg-deb", "head -c 9000 $2")
    with pytest.raises(MachineError, match=r"unpacking etcd-server_1_all\.deb"):
        debian.unpacked(["etcd-server"])


def test_without_apt_the_alternative_is_said(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "path_of", lambda name: "/usr/bin/tar" if name == "tar" else None)
    with pytest.raises(MachineError, match="this machine lacks apt-get and dpkg-deb") as caught:
        debian.unpacked(["etcd-server"])
    assert "path" in (caught.value.hint or "")
