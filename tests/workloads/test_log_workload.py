"""The log workload: planted faults are found and a correct log passes; its generator follows leaders, and is cheap."""

import time
from collections import Counter
from typing import Any

import pytest

from fencepost.harness.coordination import Partitions
from fencepost.harness.generators import Draw, limit
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import Member
from fencepost.harness.testing.simulation import Respond, simulate
from fencepost.harness.verdict import Standing, Validity
from fencepost.harness.verdict.figures import values
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.workloads.log import LogWorkload
from tests.fakes.log_broker import BUGS
from tests.fakes.log_runs import SYSTEM, judge_log, options_of, run_log
from tests.seeds import seeds

SEEDS = range(10)


def _found(judgement: Any) -> set[str]:
    return {f"{verdict.guarantee}:{name}" for verdict in judgement.verdicts for name in verdict.anomalies}


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_fault_is_found_within_ten_seeds(bug: str) -> None:
    about, wanted = BUGS[bug]
    seen: list[set[str]] = []
    for seed in SEEDS:
        judgement = judge_log(run_log(bug, seed))
        seen.append(_found(judgement))
        if seen[-1] & wanted:
            assert judgement.validity is Validity.INVALID
            assert all(v.witnesses for v in judgement.verdicts if v.anomalies), "whoever says invalid shows why"
            return
    pytest.fail(f"{bug} ({about}): wanted one of {sorted(wanted)}, ten seeds gave {seen}")


@pytest.mark.parametrize("elections", [False, True], ids=["quiet", "elections"])
@pytest.mark.parametrize("seed", seeds(5, quick=2))
def test_a_correct_log_passes(seed: int, elections: bool) -> None:
    judgement = judge_log(run_log(None, seed, elections=elections))
    assert _found(judgement) == set()
    assert judgement.validity is Validity.VALID, judgement.headline


def test_with_acks_1_losses_are_told_and_decide_nothing() -> None:
    judgement = judge_log(run_log(None, 1, elections=True, acks="1"), acks="1")
    assert judgement.validity is Validity.VALID
    assert "log-durable-unreplicated" in judgement.headline
    zombies = next(v for v in judgement.verdicts if v.guarantee == "zombie-broker-does-not-act-unreplicated")
    assert zombies.counts["lost-acknowledgement"] > 10
    assert len(values(zombies.figures)["cut_brokers"]) == 2


def test_every_name_that_is_judged_has_a_guarantee() -> None:
    known = {guarantee.name: guarantee.standing for guarantee in KRAFT.promises()}
    for options, standing in (({}, Standing.PROMISED), ({"acks": "1"}, Standing.MEASURED)):
        history = run_log(None, 2, elections=False, **options)
        names = {v.guarantee for v in judge_log(history, **options).verdicts if v.checker != "coverage"}
        assert {known[name] for name in names} == {standing}
        assert LogWorkload().guarantee(SYSTEM, options_of(options)) in names


# --- the generator ------------------------------------------------------------------------------------------------


def _cluster(leader_of: dict[str, str], *, latency_ns: int = 500_000) -> Respond:
    """Nodes that answer for their own partitions and refuse the others; `leader_of` may change meanwhile."""
    ends: Counter[str] = Counter()

    def respond(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        assert event.key is not None
        if leader_of[event.key] != event.node:
            outcome = Outcome.INFO if event.f == "append" else Outcome.FAIL
            return latency_ns, Completion(outcome, error="not-leader-or-follower")
        if event.f == "append":
            ends[event.key] += 1
            return latency_ns, Completion(Outcome.OK, event.value, position=ends[event.key] - 1)
        rows = [[at, at] for at in range(event.value, min(ends[event.key], event.value + 100))]
        return latency_ns, Completion(Outcome.OK, rows, position=ends[event.key])

    return respond


def _shares(events: list[OpEvent]) -> Counter[str]:
    return Counter(f"{event.f} {event.type}" for event in events if event.type is not Outcome.INVOKE)


def _load(operations: int, leader_of: dict[str, str], **given: Any) -> list[OpEvent]:
    options = options_of(given)
    workload = LogWorkload()
    return simulate(
        limit(operations, workload.generator(options, 3)),
        workers=workload.workers(options, 3),
        respond=_cluster(leader_of),
        seed=5,
    )


LEADERS = {"p0": "n1", "p1": "n2", "p2": "n3", "p3": "n1"}


def test_appends_go_where_the_leader_is_and_hardly_ever_elsewhere() -> None:
    shares = _shares(_load(5000, LEADERS))
    assert shares["append ok"] > 2500
    assert shares["poll ok"] > 800
    assert shares["append info"] == 0
    assert shares["poll fail"] < 700


def test_when_one_node_leads_everything_the_others_workers_stand_back() -> None:
    shares = _shares(_load(5000, dict.fromkeys(LEADERS, "n2")))
    assert shares["append ok"] > 2500
    assert shares["poll fail"] < 1000


def test_leaders_that_move_are_found_again() -> None:
    leader_of = dict(LEADERS)
    respond = _cluster(leader_of)
    moved: list[int] = []

    def moving(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        if event.time_ns > 2_000_000_000 and not moved:
            moved.append(event.index)
            leader_of.update(p0="n2", p1="n3", p2="n1", p3="n3")
        return respond(event, draw)

    options = options_of({"rate": 1000.0})
    workload = LogWorkload()
    events = simulate(
        limit(5000, workload.generator(options, 3)), workers=workload.workers(options, 3), respond=moving, seed=1
    )
    after = [e for e in events if e.index > moved[0]]
    first_ok = {
        key: min(e.time_ns for e in after if e.key == key and e.f == "append" and e.type is Outcome.OK)
        - after[0].time_ns
        for key in LEADERS
    }
    assert max(first_ok.values()) < 200_000_000, first_ok
    assert _shares(after)["append info"] <= 3 * len(LEADERS) + 4


def test_a_leader_that_leaves_appends_unanswered_is_polled_on_and_tried_now_and_then() -> None:
    """As a superseded leader does, and as one does whose followers come back."""
    respond = _cluster(dict(LEADERS))
    back_ns = 4_000_000_000

    def stuck(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        if event.f == "append" and event.node == "n3" and event.time_ns < back_ns:
            return 100_000_000, Completion(Outcome.INFO, error="timeout")
        return respond(event, draw)

    options = options_of({"rate": 1000.0})
    workload = LogWorkload()
    events = simulate(
        limit(8000, workload.generator(options, 3)), workers=workload.workers(options, 3), respond=stuck, seed=3
    )
    during = _shares([e for e in events if e.node == "n3" and e.time_ns < back_ns])
    after = _shares([e for e in events if e.node == "n3" and e.time_ns > back_ns + 500_000_000])
    assert 3 <= during["append info"] <= 200
    assert during["poll ok"] > 300
    assert after["append ok"] > 300


def test_values_are_unique_and_polls_go_on_where_they_were() -> None:
    events = _load(4000, LEADERS)
    values = [e.value for e in events if e.f == "append" and e.type is Outcome.INVOKE]
    assert len(values) == len(set(values))
    asked = [e.value for e in events if e.f == "poll" and e.type is Outcome.INVOKE]
    assert max(asked) > 500


def test_the_final_scan_reads_every_partition_to_its_end_and_ends() -> None:
    options = options_of({})
    workload = LogWorkload()
    respond = _cluster(LEADERS)
    for n in range(900):
        respond(
            OpEvent(index=0, time_ns=0, type=Outcome.INVOKE, process=0, f="append", node="n1", key="p0"), Draw(0, 0, n)
        )
    events = simulate(workload.final_generator(options, 3), workers=9, respond=respond)
    done = [e for e in events if e.type is Outcome.OK]
    assert {e.key for e in done} == set(LEADERS)
    assert max(row[0] for e in done if e.key == "p0" for row in e.value) == 899
    assert all(e.f == "scan" for e in events)


def test_the_generator_is_cheap_enough_for_thousands_of_operations_a_second() -> None:
    started = time.process_time()
    events = _load(20_000, LEADERS, rate=0.0)
    spent_s = time.process_time() - started
    assert len(events) == 40_000
    # 3,000 operations per second must leave most of a core to the clients, even on a machine a few times slower.
    assert spent_s < 4.0


# --- what can be asked --------------------------------------------------------------------------------------------


def test_options_that_contradict_each_other_are_refused() -> None:
    members = tuple(Member(f"b{number}", ("broker",)) for number in (1, 2, 3))
    for given, said in (
        ({"idempotence": "on", "acks": "1"}, "idempotence=on needs acks=all"),
        ({"min_isr": 4}, "min_isr=4 is more than the number of nodes that keep the log, 3"),
    ):
        assert said in str(LogWorkload().refuse(options_of(given), members))
    for given in ({}, {"min_isr": 3}, {"idempotence": "on"}):
        assert LogWorkload().refuse(options_of(given), members) is None


@pytest.mark.parametrize("system", ["kraft", "kafka-zk"])
def test_brokers_that_fall_behind_are_left_out_within_a_fault(system: str) -> None:
    assert LogWorkload().system_options(registry.system(system))["replica_lag"] == "3s"


def test_clients_connect_to_the_nodes_that_serve() -> None:
    kraft = (Member("n1", ("controller",), serves=False), Member("b1", ("broker",), votes=False))
    assert LogWorkload().nodes(kraft) == ("b1",)
    assert LogWorkload().nodes((Member("n1"), Member("n2"))) == ("n1", "n2")


def test_what_the_partitions_are_made_with() -> None:
    assert LogWorkload().needs(options_of({"partitions": 2, "min_isr": 3})) == Partitions(2, 3)
