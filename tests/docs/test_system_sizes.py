"""The sizes of systems that docs/how-to/add-a-system.md names are those of the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/add-a-system.md").read_text(encoding="utf-8")
#: What belongs to each client, beside the folder `wire`.
CLIENTS = {
    "Cassandra": ("client", "elections", "members", "statements", "transactions"),
    "Consul": ("client", "catalog", "watches"),
    "NATS": ("client", "log", "stream", "watches"),
}


def lines(*files: Path) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


@pytest.mark.parametrize("system", CLIENTS)
def test_the_page_names_the_lines_of_each_system(system: str) -> None:
    folder = ROOT / "systems" / system.lower()
    client = [folder / f"{name}.py" for name in CLIENTS[system]]
    row = re.search(rf"^\| {system} \| ([\d,]+) \| ([\d,]+) \|", PAGE, re.MULTILINE)
    assert row is not None
    said = [int(number.replace(",", "")) for number in row.groups()]
    assert said == pytest.approx([lines(*folder.rglob("*.py")), lines(*client, *folder.glob("wire/*.py"))], rel=0.05)
