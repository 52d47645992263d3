"""Replay and shrink without a cluster: the search on planted bugs, the state that goes on, the counts, the refusals."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.campaigns.commands.replay import carry_by
from fencepost.campaigns.commands.replay import replay as replay_command
from fencepost.campaigns.commands.shrink import say_shrunk
from fencepost.campaigns.replay.recorded import Recorded, read_recorded
from fencepost.campaigns.replay.reductions import ReducedPlan, dropped, idle_time, load, narrowing
from fencepost.campaigns.replay.replaying import Replay, replay
from fencepost.campaigns.replay.search import TRIES_MAX, Tries, ddmin, decide, minimise
from fencepost.campaigns.replay.shrink_state import SMALLER, Shrunk
from fencepost.campaigns.replay.shrinking import Shrinking
from fencepost.campaigns.replay.tries import Carrier, Try, resemblance
from fencepost.harness.base.errors import ExitCode, HarnessError, UsageError
from fencepost.harness.cli import main
from fencepost.harness.history import OpEvent, Outcome, PhaseEvent, PhaseName
from fencepost.harness.plan import Plan, read_plan, write_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.schedule_rows import Row, injected, read_rows, write_rows
from fencepost.harness.verdict import Validity
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


class Fake:
    """A system whose planted bug needs two of the eight faults, whatever the load; a try takes ten seconds."""

    def __init__(self, rate: float = 1.0, *, stop_after: int | None = None, needed: frozenset[str] = NEEDED) -> None:
        self._draw = random.Random(3)
        self.rate = rate
        self.needed = needed
        self.now_s = 0.0
        self.plans: list[Plan] = []
        self.stop_after = stop_after
        self.why: list[str | None] = []

    def carry(self, checked: CheckedPlan, folder: Path) -> Try:
        plan = checked.plan
        self.plans.append(plan)
        self.now_s += 10
        rows = injected(read_rows(Path(plan.schedule))) if plan.schedule else []
        shown = {r["spec"] for r in rows} >= self.needed and self._draw.random() < self.rate
        why = self.why.pop() if self.why else "stopped by hand" if self.stopped() else None
        return Try(
            folder=f"{len(self.plans)}", validity="invalid", fingerprints=(BUG,) if shown else (), seconds=10, why=why
        )

    def stopped(self) -> bool:
        return self.stop_after is not None and len(self.plans) >= self.stop_after


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    rows = [row(text, 1 + 3 * n, number=n) for n, text in enumerate(EIGHT)]
    path = written(tmp_path, *rows)
    checked = check_plan(msgspec.structs.replace(plan_with(path), time_limit="30s"))
    return Recorded(folder=tmp_path / "slug" / "when", checked=checked, rows=tuple(injected(rows)), shown=())


def shrink(recorded: Recorded, results: Path, fake: Fake, budget_s: float = 10_000) -> tuple[Shrunk, list[str]]:
    said: list[str] = []
    carrier = Carrier(carry=fake.carry, stopped=fake.stopped, say=said.append, clock_s=lambda: fake.now_s)
    return Shrinking(recorded, BUG, results, budget_s=budget_s, carrier=carrier).run(), said


@pytest.mark.parametrize("rate", [1.0, 0.6])
def test_shrink_finds_the_two_faults_then_less_load_and_confirms_in_ten_fresh_runs(
    recorded: Recorded, tmp_path: Path, rate: float
) -> None:
    fake = Fake(rate)
    shrunk, _ = shrink(recorded, tmp_path, fake)
    assert {r["spec"] for r in shrunk.best.rows} == NEEDED
    assert shrunk.complete
    assert shrunk.confirmed
    assert shrunk.confirmation is not None
    assert shrunk.confirmation[1] == 10
    smaller = check_plan(read_plan(shrunk.folder / SMALLER, seed=0)).plan
    assert smaller.nemesis == "kill:n2,pause:n3"
    if rate == 1.0:
        assert smaller.workload_options["adders_per_node"] == 1
    assert smaller.duration_ns("time_limit") < 10 * S
    assert {plan.nemesis for plan in fake.plans[-10:]} == {smaller.nemesis}
    document = json.loads((shrunk.folder / "shrink.json").read_text())
    assert document["confirmation"]["of"] == 10
    assert document["faults"] == {"before": 8, "after": 2}
    assert sum(kept["confirms"] for kept in document["tries"]) == 10
    assert sum(line.startswith("left out: ") for line in document["dropped"]) == 6


def test_a_fault_that_waits_for_a_phase_is_not_tried_without_the_migration(tmp_path: Path) -> None:
    """`check_plan` refuses such a plan: a search must not end with that."""
    texts = ("migrate:all:until=hybrid:hold=1s", "kill:b1:when=hybrid", "pause:leader:when=hybrid", "kill:z1")
    rows = [row(text, 1 + 3 * n, number=n) for n, text in enumerate(texts)]
    path = written(tmp_path, *rows)
    plan = msgspec.structs.replace(plan_with(path), system="kafka-bridge", workload="metadata", time_limit="30s")
    whole = Recorded(folder=tmp_path / "a" / "b", checked=check_plan(plan), rows=tuple(injected(rows)), shown=())
    fake = Fake(needed=frozenset(texts[:2]))
    shrunk, _ = shrink(whole, tmp_path, fake)
    assert [each["spec"] for each in shrunk.best.rows] == list(texts[:2])
    assert shrunk.confirmed
    assert all("migrate" in tried.nemesis for tried in fake.plans if "when=" in tried.nemesis)


def test_shrink_cuts_time_first_and_tells_what_each_stage_may_take(recorded: Recorded, tmp_path: Path) -> None:
    fake = Fake()
    shrunk, said = shrink(recorded, tmp_path, fake)
    lengths = [plan.duration_ns("time_limit") for plan in fake.plans]
    assert lengths[3] > lengths[4], "as soon as it is known how often the whole shows"
    begun = [line.partition(":")[0] for line in said if "smaller plan" in line]
    assert begun[:2] == ["time", "faults"]
    assert "load" in begun
    assert "faults: up to 16 smaller plans, each 2 to 4 tries of 10 s: 5 min 20 s to 11 min" in said
    (over,) = [line for line in said if line.startswith("faults: less after ")]
    assert f"; {len(shrunk.best.rows)} faults, " in over
    assert over.endswith(" min of the budget left")
    assert sum(not plan.schedule for plan in fake.plans) == 1, "without any fault once"


@pytest.mark.parametrize("stop_after", [1, 7, 45])
def test_stopped_anywhere_it_goes_on_to_the_same_end(recorded: Recorded, tmp_path: Path, stop_after: int) -> None:
    straight, _ = shrink(recorded, tmp_path / "straight", whole := Fake())
    stopped, _ = shrink(recorded, tmp_path / "broken", first := Fake(stop_after=stop_after))
    assert stopped.stopped
    assert len(first.plans) == stop_after
    after, said = shrink(recorded, tmp_path / "broken", second := Fake())
    assert said[0] == f"going on: {stop_after} tries are there"
    assert after.best.key == straight.best.key
    assert after.confirmed
    # The try that was under way when it was stopped does not count, and is made again.
    assert len(first.plans) + len(second.plans) == len(whole.plans) + 1
    again, _ = shrink(recorded, tmp_path / "broken", third := Fake())
    assert again.confirmed
    assert third.plans == [], "a search that is over makes no more runs"


def test_the_budget_leaves_time_for_the_confirmation_and_a_new_one_goes_on(recorded: Recorded, tmp_path: Path) -> None:
    shrunk, _ = shrink(recorded, tmp_path, fake := Fake(), budget_s=450)
    assert not shrunk.complete
    assert shrunk.confirmed
    assert len(shrunk.best.rows) < 8
    assert fake.now_s <= 450
    shrunk, _ = shrink(recorded, tmp_path, Fake())
    assert shrunk.complete
    assert {r["spec"] for r in shrunk.best.rows} == NEEDED


class Timed(Fake):
    """One whose tries take as long as their main phase, and eight seconds around it."""

    def carry(self, checked: CheckedPlan, folder: Path) -> Try:
        seconds = checked.plan.duration_ns("time_limit") / S + 8
        made = super().carry(checked, folder)
        self.now_s += seconds - made.seconds
        return msgspec.structs.replace(made, seconds=seconds)


def test_three_minutes_are_enough_for_less_time_and_its_confirmation(recorded: Recorded, tmp_path: Path) -> None:
    """Of a run with one fault in 12 s: few runs as it was, then shorter ones, for which time to confirm is kept."""
    fake = Timed()
    plan = msgspec.structs.replace(recorded.plan, time_limit="12s")
    rows = tuple(r for r in recorded.rows if r["spec"] in NEEDED)
    rows = tuple({**r, "at_ns": (1 + n) * S} for n, r in enumerate(rows))
    short = msgspec.structs.replace(recorded, checked=replace(recorded.checked, plan=plan), rows=rows)
    shrunk, _ = shrink(short, tmp_path, fake, budget_s=180)
    assert shrunk.baseline == (1, 1)
    assert shrunk.smaller
    assert shrunk.confirmed
    assert fake.now_s <= 180


def test_a_budget_for_nothing_says_so_and_a_bug_that_does_not_show_again_too(
    recorded: Recorded, tmp_path: Path
) -> None:
    short, _ = shrink(recorded, tmp_path / "a", fake := Fake(), budget_s=20)
    assert (len(fake.plans), short.smaller, short.complete, short.confirmation) == (1, False, False, None)
    never, _ = shrink(recorded, tmp_path / "b", fake := Fake(0.0))
    assert (len(fake.plans), never.smaller, never.baseline) == (10, False, (0, 10))


def test_tries_that_the_harness_failed_in_do_not_count_and_three_in_a_row_end_it(
    recorded: Recorded, tmp_path: Path
) -> None:
    fake = Fake()
    fake.why = ["no memory", "no memory"]
    shrunk, _ = shrink(recorded, tmp_path / "a", fake)
    assert shrunk.confirmed
    assert shrunk.baseline == (4, 4)
    fake = Fake()
    fake.why = ["no memory"] * 3
    with pytest.raises(HarnessError, match="no memory"):
        shrink(recorded, tmp_path / "b", fake)


def test_a_state_that_cannot_be_read_and_a_second_search_are_refused(recorded: Recorded, tmp_path: Path) -> None:
    shrunk, _ = shrink(recorded, tmp_path, Fake(stop_after=1))
    path = shrunk.folder / "shrink.json"

    def nested(checked: CheckedPlan, folder: Path) -> Try:
        shrink(recorded, tmp_path, Fake())
        raise AssertionError

    fake = Fake()
    fake.carry = nested  # type: ignore[method-assign]  # what a second command would find
    with pytest.raises(UsageError, match="being shrunk already"):
        shrink(recorded, tmp_path, fake)
    path.write_text(json.dumps({"format": 1, "tries": [{"candidate": 5}]}))
    with pytest.raises(UsageError, match=r"shrink\.json"):
        shrink(recorded, tmp_path, Fake())
    path.write_text(json.dumps({"format": 9}))
    with pytest.raises(UsageError, match="format 9 where 1"):
        shrink(recorded, tmp_path, Fake())


# -- replaying ----------------------------------------------------------------------------------------------------


def again(
    recorded: Recorded,
    results: Path,
    carry: Callable[[CheckedPlan, Path], Try],
    fingerprint: str | None = BUG,
    **how: Any,
) -> Replay:
    how = {"times": 5, "until_invalid": False, **how}
    carrier = Carrier(carry=carry, stopped=lambda: False, say=lambda _: None)
    return replay(recorded, fingerprint, results, carrier=carrier, **how)


def test_replay_counts_the_same_fingerprint_among_the_runs_that_count(recorded: Recorded, tmp_path: Path) -> None:
    fake = Fake()
    fake.why = [None, "no memory"]
    done = again(recorded, tmp_path, fake.carry)
    document = json.loads((done.folder / "replay.json").read_text())
    assert (document["shown"], document["of"], len(document["tries"])) == (4, 4, 5)
    assert document["interval_95"] == [0.3976, 1.0]
    assert document["tries"][0]["why"] == "no memory"
    assert all(plan.schedule == recorded.plan.schedule for plan in fake.plans)


def test_replay_ends_with_the_first_invalid_run_where_that_is_asked(recorded: Recorded, tmp_path: Path) -> None:
    found = iter(["valid", "unknown", "invalid", "valid"])

    def carry(checked: CheckedPlan, folder: Path) -> Try:
        return Try(folder="x", validity=next(found), fingerprints=())

    done = again(recorded, tmp_path, carry, None, until_invalid=True)
    assert [made.validity for made in done.tries] == ["valid", "unknown", "invalid"]
    assert done.document()["shown"] is None


def test_how_much_of_a_schedule_came_again_is_told(tmp_path: Path) -> None:
    rows = [row("kill:one"), row("kill:one", 3, number=1), row("kill:one", 5, number=2)]
    write_rows([rows[0], {**rows[2], "nodes": ["n3"]}], tmp_path / "schedule.jsonl")
    found = resemblance(rows, tmp_path / "schedule.jsonl")
    assert (found.faults, found.injected, found.same_targets) == (3, 2, 1)
    write_rows([{**r, "details": {"client_worker": 5}} for r in rows], tmp_path / "schedule.jsonl")
    assert resemblance(rows, tmp_path / "schedule.jsonl").same_targets == 0, "another client is another target"
    assert resemblance(rows, tmp_path / "none.jsonl").injected == 0


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


def test_what_came_of_it_is_said_with_the_command_that_runs_it(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shrunk, _ = shrink(recorded, tmp_path, Fake())
    say_shrunk(shrunk)
    said = capsys.readouterr().out
    assert "as it was, it shows in 4 of 4, 95 % interval 40 to 100 %" in said
    assert "smaller: 2 of 8 faults" in said
    assert "in fresh runs it shows in 10 of 10, 95 % interval 69 to 100 %" in said
    assert f"fencepost run {tmp_path / 'shrink-slug' / 'when' / SMALLER}" in said
    assert "NOT confirmed" not in said
    shrunk.confirmation = (1, 10)
    assert not shrunk.confirmed, "the search took it for showing, and fresh runs say otherwise"
    say_shrunk(shrunk)
    assert "NOT confirmed" in capsys.readouterr().out


def test_a_budget_that_is_too_short_is_told_with_what_it_takes(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shrunk, _ = shrink(recorded, tmp_path, Fake(), budget_s=20)
    say_shrunk(shrunk)
    assert "a try takes about 10 s" in capsys.readouterr().out


def _executing(*validities: str) -> Callable[[CheckedPlan, Path], Any]:
    """`execute` of a session, with runs that end so; "" for a harness that fails."""
    left = list(validities)
    codes = {"valid": 0, "invalid": 1, "unknown": 2, "unknown (contradiction)": ExitCode.INTERNAL}

    def execute(checked: CheckedPlan, folder: Path) -> Any:
        validity = left.pop(0)
        if not validity:
            raise HarnessError("the cluster did not start")
        run = folder / "some-run" / str(len(left))
        run.mkdir(parents=True)
        shown = [{"fingerprints": [BUG, "etcd:other"]}] if validity == "invalid" else []
        return SimpleNamespace(
            folder=run,
            judgement=SimpleNamespace(validity=Validity(validity.split()[0]), exit_code=codes[validity]),
            document={"anomalies": shown},
        )

    return execute


@pytest.mark.parametrize(
    ("validities", "code", "said"),
    [
        (("invalid", "valid"), 1, "the same fingerprint in 1 of 2, 95 % interval 1 to 99 %"),
        (("valid", "unknown"), 2, "2 runs: 1 valid, 1 unknown"),
        (("valid", ""), 0, "1 runs: 1 valid; 1 not counted"),
        (("", ""), 255, "0 runs: none; 2 not counted"),
        (("valid", "unknown (contradiction)"), 255, "checkers contradict each other, a defect of fencepost, in: some"),
        (("invalid", "unknown (contradiction)"), 1, "checkers contradict each other, a defect of fencepost, in: some"),
    ],
)
def test_replay_exits_as_several_runs_do_and_says_what_was_counted(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], validities: tuple[str, ...], code: int, said: str
) -> None:
    def never() -> bool:
        return False

    found = replay_command(
        kept, tmp_path / "results", times=2, until_invalid=False, fingerprint=None, as_json=False,
        carrier=Carrier(carry=carry_by(_executing(*validities), never), stopped=never, say=lambda _: None),
    )  # fmt: skip
    assert found == code
    assert said in capsys.readouterr().out


def test_a_run_that_was_stopped_by_hand_is_no_try_but_what_it_proved_counts_for_the_exit(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked() -> bool:
        return True

    found = replay_command(
        kept, tmp_path / "results", times=5, until_invalid=False, fingerprint=None, as_json=True,
        carrier=Carrier(carry=carry_by(_executing("invalid"), asked), stopped=asked, say=lambda _: None),
    )  # fmt: skip
    assert found == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["shown"], document["of"], document["interval_95"]) == (0, 0, [0.0, 1.0])
    assert document["tries"][0]["why"] == "stopped by hand"
