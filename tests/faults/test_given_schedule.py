"""A plan that names a schedule: its file read, checked, carried out as it stands, refused where it cannot be meant."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.campaigns.replay.recorded import with_faults
from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli import main
from fencepost.harness.plan import Plan, read_plan, write_plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.results.schedule_rows import injected, read_rows, refuse_torn, write_rows
from fencepost.harness.run.execute import look_ahead
from fencepost.harness.runner.faults import schedule_of

S = 10**9


def row(text: str, at_s: float = 1.0, *, number: int = 0, worker: int = 0, **more: Any) -> dict[str, Any]:
    """The line that begins a fault, as a run writes it."""
    return {
        "format": 2,
        "fault_id": 100 * worker + number,
        "worker": worker,
        "number": number,
        "part_of": None,
        "spec": text,
        "action": "inject",
        "stage": "begin",
        "outcome": "pending",
        "nominal_ns": 0,
        "at_ns": round(at_s * S),
        "time_ns": round((at_s + 3) * S),
        "duration_ns": S,
        "draw_seed": 7,
        "when": None,
        "nodes": ["n2"],
        "leader": "n1",
        **more,
    }


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "some.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def plan_with(path: Path, **more: Any) -> Plan:
    return Plan(system="etcd", workload="set", seed=1, schedule=str(path), time_limit="10s", **more)


def test_a_plan_takes_its_faults_from_the_file_and_says_which_they_are(tmp_path: Path) -> None:
    kill = row("kill:one:for=1s", 2.5)
    again = row("kill:one:for=1s", 5, number=1)
    other = row("pause:leader", 1, worker=1, when={"trigger": "restart"}, nominal_ns=3 * S)
    skipped = row("kill:n3", 7, number=2)
    end = {**skipped, "stage": "end", "outcome": "skipped"}
    part = row("kill:n1", 8, number=3, part_of=0)
    path = written(tmp_path, kill, again, other, skipped, end, part)
    checked = check_plan(plan_with(path))
    assert checked.plan.nemesis == "kill:one:for=1s+pause:leader"
    assert check_plan(checked.plan).plan == checked.plan, "what a run's folder holds can be run again"
    forecast = look_ahead(checked)
    assert [(e.spec.text, e.inject_ns, e.duration_ns, e.draw_seed) for e in forecast.entries] == [
        ("kill:one:for=1s", round(2.5 * S), S, 7),
        ("kill:one:for=1s", 5 * S, S, 7),
        ("pause:leader", 3 * S, S, 7),  # a trigger is waited for again, from the nominal time on
    ]


def test_a_plan_file_names_its_schedule_relative_to_itself(tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    folder.mkdir()
    path = written(folder, row("kill:one"))
    write_plan(msgspec.structs.replace(plan_with(path), schedule=path.name), folder / "plan.toml")
    assert read_plan(folder / "plan.toml", seed=0).schedule == str(path)


@pytest.mark.parametrize("text", ["", "\x00\x01", "\n\n", json.dumps({**row("kill:one"), "action": "heal"}) + "\n"])
def test_a_schedule_without_a_fault_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"some\.jsonl holds no fault that was injected") as caught:
        check_plan(plan_with(path))
    assert "--nemesis none" in (caught.value.hint or "")


@pytest.mark.parametrize("nemesis", ["", 'nemesis = " "\n'])
def test_a_plan_file_names_its_faults(tmp_path: Path, nemesis: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(f'system = "etcd"\nworkload = "set"\nseed = 1\n{nemesis}')
    with pytest.raises(UsageError, match="the plan names no faults"):
        check_plan(read_plan(path, seed=0))


def test_a_run_without_faults_is_done_again_without_faults(tmp_path: Path) -> None:
    checked = check_plan(Plan(system="etcd", workload="set", seed=1, nemesis="none"))
    again = check_plan(with_faults(checked.plan, written(tmp_path), ())).plan
    assert (again.nemesis, again.schedule) == ("none", "")
    write_plan(again, tmp_path / "plan.toml")
    assert check_plan(read_plan(tmp_path / "plan.toml", seed=0)).plan == again


def test_written_rows_are_read_back_with_the_nodes_as_a_fact(tmp_path: Path) -> None:
    rows = injected(read_rows(written(tmp_path, row("kill:one"), row("pause:leader", 3, number=1))))
    again = tmp_path / "again.jsonl"
    write_rows(rows, again)
    assert [(r["spec"], r["at_ns"], r["nodes"]) for r in injected(read_rows(again))] == [
        ("kill:one", S, ["n2"]),
        ("pause:leader", 3 * S, ["n2"]),
    ]
    assert "time_ns" not in again.read_text()


def test_a_torn_last_line_is_no_line_and_a_whole_one_without_an_end_is(tmp_path: Path) -> None:
    path = written(tmp_path, row("kill:one"), row("kill:one", 2, number=1))
    text = path.read_text()
    path.write_text(text[:-20])
    assert len(read_rows(path)) == 1
    path.write_text(text[:-1])
    assert len(read_rows(path)) == 2


def test_a_schedule_cut_anywhere_is_refused_or_holds_each_fault_that_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cut between two lines nobody can tell it from a shorter schedule; cut within a line it is refused."""
    path = written(tmp_path, row("kill:one"), row("kill:one", 2, number=1))
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    whole = {len(lines[0]), len(text) - 1, len(text)}
    for end in {*range(1, len(text), 37), len(text) - 2} - whole - {len(lines[0]) - 1}:
        path.write_text(text[:end])
        arguments = ["--system", "etcd", "--workload", "set", "--schedule", str(path), "--results", str(tmp_path)]
        assert main(["run", *arguments]) == 254, end
        said = capsys.readouterr().err
        assert "its last line is cut off" in said or "holds no fault that was injected" in said, (end, said)
    for end in whole:
        path.write_text(text[:end])
        refuse_torn(path)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row("kill:n5")], ["does not fit the plan", "unknown target 'n5'", "n1, n2, n3"]),
        ([row("flood:one")], ["does not fit the plan", "unknown fault 'flood'"]),
        ([row("kill:one", 30)], ["kill:one comes 30 s into the main phase, which lasts 10 s", "longer --time-limit"]),
        ([{**row("kill:one"), "format": 1}], ["line 1", "format 1 where 2 was expected"]),
        ([{**row("kill:one"), "at_ns": "soon"}], ["line 1: 'at_ns': expected int, got 'soon'"]),
        ([{**row("kill:one"), "at_ns": -1}], ["line 1: 'at_ns' is negative"]),
        (
            [{k: v for k, v in row("kill:one").items() if k != "draw_seed"}],
            ["'draw_seed': expected int, got 'nothing'"],
        ),
        (["no object"], ["line 1: expected an object"]),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(tmp_path: Path, rows: list[Any], said: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        check_plan(plan_with(written(tmp_path, *rows)))
    for part in said:
        assert part in f"{caught.value.message} {caught.value.hint}"


def test_a_plan_that_says_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"its schedule .* holds 'kill:one'"):
        check_plan(plan_with(written(tmp_path, row("kill:one")), nemesis="pause"))


def test_the_flag_refuses_what_cannot_be_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ("run", "--system", "etcd", "--workload", "set", "--results", str(tmp_path))
    assert main([*run, "--schedule", "nowhere.jsonl"]) == 254
    assert main([*run, "--schedule", "nowhere.jsonl", "--nemesis", "kill"]) == 254
    said = capsys.readouterr().err
    assert "nowhere.jsonl: No such file" in said
    assert "exclude each other" in said


def test_the_runner_carries_out_the_file_and_draws_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, row("kill:one:for=1s", 2.5), row("kill:n3", 5, number=1))
    checked = check_plan(plan_with(path))
    (entries,) = schedule_of(checked, workers=())
    assert [(e.spec.text, e.inject_ns, e.draw_seed) for e in entries] == [
        ("kill:one:for=1s", round(2.5 * S), 7),
        ("kill:n3", 5 * S, 7),
    ]
