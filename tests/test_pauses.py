"""That the pauses of `tests/pauses` are made, in a test and in what it starts, and told where a test fails."""

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import pytest

from tests.pauses.pauser import ROOT, Pauser

_HERE = "tests/test_pauses.py"
_TEST = """
import subprocess, sys


def test_one() -> None:
    program = "import sys; print('its program is paused:', sys.gettrace() is not None)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not said
"""


def _passed() -> int:
    count = 0
    for _ in range(100):
        count += 1
    return count


def _slept(seed: int, monkeypatch: pytest.MonkeyPatch, count: int = 3) -> list[str]:
    durations_s: list[float] = []
    monkeypatch.setattr(time, "sleep", durations_s.append)
    pauses = Pauser(random.Random(seed), count=count, lines_max=200, longest_s=0.5)
    before = sys.gettrace()
    pauses.start()
    try:
        _passed()
    finally:
        pauses.stop()
        sys.settrace(before)
    monkeypatch.undo()
    assert len(durations_s) == len(pauses.told)
    assert all(0.05 <= duration_s <= 0.5 for duration_s in durations_s)
    return pauses.told


def test_a_seed_says_at_which_lines_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _slept(7, monkeypatch)
    assert len(told) == 3
    assert all(line.startswith(f"{_HERE}:") and " s in MainThread" in line for line in told)
    assert _slept(7, monkeypatch) == told
    others = [_slept(seed, monkeypatch, count=1) for seed in range(20)]
    assert len({line for lines in others for line in lines}) > 5


def test_the_code_of_others_is_left_alone() -> None:
    pauses = Pauser(random.Random(1), count=1, lines_max=1, longest_s=0.5)
    theirs: list[FrameType] = []
    json.loads("1", parse_int=lambda _: theirs.append(sys._getframe(1)))
    assert pauses._called(sys._getframe(), "call", None) is not None
    assert pauses._called(theirs[0], "call", None) is None


def test_a_test_that_fails_tells_its_pauses_and_what_it_starts_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_TEST)
    words = ["-p", "tests.pauses.plugin", "--pauses", "30", "--pauses-longest", "0.06", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words, "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "its program is paused: True" in done.stdout
    _, _, told = done.stdout.partition("- pauses -")
    assert re.search(r"(pathlib|selectors|subprocess)\.py:\d+: 0\.0[56] s in MainThread", told), done.stdout
