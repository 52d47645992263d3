"""The register on the disk: torn lines, two processes, other versions."""

from pathlib import Path

import pytest

from fencepost.campaigns.night.night import NightState
from fencepost.campaigns.night.register import (
    EndedRun,
    NightRegister,
    Record,
    RefusedRun,
    Registered,
    Resumed,
    night_of,
    read_register,
)
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import UsageError
from tests.campaigns.night.made import STARTED, attempt, cell, opened


def test_a_killed_sessions_half_line_is_no_record_and_the_next_one_begins_a_line(tmp_path: Path) -> None:
    path = tmp_path / "register.jsonl"
    with NightRegister(path) as register:
        register.append(opened([cell("a")]))
        register.append(Registered(attempt=attempt("a", None)))
    whole = path.read_bytes()
    for cut in range(1, 60):
        path.write_bytes(whole + b'{"record":"ended","attempt":{"cell":"a","run":1,"number":1,"seed":1}}'[:cut])
        assert [o.run_class for o in night_of(read_register(path)).cells] == [RunClass.LOST]
        with NightRegister(path) as register:
            register.append(EndedRun(attempt=attempt("a", RunClass.VALID), spent_s=3))
        (only,) = night_of(read_register(path)).cells
        assert only.run_class is RunClass.VALID


def test_what_is_in_flight_is_lost_only_when_nobody_runs_the_night_any_more() -> None:
    records: list[Record] = [opened([cell("a")]), Registered(attempt=attempt("a", None))]
    assert night_of(records, running=True).cells[0].reason == "in flight"
    made = night_of(records)
    assert (made.state, made.cells[0].run_class) == (NightState.INTERRUPTED, RunClass.LOST)


def test_what_is_killed_before_its_first_line_never_began(tmp_path: Path) -> None:
    path = tmp_path / "register.jsonl"
    with NightRegister(path) as register:
        assert not path.exists()
        register.append(opened([cell("a")]))
        assert night_of(read_register(path)).cells
    assert list(tmp_path.iterdir()) == [path]


def test_one_process_at_a_time_holds_a_register(tmp_path: Path) -> None:
    with NightRegister(tmp_path / "register.jsonl"), pytest.raises(UsageError, match="another fencepost is running"):
        NightRegister(tmp_path / "register.jsonl")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin with a night"),
        ('{"record":"refused","cell":"a","reason":"b"}\n', "does not begin with a night"),
        ('{"record":"something-new"}\n', "line 1"),
    ],
)
def test_a_file_that_is_no_register_is_refused_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "register.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_register(path)


def test_a_register_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "register.jsonl"
    with NightRegister(path) as register:
        register.append(opened([cell("a")], format=2))
    with pytest.raises(UsageError, match="format 2"):
        read_register(path)


def test_what_the_machine_could_not_run_is_looked_at_again_when_a_night_goes_on() -> None:
    records: list[Record] = [opened([cell("a")]), RefusedRun(cell="a", reason="no container engine")]
    (only,) = night_of(records).cells
    assert (only.run_class, only.reason) == (RunClass.MACHINE, "no container engine")
    records.append(Resumed(at=STARTED, budget_s=60, jobs=1))
    assert night_of(records, running=True).cells[0].run_class is RunClass.NOT_RUN
