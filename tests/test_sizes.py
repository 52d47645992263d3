"""How large a file, a class and a signature may be, unless a reason stands at its top: a docstring line "Size: ...".

Files of more than 400 lines, classes of more than 250 and functions with more than seven parameters hide a second
concept as a rule. Where there is none, the reason says so.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.rooms import FOLDERS

ROOT: Final = Path(__file__).resolve().parent.parent
FILE_LINES_MAX: Final = 400
CLASS_LINES_MAX: Final = 250
PARAMETERS_MAX: Final = 7
_REASON: Final = re.compile(r"\bSize: \w")
#: Made by a tool.
_GENERATED: Final = ("rpc_pb2.py",)
_RUST_HEAD_LINES: Final = 40

#: Too large and not split yet. An entry that is small enough by now fails the test, so the list only shrinks.
NOT_YET: Final[frozenset[str]] = frozenset()


def _modules() -> Iterator[tuple[str, ast.Module, int]]:
    """Each module's path, tree and number of lines."""
    for folder in (*FOLDERS, "bench", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name not in _GENERATED:
                text = path.read_text(encoding="utf-8")
                yield str(path.relative_to(ROOT)), ast.parse(text), text.count("\n")


def _has_reason(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return _REASON.search(ast.get_docstring(node) or "") is not None


def _is_too_large(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef):
        return (node.end_lineno or node.lineno) - node.lineno + 1 > CLASS_LINES_MAX and not _has_reason(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        return len([name for name in names if name not in ("self", "cls")]) > PARAMETERS_MAX and not _has_reason(node)
    return False


def _too_large() -> Iterator[str]:
    for path, module, lines in _modules():
        if lines > FILE_LINES_MAX and not _has_reason(module):
            yield path
        yield from (f"{path}: {node.name}" for node in ast.walk(module) if _is_too_large(node))  # type: ignore[attr-defined]
    for file in sorted((ROOT / "checkers" / "native" / "src").rglob("*.rs")):
        rows = file.read_text(encoding="utf-8").splitlines()
        head = "\n".join(row for row in rows[:_RUST_HEAD_LINES] if row.startswith("//!"))
        if len(rows) > FILE_LINES_MAX and not _REASON.search(head):
            yield str(file.relative_to(ROOT))


def test_everything_has_one_concept_or_a_reason() -> None:
    found = set(_too_large())
    assert found <= NOT_YET, f"split these, or say why not: {sorted(found - NOT_YET)}"
    assert found >= NOT_YET, f"small enough by now, take them off the list: {sorted(NOT_YET - found)}"
