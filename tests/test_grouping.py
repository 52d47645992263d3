"""How workers share tests: a file stays together, and so does everything on the container engine."""

import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import group_of

_TEST = """
import os, pathlib, time, pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    time.sleep(0.05)
    with pathlib.Path("workers").open("a") as file:
        file.write(f"{__name__} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""
_ON_ENGINE = "import pytest\npytestmark = pytest.mark.containers\n"
_INI = "[pytest]\nmarkers =\n  containers\n  cluster\n"


_ON_SERVERS = "import pytest\npytestmark = pytest.mark.cluster\n"
_TWO_WORKERS = ("-n", "2", "--dist", "loadscope", "--no-loadscope-reorder")


def play(
    folder: Path, files: dict[str, str], flags: Sequence[str] = _TWO_WORKERS
) -> "subprocess.CompletedProcess[str]":
    """These files under our conftest."""
    for name, text in files.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(Path(__file__).with_name("conftest.py"), folder / "tests" / "conftest.py")
    (folder / "pytest.ini").write_text(_INI)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags, "tests"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def test_files_stay_together_and_so_does_everything_on_the_engine(tmp_path: Path) -> None:
    on_engine = {f"runtime/containers/test_e{number}.py": _ON_ENGINE + _TEST for number in range(3)}
    others = {f"test_o{number}.py": _TEST for number in range(3)}
    done = play(tmp_path, {**on_engine, **others})
    assert done.returncode == 0, done.stdout + done.stderr
    workers = defaultdict(set)
    for line in (tmp_path / "workers").read_text().splitlines():
        module, worker = line.split()
        workers[module].add(worker)
    assert len(workers) == 6
    assert all(len(ran) == 1 for ran in workers.values()), workers
    assert len({worker for module, ran in workers.items() if "test_e" in module for worker in ran}) == 1, workers
    assert len({worker for ran in workers.values() for worker in ran}) == 2, "both had something to do"


def test_between_files_that_wait_come_some_that_compute(tmp_path: Path) -> None:
    waiting = {f"test_w{number}.py": _ON_SERVERS + _TEST for number in range(3)}
    done = play(tmp_path, {**waiting, **{f"test_c{number}.py": _TEST for number in range(9)}}, ("--collect-only",))
    order = dict.fromkeys(line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line)
    kinds = "".join(file.removeprefix("tests/test_")[0] for file in order)
    assert kinds == "wccwccwccccc", done.stdout


def test_a_file_on_the_engine_that_nobody_listed_is_named(tmp_path: Path) -> None:
    done = play(tmp_path, {"test_new.py": _ON_ENGINE + _TEST})
    assert done.returncode == 1
    assert "test_new.py has tests on the container engine, but is not in _ENGINE_FILES" in done.stdout


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/runtime/containers/test_life.py::test_x[a::b]", "engine"),
        ("tests/runs/test_container_runs.py::test_x", "engine"),
        ("tests/runtime/conformance/test_conformance.py::test_x[rules-lab]", "engine"),
        ("tests/runtime/conformance/test_conformance.py::test_x[lab]", "conformance of the lab"),
        ("tests/runtime/conformance/test_conformance.py::test_x[lab-one way]", "conformance of the lab"),
        ("tests/warehouse/test_store.py::test_x", "spark"),
        ("tests/warehouse/by_spark/test_registers.py::test_x", "spark"),
        ("tests/runs/test_plants.py::test_x[set]", "tests/runs/test_plants.py::test_x[set]"),
        ("tests/checkers/log/test_log.py::Class::test_x", "tests/checkers/log/test_log.py"),
    ],
)
def test_groups(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group
