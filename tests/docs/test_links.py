"""Every link of the documents leads somewhere, and every page can be reached from the index."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, links, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(target), f"{target.name} has no heading for #{anchor}"


def test_the_index_leads_to_every_page() -> None:
    reached: set[Path] = set()
    ahead = [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        ahead += [to for to, _ in links(page) if to.suffix == ".md" and DOCS in to.parents and to not in reached]
    lost = [str(page.relative_to(DOCS)) for page in sorted(DOCS.rglob("*.md")) if page not in reached]
    assert not lost, "no way leads from docs/index.md to these pages"
