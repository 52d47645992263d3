"""Writes `docs/reference/benchmarks.md`: replaces the sections between marks, and keeps the text around them."""

import platform
import time
from pathlib import Path
from typing import Final

DOCUMENT: Final = Path(__file__).resolve().parents[1] / "docs" / "reference" / "benchmarks.md"


def machine_line() -> str:
    """Return the machine's make and load in one line, without its name."""
    load = Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{time.strftime('%Y-%m-%d', time.gmtime())}, {cpu}, {platform.release()}, load {load} at the start"


def read_section(name: str) -> list[str]:
    """Return the lines between the marks of section `name`."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0].splitlines()


def write_section(name: str, lines: list[str]) -> None:
    """Replace the lines between `<!-- name -->` and `<!-- /name -->`."""
    text = DOCUMENT.read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = text.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise SystemExit(f"{DOCUMENT}: the marks of section {name!r} are missing")
    DOCUMENT.write_text(before + begin + "\n".join(lines) + "\n" + mark + after, encoding="utf-8")
