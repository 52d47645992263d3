"""The page of claims names every guarantee of Kafka, and only guarantees, that there are."""

import re
from typing import Final

import pytest

from fencepost.harness.plugins import registry
from tests.docs.pages import DOCS

SYSTEMS: Final = ("kraft", "kafka-zk")
_PAGE: Final = (DOCS / "reference" / "kip-500.md").read_text(encoding="utf-8")
#: Of each row of a table: the claim, what judges it, a command, what was run in the lab and on containers.
ROWS: Final = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in _PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| claim", "| ---"))
]
_NAME: Final = re.compile(r"`([a-z-]+)`")


def guarantees() -> set[str]:
    return {guarantee.name for name in SYSTEMS for guarantee in registry.system(name).promises()}


def test_every_guarantee_of_kafka_judges_some_claim() -> None:
    assert guarantees() - {name for row in ROWS for name in _NAME.findall(row[1])} == set()


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:60] for row in ROWS])
def test_a_claim_names_what_judges_it_and_a_command_that_plays_it(row: list[str]) -> None:
    claim, judged_by, command, lab, containers = row
    assert claim
    assert lab
    assert not re.search(r"\b[A-Z]{5,}\b", lab + containers), "a figure that nobody filled in"
    # That the commands are understood is held for all pages (`test_commands`).
    assert re.fullmatch(r"`fencepost run [^`]+`", command), command
    named = set(_NAME.findall(judged_by))
    assert named <= guarantees()
    assert named or judged_by.startswith(("none: ", "the same"))
