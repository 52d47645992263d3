"""Begins the pauses of a Python process that a test started: `tests/pauses/plugin.py` puts this folder on its path."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[3])
sys.path.insert(0, _ROOT)
try:
    from tests.pauses.pauser import begin_in_child
finally:
    sys.path.remove(_ROOT)

begin_in_child(sys.orig_argv)
