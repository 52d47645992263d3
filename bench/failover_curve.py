"""`make failover`: measure the whole curve and put its table and picture into docs/reference/.

At most an hour, on an idle machine.

`python -m bench.failover_curve FOLDER` puts there what a `fencepost failover` has measured before.
"""

import json
import sys
from pathlib import Path
from typing import Final

from fencepost.campaigns.failover.command import failover, wishes_of
from fencepost.campaigns.failover.curve import DOCUMENT as FIGURES
from fencepost.campaigns.failover.curve import NAME
from fencepost.campaigns.failover.figures import Curve, read_document, table
from fencepost.campaigns.failover.picture import standing_alone
from fencepost.campaigns.night.session import NIGHTS

DOCUMENT: Final = Path(__file__).resolve().parents[1] / "docs" / "reference" / "benchmarks.md"
PICTURE: Final = "failover.svg"
_BEGIN: Final = "<!-- failover -->\n"
_END: Final = "<!-- /failover -->"
_RESULTS: Final = Path("results")


def main(chosen: list[str]) -> int:
    status = 0
    if not chosen:
        wishes = wishes_of("1h", None, _RESULTS)
        status = failover("kraft,kafka-zk", "10,100,1000,5000", 5, wishes, as_json=False, resume=False)
        chosen = [str(max((_RESULTS / NIGHTS / NAME).iterdir()))]
    curve = read_document(json.loads((Path(chosen[0]) / FIGURES).read_text(encoding="utf-8")))
    (DOCUMENT.parent / PICTURE).write_text(standing_alone(curve), encoding="utf-8")
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(_BEGIN)
    _, mark, after = rest.partition(_END)
    if not mark:
        raise SystemExit(f"{DOCUMENT}: the marks {_BEGIN.strip()} and {_END} are missing")
    lines = "\n".join(section(curve))
    DOCUMENT.write_text(f"{before}{_BEGIN}{lines}\n{_END}{after}", encoding="utf-8")
    return status


def section(curve: Curve) -> list[str]:
    """What was measured, as lines of Markdown."""
    head, *rows = table(curve)
    machine = curve.machine
    versions = ", ".join(f"{system} {version}" for system, version in curve.versions.items())
    missing = [*curve.failures, *curve.incomplete]
    return [
        f"{versions}; medians of {curve.times}; {curve.started_at}, Linux {machine.get('kernel', '?')},"
        f" {machine.get('cores', '?')} cores; took {curve.took_s / 60:.1f} minutes.",
        "",
        f"| {' | '.join(head)} |",
        f"|{' --- |' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        *([f"Missing: {'; '.join(missing)}.", ""] if missing else []),
        f"![Time to recover against the number of partitions]({PICTURE})",
    ]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
