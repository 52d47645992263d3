"""Whether a run was played as planned: told by notes, by phases that are missing, and by lengths."""

import asyncio
import errno
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import msgspec
import pytest

from fencepost.checkers import coverage
from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.history import (
    DISK_FULL,
    HARNESS_ERROR,
    STOPPED_EARLY,
    MainPhase,
    NoteEvent,
    PhaseEvent,
    PhaseName,
    ending_of,
)
from fencepost.harness.judging.judge import resolved_of
from fencepost.harness.judging.judgement import conclude
from fencepost.harness.plan import Plan, write_plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.results import reader
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.reader import read_history
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.run import conclude as conclude_module
from fencepost.harness.run.conclude import ChildEnd, Result, conclude_run, judge_stored
from fencepost.harness.runner.beside import Background, EarlyEnd, record_exits
from fencepost.harness.runtime.node import Exit, Runtime
from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.figures import Traced
from fencepost.systems.etcd.system import ETCD
from tests.checkers.build import Tale, facts, ns

PLANNED_NS = ns(30_000)
STARTS = {
    PhaseName.WARM_UP: 0,
    PhaseName.MAIN: 1_000,
    PhaseName.HEAL: 31_000,
    PhaseName.SETTLE: 31_100,
    PhaseName.WATCH: 31_200,
    PhaseName.FINAL: 33_200,
}


def tale(until: PhaseName = PhaseName.FINAL, end_ms: float = 33_300, *, moved: Mapping[str, float] = {}) -> Tale:
    """Phases up to `until`; `moved` begin at other times ({"heal": 11_000})."""
    told = Tale()
    for phase, at_ms in STARTS.items():
        told.phase(phase, moved.get(phase.name.lower(), at_ms))
        if phase is until:
            break
    told.sample(end_ms)
    return told


def ending(told: Tale, planned_ns: int | None = PLANNED_NS) -> MainPhase:
    return ending_of(told.history(), planned_ns)


def noted(told: Tale, topic: str, at_ms: float, text: str = "why") -> Tale:
    told.tell(NoteEvent, at_ms, topic=topic, text=text)
    return told


@pytest.mark.parametrize("heal", [30_010, 31_000, 35_000])
def test_a_run_of_its_planned_length_is_whole(heal: float) -> None:
    """The main phase ends with the last operation that fits, and with the last that was in flight."""
    moved = dict.fromkeys(("settle", "watch", "final"), heal + 1)
    found = ending(tale(end_ms=heal + 2, moved={"heal": heal, **moved}))
    assert found == MainPhase(planned_ns=PLANNED_NS, played_ns=ns(heal - 1_000), cut_short=None)


@pytest.mark.parametrize("topic", [STOPPED_EARLY, DISK_FULL, HARNESS_ERROR])
def test_a_note_says_what_cut_the_main_phase_short(topic: str) -> None:
    moved = {"heal": 11_000, "settle": 11_001, "watch": 11_002, "final": 11_003}
    found = ending(noted(tale(end_ms=12_000, moved=moved), topic, 10_990))
    assert found.played_ns == ns(10_000)
    assert found.cut_short == "the run was cut short after 10.0 s of the planned 30 s of its main phase: why"


def test_the_first_note_is_the_cause() -> None:
    told = noted(noted(tale(), HARNESS_ERROR, 30_000, "the engine is gone"), STOPPED_EARLY, 30_500, "asked to stop")
    assert (ending(told).cut_short or "").endswith(": the engine is gone")


@pytest.mark.parametrize(
    ("topic", "at_ms", "where"),
    [
        (STOPPED_EARLY, 500, "in its warm-up phase"),
        (STOPPED_EARLY, 32_000, "in its watch phase"),
        (STOPPED_EARLY, 33_250, None),
        (DISK_FULL, 33_250, None),
        (HARNESS_ERROR, 33_250, "in its final phase"),
        ("not-ready-again", 5_000, None),
    ],
)
def test_what_came_too_late_to_cut_anything_short_is_no_cause(topic: str, at_ms: float, where: str | None) -> None:
    """Final reads are made whatever was asked; a failure of the harness counts at any time."""
    found = ending(noted(tale(), topic, at_ms)).cut_short
    assert found == (f"the run was cut short {where}: why" if where else None)


def test_a_stop_before_the_main_phase() -> None:
    told = Tale()
    for phase, at_ms in ((PhaseName.WARM_UP, 0), (PhaseName.HEAL, 600), (PhaseName.FINAL, 700)):
        told.phase(phase, at_ms)
    found = ending(noted(told, STOPPED_EARLY, 500))
    assert (found.played_ns, found.cut_short) == (0, "the run was cut short before its main phase: why")


@pytest.mark.parametrize(
    ("until", "end_ms", "where"),
    [
        (PhaseName.WARM_UP, 900, "before its main phase"),
        (PhaseName.MAIN, 6_000, "after 5.0 s of the planned 30 s of its main phase"),
        (PhaseName.SETTLE, 31_150, "in its settle phase"),
        (PhaseName.WATCH, 32_000, "in its watch phase"),
    ],
)
def test_a_history_that_simply_ends(until: PhaseName, end_ms: float, where: str) -> None:
    found = ending(tale(until, end_ms)).cut_short or ""
    assert found.startswith(f"the run was cut short {where}: the history ends there")
    assert ending(tale(until, end_ms), planned_ns=None).cut_short is None, "without a plan nobody knows"


def test_a_main_phase_that_is_too_short_without_a_note() -> None:
    found = ending(tale(moved={"heal": 11_000})).cut_short or ""
    assert found.startswith("the run was cut short after 10.0 s of the planned 30 s of its main phase: nothing")


@pytest.mark.parametrize(
    ("until", "where"),
    [
        (PhaseName.MAIN, "after 5.0 s of the planned 30 s of its main phase"),
        (PhaseName.HEAL, "in its heal phase"),
        (PhaseName.FINAL, "in its final phase"),
    ],
)
def test_what_ended_the_harness_is_the_cause_unless_a_note_tells_an_earlier_one(until: PhaseName, where: str) -> None:
    told = tale(until, 6_000 if until is PhaseName.MAIN else 33_300)
    found = ending_of(told.history(), PLANNED_NS, "the container engine stopped answering")
    assert found.cut_short == f"the run was cut short {where}: the container engine stopped answering"
    earlier = ending_of(noted(told, HARNESS_ERROR, 5_900).history(), PLANNED_NS, "the links cannot be healed")
    assert (earlier.cut_short or "").endswith(": why")


def test_an_empty_history_was_cut_short() -> None:
    assert (ending(Tale()).cut_short or "").startswith("the run was cut short before its main phase")


@pytest.mark.parametrize("reason", ["its stream of events ended", "no answer within 15 s"])
def test_an_engine_that_is_gone_ends_the_load_and_is_the_cause(tmp_path: Path, reason: str) -> None:
    """Who waits for exits is the first to know; the history says it, not the runner's log alone."""
    gone = HarnessError(f"the container engine stopped answering during the run: {reason}")

    async def next_exit() -> Exit:
        raise gone

    async def play() -> None:
        end, recorder = EarlyEnd(), Recorder(tmp_path / "history.jsonl")
        background = Background(recorder, end)
        recorder.start()
        recorder.record(PhaseEvent, phase=PhaseName.MAIN)
        background.spawn(record_exits(cast(Runtime, SimpleNamespace(next_exit=next_exit)), recorder, lambda _: None))
        background.spawn(end.note(recorder, ""))
        await asyncio.wait_for(end.stop.wait(), 30)
        await asyncio.sleep(0.01)
        recorder.record(PhaseEvent, phase=PhaseName.FINAL)
        await recorder.close()

    asyncio.run(play())
    found = ending_of(read_history(tmp_path), PLANNED_NS).cut_short or ""
    how = r"the run was cut short after \d+\.\d s of the planned 30 s of its main phase: HarnessError: the .*"
    assert re.fullmatch(how, found) and found.endswith(reason)


def kept(folder: Path) -> Path:
    """A run's folder whose history ends well: every operation answered, the final read too."""
    folder.mkdir()
    checked = check_plan(Plan(system="etcd", workload="register", seed=1, nemesis="none", time_limit="30s"))
    write_plan(checked.plan, folder / store.PLAN)
    store.write_json(folder / store.RUN, {"format": 1, "system": "etcd", "system_version": "3.5.1", "seed": 1})
    told = tale()
    for number in range(10):
        told.write("k0", 1, node="n1", at=(1_001 + number, 1_001.5 + number), position=number, value_position=number)
    for at_ms in range(2_000, 30_000, 20):
        told.read("k0", 1, node="n2", at=(at_ms, at_ms + 1), process=1, position=9, value_position=9)
    told.read("k0", 1, at=(33_210, 33_211))
    lines = (msgspec.json.encode(event) + b"\n" for event in told.history().events)
    (folder / store.HISTORY_LINES).write_bytes(b"".join(lines))
    return folder


def concluded(folder: Path, outcome: ChildEnd) -> Result:
    record = RunRecord.read(folder)
    return conclude_run(resolved_of(folder), record, outcome, progress=lambda _: None, stop=StopRequest())


@pytest.mark.parametrize(("recorded", "validity"), [(False, Validity.UNKNOWN), (True, Validity.VALID)])
def test_what_ended_the_runner_stands_in_everything_that_is_kept(
    tmp_path: Path, recorded: bool, validity: Validity
) -> None:
    """Unless the history was complete by then: what fails while the cluster is taken down costs it nothing."""
    folder = kept(tmp_path / "run")
    error = HarnessError("the container engine stopped answering during the run: no answer within 15 s\nits log: ...")
    outcome = ChildEnd(error=error, recorded=recorded)
    first = concluded(folder, outcome)
    again = judge_stored(folder, progress=lambda _: None)
    for result in (first, again):
        assert result.judgement.validity is validity, result.judgement.headline
    why = (
        "the run was cut short in its final phase: "
        "the container engine stopped answering during the run: no answer within 15 s"
    )
    assert (again.judgement.headline == first.judgement.headline == why) is not recorded
    assert again.document["cut_short"] == (None if recorded else why)
    for name in (store.VERDICT, store.JUNIT, store.REPORT):
        assert (why in (folder / name).read_text()) is not recorded, name
    when = "after the run: " if recorded else "the run ended early: "
    assert any(warning.startswith(when) for warning in first.warnings)


def test_a_history_that_nobody_sealed_is_of_a_run_that_was_cut_short(tmp_path: Path) -> None:
    """Harness and runner killed together in the final phase: every phase is there, and nothing tells of the end."""
    folder = kept(tmp_path / "run")
    judgement = judge_stored(folder, progress=lambda _: None).judgement
    assert judgement.validity is Validity.UNKNOWN
    assert judgement.headline.startswith("the run was cut short in its final phase: the history was never sealed")


def test_a_runner_that_was_stopped_in_the_final_phase_leaves_a_run_that_was_cut_short(tmp_path: Path) -> None:
    folder = kept(tmp_path / "run")
    result = concluded(folder, ChildEnd())
    assert result.judgement.validity is Validity.UNKNOWN
    why = "the run was cut short in its final phase: the runner was stopped before it was over"
    assert result.judgement.headline == why


def test_a_complete_history_without_room_to_seal_it_stays_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(reader, "to_parquet", full)
    folder = kept(tmp_path / "run")
    first = concluded(folder, ChildEnd(recorded=True))
    again = judge_stored(folder, progress=lambda _: None)
    assert (folder / store.HISTORY_LINES).is_file()
    assert first.judgement.validity is again.judgement.validity is Validity.VALID


@pytest.mark.parametrize("reads_logs", [False, True])
def test_a_run_is_judged_before_its_runner_has_ended_unless_disks_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads_logs: bool
) -> None:
    folder, outcome = kept(tmp_path / "run"), ChildEnd(recorded=True)
    archive = folder / store.NODES / "n1" / "data.tar.gz"
    order: list[str] = []

    def rest() -> None:
        if "rest" not in order:
            archive.parent.mkdir(parents=True, exist_ok=True)
            archive.touch()
            outcome.error = HarnessError("a mount is left")
        order.append("rest")

    def keep_logs(*_: object) -> list[str]:
        order.append("logs")
        return []

    monkeypatch.setattr(type(ETCD), "read_log", keep_logs if reads_logs else None)
    monkeypatch.setattr(conclude_module, "_keep_logs", keep_logs)
    result = conclude_run(
        resolved_of(folder),
        RunRecord.read(folder),
        outcome,
        progress=lambda event: order.append(event["topic"]),
        stop=StopRequest(),
        rest=rest,
    )
    assert [step for step in order if step != "phase"] == [*(["rest", "logs"] if reads_logs else []), "judged", "rest"]
    assert "after the run: a mount is left" in result.warnings
    # What the runner kept last is dropped as well.
    assert result.judgement.validity is Validity.VALID and not archive.exists()


def test_a_stored_plan_that_lost_its_faults_is_refused(tmp_path: Path) -> None:
    """Without its line `nemesis` no fault would be missed in the history, and an unknown run would become valid."""
    folder = kept(tmp_path / "run")
    plan = folder / store.PLAN
    plan.write_text("".join(line for line in plan.read_text().splitlines(True) if not line.startswith("nemesis")))
    with pytest.raises(UsageError, match="the plan names no faults"):
        judge_stored(folder, progress=lambda _: None)


def judged(told: Tale, *more: Verdict) -> Any:
    for at_ms in range(2_000, 10_000, 20):
        told.read("a", 1, at=(at_ms, at_ms + 1))
    told.read("a", 1, at=(33_210, 33_211))
    history, given = told.history(), facts(planned_ns=PLANNED_NS)
    kept = Verdict(checker="linearizable", guarantee="linearizable", validity=Validity.VALID)
    return conclude(history, given, (*(more or (kept,)), *coverage.check(history, given)))


def test_a_run_without_a_violation_is_unknown_when_it_was_cut_short_and_else_valid() -> None:
    assert judged(tale()).validity is Validity.VALID
    cut = judged(noted(tale(), STOPPED_EARLY, 30_000))
    assert cut.validity is Validity.UNKNOWN
    assert cut.headline == "the run was cut short after 30.0 s of the planned 30 s of its main phase: why"


def test_a_violation_stays_one_and_the_headline_says_both() -> None:
    broken = Verdict(
        checker="linearizable", guarantee="linearizable", validity=Validity.INVALID, anomalies={"stale-read": Traced(1)}
    )
    cut = judged(noted(tale(), STOPPED_EARLY, 30_000), broken)
    assert cut.validity is Validity.INVALID
    assert cut.headline == (
        "linearizable (promised) is violated: 1 stale read; "
        "the run was cut short after 30.0 s of the planned 30 s of its main phase: why"
    )
