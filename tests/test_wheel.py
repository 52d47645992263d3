"""fencepost from its wheel, in a fresh environment, beside a project that has folders of our names."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.harness.base.errors import EXTRA_OF
from tests.lab_scenario import require_lab

ROOT: Final = Path(__file__).resolve().parent.parent
#: Folders that a project may well have; ours must not stand in for them, nor they for ours.
THEIRS: Final = ("harness", "workloads", "nemesis", "checkers", "systems", "campaigns", "warehouse", "tests")
#: The core is built once for the tree; where it was not, the wheel's build compiles it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1000)]
_PLAN: Final = ("--system", "etcd", "--workload", "register", "--nemesis", "pause:leader", "--time-limit", "8s")


def _ran(*command: str | Path, cwd: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(Path.home())}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, and the locked dependencies of this one; returns its Python."""
    folder = tmp_path_factory.mktemp("wheel")
    maturin = Path(sys.executable).parent / "maturin"
    built = subprocess.run(
        # Not --release: what is tested is what the wheel holds, and this core compiles in a third of the time.
        [maturin, "build", "-q", "--interpreter", sys.executable, "-o", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    home = folder / "environment"
    made = _ran(sys.executable, "-m", "venv", home, cwd=folder, timeout_s=100)
    assert made.returncode == 0, made.stdout + made.stderr
    python = home / "bin" / "python"
    flags = ("install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check")
    installed = _ran(python, "-m", "pip", *flags, wheel, cwd=folder, timeout_s=100)
    assert installed.returncode == 0, installed.stderr
    site = _ran(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=folder, timeout_s=60)
    # As pip leaves it with the extra `lab`. The tree itself stays out of reach too: no .pth file is taken along.
    core = folder / "core"
    core.mkdir()
    for installed_here in Path(click.__file__).parent.parent.iterdir():
        package = re.split(r"[-.]", installed_here.name)[0].lower()
        others = {name for name, extra in EXTRA_OF.items() if extra not in ("lab", "parquet")}
        if package not in {*others, "kafka", "toxiproxy_python", "fencepost"} and installed_here.suffix != ".pth":
            (core / installed_here.name).symlink_to(installed_here)
    (Path(site.stdout.strip()) / "dependencies.pth").write_text(f"{core}\n")
    return python


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("run", *_PLAN, "--runtime", "containers"), "containers"),
        (("doctor", "containers"), "containers"),
        (("images", "list"), "containers"),
        (("run", "--system", "kraft", "--workload", "log", "--nemesis", "none"), "kafka"),
        (("warehouse", "build", "results"), "spark"),
        (("warehouse", "query", "select 1"), "spark"),
        (("doctor", "analysis"), "spark"),
        (("check", "table.parquet", "--spark"), "spark"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else value,
)
def test_what_an_extra_brings_names_it(environment: Path, project: Path, words: tuple[str, ...], extra: str) -> None:
    pq.write_table(pa.table({"key": [1]}), project / "table.parquet")
    (project / "results").mkdir()
    done = _ran(environment.parent / "fencepost", *words, cwd=project, timeout_s=100)
    assert done.returncode == 254, done.stdout + done.stderr
    assert f"pip install 'fencepost[{extra}]'" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_what_has_no_program_is_not_prepared(environment: Path, project: Path) -> None:
    done = _ran(environment.parent / "fencepost", "prepare", cwd=project, timeout_s=200)
    assert done.returncode == 0, done.stderr
    assert "spark" not in done.stderr.lower()


def test_everything_is_listed_without_extras(environment: Path, project: Path) -> None:
    for kind in ("systems", "workloads", "faults", "checkers", "guarantees", "plugins"):
        done = _ran(environment.parent / "fencepost", "list", kind, cwd=project, timeout_s=100)
        assert done.returncode == 0, done.stderr
        assert "Not usable" not in done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Somebody's project: folders of our names, each of which says so when it is imported."""
    for name in THEIRS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("THEIRS = True\n")
    return tmp_path


def test_pytest_knows_the_plugin(environment: Path, project: Path) -> None:
    code = (
        "import importlib.metadata as m;"
        "(entry,) = [e for e in m.distribution('fencepost').entry_points if e.group == 'pytest11'];"
        "print(entry.load().__name__)"
    )
    done = _ran(environment, "-c", code, cwd=project, timeout_s=100)
    assert done.stdout.strip() == "fencepost.harness.testing.pytest_plugin", done.stderr


def test_its_names_are_not_claimed(environment: Path, project: Path) -> None:
    code = (
        "import importlib, json, fencepost, fencepost.harness.cli, fencepost.checkers;"
        f"found = [importlib.import_module(name).__file__ for name in {THEIRS!r}];"
        "print(json.dumps([fencepost.__file__, fencepost.harness.__file__, *found]))"
    )
    done = _ran(environment, "-c", code, cwd=project, timeout_s=100)
    assert done.returncode == 0, done.stderr
    package, harness, *found = json.loads(done.stdout)
    assert str(environment.parent.parent) in package
    assert str(environment.parent.parent) in harness
    assert found == [str(project / name / "__init__.py") for name in THEIRS]


@pytest.mark.cluster
def test_a_short_run_of_etcd(environment: Path, project: Path) -> None:
    require_lab()
    done = _ran(
        environment.parent / "fencepost", "run", *_PLAN, "--results", project / "results", cwd=project, timeout_s=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (verdict,) = (project / "results").glob("*/*/verdict.json")
    assert json.loads(verdict.read_text())["validity"] == "valid"
    assert (verdict.parent / "report.html").stat().st_size > 10_000
