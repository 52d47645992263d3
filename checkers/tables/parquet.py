"""The Parquet file or files of one table: what cannot be read of them is told as a malformed history."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from fencepost.harness.base.errors import MalformedHistory

_T = TypeVar("_T")

_HINT: Final = "write it again; a folder holds the whole part files of one table and nothing else"


class ParquetFiles:
    """A file, or a folder of part files; raises MalformedHistory where they cannot be read."""

    def __init__(self, path: Path) -> None:
        self.source = str(path)
        self._files = self._read(lambda: ds.dataset(path, format="parquet"))
        self.schema = self._files.schema

    def query(self, ask: Callable[[Any], _T]) -> _T:
        """What the files, an Arrow dataset, answer; raises MalformedHistory with their name."""
        return self._read(lambda: ask(self._files))

    def _read(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except (pa.ArrowException, OSError) as error:
            first_line = next(iter(str(error).splitlines()), "")
            raise MalformedHistory(f"{self.source}: not a whole Parquet file: {first_line}", hint=_HINT) from None
        except MalformedHistory as error:
            raise MalformedHistory(f"{self.source}: {error.message}", hint=error.hint) from None
