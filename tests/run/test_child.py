"""What judging needs is imported while the cluster settles, and not before: imports take time from the clients."""

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import json, sys
from pathlib import Path
from fencepost.harness.base.stop_request import StopRequest
from fencepost.harness.run.child import Child
child = Child(Path("."), in_namespaces=True, progress=lambda _: None, stop=StopRequest())
heavy = {"jinja2", "fencepost.checkers.facts.derive"}
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
