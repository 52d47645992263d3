"""Chromium opens the page of a night, wide and as narrow as a phone: all of it can be read without moving sideways."""

import html
import json
import re
from pathlib import Path

import pytest

from fencepost.campaigns.night.documents import write_documents
from fencepost.harness.report.page_kit import content_hash
from tests.campaigns.night.test_documents import mixed
from tests.report.test_browser import browser, opened  # noqa: F401  # a fixture

pytestmark = pytest.mark.browser

#: Appended to the page, whose policy is opened for it alone.
_PROBE = """
(() => {
  const seen = [...document.querySelectorAll("h1, h2, tbody tr, .squares li")].map((e) => {
    const b = e.getBoundingClientRect();
    return b.width > 0 && b.height > 0 && b.left >= 0 && b.right <= window.innerWidth + 1; });
  const broken = [...document.querySelectorAll("a[href^='#']")].filter((a) =>
    !document.getElementById(decodeURIComponent(a.hash.slice(1)))).length;
  const out = document.createElement("p"); out.id = "probe";
  out.textContent = JSON.stringify({ count: seen.length, hidden: seen.filter((s) => !s).length, broken,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth });
  document.body.append(out);
})();
"""


@pytest.mark.parametrize("size", ["1280,900", "500,900"])
def test_everything_on_the_page_can_be_read(browser: str, tmp_path: Path, size: str) -> None:  # noqa: F811
    write_documents(mixed(), tmp_path)
    assert_readable(browser, tmp_path / "index.html", size)


def assert_readable(browser: str, page: Path, size: str) -> None:  # noqa: F811
    text = page.read_text().replace("script-src &#39;none&#39;", f"script-src '{content_hash(_PROBE)}'")
    page.write_text(text.replace("</body>", f"<script>{_PROBE}</script></body>"))
    dom, console = opened(browser, page, page.parent / "profile", f"--window-size={size}")
    assert console == []
    match = re.search(r'<p id="probe">(.*?)</p>', dom)
    assert match, dom[-500:]
    probe = json.loads(html.unescape(match[1]))
    assert probe == {"count": probe["count"], "hidden": 0, "broken": 0, "overflow": 0} and probe["count"] >= 12
