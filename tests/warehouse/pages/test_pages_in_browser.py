"""Chromium opens the pages over all nights, wide and narrow: no page scrolls sideways, no link is dead."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.harness.report.page_kit import content_hash
from fencepost.warehouse.pages.site import write_pages
from fencepost.warehouse.pages.values import Overview
from tests.report.test_browser import browser, opened  # noqa: F401  # a fixture
from tests.warehouse.pages.made import green, red

pytestmark = pytest.mark.browser

#: Appended to a page, whose policy is opened for it alone. What stands in a box that scrolls by itself may be wider.
_PROBE = """
(() => {
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const seen = [...document.querySelectorAll("h1, h2, h3, p, li, figure, figcaption, .badge, .scroll")].filter((e) =>
    !e.closest(".scroll") || e.matches(".scroll")).map((e) => {
    const b = e.getBoundingClientRect();
    return b.width > 0 && b.height > 0 && b.left >= 0 && b.right <= window.innerWidth + 1; });
  const links = [...document.querySelectorAll("a[href]")].map((a) => a.getAttribute("href"));
  const out = document.createElement("p"); out.id = "probe";
  out.textContent = JSON.stringify({ count: seen.length, outside: seen.filter((s) => !s).length, links,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth });
  document.body.append(out);
})();
"""


def _probed(browser: str, page: Path, profile: Path, size: str) -> tuple[dict[str, object], list[str]]:  # noqa: F811
    text = page.read_text().replace("script-src &#39;none&#39;", f"script-src '{content_hash(_PROBE)}'")
    copy = page.with_name(f"probed-{page.name}")
    copy.write_text(text.replace("</body>", f"<script>{_PROBE}</script></body>"))
    dom, console = opened(browser, copy, profile, f"--window-size={size}")
    match = re.search(r'<p id="probe">(.*?)</p>', dom)
    assert match, dom[-500:]
    return json.loads(html.unescape(match[1])), console


@pytest.mark.parametrize("size", ["1280,900", "500,900"])
@pytest.mark.parametrize("make", [red, *(pytest.param(make, marks=pytest.mark.slow) for make in (green, Overview))])
def test_no_page_scrolls_sideways_and_every_link_resolves(
    browser: str,  # noqa: F811
    tmp_path: Path,
    make: Callable[[], Overview],
    size: str,
) -> None:
    for page in write_pages(make(), tmp_path / "pages"):
        probe, console = _probed(browser, page, tmp_path / "profile", size)
        assert console == []
        links = probe.pop("links")
        assert isinstance(links, list)
        assert probe == {"count": probe["count"], "outside": 0, "overflow": 0}, page.name
        for link in links:
            target, _, anchor = str(link).partition("#")
            assert not target or (page.parent / target).is_file(), link
            there = page.parent / target if target else page
            assert not anchor or f'id="{anchor}"' in there.read_text(), link
