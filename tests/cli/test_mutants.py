"""Bent files of every form: the command ends with 0, 1, 2 or 254 and prints no traceback; see `tests.cli.mutants`."""

import random
from pathlib import Path

import pytest

from fencepost.harness.base.errors import ExitCode
from tests.cli.mutants import ALLOWED, FORMS, SEED, run_command, write_files, wrong_mutants

_FEW, _MANY = 8, 1000


@pytest.mark.parametrize("form", FORMS)
def test_the_files_themselves_are_read(form: str, tmp_path: Path) -> None:
    files = FORMS[form].files(random.Random(SEED))
    write_files(files, tmp_path / "files")
    for words in FORMS[form].commands:
        code, output = run_command(words, tmp_path / "files")
        assert code in ALLOWED - {ExitCode.USAGE}, output


@pytest.mark.parametrize("form", FORMS)
def test_a_few_mutants(form: str, tmp_path: Path) -> None:
    assert wrong_mutants(form, _FEW, SEED, tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("form", FORMS)
def test_a_thousand_mutants(form: str, tmp_path: Path) -> None:
    assert wrong_mutants(form, _MANY, SEED + 1, tmp_path) == []
