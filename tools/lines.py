"""The lines of each folder beside its budget: `python -m tools.lines [--write]`.

Code and templates are counted, with their comments and blank lines; Markdown apart. Whoever needs more lines than a
folder has says for what, and writes the new budget with `--write`. `tests/test_tree.py` holds the tree to the table.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
BUDGETS: Final = ROOT / "tools" / "budgets.txt"
#: Folders whose own folders have budgets of their own.
_APART: Final = ("harness", "checkers", "systems", "campaigns", "warehouse")
_CODE: Final = (".py", ".rs", ".go", ".j2", ".js", ".css")
_GENERATED: Final = ("rpc_pb2.py", "rpc_pb2.pyi")
#: What may be deleted, and nothing else imports.
LEAVES: Final = ("systems", "campaigns", "warehouse")
#: The folders of the product; `harness` is the ground.
FOLDERS: Final = ("harness", "checkers", "nemesis", "workloads", *LEAVES)
PRODUCT: Final = (*FOLDERS, "fencepost")


def counted() -> dict[str, int]:
    """The lines of each folder, and those of all tracked Markdown under "Markdown"."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    lines: Counter[str] = Counter()
    for name in listed.stdout.splitlines():
        path = Path(name)
        if path.suffix == ".md":
            lines["Markdown"] += _lines_of(ROOT / path)
        elif path.suffix in _CODE and len(path.parts) > 1 and path.name not in _GENERATED:
            depth = 2 if path.parts[0] in _APART and len(path.parts) > 2 else 1
            lines["/".join(path.parts[:depth])] += _lines_of(ROOT / path)
    return dict(sorted(lines.items()))


def budgets() -> dict[str, int]:
    """The lines that each folder may have."""
    rows = (line.split() for line in BUDGETS.read_text(encoding="utf-8").splitlines())
    return {folder: int(lines) for folder, lines in rows}


def table() -> str:
    """Each folder with its lines and its budget, then what the product has in all."""
    lines, allowed = counted(), budgets()
    rows = [(folder, count, allowed.get(folder, 0)) for folder, count in lines.items()]
    total = sum(count for folder, count in lines.items() if folder.split("/")[0] in PRODUCT)
    rows.append(("the product", total, sum(b for folder, b in allowed.items() if folder.split("/")[0] in PRODUCT)))
    return "\n".join(f"{folder:<28}{count:>9,}{budget:>9,}" for folder, count, budget in rows)


def _lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def main(arguments: list[str]) -> int:
    """Print the table, or write today's lines as the budgets, rounded up to fifty."""
    if arguments == ["--write"]:
        rows = (f"{folder} {-(-count // 50) * 50}" for folder, count in counted().items())
        BUDGETS.write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
