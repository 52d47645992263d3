"""The outer process imports what judging needs once the main phase is over, and judges while the runner still ends."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.harness.base.signals import StopRequest
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.run.conclude import Child

_SCRIPT = """
import json, sys
from pathlib import Path
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.run.conclude import Child
child = Child(RunRecord(Path("."), {}), in_namespaces=True, progress=lambda _: None, stop=StopRequest())
heavy = {"jinja2", "fencepost.checkers.derived.derive"}
child._hear(json.dumps({"topic": "phase", "phase": "main"}))
assert not heavy & set(sys.modules), heavy & set(sys.modules)
child._hear(json.dumps({"topic": "phase", "phase": "heal"}))
assert heavy <= set(sys.modules), heavy - set(sys.modules)
assert "pandas" not in sys.modules, "judging needs none of it"
"""


def test_the_judges_are_loaded_when_the_main_phase_is_over() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_the_runner_learns_of_the_servers_is_kept_in_run_json_by_the_outer_process(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    record = RunRecord(tmp_path, {"format": 1, "system_version": "3.11", "seed": 1})
    child = Child(record, in_namespaces=True, progress=told.append, stop=StopRequest())
    child._hear('{"topic": "facts", "facts": {"system_version": "3.4.23", "zero": {"wall_clock_s": 0.5}}}')
    assert store.read_run(tmp_path) == {
        "format": 1,
        "system_version": "3.4.23",
        "seed": 1,
        "zero": {"wall_clock_s": 0.5},
    }
    assert told == [], "a person is told of it by the verdict"


#: A runner whose history is complete, and which goes on until it is told how to end.
_RUNNER: Final = """
import sys
from pathlib import Path
print('{"topic": "recorded"}', flush=True)
here = Path(sys.argv[1])
while not (here / "go").is_file():
    pass
print((here / "go").read_text(), flush=True)
"""


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ('{"topic": "done"}', None),
        ('{"topic": "error", "message": "a mount is left", "hint": "", "exit_code": 255}', "a mount is left"),
        ("", "the runner ended with status 0 before the run was over"),
    ],
)
def test_a_complete_history_is_handed_over_before_the_runner_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, error: str | None
) -> None:
    popen = subprocess.Popen

    def stand_in(_: list[str], **flags: Any) -> "subprocess.Popen[str]":
        return popen([sys.executable, "-c", _RUNNER, str(tmp_path)], **flags)

    monkeypatch.setattr(subprocess, "Popen", stand_in)
    child = Child(RunRecord(tmp_path, {}), in_namespaces=True, progress=lambda _: None, stop=StopRequest())
    with child.running() as outcome:
        assert (outcome.recorded, outcome.finished, outcome.error) == (True, False, None)
        assert child.child.poll() is None
        hidden = tmp_path / "written"
        hidden.write_text(end)
        hidden.rename(tmp_path / "go")
        child.rest()
        assert child.child.returncode == 0
    assert (outcome.error.message if outcome.error else None) == error
