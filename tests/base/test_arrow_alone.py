"""pyarrow goes on without pandas, and still takes its frames."""

import subprocess
import sys

_PROGRAM = """
import sys
from fencepost.harness.run.conclude import keep_pandas_out
keep_pandas_out()
import numpy
import pyarrow as pa
import pyarrow.compute
table = pa.table({"a": pa.array([1, 2]), "b": pa.array(["x", None]), "c": pa.array(numpy.arange(2))})
assert "pandas" not in sys.modules
import pandas as pd
assert pa.array(pd.Series(["a", None])).to_pylist() == ["a", None]
assert pa.Table.from_pandas(pd.DataFrame({"a": [1]})).to_pylist() == [{"a": 1}]
assert list(table.to_pandas().columns) == ["a", "b", "c"]
keep_pandas_out()
"""


def test_pandas_is_not_imported_for_arrays_and_works_when_it_is() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
