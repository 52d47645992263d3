"""The Go program, for tests that ask the real Porcupine."""

import shutil

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.interchange.second_opinion.porcupine import built


def program_or_skip() -> str:
    """The built program; skips with the remedy where this machine cannot build it."""
    if shutil.which("go") is None:
        pytest.skip("no `go` on the PATH: install golang-go (1.19 or newer)")
    try:
        return str(built())
    except MachineError as error:
        pytest.skip(f"{error.message} ({error.hint})")
