"""Programs that the tests of clocks skew: `reader.c` compiled once, and asked line by line."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.lab_scenario import refuse

HERE = Path(__file__).parent
_END_S = 5.0


@cache
def compiler() -> str:
    """Needed to build the project at all; the test is refused without it."""
    found = shutil.which("cc") or shutil.which("gcc")
    refuse(None if found else "no C compiler")
    assert found is not None
    return found


@contextmanager
def built() -> Iterator[Path]:
    """The reader as a program, for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="fencepost-clocks-") as folder:
        program = Path(folder) / "reader"
        subprocess.run([compiler(), "-O1", "-pthread", str(HERE / "reader.c"), "-o", str(program)], check=True)
        yield program


class Asked:
    """A running reader."""

    def __init__(self, *argv: str, wait: bool = True) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._is_ready = False
        if wait:
            self._await_ready()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _await_ready(self) -> None:
        """Its first line says that it listens."""
        if not self._is_ready:
            self._line()
            self._is_ready = True

    def ask(self) -> Any:
        """The value of its next line; the reader's are objects of what each clock shows."""
        self._await_ready()
        self.tell("?")
        return json.loads(self._line())

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the reader ended with {self._process.poll()}"
        return line

    def close(self) -> None:
        self._process.kill()
        self._process.wait(_END_S)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def running(*argv: str) -> Iterator[Asked]:
    asked = Asked(*argv)
    try:
        yield asked
    finally:
        asked.close()
