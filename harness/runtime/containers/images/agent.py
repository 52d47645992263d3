"""The modules of fencepost that the side-car runs, found by walking its imports, so the list cannot go stale.

The side-car's Python has only the standard library. This walk finds any other import when the image is built, and not
only when the side-car starts.
"""

import ast
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.base.source_tree import source_tree

AGENT: Final = "fencepost.harness.runtime.containers.rules.sidecar_agent"
#: Several threads prepare images, and two that parse at once can fail because of a defect in CPython (gh-106905).
_PARSER: Final = threading.Lock()


def module_files(root: str = AGENT) -> dict[str, Path]:
    """Find every file of fencepost that `root` imports, at its top or later, by its path below the package's parent.

    Raises HarnessError when one of them imports something outside fencepost and the standard library.
    """
    above = source_tree()
    files: dict[str, Path] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        path = _file(above, name)
        if path is None:
            raise HarnessError(f"the side-car imports {name}, which is not there", hint="is this checkout complete?")
        target = str(path.relative_to(above))
        if target in files:
            continue
        files[target] = path
        for imported in _imports(path, name, above):
            if imported.split(".")[0] == "fencepost":
                waiting += _with_parents(imported)
            elif imported.split(".")[0] not in sys.stdlib_module_names:
                raise HarnessError(
                    f"{path}: the side-car imports {imported}, but its Python has the standard library only",
                    hint="import it where the harness alone uses it, in another module",
                )
        waiting += _with_parents(name)[:-1]
    return dict(sorted(files.items()))


def _file(above: Path, name: str) -> Path | None:
    base = above.joinpath(*name.split("."))
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _imports(path: Path, name: str, above: Path) -> Iterator[str]:
    """Yield the names of imported modules, without imports for the type checker only."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    source = path.read_text(encoding="utf-8")
    with _PARSER:
        tree = ast.parse(source)
    for node in _run_time_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            kept = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*kept, *([node.module] if node.module else [])])
            yield module
            submodules = (f"{module}.{alias.name}" for alias in node.names)
            yield from (sub for sub in submodules if sub.startswith("fencepost.") and _file(above, sub))


def _run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from _run_time_nodes(other)
            continue
        yield child
        yield from _run_time_nodes(child)
