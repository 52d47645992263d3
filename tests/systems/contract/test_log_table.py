"""How lines of a log become events: one line, and an entry with a line below it."""

from fencepost.harness.contract.logs import Attempt, BecameLeader, LogTable, epoch

TABLE = LogTable(
    became_leader={r"leads in (\d+)": epoch},
    attempted={r"asked for (\w+)\n.*refused": lambda match: Attempt(f=match[1], error="refused")},
    entry=r"\[",
)


def test_a_line_below_belongs_to_the_entry_above_it_once() -> None:
    lines = ["[1] asked for a", "it was refused", "it was refused again", "[2] asked for b", "[3] leads in 7, refused"]
    assert list(TABLE.events(lines)) == [Attempt(f="a", error="refused"), BecameLeader(7)]


def test_nothing_stands_below_an_entry_before_the_first_one() -> None:
    assert list(TABLE.events(["asked for a", "it was refused"])) == []
