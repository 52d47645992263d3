"""Help: it fits a terminal, its sentences are whole, and its examples are commands that parse."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fencepost.harness.cli.app import HEADINGS, app, commands
from fencepost.harness.cli.output.help import Documented, DocumentedGroup, HelpExample
from fencepost.harness.cli.run import plan_of
from fencepost.harness.plan.checked_plan import check_plan
from tests.docs.pages import ROOT
from tests.plugins.without import plugins_of_this_test_alone


def _commands() -> Iterator[tuple[str, Documented | DocumentedGroup]]:
    context = click.Context(app, info_name="fencepost")
    for name in commands():
        command = app.get_command(context, name)
        assert isinstance(command, Documented | DocumentedGroup)
        yield name, command
        if isinstance(command, DocumentedGroup):
            for part, inner in command.commands.items():
                assert isinstance(inner, Documented)
                yield f"{name} {part}", inner


ALL = dict(_commands())
EXAMPLES = [pytest.param(example, id=example.line) for command in ALL.values() for example in command.examples]


def _help(name: str) -> str:
    command, context = ALL[name], click.Context(app, info_name="fencepost")
    for part in name.split():
        context = click.Context(command, parent=context, info_name=part, terminal_width=80)
    return command.get_help(context)


def test_the_first_screen_fits_24_lines_of_80_columns() -> None:
    lines = app.get_help(click.Context(app, info_name="fencepost", terminal_width=80)).splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert {heading for _, _, heading in commands().values()} == set(HEADINGS)
    for _, about, _ in commands().values():
        assert about.endswith(".")
        assert any(line.endswith(f"  {about}") for line in lines)


@pytest.mark.parametrize("name", ALL)
def test_no_sentence_of_a_help_is_cut(name: str) -> None:
    text = _help(name)
    body = text.partition("\n\n")[2]
    assert "...\n" not in body.replace("seed + 1, ...\n", "")
    examples = {example.line for example in ALL[name].examples}
    lines = [line for line in text.splitlines() if line.strip() not in examples]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", [*commands(), *(name for name in ALL if name.startswith("warehouse "))])
def test_a_command_has_three_examples(name: str) -> None:
    assert len(ALL[name].examples) == 3
    for example in ALL[name].examples:
        assert f"  # {example.about}\n  {example.line}\n" in f"{_help(name)}\n"


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_parses(example: HelpExample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "staggered.schedule").write_text("n1 kill 2s..20s\nn2 kill 8s..14s\n")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    program, *words = shlex.split(example.line)
    assert program == "fencepost"
    command: click.Command = app
    while isinstance(command, click.Group):
        name, *words = words
        inner = command.get_command(click.Context(command), name)
        assert inner is not None
        command = inner
    with plugins_of_this_test_alone():
        flags = command.make_context(command.name, words).params
    if command.name == "run":
        check_plan(
            plan_of(None, {k: v for k, v in flags.items() if k not in ("plan_file", "times", "results", "as_json")})
        )


def test_every_flag_of_a_run_stands_in_one_group() -> None:
    run = ALL["run"]
    assert isinstance(run, Documented)
    named = [name for names in run.groups.values() for name in names]
    assert sorted(named) == sorted(param.name for param in run.params if isinstance(param, click.Option))
