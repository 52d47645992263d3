"""Keeps pyarrow from importing pandas, which it otherwise does when it makes its first array.

Judging makes Arrow tables and never a pandas frame, and importing pandas costs more than half a second of a run.
pyarrow asks for pandas once and remembers that there is none; a frame or series that is handed to it later is still
understood.
"""

import sys
from importlib.abc import MetaPathFinder
from typing import Final

_PANDAS: Final = "pandas"


class _Hidden(MetaPathFinder):
    """Lets an import of pandas fail."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == _PANDAS:
            raise ImportError(f"{_PANDAS} is hidden from pyarrow")


def keep_pandas_out() -> None:
    """Let pyarrow go on without pandas, unless pandas is imported already."""
    import pyarrow as pa

    if _PANDAS in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([0.5])
    finally:
        sys.meta_path.remove(hidden)
