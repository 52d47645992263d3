"""The built site: `make site` succeeds, no link in it is dead, and it loads nothing from another host."""

import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import ROOT

SITE: Final = ROOT / "site"
_LOADS: Final = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """The ids of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        self.links += [values["href"]] if tag == "a" and "href" in values else []
        self.loads += [value for name, value in values.items() if (tag, name) in _LOADS]
        is_loaded = tag == "link" and values.get("rel") in ("stylesheet", "icon", "preconnect")
        self.loads += [values["href"]] if is_loaded else []


@pytest.mark.long
def test_the_site_has_no_dead_link() -> None:
    subprocess.run(["make", "-s", "site"], cwd=ROOT, check=True, timeout=600)
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 50, "every page of docs/ is there"
    dead = [
        f"{path.relative_to(SITE)}: {link}" for path, page in pages.items() for link in dead_links(path, page, pages)
    ]
    assert not dead
    foreign = [load for page in pages.values() for load in page.loads if urlsplit(load).netloc]
    assert not foreign, "pages load only what lies beside them"


def dead_links(path: Path, page: Page, pages: dict[Path, Page]) -> list[str]:
    """The links of a page that lead to no file or to no id of it."""
    dead = []
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        fragment = unquote(parts.fragment)
        if not target.exists() or (fragment and target in pages and fragment not in pages[target].ids):
            dead.append(link)
    return dead
