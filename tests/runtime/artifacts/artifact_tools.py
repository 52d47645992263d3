"""Programs that stand in for mvn, go, apt-get and dpkg-deb: shell scripts in a folder that is first on the PATH."""

import os
from pathlib import Path

import pytest


class Tools:
    """A folder of programs; each call adds a line to `calls`: the program, its arguments."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._calls = folder / "calls"
        folder.mkdir()
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def add(self, name: str, script: str) -> None:
        program = self._folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {self._calls}\n{script}\n', encoding="utf-8")
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text(encoding="utf-8").splitlines() if self._calls.exists() else []
