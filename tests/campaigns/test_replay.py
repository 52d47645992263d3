"""Replay and shrink without a cluster: the search on planted bugs, the state that goes on, the counts, the refusals."""

import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.campaigns.commands import carrying_out
from fencepost.campaigns.night import session
from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.launcher import Left
from fencepost.campaigns.night.night import NightState, RunAttempt
from fencepost.campaigns.night.preparation import PreparedBuilds
from fencepost.campaigns.night.register import night_of, read_register
from fencepost.campaigns.night.run_class import RunEvidence
from fencepost.campaigns.night.session import JOURNAL, NightWishes
from fencepost.campaigns.replay.recorded import Recorded, read_recorded, resemblance
from fencepost.campaigns.replay.reductions import ReducedPlan, dropped, idle_time, load, narrowing
from fencepost.campaigns.replay.search import TRIES_MAX, Tries, ddmin, decide, minimise
from fencepost.campaigns.replay.shrink_command import say_shrunk
from fencepost.campaigns.replay.shrinking import SMALLER, Shrinking, Shrunk
from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.cli import main
from fencepost.harness.findings.rate import Rate
from fencepost.harness.history import OpEvent, Outcome, PhaseEvent, PhaseName
from fencepost.harness.plan import Plan, read_plan, write_plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.schedule_rows import Row, injected, read_rows, write_rows
from tests.campaigns.night.made import Clock, PretendedLauncher, document
from tests.faults.test_given_schedule import plan_with, row, written
from tests.runs.test_found import FOUND

S = 10**9
BUG = "etcd:no-lost-acknowledged-writes:lost-write:members+change:none"


# -- the search ---------------------------------------------------------------------------------------------------


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_ddmin_finds_exactly_what_is_needed(case: tuple[int, set[int]]) -> None:
    count, needed = case
    found = ddmin(tuple(range(count)), lambda kept: needed <= set(kept))
    assert set(found) == needed
    assert list(found) == sorted(found)


def _shrunk_by(rate: float, seed: int, needed: frozenset[int]) -> tuple[tuple[int, ...], int]:
    """What is left of eight faults when a bug that needs `needed` shows in `rate` of the tries; and how many tries."""
    draw = random.Random(f"{rate}/{seed}")
    tries = 0

    def attempt(kept: tuple[int, ...]) -> bool:
        nonlocal tries
        tries += 1
        return needed <= set(kept) and draw.random() < rate

    evidence = Tries(attempt)
    whole = tuple(range(8))
    assert evidence.baseline(whole)
    return minimise(whole, lambda kept: kept, evidence), tries


@pytest.mark.parametrize("pair", [(a, b) for a in range(8) for b in range(a)])
def test_a_bug_that_needs_exactly_two_of_eight_faults_is_reduced_to_those_two(pair: tuple[int, int]) -> None:
    found, tries = _shrunk_by(1.0, 0, frozenset(pair))
    assert set(found) == set(pair)
    assert tries <= 100, "two tries tell of a bug that always shows, three of one that is gone"


def test_a_bug_that_shows_in_six_of_ten_tries_is_reduced_to_its_two_faults_as_well() -> None:
    runs = [_shrunk_by(0.6, seed, frozenset({2, 5})) for seed in range(200)]
    assert all({2, 5} <= set(found) for found, _ in runs), "what cannot show is never taken"
    exact = sum(set(found) == {2, 5} for found, _ in runs)
    assert exact >= 190


def test_no_faults_at_all_are_tried_once() -> None:
    """Every try of it is the whole run's length, and tells nothing of the faults that are needed."""
    for needed in (frozenset({2}), frozenset({2, 5})):
        kept: list[tuple[int, ...]] = []

        def attempt(items: tuple[int, ...], needed: frozenset[int] = needed, kept: list[Any] = kept) -> bool:
            kept.append(items)
            return needed <= set(items)

        evidence = Tries(attempt)
        assert evidence.baseline(tuple(range(8)))
        assert set(minimise(tuple(range(8)), lambda items: items, evidence)) == needed
        assert kept.count(()) == 1


def test_a_bug_that_needs_no_fault_is_found_to_need_none() -> None:
    assert _shrunk_by(1.0, 0, frozenset())[0] == ()


@given(st.lists(st.booleans(), max_size=30), st.floats(0.05, 0.95))
def test_a_decision_once_made_stays_and_comes_in_time(outcomes: list[bool], rate: float) -> None:
    told = [decide(outcomes[:n], rate) for n in range(len(outcomes) + 1)]
    first = next((n for n, answer in enumerate(told) if answer is not None), None)
    assert told[0] is None
    if first is None:
        assert len(outcomes) < TRIES_MAX
    else:
        assert set(told[first:]) == {told[first]}
        assert told[first] is not True or any(outcomes), "never without having shown"


def test_tries_that_are_known_are_not_made_again() -> None:
    made: list[str] = []

    def attempt(key: str) -> bool:
        made.append(key)
        return True

    evidence = Tries(attempt, known=[*[("whole", True)] * 4, ("half", True)])
    assert evidence.baseline("whole")
    assert evidence.enough("half")
    assert made == ["half"]


# -- reductions ---------------------------------------------------------------------------------------------------


def candidate(*rows: Row, **more: Any) -> ReducedPlan:
    plan = Plan(
        system="etcd",
        workload="set",
        seed=1,
        time_limit="20s",
        workload_options={"rate": 400.0, "adders_per_node": 8, "members_every": "1s"},
        **more,
    )
    return ReducedPlan(plan=plan, rows=rows)


def test_load_is_offered_from_the_least_on() -> None:
    whole = candidate(row("kill:one", 6), row("pause:one", 12, number=1))
    offers = {reduction.name: list(reduction.offers(whole)) for reduction in (*idle_time(whole), *load(whole))}
    assert [o.plan.workload_options["adders_per_node"] for o in offers["adders_per_node"]] == [1, 2, 4]
    assert [o.plan.workload_options["rate"] for o in offers["rate"]] == [50.0, 100.0, 200.0]
    assert [o.plan.time_limit for o in offers["time_limit"]] == ["14s"]
    assert [[r["at_ns"] / S for r in o.rows] for o in offers["idle time"]] == [[1, 3], [1, 7]]
    assert [o.plan.time_limit for o in offers["idle time"]] == ["11s", "15s"]


def test_faults_are_narrowed_in_target_length_and_quantities() -> None:
    whole = candidate({**row("toxic:all:for=4s:latency=100ms:toxicity=0.5"), "duration_ns": 4 * S})
    offers = {r.name.partition(" of ")[0]: [o.rows[0]["spec"] for o in r.offers(whole)] for r in narrowing(whole)}
    assert offers["target"][0] == "toxic:one:for=4s:latency=100ms:toxicity=0.5"
    assert offers["length"] == [f"toxic:all:for={t}:latency=100ms:toxicity=0.5" for t in ("500ms", "1s", "2s")]
    assert offers["latency"][-1] == "toxic:all:for=4s:latency=50ms:toxicity=0.5"
    assert offers["toxicity"][-1] == "toxic:all:for=4s:latency=100ms:toxicity=0.25"
    late = candidate(row("kill:one:when=leader+1s:within=2s", nominal_ns=S, when={"trigger": "leader+1s"}))
    assert {r.name.partition(" of ")[0] for r in narrowing(late)} == {"target", "length"}


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=6))
def test_faults_keep_their_order_lengths_and_overlaps_when_idle_time_goes(spans: list[tuple[int, int]]) -> None:
    rows = [{**row("kill:one", at, number=n), "duration_ns": length * S} for n, (at, length) in enumerate(spans)]
    whole = candidate(*rows)
    (idle,) = [r for r in idle_time(whole) if r.name == "idle time"]
    for offer in idle.offers(whole):
        assert all(r["at_ns"] >= 0 for r in offer.rows)
        for a, b in ((a, b) for a in range(len(rows)) for b in range(len(rows))):
            before, after = rows[b]["at_ns"] - rows[a]["at_ns"], offer.rows[b]["at_ns"] - offer.rows[a]["at_ns"]
            assert (before > 0) >= (after > 0)
            assert after == before if 0 <= before <= rows[a]["duration_ns"] else after <= max(before, 0) or before < 0


def test_the_key_tells_apart_what_does_something_else_and_nothing_else() -> None:
    one = candidate(row("kill:one"))
    same = candidate({**row("kill:one"), "nodes": ["n3"], "time_ns": 5})
    assert one.key == same.key
    others = [
        candidate(),
        candidate(row("kill:all")),
        candidate(row("kill:one", 2)),
        candidate({**row("kill:one"), "draw_seed": 8}),
        candidate(row("kill:one"), nodes=5),
    ]
    assert len({one.key, *(other.key for other in others)}) == 6


def test_what_was_dropped_is_said() -> None:
    whole = candidate(row("kill:one:for=1s", 2), row("pause:all", 4, number=1))
    less = candidate({**row("kill:one:for=500ms", 1), "duration_ns": S // 2}).with_options(adders_per_node=1)
    less = msgspec.structs.replace(less, plan=msgspec.structs.replace(less.plan, time_limit="3s"))
    assert dropped(whole, less) == [
        "narrowed: kill:one:for=1s for 1s to kill:one:for=500ms for 500ms",
        "left out: pause:all at 4.0 s",
        "time_limit: 20s to 3s",
        "adders_per_node: 8 to 1",
    ]


# -- shrinking a fake system --------------------------------------------------------------------------------------

EIGHT = ("kill:n1", "kill:n2", "kill:n3", "pause:n1", "pause:n2", "pause:n3", "kill:all", "pause:leader")
NEEDED = frozenset({"kill:n2", "pause:n3"})


class Fake(PretendedLauncher):
    """A system whose planted bug needs two of the eight faults, whatever the load; a try takes ten seconds."""

    def __init__(
        self, rate: float = 1.0, *, stop_after: int | None = None, needed: frozenset[str] = NEEDED, around_s: float = -1
    ) -> None:
        super().__init__(Clock(), self.play)
        self._draw = random.Random(3)
        self.rate, self.needed, self.stop_after, self.around_s = rate, needed, stop_after, around_s
        self.plans: list[Plan] = []
        #: How the next runs end, the last first: a validity, or "" for a harness that fails; then by the planted bug.
        self.ends: list[str] = []
        self.crash = False

    def play(self, cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        plan = cell.plan
        self.plans.append(plan)
        if len(self.plans) == self.stop_after:
            if self.crash:
                raise Killed
            os.kill(os.getpid(), signal.SIGINT)
        rows = injected(read_rows(Path(plan.schedule))) if plan.schedule else []
        shown = {r["spec"] for r in rows} >= self.needed and self._draw.random() < self.rate
        validity = self.ends.pop() if self.ends else "invalid"
        seconds = 10 if self.around_s < 0 else plan.duration_ns("time_limit") / S + self.around_s
        if not validity:
            return seconds, 255, None
        code = {"valid": 0, "invalid": 1, "unknown": 2, "unknown (contradiction)": 255}[validity]
        fingerprints = (BUG,) if shown and validity == "invalid" else ()
        cause = "nothing-tested" if code else None
        made = document(validity.split()[0], fingerprints=fingerprints, exit_code=code, cause=cause)
        return seconds, code, {**made, "system": plan.system, "workload": plan.workload, "seed": attempt.seed}

    def left(self, attempt: RunAttempt, exit_code: int | None) -> Left:
        verdict = self.verdicts.get(attempt.key)
        evidence = RunEvidence(exit_code=exit_code, document=verdict, failure="" if verdict else "no memory")
        return Left(evidence=evidence, report=f"{attempt.folder}/some-run/when/report.html" if verdict else "")


class Killed(BaseException):
    """The command's process ends here."""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fake], None]:
    """Lets commands make their runs by a fake launcher, on its clock."""
    monkeypatch.setattr(carrying_out, "prepare", lambda *_: PreparedBuilds(builds={}, refusals={}))
    monkeypatch.setattr(os, "fsync", lambda _: None)

    def use(fake: Fake) -> None:
        monkeypatch.setattr(session, "ProcessLauncher", lambda folder: fake)
        monkeypatch.setattr(session.NightSession, "clock_s", fake.clock)

    return use


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    rows = [row(text, 1 + 3 * n, number=n) for n, text in enumerate(EIGHT)]
    path = written(tmp_path, *rows)
    checked = check_plan(msgspec.structs.replace(plan_with(path), time_limit="30s"))
    return Recorded(folder=tmp_path / "slug" / "when", checked=checked, rows=tuple(injected(rows)), shown=())


Shrink = Callable[..., Shrunk]


@pytest.fixture
def shrink(recorded: Recorded, engine: Callable[[Fake], None]) -> Shrink:
    def carry_out(results: Path, fake: Fake, budget_s: float = 10_000, of: Recorded = recorded) -> Shrunk:
        engine(fake)
        search = Shrinking(of, BUG, results, budget_s=budget_s)
        wishes = NightWishes(budget_s=budget_s, seed=of.plan.seed, results=results, jobs=1, repeats=True)
        night = carrying_out.carry_out(search, wishes)
        shrunk = search.shrunk(night)
        say_shrunk(shrunk, search, stopped=night.state is NightState.STOPPED)
        return shrunk

    return carry_out


def tried(folder: Path) -> list[RunAttempt]:
    return night_of(read_register(next(folder.glob("shrink-*/*")) / JOURNAL)).attempts


@pytest.mark.parametrize("rate", [1.0, 0.6])
def test_shrink_finds_the_two_faults_then_less_load_and_confirms_in_ten_fresh_runs(
    shrink: Shrink, recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str], rate: float
) -> None:
    fake = Fake(rate)
    shrunk = shrink(tmp_path, fake)
    assert {r["spec"] for r in shrunk.best.rows} == NEEDED
    assert shrunk.complete and shrunk.confirmed
    assert shrunk.confirmation.runs == 10
    folder = tmp_path / "shrink-slug" / "when"
    smaller = check_plan(read_plan(folder / SMALLER, seed=0)).plan
    assert smaller.nemesis == "kill:n2,pause:n3"
    assert smaller.duration_ns("time_limit") < 10 * S
    assert {(plan.nemesis, plan.seed) for plan in fake.plans[-10:]} == {(smaller.nemesis, recorded.plan.seed)}
    document = json.loads((folder / "shrink.json").read_text())
    assert (document["confirmation"]["of"], document["tries"]) == (10, len(fake.plans))
    assert document["faults"] == {"before": 8, "after": 2}
    assert sum(attempt.cell.endswith("-confirming") for attempt in tried(tmp_path)) == 10
    assert sum(line.startswith("left out: ") for line in document["dropped"]) == 6
    said = capsys.readouterr().out
    assert f"smaller: 2 of 8 faults, {smaller.time_limit}\n" in said and "NOT confirmed" not in said
    assert f"fencepost run {folder / SMALLER}" in said
    if rate == 1.0:
        assert smaller.workload_options["adders_per_node"] == 1
        assert "as it was, it shows in 4 of 4, 95 % interval 40 to 100 %" in said
        assert "in fresh runs it shows in 10 of 10, 95 % interval 69 to 100 %" in said
    shrunk.confirmation = Rate(1, 10)
    assert not shrunk.confirmed, "the search took it for showing, and fresh runs say otherwise"


def test_a_fault_that_waits_for_a_phase_is_not_tried_without_the_migration(shrink: Shrink, tmp_path: Path) -> None:
    """`check_plan` refuses such a plan: a search must not end with that."""
    texts = ("migrate:all:until=hybrid:hold=1s", "kill:b1:when=hybrid", "pause:leader:when=hybrid", "kill:z1")
    rows = [row(text, 1 + 3 * n, number=n) for n, text in enumerate(texts)]
    path = written(tmp_path, *rows)
    plan = msgspec.structs.replace(plan_with(path), system="kafka-bridge", workload="metadata", time_limit="30s")
    whole = Recorded(folder=tmp_path / "a" / "b", checked=check_plan(plan), rows=tuple(injected(rows)), shown=())
    shrunk = shrink(tmp_path, fake := Fake(needed=frozenset(texts[:2])), of=whole)
    assert [each["spec"] for each in shrunk.best.rows] == list(texts[:2])
    assert shrunk.confirmed
    assert all("migrate" in plan.nemesis for plan in fake.plans if "when=" in plan.nemesis)


def test_shrink_cuts_time_first_and_tells_what_each_stage_may_take(
    shrink: Shrink, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shrunk = shrink(tmp_path, fake := Fake())
    lengths = [plan.duration_ns("time_limit") for plan in fake.plans]
    assert lengths[3] > lengths[4], "as soon as it is known how often the whole shows"
    said = capsys.readouterr().err.splitlines()
    begun = [line.partition(":")[0] for line in said if "smaller plan" in line]
    assert begun[:2] == ["time", "faults"]
    assert "load" in begun
    assert "faults: up to 16 smaller plans, each 2 to 4 tries of 10 s: 5 min 20 s to 11 min" in said
    (over,) = [line for line in said if line.startswith("faults: less after ")]
    assert f"; {len(shrunk.best.rows)} faults, " in over
    assert over.endswith(" min of the budget left")
    assert sum(line.endswith("; shows") for line in said) == sum(line.startswith("✗ invalid ") for line in said) - sum(
        line.endswith("; does not show") for line in said
    )
    assert sum(not plan.schedule for plan in fake.plans) == 1, "without any fault once"


@pytest.mark.parametrize(("stop_after", "crash"), [(1, False), (7, True), (45, False)])
def test_stopped_or_killed_anywhere_it_goes_on_to_the_same_end(
    shrink: Shrink, tmp_path: Path, capsys: pytest.CaptureFixture[str], stop_after: int, crash: bool
) -> None:
    straight = shrink(tmp_path / "straight", whole := Fake())
    first = Fake(stop_after=stop_after)
    first.crash = crash
    capsys.readouterr()
    if crash:
        with pytest.raises(Killed):
            shrink(tmp_path / "broken", first)
        with next(tmp_path.glob(f"broken/*/*/{JOURNAL}")).open("a") as journal:
            journal.write('{"record":"ended","att')
    else:
        shrink(tmp_path / "broken", first)
        assert "stopped: run the same command again to continue from here" in capsys.readouterr().out
    assert len(first.plans) == stop_after
    after = shrink(tmp_path / "broken", second := Fake())
    assert f"going on: {stop_after} tries are there; " in capsys.readouterr().err
    assert after.best.key == straight.best.key
    assert after.confirmed
    # A try that was lost with the process does not count, and is made again.
    assert len(first.plans) + len(second.plans) == len(whole.plans) + crash
    again = shrink(tmp_path / "broken", third := Fake())
    assert again.confirmed
    assert third.plans == [], "a search that is over makes no more runs"


def test_the_budget_leaves_time_for_the_confirmation_and_a_new_one_goes_on(shrink: Shrink, tmp_path: Path) -> None:
    shrunk = shrink(tmp_path, fake := Fake(), budget_s=450)
    assert not shrunk.complete
    assert shrunk.confirmed
    assert len(shrunk.best.rows) < 8
    assert fake.clock.now <= 450
    shrunk = shrink(tmp_path, Fake())
    assert shrunk.complete
    assert {r["spec"] for r in shrunk.best.rows} == NEEDED


def test_three_minutes_are_enough_for_less_time_and_its_confirmation(
    shrink: Shrink, recorded: Recorded, tmp_path: Path
) -> None:
    """Of a run with one fault in 12 s: few runs as it was, then shorter ones, for which time to confirm is kept."""
    fake = Fake(around_s=8)
    plan = msgspec.structs.replace(recorded.plan, time_limit="12s")
    rows = tuple(r for r in recorded.rows if r["spec"] in NEEDED)
    rows = tuple({**r, "at_ns": (1 + n) * S} for n, r in enumerate(rows))
    short = msgspec.structs.replace(recorded, checked=replace(recorded.checked, plan=plan), rows=rows)
    shrunk = shrink(tmp_path, fake, budget_s=180, of=short)
    assert shrunk.baseline == Rate(1, 1)
    assert shrunk.smaller
    assert shrunk.confirmed
    assert fake.clock.now <= 180


def test_a_budget_for_nothing_says_so_and_a_bug_that_does_not_show_again_too(
    shrink: Shrink, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = shrink(tmp_path / "a", fake := Fake(), budget_s=60)
    assert (len(fake.plans), short.smaller, short.complete, short.confirmation.runs) == (1, False, False, 0)
    assert "a try takes about 10 s" in capsys.readouterr().out
    never = shrink(tmp_path / "b", fake := Fake(0.0))
    assert (len(fake.plans), never.smaller, never.baseline) == (10, False, Rate(0, 10))
    assert "it did not show again" in capsys.readouterr().out


def test_tries_that_the_harness_failed_in_do_not_count_and_three_in_a_row_end_it(
    shrink: Shrink, tmp_path: Path
) -> None:
    fake = Fake()
    fake.ends = ["", ""]
    shrunk = shrink(tmp_path / "a", fake)
    assert shrunk.confirmed
    assert shrunk.baseline == Rate(4, 4)
    fake = Fake()
    fake.ends = [""] * 3
    with pytest.raises(HarnessError, match="no memory"):
        shrink(tmp_path / "b", fake)
    assert shrink(tmp_path / "b", Fake()).confirmed, "the next command tries again"


def test_a_second_search_and_the_state_of_an_earlier_version_are_refused(shrink: Shrink, tmp_path: Path) -> None:
    fake = Fake()

    def second(cell: NightCell, attempt: RunAttempt) -> Any:
        shrink(tmp_path, Fake())
        raise AssertionError

    fake.plays = second
    with pytest.raises(UsageError, match="another fencepost is running this"):
        shrink(tmp_path, fake)
    (journal,) = tmp_path.glob(f"shrink-*/*/{JOURNAL}")
    journal.unlink()
    (journal.parent / "shrink.json").write_text(json.dumps({"format": 1, "tries": []}))
    with pytest.raises(UsageError, match="of an earlier version"):
        shrink(tmp_path, Fake())


# -- replaying ----------------------------------------------------------------------------------------------------


@pytest.fixture
def again(kept: Path, tmp_path: Path, engine: Callable[[Fake], None]) -> Callable[..., int]:
    """The exit code of `fencepost replay` of a run whose fault is all that the planted bug needs."""

    def replay(fake: Fake, *arguments: str, times: int = 5) -> int:
        engine(fake)
        return main(["replay", str(kept), "--times", str(times), "--results", str(tmp_path / "results"), *arguments])

    return replay


KILL = frozenset({"kill:one:for=300ms"})


def test_replay_counts_the_same_fingerprint_among_the_runs_that_count(
    again: Callable[..., int], kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake(needed=KILL)
    fake.ends = ["invalid", ""]
    assert again(fake) == 1
    said = capsys.readouterr()
    counts = "the same fingerprint in 4 of 4, 95 % interval 40 to 100 %\n4 runs: 4 invalid; 1 not counted\n"
    assert said.out == counts
    assert "; 1 of 5, not counted" in said.err
    assert "; 2 of 5: the same fingerprint; 0 of 1 faults injected, 0 on the same targets" in said.err
    (folder,) = (tmp_path / "results" / "replay-some-run").iterdir()
    document = json.loads((folder / "replay.json").read_text())
    assert (document["shown"], document["of"], len(document["tries"])) == (4, 4, 5)
    assert document["interval_95"] == [0.3976, 1.0]
    assert document["tries"][0]["why"] == "no memory"
    assert {(plan.schedule, plan.seed) for plan in fake.plans} == {(str(kept / store.SCHEDULE), 1)}


def test_replay_ends_with_the_first_invalid_run_where_that_is_asked(
    again: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake(needed=KILL)
    fake.ends = ["valid", "invalid", "unknown", "valid"]
    assert again(fake, "--until-invalid", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert [made["validity"] for made in document["tries"]] == ["valid", "unknown", "invalid"]
    assert (document["shown"], document["of"]) == (1, 3)


def test_replay_that_is_stopped_ends_after_the_run_that_is_under_way(
    again: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert again(Fake(needed=KILL, stop_after=2)) == 1
    assert "2 runs: 2 invalid" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ends", "code", "said"),
    [
        (("invalid", "valid"), 1, "the same fingerprint in 1 of 2, 95 % interval 1 to 99 %"),
        (("valid", "unknown"), 2, "2 runs: 1 valid, 1 unknown"),
        (("valid", ""), 0, "1 runs: 1 valid; 1 not counted"),
        (("", ""), 255, "0 runs: none; 2 not counted"),
        (("valid", "unknown (contradiction)"), 255, "checkers contradict each other, a defect of fencepost, in: runs/"),
        (("invalid", "unknown (contradiction)"), 1, "checkers contradict each other, a defect of fencepost, in: runs/"),
    ],
)
def test_replay_exits_as_several_runs_do_and_says_what_was_counted(
    again: Callable[..., int], capsys: pytest.CaptureFixture[str], ends: tuple[str, ...], code: int, said: str
) -> None:
    fake = Fake(needed=KILL)
    fake.ends = [*reversed(ends)]
    assert again(fake, times=2) == code
    assert said in capsys.readouterr().out


def test_how_much_of_a_schedule_came_again_is_told(tmp_path: Path) -> None:
    rows = [row("kill:one"), row("kill:one", 3, number=1), row("kill:one", 5, number=2)]
    write_rows([rows[0], {**rows[2], "nodes": ["n3"]}], tmp_path / "schedule.jsonl")
    found = resemblance(rows, tmp_path)
    assert (found.faults, found.injected, found.same_targets) == (3, 2, 1)
    write_rows([{**r, "details": {"client_worker": 5}} for r in rows], tmp_path / "schedule.jsonl")
    assert resemblance(rows, tmp_path).same_targets == 0, "another client is another target"
    assert resemblance(rows, tmp_path / "none").injected == 0


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A run's folder as far as replay looks: an element is acknowledged, and missing from the final read."""
    folder = tmp_path / "some-run" / "20261121T000000.000Z"
    folder.mkdir(parents=True)
    events = [
        PhaseEvent(index=0, time_ns=0, phase=PhaseName.MAIN),
        *_operation(1, "add", 7),
        PhaseEvent(index=3, time_ns=3, phase=PhaseName.SETTLE),
        *_operation(4, "members", []),
    ]
    encoder = msgspec.json.Encoder()
    (folder / store.HISTORY_LINES).write_bytes(encoder.encode_lines(events))
    write_plan(Plan(system="etcd", workload="set", seed=1, nemesis="kill"), folder / store.PLAN)
    write_rows([row("kill:one:for=300ms")], folder / store.SCHEDULE)
    return folder


def _operation(index: int, f: str, value: Any) -> list[OpEvent]:
    common: dict[str, Any] = {"process": index, "f": f, "node": "n1", "key": "s"}
    return [
        OpEvent(index=index, time_ns=index, type=Outcome.INVOKE, value=None if f == "members" else value, **common),
        OpEvent(index=index + 1, time_ns=index + 1, type=Outcome.OK, value=value, **common),
    ]


def test_a_recorded_run_is_read_with_its_schedule_and_what_it_showed(kept: Path) -> None:
    found = read_recorded(kept)
    assert found.plan.nemesis == "kill:one:for=300ms"
    assert found.shown[0].fingerprints == (BUG,)
    assert found.rows[0]["nodes"] == ["n2"], "the node of then is kept as a fact"


@pytest.mark.parametrize("command", ["replay", "shrink"])
def test_what_is_no_run_or_has_no_schedule_that_fits_exits_254(
    command: str, kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(path: Path, *more: str) -> str:
        assert main([command, str(path), "--results", str(tmp_path / "results"), *more]) == 254
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert "hint: " in said
        return said

    assert "there is no run in this folder" in refused(tmp_path / "nowhere")
    assert f"there is no {store.SCHEDULE} in this folder" in refused(FOUND / "etcd-3.5.1-lost-writes")
    assert "does not show 'etcd:other'" in (said := refused(kept, "--fingerprint", "etcd:other"))
    assert BUG in said
    write_rows([row("kill:n7")], kept / store.SCHEDULE)
    assert "does not fit the plan" in refused(kept)
    (kept / store.SCHEDULE).write_text("{}\n")
    assert "schedule.jsonl, line 1: a line of format None where 2 was expected" in refused(kept)


def test_a_run_without_a_violation_has_nothing_to_shrink_to(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kept / store.HISTORY_LINES).write_bytes(b"")
    assert main(["shrink", str(kept), "--results", str(kept / "results")]) == 254
    assert "nothing to shrink to" in capsys.readouterr().err
    assert not (kept / "results").exists()
