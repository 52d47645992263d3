"""The election workload on Kafka: its own client against brokers in memory with planted bugs, and short real runs."""

import json
from pathlib import Path

import pytest

from fencepost.harness.base.options import plain
from fencepost.harness.history import Outcome
from fencepost.harness.history.operation import ErrorKind, error_of
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Standing, Validity, Verdict
from fencepost.harness.verdict.figures import values
from fencepost.workloads.election import BACKLOG, Election
from tests.checkers.build import only
from tests.fakes.playing import assert_found_within_ten_seeds
from tests.fakes.transaction_broker import BUGS
from tests.fakes.transaction_runs import facts, run_transactions
from tests.lab_scenario import require_lab
from tests.run_command import run_undisturbed, without_rows

SEEDS = range(10)


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_within_ten_seeds(bug: str) -> None:
    def judged(seed: int) -> list[Verdict]:
        verdicts = registry.checker("election")(run_transactions(bug, seed), facts())
        return [v for v in verdicts if facts().decides(v.guarantee)]

    assert_found_within_ten_seeds(BUGS[bug], judged)


@pytest.mark.parametrize("seed", SEEDS)
def test_correct_brokers_pass_and_were_put_to_the_test(seed: int) -> None:
    history = run_transactions(None, seed)
    verdicts = registry.checker("election")(history, facts())
    for verdict in verdicts:
        if facts().decides(verdict.guarantee):
            assert verdict.validity is Validity.VALID, (verdict.guarantee, verdict.reason, verdict.witnesses[:1])
    assert values(only(verdicts, "one-acting-leader").figures)["superseded_fenced"] >= BACKLOG
    errors = [error for o in history.operations if (error := error_of(o))]
    assert not [error for error in errors if error.kind is ErrorKind.UNFORESEEN]


def test_a_leader_whose_broker_slept_goes_on_and_is_refused_where_its_term_stands() -> None:
    # Not in every run does a leader act again while its broker still sleeps.
    ends = {(o.f, o.type, o.error) for seed in SEEDS[:3] for o in run_transactions(None, seed).operations}
    assert {("act", Outcome.FAIL, "fenced"), ("act", Outcome.FAIL, "sequence-unknown")} <= ends


def test_without_fencing_the_same_brokers_are_found_to_mix_terms() -> None:
    history = run_transactions(None, 1, fencing="off")
    verdicts = registry.checker("election")(history, facts(fencing="off"))
    mixed = [v for v in verdicts if "old-term-acted" in v.anomalies]
    assert [(v.guarantee, v.validity) for v in mixed] == [("one-believed-leader", Validity.INVALID)]
    assert facts(fencing="off").decides("one-believed-leader")


def test_a_run_is_repeated_exactly() -> None:
    first, second = (run_transactions(None, 4).events for _ in range(2))
    assert len(first) > 1000
    assert first == second


@pytest.mark.parametrize("name", ["kraft", "kafka-zk"])
def test_what_the_workload_asks_of_kafka(name: str) -> None:
    system, workload = registry.system(name), Election()
    options = workload.defaults(system)
    choices = workload.choices(system)
    assert (options.observe, options.members) == ("plain", "barrier")
    assert all(plain(options)[key] in choices[key] for key in choices)
    members = system.members(3, system.profile.parse_options(workload.system_options(system)))
    assert workload.nodes(members) == ("b1", "b2", "b3")
    standings = {guarantee.name: guarantee.standing for guarantee in system.promises()}
    assert {standings[one] for one in ("one-acting-leader", "terms-grow", "no-lost-acknowledged-writes")} == {
        Standing.PROMISED
    }
    assert standings["one-believed-leader"] is Standing.RELIED_UPON
    assert standings["session-order"] is Standing.MEASURED


# Real clusters

#: Long enough for ten terms to be resigned on a machine that has other tests to do as well.
_SHORT = ("--nemesis", "none", "--time-limit", "20s")
#: Three servers instead of six.
_SMALL = ("-O", "combined=true")


@pytest.mark.cluster
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("system", "more"),
    [
        pytest.param("kraft", (*_SHORT, *_SMALL), marks=pytest.mark.long),
        pytest.param("kafka-zk", _SHORT, marks=pytest.mark.long),
        pytest.param("kraft", ("--nemesis", "pause:broker", "--time-limit", "30s"), marks=pytest.mark.long),
        pytest.param("kafka-zk", ("--nemesis", "kill:broker", "--time-limit", "30s"), marks=pytest.mark.long),
    ],
)
def test_no_act_of_a_superseded_producer_takes_effect(tmp_path: Path, system: str, more: tuple[str, ...]) -> None:
    require_lab()
    done, _ = run_undisturbed(
        tmp_path, "--system", system, "--workload", "election", *more, "--seed", "5",
        "-o", "acts_per_term=2", "-o", "campaign_every=600ms", "-o", "renew_every=10ms",
        "-o", "stall_one_in=4", "-o", "stall=1500ms", "-o", "observe_rate=20.0",
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    document = without_rows(json.loads(done.stdout))
    assert document["validity"] == "valid"
    (acting,) = [v for v in document["verdicts"] if v["guarantee"] == "one-acting-leader"]
    assert acting["figures"]["superseded_fenced"] >= BACKLOG
