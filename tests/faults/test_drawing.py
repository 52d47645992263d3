"""Schedules of a seed: always the same, drawn as they are needed, and refused where a fault cannot fit."""

import re
from collections.abc import Sequence
from itertools import chain, islice

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.quantities import parse_duration_ns
from fencepost.harness.faults.forecast import look_ahead, refuse_without_time
from fencepost.harness.faults.overlaps import draw_schedules
from fencepost.harness.faults.schedule import parse_nemesis
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.provider import Placement
from tests.faults.test_workers import surroundings

FAULTS = registry.faults()
S = 10**9
#: Ten thousand years: whoever draws all of it never ends.
ENDLESS_NS = 10_000 * 365 * 86_400 * S


def test_a_seed_draws_what_it_has_always_drawn() -> None:
    workers = parse_nemesis("kill,pause:leader+partition:one", FAULTS, Placement(nodes=3)).workers
    drawn = draw_schedules(workers, FAULTS, seed=7, time_limit_ns=20 * S, quiet_ns=4 * S)
    assert [
        (e.worker, e.number, e.spec.text, e.inject_ns, e.duration_ns, e.draw_seed) for e in chain.from_iterable(drawn)
    ] == [
        (0, 0, "pause:leader", 2 * S, 7 * S, 418802974),
        (0, 1, "kill:one", 12494859070, 2 * S, 2375727814),
        (1, 0, "partition:one", 2 * S, 5 * S, 2264453312),
        (1, 1, "partition:one", 11007053092, 5 * S, 4274450538),
    ]


def test_faults_are_drawn_as_they_are_taken() -> None:
    workers = parse_nemesis("kill,pause:leader", FAULTS, Placement(nodes=3)).workers
    (long,) = draw_schedules(workers, FAULTS, seed=7, time_limit_ns=ENDLESS_NS, quiet_ns=4 * S)
    (short,) = draw_schedules(workers, FAULTS, seed=7, time_limit_ns=600 * S, quiet_ns=4 * S)
    begun = list(short)
    assert list(islice(long, len(begun))) == begun


def test_a_run_of_any_length_is_looked_at_before_it_starts() -> None:
    ahead = look_ahead("kill,pause:leader+all", FAULTS, surroundings(ENDLESS_NS // S))
    assert not ahead.without_time
    endless = look_ahead("pause:client", FAULTS, surroundings(ENDLESS_NS // S))
    assert endless.in_words(keep_quorum=False) == []
    assert len(endless.in_words(keep_quorum=True)) == 1


def _refusal(text: str, *, seconds: int, quiet_ns: int = 4 * S, seeds: Sequence[int] = (1,)) -> UsageError | None:
    around = surroundings(seconds, quiet_ns=quiet_ns)
    try:
        refuse_without_time(parse_nemesis(text, FAULTS, Placement(nodes=3)), FAULTS, around, seeds=seeds)
    except UsageError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("text", "seconds", "kinds"),
    [
        ("partition:leader,kill", 8, "kill does"),
        ("kill,pause,partition", 4, "kill, pause do"),
        ("kill+pause:leader:for=1h", 2, "kill, pause do"),
        ("pause:leader:for=1h", 5, "pause does"),
        ("kill", 2, "kill does"),
        # Of a mixture any fault will do, of what is named beside it all.
        ("all", 1, "any fault of all does"),
        ("all,kill", 2, "kill does"),
    ],
)
def test_a_fault_that_cannot_come_is_refused_with_the_shortest_times_that_do(
    text: str, seconds: int, kinds: str
) -> None:
    refusal = _refusal(text, seconds=seconds)
    assert refusal is not None
    assert refusal.message == f"{kinds} not fit in {seconds}s"
    offers = dict(re.findall(r"--(time-limit|quiet) (\w+)", refusal.hint or ""))
    longer_ns = parse_duration_ns(offers["time-limit"])
    assert _refusal(text, seconds=longer_ns // S) is None
    assert _refusal(text, seconds=longer_ns // S - 1) is not None
    if "quiet" in offers:
        assert _refusal(text, seconds=seconds, quiet_ns=parse_duration_ns(offers["quiet"])) is None


def test_the_times_that_are_offered_hold_for_every_seed_of_the_runs() -> None:
    seeds = range(100)
    refusal = _refusal("partition:leader,kill,pause:for=500ms", seconds=12, seeds=seeds)
    assert refusal is not None
    (longer,) = re.findall(r"--time-limit (\w+)", refusal.hint or "")
    assert all(
        _refusal("partition:leader,kill,pause:for=500ms", seconds=parse_duration_ns(longer) // S, seeds=(seed,)) is None
        for seed in seeds
    )


@pytest.mark.parametrize(("text", "seconds"), [("none", 1), ("all", 3), ("kill", 3), ("partition:leader", 3)])
def test_what_comes_however_briefly_or_was_not_named_is_not_refused(text: str, seconds: int) -> None:
    assert _refusal(text, seconds=seconds) is None
