"""How large a folder, a class and a signature may be.

A folder has a budget of lines (`tools/budgets.txt`); a file is as long as its concept. Classes of more than 250 lines
and functions with more than seven parameters hide a second concept as a rule. Where there is none, a docstring line
"Size: ..." says so.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.rooms import FOLDERS
from tools.lines import budgets, counted, table

ROOT: Final = Path(__file__).resolve().parent.parent
CLASS_LINES_MAX: Final = 250
PARAMETERS_MAX: Final = 7
#: A budget that is larger by more than this share gives lines away that nobody argued for.
_SLACK: Final = 0.05
_SLACK_LINES: Final = 100
_REASON: Final = re.compile(r"\bSize: \w")
#: Made by a tool.
_GENERATED: Final = ("rpc_pb2.py",)


def test_every_folder_keeps_its_budget() -> None:
    lines, allowed = counted(), budgets()
    assert lines.keys() == allowed.keys(), "write the table: python -m tools.lines --write"
    over = [folder for folder in lines if lines[folder] > allowed[folder]]
    assert not over, f"{over}: remove lines, or say what the change needs more for\n{table()}"
    loose = [f for f in lines if allowed[f] > lines[f] * (1 + _SLACK) + _SLACK_LINES]
    assert not loose, f"{loose}: smaller by now, write the table: python -m tools.lines --write\n{table()}"


def _is_too_large(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef):
        return (node.end_lineno or node.lineno) - node.lineno + 1 > CLASS_LINES_MAX and not _has_reason(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        return len([name for name in names if name not in ("self", "cls")]) > PARAMETERS_MAX and not _has_reason(node)
    return False


def _has_reason(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return _REASON.search(ast.get_docstring(node) or "") is not None


def _too_large() -> Iterator[str]:
    for folder in (*FOLDERS, "bench", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name not in _GENERATED:
                tree = ast.parse(path.read_text(encoding="utf-8"))
                nodes = (node for node in ast.walk(tree) if _is_too_large(node))
                yield from (f"{path.relative_to(ROOT)}: {node.name}" for node in nodes)  # type: ignore[attr-defined]


def test_every_class_and_signature_has_one_concept_or_a_reason() -> None:
    assert list(_too_large()) == []
