"""The harness must find what was planted: each bug of the catalogue within ten seeds, and nothing else."""

import pytest

from fencepost.harness.history import Outcome
from fencepost.harness.verdict import Validity
from tests.fakes.catalogue import BUGS, PlantedBug
from tests.fakes.runs import judge_fake, run_fake

SEEDS = range(10)
#: `test_plants` plays 300 correct runs; these have the faults and options of each bug.
FEW, MORE = range(2), range(2, 4)
#: No store keeps it: KIP-30's update names no version of what its caller read.
UNKEPT = "update-loses-none"

#: One correct run for every kind of run in which a bug is planted.
CONTROLS = {
    f"{bug.workload}-{'-'.join(bug.faults) or 'quiet'}-{sorted(bug.options.items())}": (name, bug)
    for name, bug in BUGS.items()
}


@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_is_caught_within_ten_seeds(name: str) -> None:
    bug = BUGS[name]
    seen: list[dict[str, int]] = []
    for seed in SEEDS:
        judgement = judge_fake(run_fake(bug.workload, name, seed), bug.workload, name)
        broken = [v for v in judgement.verdicts if v.validity is Validity.INVALID]
        found = {f"{verdict.checker}:{label}": n for verdict in broken for label, n in verdict.counts.items()}
        seen.append(found)
        if judgement.validity is Validity.INVALID and found.keys() & bug.anomalies:
            assert all(v.witnesses for v in broken), "whoever says invalid shows why"
            return
    pytest.fail(f"{name} ({bug.about}): wanted one of {sorted(bug.anomalies)}, ten seeds gave {seen}")


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MORE, marks=pytest.mark.slow)], ids=["few", "more"])
@pytest.mark.parametrize(("name", "bug"), CONTROLS.values(), ids=CONTROLS)
def test_the_correct_store_always_passes(name: str, bug: PlantedBug, seeds: range) -> None:
    lost = 0
    for seed in seeds:
        history = run_fake(bug.workload, None, seed, faults=bug.faults, options=bug.options)
        judgement = judge_fake(history, bug.workload, None, options=bug.options)
        violated = [v for v in judgement.verdicts if v.validity is Validity.INVALID]
        broken = [v for v in violated if v.guarantee != UNKEPT]
        assert not broken, (seed, broken[0].anomalies, broken[0].witnesses[:1])
        assert judgement.validity is (Validity.INVALID if violated else Validity.VALID), (seed, judgement.headline)
        lost += sum(operation.type is Outcome.INFO for operation in history.operations)
    assert lost, "losses were simulated too"


def test_a_run_is_repeated_exactly() -> None:
    first, second = (run_fake("register", None, 4, faults=("pause",)).events for _ in range(2))
    assert len(first) > 1000
    assert first == second
