"""What a command does not import: each question loads its own part of the tree and no package beside it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

_PROGRAM: Final = """
import sys
from fencepost.harness.cli import main
code = main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    file.write("\\n".join(sys.modules))
sys.exit(code)
"""
_HISTORY: Final = """\
{:process 0, :type :invoke, :f :write, :value 1}
{:process 0, :type :ok, :f :write, :value 1}
{:process 1, :type :invoke, :f :read, :value nil}
{:process 1, :type :ok, :f :read, :value 1}
"""
#: Packages that take long to import.
_HEAVY: Final = frozenset({"docker", "jinja2", "pandas", "pyarrow", "pyroute2", "pyspark", "rich", "testcontainers"})


def _loaded(folder: Path, *arguments: str) -> tuple[set[str], set[str]]:
    """Run a command that ends well; return our modules that it loaded, and the other packages."""
    names = folder / "modules"
    command = [sys.executable, "-c", _PROGRAM, str(names), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    modules = names.read_text().split()
    return (
        {name for name in modules if name.partition(".")[0] == "fencepost"},
        {name.partition(".")[0] for name in modules} - {"fencepost"},
    )


def test_help_loads_no_command(tmp_path: Path) -> None:
    ours, others = _loaded(tmp_path, "--help")
    assert len(ours) <= 14, sorted(ours)
    assert not others & (_HEAVY | {"numpy"})


def test_a_small_history_loads_its_reader_and_its_checker(tmp_path: Path) -> None:
    (tmp_path / "small.edn").write_text(_HISTORY)
    ours, others = _loaded(tmp_path, "check", "small.edn")
    assert len(ours) <= 53, sorted(ours)
    assert not others & _HEAVY
    assert not {name for name in ours if name.startswith(("fencepost.systems", "fencepost.campaigns"))}


@pytest.mark.cluster
def test_the_outer_process_of_a_run_loads_no_lab_and_no_fault_but_its_own(tmp_path: Path) -> None:
    plan = ["--system", "example", "--workload", "register", "--nemesis", "pause", "--time-limit", "6s", "--seed", "1"]
    ours, others = _loaded(tmp_path, "run", *plan)
    assert len(ours) <= 150, sorted(ours)
    assert not others & (_HEAVY - {"jinja2", "pyarrow"})
    assert {name for name in ours if name.startswith("fencepost.nemesis.process.")} == {
        "fencepost.nemesis.process.pause"
    }
    assert "fencepost.harness.runtime.lab.lab" not in ours, "the runner alone has the cluster"
    assert not {name for name in ours if name.startswith("fencepost.systems.kafka.report")}, "sections of other systems"
