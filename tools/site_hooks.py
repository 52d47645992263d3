"""Hooks of the site's build (mkdocs.yml): the menu comes from the indexes, links into the tree become plain names.

Each section's index.md lists its pages; the menu has them in the same order, so that no page is listed twice by hand.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any, Final

_SECTIONS: Final = ("tutorial", "how-to", "reference", "explanation", "findings")
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Set the menu from the indexes."""
    docs = Path(config["docs_dir"])
    sections = [{_title(docs / name / "index.md"): _pages(docs, name)} for name in _SECTIONS]
    config["nav"] = [{"Home": "index.md"}, *sections]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to files outside docs/ by the files' names: the site does not contain them."""
    here = PurePosixPath(page.file.src_uri).parent

    def plain(match: re.Match[str]) -> str:
        text, target, _anchor = match.groups()
        depth = len(here.parts)
        leaves = target.count("../") > depth
        return text if leaves else match[0]

    return _LINK.sub(plain, markdown)


def _pages(docs: Path, section: str) -> list[str]:
    """The section's index, then the pages that it links to, each once, in its order."""
    text = (docs / section / "index.md").read_text(encoding="utf-8")
    named = [target for _, target, _ in _LINK.findall(text) if "/" not in target and target.endswith(".md")]
    return [f"{section}/{name}" for name in dict.fromkeys(["index.md", *named])]


def _title(page: Path) -> str:
    """The page's heading."""
    return page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
