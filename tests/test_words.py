"""How plain the language is, counted: names that are participles or fillers, and words that need a second reading.

docs/reference/glossary.md has the words to use. The numbers below may only fall: whoever lowers a
count writes the new one here.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.rooms import FOLDERS

ROOT: Final = Path(__file__).resolve().parent.parent

#: Names that say what was done to a thing, or nothing, instead of what it is; counted where they are bound.
NAMES: Final = frozenset({"asked", "found", "had", "looked", "said", "taken", "told", "words"})
NAMES_LEFT: Final = 0

#: Words and phrases that a reader in a hurry reads twice; counted in docstrings, comments and pages.
ARCHAIC: Final = re.compile(
    r"(?<![-\w])(anew|heed\w*|befall\w*|befell|bear out|bears out|borne out|be had|was had|is had|such a one|such one"
    r"|that which|the one of them|thereby|wherein|whereby|hither|ere|lest|whosoever)\b"
)
ARCHAIC_LEFT: Final = 0


def _sources() -> Iterator[tuple[str, str]]:
    for folder in (*FOLDERS, "bench", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name != "rpc_pb2.py":
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def _bound(tree: ast.AST) -> Iterator[str]:
    """Every name that this module binds: locals, parameters, fields, functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _prose(text: str) -> Iterator[str]:
    """Comments and strings of more than one word, docstrings included."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string


def test_names_are_nouns_and_verbs() -> None:
    counts = Counter(
        f"{path}: {name}" for path, text in _sources() for name in _bound(ast.parse(text)) if name.strip("_") in NAMES
    )
    total = sum(counts.values())
    worst = "\n".join(f"{count} x {where}" for where, count in counts.most_common(20))
    assert total <= NAMES_LEFT, f"{total} names, {NAMES_LEFT} are allowed; most often:\n{worst}"
    assert total == NAMES_LEFT, f"fewer than recorded: write NAMES_LEFT = {total}"


def test_no_word_needs_a_second_reading() -> None:
    counts: Counter[str] = Counter()
    for path, text in _sources():
        for prose in _prose(text):
            counts.update(f"{path}: {match[0]}" for match in ARCHAIC.finditer(" ".join(prose.split())))
    for page in sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]):
        if page.name != "glossary.md":
            text = " ".join(page.read_text(encoding="utf-8").split())
            counts.update(f"{page.relative_to(ROOT)}: {match[0]}" for match in ARCHAIC.finditer(text))
    total = sum(counts.values())
    worst = "\n".join(f"{count} x {where}" for where, count in counts.most_common(20))
    assert total <= ARCHAIC_LEFT, f"{total} words, {ARCHAIC_LEFT} are allowed; most often:\n{worst}"
    assert total == ARCHAIC_LEFT, f"fewer than recorded: write ARCHAIC_LEFT = {total}"
