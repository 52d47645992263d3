"""Pictures of a run's report for the tutorial: `python -m tools.pictures RUN` writes docs/pictures/report-*.png.

Headless Chromium opens copies of the report that show one part each: first to learn how high it is, then to take its
picture. Nothing is loaded from any host.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "pictures"
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--hide-scrollbars", "--virtual-time-budget=3000"),
)
_WIDTH: Final = 980
_TIMEOUT_S: Final = 60
#: Larger pictures make a clone slow.
_BYTES_MAX: Final = 200_000
#: Each picture, and which children of the report's main part it shows.
_PARTS: Final = {
    "head": "header, header + .scroll",
    "witness": "#witness",
    "timeline": "#timeline",
}
#: Of the witness the first finding is enough.
_ALWAYS: Final = (
    "body > :not(main), main > *, #witness details, #witness article ~ article {display: none} "
    "body, main, main > section {margin: 0; padding: 8px} main > section > h2 {margin-top: 0}"
)
#: It allows no style and no script but the report's own; a copy has one more of each.
_POLICY: Final = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_HEIGHT: Final = re.compile(r'data-height="(\d+)"')


def main(arguments: list[str]) -> int:
    """Take every picture of the report of one run."""
    browser = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if browser is None or len(arguments) != 1:
        print("usage: python -m tools.pictures RUN, with Chromium on the PATH (apt install chromium)", file=sys.stderr)
        return 254
    report = (Path(arguments[0]) / "report.html").read_text(encoding="utf-8")
    FOLDER.mkdir(exist_ok=True)
    for name, shown in _PARTS.items():
        picture = FOLDER / f"report-{name}.png"
        _take(browser, _with_part(report, shown), picture)
        size = picture.stat().st_size
        print(f"{picture}: {size:,} bytes")
        if size > _BYTES_MAX:
            raise ValueError(f"{picture} has {size} bytes; at most {_BYTES_MAX} are committed")
    return 0


def _with_part(report: str, shown: str) -> str:
    """The report with one part of it, which writes its height into the document."""
    own = ", ".join(f"main > {one.strip()}" for one in shown.split(","))
    style = f"<style>{_ALWAYS} {own} {{display: block !important}}</style>"
    script = "document.documentElement.dataset.height = Math.ceil(document.body.getBoundingClientRect().bottom)"
    return _POLICY.sub("", report).replace("</body>", f"{style}<script>{script}</script></body>")


def _take(browser: str, page: str, picture: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        file.write_text(page, encoding="utf-8")
        flags = (*_FLAGS, f"--user-data-dir={folder}/profile")
        height = _HEIGHT.search(_run(browser, *flags, f"--window-size={_WIDTH},800", "--dump-dom", file.as_uri()))
        assert height is not None, "the script of the page has run"
        _run(browser, *flags, f"--window-size={_WIDTH},{height[1]}", f"--screenshot={picture}", file.as_uri())


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S).stdout


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
