"""The pages of the documents, with their links and headings, as GitHub shows them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
_FENCED: Final = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.M | re.S)
_BLOCK: Final = re.compile(r"^```[a-z]*\n(.*?)^```[ \t]*$", re.M | re.S)
_INDENTED: Final = re.compile(r"^ {4}fencepost .*$", re.M)
_IN_TABLE: Final = re.compile(r"^\|.*`(fencepost run [^`]+)`", re.M)
#: What only shows a command's form.
_USAGE: Final = re.compile(r"\[OPTIONS\]|\bTOOL\b|\bHISTORY\b|\bRUN\b|\|")
_CODE: Final = re.compile(r"`[^`\n]*`")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)


def pages() -> list[Path]:
    """Every page of docs/, and README."""
    return [README, *sorted(DOCS.rglob("*.md"))]


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links to, each with its anchor ("" for none); addresses of other sites are left out."""
    text = _CODE.sub("", _FENCED.sub("", page.read_text(encoding="utf-8")))
    for target in _LINK.findall(text):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


def command_lines(page: Path) -> Iterator[str]:
    """Every fencepost command line in a page's blocks of code and tables; a line that ends in \\ goes on."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = [*_BLOCK.findall(text), *_INDENTED.findall(text)]
    lines = [line for block in blocks for line in block.splitlines()] + _IN_TABLE.findall(text)
    for line in lines:
        if re.match(r" *fencepost [a-z]", line) and not _USAGE.search(line):
            yield " ".join(line.split())


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings: lower case, without punctuation, a hyphen for each space."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    slugs: set[str] = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = sum(1 for other in slugs if re.fullmatch(re.escape(slug) + r"(-\d+)?", other))
        slugs.add(f"{slug}-{number}" if number else slug)
    return slugs
