"""Command lines of the documents: the program understands each of them and finds nothing wrong before a start."""

import shlex
from pathlib import Path
from typing import Final

import click
import pytest

from fencepost.harness.cli.app import app
from fencepost.harness.cli.run import plan_of
from fencepost.harness.plan.checked_plan import check_plan
from tests.docs.pages import ROOT, command_lines, pages
from tests.plugins.without import plugins_of_this_test_alone

LINES: Final = [
    pytest.param(line, id=f"{page.relative_to(ROOT)}: {line}") for page in pages() for line in command_lines(page)
]
#: A system that the reader of a page is about to write.
OWN: Final = "--system tiny"


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_is_understood(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "staggered.schedule").write_text("n1 kill 2s..20s\nn2 kill 8s..14s\n", encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "my-store").symlink_to(ROOT / "examples" / "pocket-store")
    with plugins_of_this_test_alone():
        command, flags = parsed(line)
        is_whole = command.name == "run" and flags["plan_file"] is None and OWN not in line
        if is_whole:
            own = ("plan_file", "times", "results", "as_json")
            check_plan(plan_of(None, {name: value for name, value in flags.items() if name not in own}))


def parsed(line: str) -> tuple[click.Command, dict[str, object]]:
    """The command of a line and what its flags say."""
    command: click.Command = app
    words = shlex.split(line.replace('"$BUILD_NUMBER"', "7"), comments=True)[1:]
    while isinstance(command, click.Group):
        name, *words = words
        inner = command.get_command(click.Context(command), name)
        assert inner is not None, f"{name} is no command"
        command = inner
    return command, command.make_context(command.name, words).params
