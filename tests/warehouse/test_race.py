"""An add and a build of one warehouse as processes of their own, at the same time."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fencepost.harness.results import run_folder as store
from fencepost.harness.run.conclude import judge_stored
from tests.warehouse.commits import runs_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FOUND = Path(__file__).parents[1] / "histories" / "found" / "etcd-3.5.1-live-lease-revoked"
_WAIT_S = 500.0


def results_of(place: Path, first: int, count: int) -> set[str]:
    """Copies of one judged run, each with an id of its own; returns the ids."""
    source = place.with_name(f"{place.name}-source")
    shutil.copytree(FOUND, source)
    judge_stored(source, progress=lambda _: None)
    ids = {f"{number:032x}" for number in range(first, first + count)}
    for run_id in ids:
        copy = place / run_id / "20261127T000000.000Z"
        shutil.copytree(source, copy)
        # Its own tables have the id of the first, so that each copy is judged again, which takes a while.
        store.write_json(copy / store.RUN, {**store.read_json(copy / store.RUN), "run_id": run_id})
    return ids


def started(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "fencepost.harness.cli", "warehouse", *words, "--spark-master", "local[1]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_build_beside_an_add_loses_nothing(tmp_path: Path) -> None:
    added, built = results_of(tmp_path / "added", 100, 24), results_of(tmp_path / "built", 0, 2)
    root = tmp_path / "warehouse"
    add = started("add", str(tmp_path / "added"), "--warehouse", str(root))
    deadline = time.monotonic() + _WAIT_S
    while not any(root.rglob("operations/*/*/*.parquet")) and add.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    build = started("build", str(tmp_path / "built"), "--out", str(root))
    ends = [process.communicate(timeout=_WAIT_S) for process in (add, build)]
    assert (add.returncode, build.returncode) == (0, 0), ends
    # What was committed before the build began is dropped, and the build says so.
    dropped = re.search(r"(\d+) runs of other results dropped", ends[1][0])
    expected = built if dropped else added | built
    assert "24 runs and 0 nights added" in ends[0][0]
    assert runs_of(str(root)) == sorted(expected)
    assert set(runs_of(str(root), "operations")) == expected
