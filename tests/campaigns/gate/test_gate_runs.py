"""Real gates of the example system: one that is killed and goes on, one that stops early, one that is blind."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.campaigns.night.register import EndedRun, read_register
from tests.run_command import ROOT, assert_nothing_left, command, wait_until_gone

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

_POLICY = """name = "short"
[plan]
system = "example"
workload = "register"
nemesis = "partition:leader"
time_limit = "6s"
quiet = "1s"
[[cell]]
name = "cut"
runs = 2
[[cell]]
name = "canary"
canary = true
anomaly = "stale-read"
"""
#: Found in every run: what was acknowledged before the kill of all is lost. A cut shows stale reads in most runs only.
#: So many keys that one is read before it is written again: only that shows what was forgotten as a stale read.
_KILL: Final = 'nemesis = "kill:all"\nworkload_options = { keys = 100 }\n'
_DEFECT: Final = _KILL + 'system_options = { defect = "forgets" }\n'


def _words(tmp_path: Path, policy: str, *more: str) -> list[str]:
    path = tmp_path / "policy.toml"
    path.write_text(policy)
    flags = ("--candidate", "1.0.0", "--budget", "4m", "--jobs", "2", "--seed", "3")
    return command("gate", str(path), *flags, "--results", str(tmp_path / "results"), *more)


def _gate(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    (path,) = tmp_path.glob("results/nights/gate-short/*/gate.json")
    return path.parent, json.loads(path.read_text())


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.slow
def test_a_gate_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    words = _words(tmp_path, _POLICY + _DEFECT)
    first = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        _wait_for_a_run(tmp_path)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        output, _ = first.communicate()
    assert wait_until_gone(tmp_path / "results") == [], output
    folder, running = _gate(tmp_path)
    assert not running["green"]
    second = _run([*words, "--resume"])
    assert_nothing_left(tmp_path / "results")
    folder, data = _gate(tmp_path)
    rows = {row["name"]: row for row in data["requirements"]}
    assert data["sessions"] == 2 and second.returncode == data["exit_code"], second.stdout + second.stderr
    assert rows["canary"]["status"] == "met"
    runs = [a["run_class"] for a in rows["cut"]["attempts"]]
    assert "lost" in runs or "lost" in [a["run_class"] for a in rows["canary"]["attempts"]]
    assert (data["exit_code"] == 0) == (rows["cut"]["status"] == "met"), rows["cut"]
    assert ", attempt 2" in (folder / "gate.html").read_text()


@pytest.mark.slow
def test_a_defect_of_the_candidate_is_red_and_a_canary_without_one_is_blind(tmp_path: Path) -> None:
    for name, policy, more, code, early in (
        ("red", _POLICY.replace("runs = 2\n", "runs = 2\n" + _KILL) + _DEFECT, ("-O", "defect=forgets"), 1, "cut"),
        ("blind", _POLICY, (), 2, "canary"),
    ):
        own = tmp_path / name
        own.mkdir()
        result = _run(_words(own, policy, *more))
        folder, data = _gate(own)
        final = [row["name"] for row in data["requirements"] if row["final"]]
        assert (result.returncode, data["stopped_early"], final) == (code, True, [early]), result.stdout
        assert "Red is certain" in result.stdout and "Red is certain" in (folder / "gate.html").read_text()
        assert_nothing_left(own / "results")


def _wait_for_a_run(tmp_path: Path) -> None:
    """Return once a run has ended, so that another is in flight."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for path in tmp_path.glob("results/nights/gate-short/*/register.jsonl"):
            if any(isinstance(record, EndedRun) for record in read_register(path)):
                # The next run's servers begin.
                time.sleep(3)
                return
        time.sleep(0.2)
    raise AssertionError("no run ended")
