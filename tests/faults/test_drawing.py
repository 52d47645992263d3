"""Schedules of a seed: always the same, drawn as they are needed, and refused where a fault cannot fit."""

from itertools import chain, islice

from fencepost.harness.faults.forecast import Surroundings, look_ahead
from fencepost.harness.faults.nemesis_text import parse_nemesis
from fencepost.harness.faults.schedule import draw_schedules
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import members_alike
from fencepost.harness.runtime.provider import Setting
from fencepost.harness.verdict import LeadershipBound, Standing

FAULTS = registry.faults()
S = 10**9
#: Ten thousand years: whoever draws all of it never ends.
ENDLESS_NS = 10_000 * 365 * 86_400 * S


def _around(*, time_limit_ns: int, quiet_ns: int = 4 * S, seed: int = 1) -> Surroundings:
    return Surroundings(
        setting=Setting(nodes=3),
        members=members_alike(3),
        subject="leader",
        bound=LeadershipBound(bound_ns=2_100_000_000, source="", standing=Standing.PROMISED, one_leader_per_epoch=True),
        seed=seed,
        time_limit_ns=time_limit_ns,
        quiet_ns=quiet_ns,
    )


def test_a_seed_draws_what_it_has_always_drawn() -> None:
    workers = parse_nemesis("kill,pause:leader+partition:one", FAULTS, Setting(nodes=3)).workers
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
    workers = parse_nemesis("kill,pause:leader", FAULTS, Setting(nodes=3)).workers
    (long,) = draw_schedules(workers, FAULTS, seed=7, time_limit_ns=ENDLESS_NS, quiet_ns=4 * S)
    (short,) = draw_schedules(workers, FAULTS, seed=7, time_limit_ns=600 * S, quiet_ns=4 * S)
    begun = list(short)
    assert list(islice(long, len(begun))) == begun


def test_a_run_of_any_length_is_looked_at_before_it_starts() -> None:
    ahead = look_ahead("kill,pause:leader+all", FAULTS, _around(time_limit_ns=ENDLESS_NS))
    assert ahead.more
    assert not ahead.without_time
    assert not ahead.document(keep_quorum=False)["quorum"]["whole_schedule"]
    assert not look_ahead("kill", FAULTS, _around(time_limit_ns=60 * S)).more
    (line,) = look_ahead("pause:client", FAULTS, _around(time_limit_ns=ENDLESS_NS)).in_words(keep_quorum=False)
    assert line == "quorum: none of the first 300 faults can break it"
