"""Chromium opens the report: no console error, verdict and timeline visible, and the picture was really drawn.

The page must run from a file with no network; its own content policy would report anything else on the console.
"""

import html as entities
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.harness.cli import main
from fencepost.harness.report.page import render
from fencepost.harness.report.section import ReportCase
from tests.report import sample, sample_kafka
from tests.report.drawing import scenes
from tests.report.sample_kraft import kraft_zombie
from tests.report.test_index import crowded_index

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

pytestmark = pytest.mark.browser

#: Reads what a person would see, after the page's own script ran; appended to the page, where its policy allows it.
PROBE = """
(() => {
  const seen = (q) => {
    const e = document.querySelector(q);
    if (!e) return "absent";
    const b = e.getBoundingClientRect();
    return b.width > 0 && b.height > 0 ? "visible" : "hidden"; };
  const canvas = document.getElementById("operations");
  let painted = 0, detail = "", view = "";
  if (canvas && canvas.width) {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 3; i < data.length; i += 4) painted += data[i] > 0;
    const range = document.getElementById("range"), first = range.textContent;
    const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    press("n");
    detail = document.getElementById("detail").textContent;
    press("0");
    view = first;
  }
  const result = { verdict: seen(".verdict h1"), timeline: seen("#overview"),
    zoom: seen("#zoom"), latency: seen("#latency"),
    painted, detail, view, drawn: canvas ? canvas.dataset.drawn : "", wide: document.documentElement.scrollWidth };
  const out = document.createElement("p"); out.id = "probe"; out.textContent = JSON.stringify(result);
  document.body.append(out);
})();
"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the PATH; on Debian: apt-get install chromium")
    return found


def opened(browser: str, page: Path, profile: Path, *more: str) -> tuple[str, list[str]]:
    """The page's DOM after its script ran, and the lines of its console."""
    command = [
        browser,
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", "--enable-logging=stderr", f"--user-data-dir={profile}"),
        *("--window-size=1280,2000", "--dump-dom", *more, page.as_uri()),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            dom, log = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return dom, [line for line in log.splitlines() if "CONSOLE" in line]


def with_probe(html: str) -> str:
    """The page with the probe behind its own script, and the policy's hash renewed for both together."""
    from fencepost.harness.report.page_kit import content_hash

    own = re.search(r"<script>(.*?)</script>\s*</body>", html, re.DOTALL)
    assert own is not None
    both = own[1] + PROBE
    return html.replace(own[1], both).replace(content_hash(own[1]), content_hash(both))


@pytest.mark.parametrize("make", [kraft_zombie, *sample_kafka.CASES.values()])
def test_report_of_a_system_with_layers_opens_without_a_console_error(
    make: Callable[[], ReportCase], browser: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(make()).html, encoding="utf-8")
    dom, console = opened(browser, page, tmp_path / "profile")
    assert console == []
    assert 'data-drawn="' in dom


@pytest.mark.slow
@pytest.mark.parametrize("make", [sample.zookeeper_invalid, sample.etcd_valid, kraft_zombie])
def test_print_has_at_most_six_pages(make: Callable[[], ReportCase], browser: str, tmp_path: Path) -> None:
    page, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(render(make()).html, encoding="utf-8")
    opened(browser, page, tmp_path / "profile", f"--print-to-pdf={paper}")
    pages = re.search(rb"/Type\s*/Pages\s*/Count (\d+)|/Count (\d+)\s*/", paper.read_bytes())
    assert pages is not None
    assert 1 <= int(pages[1] or pages[2]) <= 6


@pytest.mark.parametrize("name", ["zookeeper-invalid", "unknown", "empty", "hostile"])
def test_report_opens_without_a_console_error(name: str, browser: str, tmp_path: Path) -> None:
    case = sample.SAMPLES[name]()
    page = tmp_path / "report.html"
    page.write_text(render(case).html, encoding="utf-8")
    dom, console = opened(browser, page, tmp_path / "profile")
    assert console == []
    assert f"</span> {case.validity}</h1>" in dom
    if case.history.events:
        assert 'data-drawn="' in dom


@pytest.mark.parametrize("name", ["etcd-valid", "zookeeper-invalid", pytest.param("huge", marks=pytest.mark.slow)])
def test_verdict_and_timeline_are_visible_and_drawn(name: str, browser: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(with_probe(render(sample.SAMPLES[name]()).html), encoding="utf-8")
    dom, console = opened(browser, page, tmp_path / "profile")
    assert console == []
    found = re.search(r'<p id="probe">(.*?)</p>', dom)
    assert found is not None
    probe = found[1]
    for part in ("verdict", "timeline", "zoom", "latency"):
        assert f'"{part}":"visible"' in probe
    painted = re.search(r'"painted":(\d+)', probe)
    assert painted is not None
    assert int(painted[1]) > 1_000
    wide = re.search(r'"wide":(\d+)', probe)
    assert wide is not None
    assert int(wide[1]) <= 1280  # no sideways scrolling
    assert "process" in probe  # `n` described an operation
    if name == "zookeeper-invalid":
        assert '"view":"11.97' in probe  # it starts at the witness


def test_no_table_is_wider_than_its_page_and_on_a_phone_nothing_scrolls_but_pictures_and_rows_are_cards(
    browser: str, tmp_path: Path
) -> None:
    cases = {**sample.SAMPLES, **sample_kafka.CASES}
    pages = {name: render(make()).html for name, make in cases.items() if name != "huge"}
    pages["index"] = crowded_index(tmp_path)
    for name, text in pages.items():
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    page = tmp_path / "frames.html"
    # A window of a browser has a least width; a frame has none.
    frames = [f'<iframe src="{name}.html" width="{width}"></iframe>' for name in pages for width in (1280, 390)]
    page.write_text("".join(frames) + _OUT_OF_FRAMES, encoding="utf-8")
    dom, _ = opened(browser, page, tmp_path / "profile", "--allow-file-access-from-files")
    found = re.search(r'<p id="frames">(.*?)</p>', dom)
    assert found is not None
    shown = json.loads(entities.unescape(found[1]))
    assert sum(frame["tables"] for frame in shown) > 100
    assert [frame for frame in shown if frame["cut"] or frame["beyond"] > 0] == []
    for frame in (frame for frame in shown if frame["width"] == "390" and frame["tables"]):
        assert set(frame["rows"]) <= {"block"}
        assert min(frame["pictures"], default=700) >= 700
    assert sum(len(frame["pictures"]) for frame in shown) > 10


#: What frames show, handed to the page around them, whose policy allows a script.
_OUT_OF_FRAMES = """<script>
onload = () => {
  const shown = [...document.querySelectorAll("iframe")].map((frame) => {
    const doc = frame.contentDocument, all = (q) => [...doc.querySelectorAll(q)];
    const { scrollWidth, clientWidth } = doc.documentElement;
    all("details").forEach((e) => { e.open = true; });
    return { page: frame.getAttribute("src"), width: frame.width, beyond: scrollWidth - clientWidth,
      tables: all("table").length,
      cut: all("table").filter((e) => e.getBoundingClientRect().right > clientWidth).map((e) => e.textContent.trim()),
      rows: all("table.cards tbody tr").map((e) => frame.contentWindow.getComputedStyle(e).display),
      pictures: all("figure > svg").map((e) => e.getBoundingClientRect().width).filter((w) => w > 0) }; });
  const out = document.createElement("p"); out.id = "frames"; out.textContent = JSON.stringify(shown);
  document.body.append(out);
};
</script>"""


#: Of each text in a box of a cycle's picture: whether it is drawn within its box, by the browser's own fonts.
BOXES = """
(() => {
  const out = [];
  for (const group of document.querySelectorAll("svg g")) {
    const rect = group.querySelector("rect"), texts = [...group.querySelectorAll("text")];
    if (!rect || !texts.length) continue;
    const box = rect.getBoundingClientRect();
    for (const text of texts) {
      const b = text.getBoundingClientRect();
      const within = b.left >= box.left && b.right <= box.right && b.top >= box.top - 1 && b.bottom <= box.bottom + 1;
      out.push([text.textContent, within]);
    }
  }
  const p = document.createElement("p"); p.id = "boxes"; p.textContent = JSON.stringify(out);
  document.body.append(p);
})();
"""


def test_page_of_a_file_opens_without_a_console_error_and_its_words_fit(browser: str, tmp_path: Path) -> None:
    (tmp_path / "history.edn").write_text(scenes.ring(6, '"' + "W" * 120 + '-{}"'), encoding="utf-8")
    page = tmp_path / "out.html"
    assert main(["check", str(tmp_path / "history.edn"), "--report", str(page)]) == 1
    dom, console = opened(browser, page, tmp_path / "profile")
    assert console == [] and "</span> invalid</h1>" in dom
    html = page.read_text(encoding="utf-8")
    page.write_text(
        html.replace("script-src &#39;none&#39;", "script-src &#39;unsafe-inline&#39;").replace(
            "</body>", f"<script>{BOXES}</script></body>"
        ),
        encoding="utf-8",
    )
    dom, _ = opened(browser, page, tmp_path / "profile")
    found = re.search(r'<p id="boxes">(.*?)</p>', dom)
    assert found is not None
    told = json.loads(entities.unescape(found[1]))
    assert len(told) == 6 * 6 and [said for said, within in told if not within] == []
