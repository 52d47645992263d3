"""Beside `valid` stands how often a guarantee was tested: no checker words that so that it reads as a violation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencepost

PACKAGE = Path(fencepost.__path__[0])
#: Those of the core, and those that leaves bring.
CHECKERS = (PACKAGE / "checkers", *sorted((PACKAGE / "systems").glob("*/checkers")))
#: "214 answers given beyond the bound" reads as 214 violations, although each of them was a test that was passed.
FAULTS = re.compile(
    r"\b(beyond|broke|broken|denied|duplicates?|failed|lacks?|lacked|late|lost|missing|missed|stale|torn|twice|unfenced"
    r"|violat\w*|went back|wrong\w*)\b"
)


def said(source: str) -> Iterator[str]:
    """Every text that a module gives to a name, a field or an argument that says what its exposure counts."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.keyword(arg="exposure_of" | "tested", value=value):
                yield from _texts(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if "EXPOSURE_OF" in name:
                yield from _texts(value)
            case ast.FunctionDef(name="exposure_of"):
                yield from (text for part in node.body[1:] for text in _texts(part))


def _texts(node: ast.AST) -> Iterator[str]:
    parts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    yield " ".join(parts)


def test_what_a_checker_tested_is_not_told_in_words_of_faults() -> None:
    sources = (path.read_text() for folder in CHECKERS for path in folder.rglob("*.py"))
    texts = {text for source in sources for text in said(source) if text.strip()}
    assert len(texts) > 50
    assert [text for text in texts if FAULTS.search(text)] == []


@pytest.mark.parametrize(
    "source",
    [
        'f(exposure_of="answers of a cut-off leader given beyond its bound")',
        'f(exposure_of=f"answers that came late by {n}")',
        'OF_EXPOSURE_OF: Final = {"a": "lost writes"}',
        'def exposure_of(self):\n    """Words."""\n    return "stale reads"',
    ],
)
def test_words_of_faults_are_noticed(source: str) -> None:
    assert any(FAULTS.search(text) for text in said(source))
