"""Exploring on a pretended clock: what comes next, what a run reached, and a bug behind two rare features."""

import random
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from fencepost.campaigns.explore.corpus import FRESH_SHARE, Corpus, ExploredRun, Values
from fencepost.campaigns.explore.exploration import Exploration, Start, exit_code, page, read_start
from fencepost.campaigns.explore.features import RunFeatures, features_of
from fencepost.campaigns.explore.space import is_plan, space_of, workers_of
from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.register import Record, night_of
from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.plan.checked_plan import check_plan
from tests.campaigns.night.made import FINGERPRINT, Clock, Killed, PretendedLauncher, cell, document, opened, session
from tests.docs.pages import DOCS

RUNS = 400


class Dials:
    """Plans of six dials; a run through the door and up the stairs, both rare, may meet the bug."""

    def fresh(self, draw: random.Random) -> Values:
        return {str(dial): draw.randrange(9) for dial in range(6)}

    def changed(self, values: Values, draw: random.Random) -> Values:
        return {**values, **{str(draw.randrange(6)): draw.randrange(9) for _ in range(draw.randint(1, 3))}}


def reached(values: Values) -> frozenset[str]:
    names = [f"hall {values['5'] // 3}"] + ["door"] * (values["0"] == 3)
    return frozenset([*names, "stairs"] if "door" in names and values["1"] == 5 else names)


def meets_bug(values: Values) -> bool:
    return "stairs" in reached(values) and values["2"] == 1


def runs_to_bug(seed: int, fresh_share: float, *, blind: bool = False) -> int:
    corpus = Corpus([])
    for number in range(1, RUNS + 1):
        values, origin = corpus.next(Dials(), random.Random(f"{seed}/{number}"), fresh_share)
        if meets_bug(values):
            return number
        features = frozenset[str]() if blind else reached(values)
        corpus.add(ExploredRun(run=number, values=values, origin=origin, features=features))
    return RUNS


def test_a_bug_behind_two_rare_features_is_found_sooner_than_at_random_and_only_by_what_is_new() -> None:
    seeds = range(30)
    drawn, explored = (mean(runs_to_bug(seed, share) for seed in seeds) for share in (1.0, FRESH_SHARE))
    blind = mean(runs_to_bug(seed, FRESH_SHARE, blind=True) for seed in seeds)
    assert explored < 0.75 * drawn and blind > 0.9 * drawn


def plays(of: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
    return (10, 1, document("invalid", fingerprints=[FINGERPRINT])) if attempt.values["4"] == 8 else (10, 0, document())


def explored(killed: random.Random | None = None, *, stop_at_first: bool = False) -> tuple[Night, Exploration]:
    """Explore, killed at drawn moments and resumed."""
    start = Start(cell=cell("c", runs=40), checked=check_plan(cell("c").plan))
    exploration = Exploration(start, Dials(), stop_at_first=stop_at_first)
    exploration.read = lambda a: RunFeatures(reached=reached(a.values), lacks={"attic": "no ladder"})
    strategy: dict[str, Any] = {"demand": exploration.demand, "choose": exploration.choose}
    records: list[Record] = [opened(exploration.cells, budget_s=1e4)]
    while True:
        after = killed.randint(3, 9) if killed and len(records) < 80 else None
        try:
            session(records, PretendedLauncher(Clock(), plays), killed_after=after, **strategy)
        except Killed:
            continue
        return night_of(records), exploration


def test_all_plans_follow_from_the_seed_also_of_one_that_was_killed_anywhere() -> None:
    chosen = [(a.run, a.seed, a.values, a.origin) for a in explored()[0].attempts]
    assert len(chosen) == 40 and {origin > 0 for *_, origin in chosen} == {True, False}
    made = explored(random.Random(3))[0]
    assert [(a.run, a.seed, a.values, a.origin) for a in made.attempts if a.run_class != "lost"] == chosen
    lost = [a for a in made.attempts if a.run_class == "lost"]
    assert lost and all((a.run, a.seed, a.values, a.origin) in chosen for a in lost)


def test_violations_decide_and_are_told_with_fingerprint_and_replay_and_the_first_can_end_it() -> None:
    night, exploration = explored(stop_at_first=True)
    assert exit_code(night) is ExitCode.INVALID and night.attempts[-1].values["4"] == 8
    assert all(a.values["4"] != 8 for a in night.attempts[:-1])
    text = page(night, exploration, "results/x")
    assert FINGERPRINT in text and "again: fencepost run results/x/runs/c-" in text
    assert "| attic | no ladder |" in text and "| hall 1 |" in page(*explored(), "x")
    assert exit_code(night_of([opened([cell("c")])])) is ExitCode.UNKNOWN


def test_features_are_mechanisms_chances_effects_at_once_and_leaders_without_their_names() -> None:
    rules = [{"name": "stale-read", "chances": 3}, {"name": "lost-write", "chances": 0, "lacks": "no write"}]
    verdicts = [
        {"checker": "c", "guarantee": "g", "rules": rules},
        {"checker": "coverage", "guarantee": "", "rules": rules},
    ]
    made = {"mechanisms": {"leader-moved": 2, "lease-over": 0}, "verdicts": verdicts}
    flags = dict.fromkeys(("holds", "delays", "skews", "changes_members", "ends"), False)
    some = {**flags, "fault": "f", "stops": "no", "cuts": False, "disk": "kept", "leader": "n1", "details": "{}"}
    one = {**some, "nodes": ["n1"], "cuts": True, "certain_from_ns": 10, "certain_to_ns": 20}
    two = {**some, "nodes": ["n2"], "stops": "certain", "certain_from_ns": 20, "certain_to_ns": None}
    three = {**two, "certain_from_ns": 21, "details": '{"part_of": 1}'}
    reigns = [{"subject": "leader", "epoch": e, "first_ns": e, "node": n} for e, n in enumerate(("n3", "n1", "n3"))]
    found = features_of(made, [two, one, three, {**two, "certain_from_ns": None}], reigns)
    assert found.reached == {
        *("met: leader-moved", "could show: g/stale-read", "at once: cuts the leader + stops"),
        *("leaders: a b", "leaders: a b a"),
    }
    assert found.lacks == {"met: lease-over": "", "could show: g/lost-write": "no write"}


def test_every_plan_near_a_plan_can_be_run_and_has_only_faults_of_kinds_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('system = "example"\nworkload = "set"\nnemesis = "kill,pause:leader"\ntime_limit = "20s"\n')
    start = read_start(path, "", 10)
    draw, values = random.Random(7), [space_of(start.checked).fresh(random.Random(7))]
    for _ in range(40):
        values.append(space_of(start.checked).changed(values[-1], draw))
    assert all(is_plan(start.checked.plan, each) for each in values)
    words = {word for each in values for worker in workers_of(each.get("nemesis", "kill")) for word in worker}
    assert {word.partition(":")[0] for word in words} == {"kill", "pause"} and len(words) > 5
    assert any("when=" in word for word in words) and len({str(each) for each in values}) == 41
    assert values[0] == space_of(start.checked).fresh(random.Random(7))


def test_a_cell_of_a_campaign_brings_its_draws_and_an_unknown_one_is_refused() -> None:
    start = read_start(DOCS / "how-to/nightly.toml", "etcd: broad", 10)
    values = space_of(start.checked, start.draws).fresh(random.Random(1))
    assert values["nodes"] in (3, 5) and 100 <= values["workload_options.rate"] <= 3000
    for name, wrong in (("etcd: brood", "unknown cell"), ("canary: Kafka's last replica", "schedule")):
        with pytest.raises(UsageError, match=wrong):
            space_of(read_start(DOCS / "how-to/nightly.toml", name, 10).checked)
