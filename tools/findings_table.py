"""The table of docs/findings/index.md, made of every system's museum.toml: python -m tools.findings_table."""

from pathlib import Path
from typing import Final

from fencepost.campaigns.museum.documents import findings_table
from fencepost.campaigns.museum.exhibits import all_exhibits

PAGE: Final = Path(__file__).parents[1] / "docs/findings/index.md"


def with_table(page: str) -> str:
    """The page with its first table made again."""
    lines = page.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("| "))
    end = next(n for n in range(first, len(lines)) if not lines[n].startswith("|"))
    return "\n".join([*lines[:first], findings_table(all_exhibits()), *lines[end:], ""])


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
