"""The tutorial's package, installed as a stranger would: listed, run, and played by a campaign of two cells."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

POCKET: Final = Path(__file__).resolve().parents[2] / "examples" / "pocket-store"
CAMPAIGN: Final = """
format = 1
name = "pocket"

[plan]
system = "pocket"
nodes = 1
time_limit = "10s"
quiet = "1s"
phases = { watch = "1s" }

[[cell]]
name = "what must hold"
workload = "register"
nemesis = "kill"

[[cell]]
name = "a night that misses this has seen nothing"
workload = "register"
nemesis = "kill"
system_options = { sync = "late" }
canary = true
anomaly = "stale-read"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the package, without a network."""
    folder = tmp_path_factory.mktemp("site")
    copy = tmp_path_factory.mktemp("sources") / "pocket-store"
    # pip builds in the sources' own folder, and the checkout must stay as it is.
    subprocess.run(["cp", "-r", POCKET, copy], check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", folder, copy], check=True, timeout=120)
    return folder


def _fencepost(installed: Path, cwd: Path, *words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fencepost.harness.cli", *words],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def test_it_is_listed(installed: Path, tmp_path: Path) -> None:
    shown = _fencepost(installed, tmp_path, "list", "systems")
    assert "pocket release 1.0; register, set" in " ".join(shown.stdout.split()), shown.stderr
    page = _fencepost(installed, tmp_path, "list", "systems", "pocket").stdout
    assert "-O sync=always|late" in page
    assert "pocket" in _fencepost(installed, tmp_path, "run", "--help").stdout
    assert "pocket" not in _fencepost(tmp_path, tmp_path, "list", "systems").stdout


@pytest.mark.cluster
@pytest.mark.timeout(280)
def test_it_is_run_and_judged_again(installed: Path, tmp_path: Path) -> None:
    plan = "--system pocket --workload register --nemesis kill --nodes 1 --time-limit 8s --quiet 1s --watch 1s"
    lost = _fencepost(installed, tmp_path, "run", *plan.split(), "-O", "sync=late", "--seed", "1")
    assert lost.returncode == 1, lost.stdout + lost.stderr
    (folder,) = tmp_path.glob("results/*/*")
    (plugin,) = json.loads((folder / "run.json").read_text(encoding="utf-8"))["plugins"]
    assert (plugin["name"], plugin["version"], plugin["path"]) == ("pocket-store", "1.0", "")
    assert len(plugin["sha256"]) == 64
    assert "pocket" in (folder / "report.html").read_text(encoding="utf-8")
    again = _fencepost(installed, tmp_path, "check", str(folder))
    assert again.returncode == 1, again.stdout + again.stderr
    without = _fencepost(tmp_path, tmp_path, "check", str(folder))
    assert without.returncode == 254
    assert "this run used the plug-in pocket-store 1.0" in without.stderr


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(280)
def test_a_campaign_plays_it(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text(CAMPAIGN, encoding="utf-8")
    night = _fencepost(installed, tmp_path, "campaign", "night.toml", "--budget", "120s", "--jobs", "1", timeout_s=250)
    (document,) = (tmp_path / "results").rglob("campaign.json")
    cells = json.loads(document.read_text(encoding="utf-8"))["cells"]
    assert [cell["run_class"] for cell in cells] == ["valid", "invalid"], night.stdout + night.stderr
    assert night.returncode == 0, night.stdout + night.stderr
