"""What a superseded controller tried, in sentences with their rows."""

from typing import Any

import msgspec
import pytest

from fencepost.harness.report.facts.figures import Story
from fencepost.harness.report.stories.attempt import attempts
from fencepost.harness.report.tables.zombies import zombies
from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.figures import ControllerFigures, LeadershipFigures
from tests.report.sample_kraft import kraft_zombie

ELECTIONS = [
    {"node": "b1", "epoch": 1, "zxid": "0x1", "indexes": (3,)},
    {"node": "b2", "epoch": 2, "zxid": "0x9", "indexes": (5,)},
]
BEGIN = "b1 was elected in epoch 1 (zxid 0x1); b2 was elected in epoch 2 (zxid 0x9)"


def row(what: str, refused_by: str | None = None, **more: Any) -> dict[str, Any]:
    by = {} if refused_by is None else {"refused_by": refused_by}
    return {"node": "b1", "epoch": 1, "superseded_by": 2, "what": what, **by, **more}


def told(*rows: dict[str, Any], elections: list[dict[str, Any]] = ELECTIONS) -> list[Story]:
    attempted = [{"indexes": (), **row} for row in rows]
    figures = msgspec.convert({"elections": elections, "attempts": attempted}, ControllerFigures)
    verdict = Verdict(checker="zombie-controllers", guarantee="g", validity=Validity.VALID, figures=figures)
    return attempts(msgspec.structs.replace(kraft_zombie(), verdicts=(verdict,)), "epoch")


def test_nothing_tried_is_nothing_told() -> None:
    assert told() == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [row("write metadata", "controller-epoch", zxid="0x15", indexes=(7,))],
            "1 write to ZooKeeper was refused by the version of /controller_epoch (zxid 0x15)",
        ),
        (
            [row("write metadata", "controller-epoch", zxid=f"0x1{i}") for i in range(4)],
            "4 writes to ZooKeeper were refused by the version of /controller_epoch (zxid 0x10, 0x11, 0x12, ...)",
        ),
        (
            [row("LeaderAndIsr", "stale-controller-epoch", indexes=(7,)), row("StopReplica", "stale-controller-epoch")],
            "2 of its requests were ignored by brokers for its epoch",
        ),
        (
            [row("create t7", "session-expired", indexes=(7,))],
            "1 topic was not created, because its session had expired",
        ),
        (
            [row(f"make topic t{i}", zxid=f"0x1{i}") for i in range(5)],
            "this took effect after that: make topic t0, make topic t1, make topic t2 and 2 more "
            "(zxid 0x10, 0x11, 0x12, ...)",
        ),
    ],
)
def test_each_kind_of_attempt(rows: list[dict[str, Any]], said: str) -> None:
    (story,) = told(*rows)
    assert story.sentence == f"{BEGIN}; {said}."
    assert (story.node, story.checker) == ("b1", "zombie-controllers")
    assert [clause.rows for clause in story.clauses] == [(3,), (5,), (7,) if "indexes" in rows[0] else ()]
    assert story.from_ns <= story.to_ns


def test_each_reign_has_its_own_story() -> None:
    again = {**row("write metadata", "controller-epoch"), "node": "b2", "epoch": 2, "superseded_by": 3}
    first, second = told(row("write metadata", "controller-epoch"), again)
    assert first.node == "b1"
    # An election that the logs do not show is told without proof.
    assert second.sentence.startswith("b2 was elected in epoch 2 (zxid 0x9); another led epoch 3; 1 write")


def test_what_logs_tell_is_counted_with_what_clients_saw() -> None:
    case = kraft_zombie()
    figures = ControllerFigures(attempted_but_fenced=4, acted=1)
    own = Verdict(
        checker="zombie-controllers", guarantee="g", validity=Validity.VALID, subject="controller", figures=figures
    )
    asked = Verdict(
        checker="leadership",
        guarantee="g",
        validity=Validity.VALID,
        subject="controller",
        figures=LeadershipFigures(attempted_but_fenced=2),
    )
    found = zombies(msgspec.structs.replace(case, verdicts=(asked, own)))
    assert found is not None
    rows = {str(cells[0]): str(cells[1]) for cells in found[0].rows}
    assert (rows["attempted but fenced"], rows["acted"]) == ("6", "1")
