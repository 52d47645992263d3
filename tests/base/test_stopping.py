"""A wish to end and an order: who asked, how often, and what acts on it."""

import contextlib
import io
import signal
import threading
from pathlib import Path

import pytest

from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.base.signals import StoppedTwice, StopRequest
from fencepost.harness.cli.output.progress import Progress
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import resolve_plan
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.run.conclude import ChildEnd, _unless_full, conclude_run
from fencepost.harness.run.execute import stopped_before_start


def test_asked_once_is_a_wish_and_by_hand_twice_an_order() -> None:
    stop = StopRequest()
    stop.request(by_hand=True)
    assert (stop.asked, stop.insisted) == (True, False)
    stop.request(by_hand=True)
    assert stop.insisted


def test_a_deadline_is_nobodys_insistence() -> None:
    stop = StopRequest()
    stop.request()
    stop.request(by_hand=True)
    assert not stop.insisted


def test_actions_act_only_while_they_are_wanted() -> None:
    stop = StopRequest()
    acted: list[int] = []
    with stop.on_request(lambda: acted.append(1)):
        stop.request()
    stop.request()
    assert acted == [1]


def test_the_deadline_asks_by_itself_and_is_taken_back() -> None:
    stop = StopRequest()
    asked = threading.Event()
    with stop.on_request(asked.set), stop.deadline("1s"):
        assert asked.wait(30)
    assert stop.asked
    late = StopRequest()
    with late.deadline("10h"):
        pass
    with late.deadline(""):
        assert not late.asked
    with pytest.raises(UsageError), late.deadline("soon"):
        pass


def test_signals_are_given_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    stop = StopRequest()
    stop.install()
    assert signal.getsignal(signal.SIGINT) is not before[0]
    signal.raise_signal(signal.SIGINT)
    assert stop.asked
    stop.uninstall()
    stop.uninstall()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_terminal_that_goes_away_is_a_wish_however_often_it_is_told() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    stop = StopRequest()
    stop.install()
    try:
        for _ in range(2):
            signal.raise_signal(signal.SIGHUP)
        assert (stop.asked, stop.insisted) == (True, False)
    finally:
        stop.uninstall()
        assert signal.signal(signal.SIGHUP, before) is signal.SIG_DFL


def test_under_nohup_it_is_none() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = StopRequest()
    stop.install()
    try:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.asked
    finally:
        stop.uninstall()
        assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN


def test_progress_on_a_terminal_that_went_away_ends_no_run() -> None:
    went_on = False
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as gone:
        Progress(gone)({"topic": "phase", "phase": "main", "left_s": 30})
        went_on = True
    assert went_on


def test_a_runner_that_left_no_history_is_a_failure_of_the_harness(tmp_path: Path) -> None:
    plan = resolve_plan(Plan(system="example", workload="register", seed=1, nemesis="none"))
    with pytest.raises(HarnessError, match="left no history"):
        conclude_run(plan, RunRecord.read(tmp_path), ChildEnd(), progress=lambda _: None, stop=StopRequest())


@pytest.mark.parametrize(
    ("by_hand", "code", "said"), [(True, 130, "stopped before"), (False, 255, "--deadline 20s had passed")]
)
def test_a_run_that_was_stopped_before_it_recorded_anything_is_told_so(by_hand: bool, code: int, said: str) -> None:
    error = stopped_before_start("20s", by_hand=by_hand)
    assert error.exit_code == code
    assert said in error.message


def test_no_guard_against_defects_takes_an_order_for_one(tmp_path: Path) -> None:
    stop = StopRequest()
    stop.check()
    stop.request(by_hand=True)
    stop.check()
    stop.request(by_hand=True)
    warnings: list[str] = []
    path = tmp_path / "report.html"

    def write_half() -> None:
        with _unless_full(path, warnings), contextlib.suppress(Exception):
            path.write_text("half of it")
            stop.check()

    with pytest.raises(StoppedTwice):
        write_half()
    assert not path.exists(), "no half of a file is left"
    assert warnings == []


def test_phases_whose_length_is_a_deadline_are_told_so() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    for phase in ("main", "settle", "final"):
        progress({"topic": "phase", "phase": phase, "left_s": 30.0})
    assert stream.getvalue() == "  main (30 s)\n  settle (at most 30 s)\n  final (at most 30 s)\n"


def test_an_order_before_the_verdict_says_how_the_run_is_judged_later(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("")
    stop = StopRequest()
    stop.request(by_hand=True)
    stop.request(by_hand=True)
    plan = resolve_plan(Plan(system="example", workload="register", seed=1))
    with pytest.raises(StoppedTwice, match=f"fencepost check {tmp_path}"):
        conclude_run(plan, RunRecord(tmp_path, {}), ChildEnd(recorded=True), progress=lambda _: None, stop=stop)
