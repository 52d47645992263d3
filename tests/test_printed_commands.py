"""Every command that fencepost prints can be pasted into a shell: words that need quotes have them."""

import ast
import re
import shlex
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.errors import command_line
from fencepost.harness.cli.app import commands
from tools.lines import FOLDERS

ROOT: Final = Path(__file__).resolve().parent.parent
#: A command with a value to come: whatever the value is, nobody quotes it.
_BEGUN: Final = re.compile(rf"fencepost ({'|'.join(commands())})\b[^`;:,]*$")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_a_shell_reads_back_the_words(words: list[str]) -> None:
    assert shlex.split(command_line(*words)) == ["fencepost", *words]


def _unquoted(tree: ast.AST) -> list[int]:
    """Lines with a text such as f"fencepost run {path}"."""
    found = []
    for text in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)):
        before = ""
        for part in text.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
            elif _BEGUN.search(before):
                found.append(text.lineno)
    return found


@pytest.mark.parametrize(
    "text", ['f"fencepost run {path}"', 'f"again: fencepost check --json {x!r}"', 'f"`fencepost list {a} {b}`"']
)
def test_a_command_without_quotes_would_be_found(text: str) -> None:
    assert _unquoted(ast.parse(text)) != []


def test_no_text_puts_a_value_into_a_command_by_itself() -> None:
    files = {path: path.read_text(encoding="utf-8") for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    texts = {path: text for path, text in files.items() if "fencepost " in text}
    found = [f"{path}:{line}" for path, text in texts.items() for line in _unquoted(ast.parse(text))]
    assert len(texts) > 50
    assert found == [], "use command_line()"
