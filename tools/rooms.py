"""The map of the tree in docs/explanation/code-map.md, made from what each room says of itself.

`python -m tools.rooms` prints it, `--write` writes it. A test compares.
"""

import ast
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Final

from tools.lines import FOLDERS

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "explanation" / "code-map.md"
BEGIN: Final = "<!-- rooms: made by `python -m tools.rooms --write` -->"
END: Final = "<!-- end of rooms -->"
_WIDTH: Final = 116
#: Folders that hold no code of the product.
_OTHERS: Final = {
    "docker": "Dockerfiles of every image, buildable with and without an image registry",
    "results": "one folder a run; nothing in it is tracked",
    "bench": "figures of our own speed (`make bench`)",
    "tests": "one folder for each room above; `tools/imports.toml` has their order",
}


def about(folder: str) -> str:
    """The first sentence of a room's docstring."""
    document = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    return " ".join(document.split()).partition(". ")[0].rstrip(".")


def _rooms() -> list[str]:
    """The rooms of harness/, from the ground up."""
    contracts = tomllib.loads((ROOT / "tools" / "imports.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers: list[str] = next(c for c in contracts["contracts"] if c.get("containers") == ["fencepost.harness"])[
        "layers"
    ]
    return layers[::-1]


def tree() -> str:
    """Every folder of the product and every room of harness/, in the order of a run, with what it says of itself."""
    rows = [("harness/", about("harness"))]
    rows += [(f"  {room}/", about(f"harness/{room}")) for room in _rooms()]
    rows += [(f"{folder}/", about(folder)) for folder in FOLDERS if folder != "harness"]
    rows += [(f"{folder}/", text) for folder, text in _OTHERS.items()]
    width = max(len(name) for name, _ in rows) + 2
    lines = []
    for name, text in rows:
        first, *rest = textwrap.wrap(text, _WIDTH - width)
        lines += [f"{name:<{width}}{first}", *(" " * width + line for line in rest)]
    return "\n".join(lines)


def page_with_tree() -> str:
    """The page as it should be."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n```\n{tree()}\n```\n{END}{tail}"


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        PAGE.write_text(page_with_tree(), encoding="utf-8")
    else:
        print(tree())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
