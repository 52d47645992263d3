"""The metadata workload against a quorum in memory: windows, paces, the end; and every planted bug is found."""

import asyncio
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.coordination import Reply
from fencepost.harness.generators import phases, time_limit, validate
from fencepost.harness.generators.contract import Offer
from fencepost.harness.history import OpEvent, Outcome, PhaseName
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import workload_options
from fencepost.harness.runtime.node import Member
from fencepost.harness.testing.simulation import respond, simulate
from fencepost.harness.verdict import Validity
from fencepost.systems.kafka.workloads.metadata import MetadataOptions, MetadataWorkload, settings_in_turn
from tests.fakes.metadata_store import BUGS, NODES, FakeMetadata, FakeQuorum, judge_metadata, run_fake_metadata
from tests.fakes.playing import assert_found_within_ten_seeds
from tests.seeds import seeds

WORKLOAD = MetadataWorkload()
SYSTEM = registry.system("etcd")
OPTIONS = WORKLOAD.defaults(SYSTEM)
S = 1_000_000_000


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_within_ten_seeds(bug: str) -> None:
    assert_found_within_ten_seeds(BUGS[bug], lambda seed: judge_metadata(run_fake_metadata(bug, seed)))


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_a_correct_quorum_passes(seed: int) -> None:
    for verdict in judge_metadata(run_fake_metadata(None, seed)):
        assert verdict.validity is Validity.VALID, (verdict.guarantee, verdict.reason, verdict.witnesses[:1])
        assert verdict.tested


def test_the_end_reads_everything_from_every_node_until_all_agree() -> None:
    history = run_fake_metadata(None, 3)
    final = history.phases[PhaseName.FINAL]
    ended = [o for o in history.operations if o.invoked_ns >= final[0]]
    shown = {(o.node, o.key) for o in ended if o.f == "describe" and o.type is Outcome.OK}
    assert shown >= {(node, key) for node in NODES for key in WORKLOAD.needs(OPTIONS).names}
    taken = {o.key for o in history.operations if o.f == "create" and o.type is Outcome.OK}
    asked = {o.key for o in ended if o.f == "exists" and o.node == "b1" and o.result == 1}
    assert asked >= taken
    # Two rounds when nothing differs, and no more.
    per_node = Counter(o.node for o in ended if o.f == "describe" and o.key == "k0")
    assert set(per_node.values()) == {2}


def load(seconds: float, *, nodes: int = 4, seed: int = 1, **options: Any) -> list[OpEvent]:
    merged = workload_options(WORKLOAD, SYSTEM, options)
    generator = validate(time_limit(round(seconds * S), WORKLOAD.generator(merged, nodes)))
    workers = WORKLOAD.workers(merged, nodes)
    return simulate(generator, workers=workers, nodes=nodes, seed=seed, respond=respond(), operations_max=10**6)


def changes_by_window(events: list[OpEvent], window_s: int) -> dict[str, dict[int, bool]]:
    """Of each node, the windows (by number) in which it took changes."""
    found: dict[str, dict[int, bool]] = defaultdict(dict)
    for event in events:
        if event.type is Outcome.INVOKE:
            number = event.time_ns // (window_s * S)
            written = event.f in ("alter", "create")
            found[event.node][number] = found[event.node].get(number, False) or written
    return found


@pytest.mark.parametrize("seed", seeds(5, quick=2))
def test_every_node_alternates_between_windows_of_reads_and_of_writes(seed: int) -> None:
    windows = changes_by_window(load(39.9, seed=seed, window="5s"), 5)
    for node, written in windows.items():
        for pair in range(4):
            assert written[2 * pair] != written[2 * pair + 1], (node, pair, written)
    for number in range(8):
        assert 0 < sum(written[number] for written in windows.values()) < 4


def test_without_windows_every_node_is_always_written() -> None:
    windows = changes_by_window(load(20, window="0s", rate=400.0, reads=0.5), 1)
    assert len(windows) == 4
    assert all(written for node in windows.values() for written in node.values())


def test_which_nodes_are_only_read_together_varies() -> None:
    windows = changes_by_window(load(119.9, window="5s", rate=100.0), 5)
    shapes = {tuple(windows[node][number] for node in sorted(windows)) for number in range(0, 24, 2)}
    assert len(shapes) > 4


def test_the_rate_is_met_and_shared_as_asked() -> None:
    events = [e for e in load(20, rate=400.0, reads=0.75) if e.type is Outcome.INVOKE]
    counts = Counter(e.f for e in events)
    assert 380 * 20 < len(events) - counts["create"] < 420 * 20
    assert 0.7 < (counts["describe"] + counts["exists"]) / (len(events) - counts["create"]) < 0.8
    assert 60 < counts["create"] < 100  # about two for each of 40 names


@pytest.mark.parametrize("seed", seeds(6, quick=3))
@pytest.mark.parametrize("length_s", [15, 20, 30])
def test_the_last_change_of_some_settings_is_older_than_the_last_fault(length_s: int, seed: int) -> None:
    """By default a fault lasts five seconds and four quiet ones follow, so the last may end nine before the end."""
    last: dict[str | None, int] = {}
    for event in load(length_s, seed=seed):
        if event.type is Outcome.OK and event.f == "alter":
            last[event.key] = event.time_ns
    assert len(last) == OPTIONS.keys
    assert min(last.values()) < (length_s - 9) * S
    assert max(last.values()) > (length_s - 1) * S


@pytest.mark.parametrize("keys", [1, 2, 3, 8])
def test_every_setting_has_its_turn(keys: int) -> None:
    names = tuple(f"k{i}" for i in range(keys))
    turns = [settings_in_turn(names, second * S) for second in range(3 * keys)]
    assert {name for turn in turns for name in turn} == set(names)
    assert {len(turn) for turn in turns} == {max(1, keys // 2)}


@pytest.mark.parametrize(("system", "window_s"), [("kraft", 12), ("kafka-bridge", 12), ("kafka-zk", 0)])
def test_windows_are_long_where_a_change_waits_in_a_queue(system: str, window_s: int) -> None:
    assert WORKLOAD.defaults(registry.system(system)).window == window_s * S


def test_values_are_unique_and_names_are_asked_for_before_they_are_taken() -> None:
    events = [e for e in load(10) if e.type is Outcome.INVOKE]
    values = [e.value for e in events if e.f == "alter"]
    assert len(set(values)) == len(values)
    first: dict[tuple[str, str | None], int] = {}
    for event in events:
        if event.f in ("create", "exists"):
            first.setdefault((event.f, event.key), event.time_ns)
    made = [key for f, key in first if f == "create"]
    early = [key for key in made if first.get(("exists", key), 10**12) < first["create", key]]
    assert len(early) > len(made) / 2


def test_a_node_that_is_not_in_charge_is_spared_for_a_while() -> None:
    history = run_fake_metadata(None, 0)
    refused = Counter(o.node for o in history.operations if o.error == "not-controller" and o.f == "alter")
    acknowledged = Counter(o.node for o in history.operations if o.type is Outcome.OK and o.f == "alter")
    assert refused.total() < acknowledged.total() / 4


def test_it_plays_on_controllers_and_brokers_only() -> None:
    members = (
        Member("n1", ("controller",)),
        Member("b1", ("broker",), votes=False),
        Member("z1", ("zookeeper",)),
        Member("n2", ("controller", "broker")),
    )
    assert WORKLOAD.nodes(members) == ("n1", "b1", "n2")


def test_some_wait_long_for_an_answer_and_most_do_not() -> None:
    workers = WORKLOAD.workers(OPTIONS, 4)
    patient = [w for w in range(workers) if WORKLOAD.timeout_s(OPTIONS, 4, w, 12.0) == 12.0]
    assert len(patient) == 4
    assert {w % 4 for w in patient} == {0, 1, 2, 3}
    assert WORKLOAD.timeout_s(OPTIONS, 4, 0, 12.0) == 1.5


@pytest.mark.parametrize(("system", "asked"), [("kraft", ("leader-self-fencing",)), ("kafka-zk", ())])
def test_a_plan_asks_only_for_what_somebody_stands_behind(system: str, asked: tuple[str, ...]) -> None:
    plan = Plan(system=system, workload="metadata", seed=1, nemesis="partition:controller")
    assert check_plan(plan).plan.require == asked


def test_an_idle_controller_appends_nothing_where_that_can_be_said() -> None:
    assert WORKLOAD.system_options(registry.system("etcd")) == {}
    assert WORKLOAD.system_options(registry.system("kraft")) == {"idle_interval": "0ms"}


def test_self_fencing_is_asked_for_by_name() -> None:
    assert WORKLOAD.requires(OPTIONS) == ("leader-self-fencing",)
    assert WORKLOAD.guarantee(registry.system("etcd"), OPTIONS) == "metadata-durable"


def test_with_all_kinds_every_value_names_one_change_and_things_go_again() -> None:
    events = [e for e in load(40, kinds="all", rate=200.0, reads=0.8) if e.type is Outcome.INVOKE and e.f == "alter"]
    given = [(e.key, e.value) for e in events if e.value is not None]
    assert len(set(given)) == len(given)
    assert {str(key).partition("/")[0] for key, _ in given if "/" in str(key)} == {
        "broker",
        "quota",
        "scram",
        "partitions",
        "topic",
        "acl",
    }
    removed = [e.key for e in events if e.value is None]
    assert {str(key).partition("/")[0] for key in removed} == {"quota", "scram", "topic", "acl"}
    things = [key for key in removed if str(key).startswith(("topic/", "acl/"))]
    assert len(set(things)) == len(things)
    sizes = [int(str(value)) for key, value in given if str(key) == "partitions/grows"]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("ends_ms", [2700, 3200, 6200])
def test_a_phase_does_no_deed_that_the_phase_before_may_have_done(ends_ms: int) -> None:
    options = workload_options(WORKLOAD, SYSTEM, {"kinds": "all", "window": "0s"})
    parts = (time_limit(ends_ms * 1_000_000, WORKLOAD.generator(options, 4)) for _ in range(2))
    events = simulate(phases(*parts), workers=WORKLOAD.workers(options, 4), nodes=4, operations_max=10**6)
    deeds = Counter(
        (e.key, e.value)
        for e in events
        if e.type is Outcome.INVOKE and e.f == "alter" and str(e.key).startswith(("topic/", "acl/"))
    )
    assert deeds and max(deeds.values()) == 1


def test_the_end_asks_brokers_for_every_kind_and_spares_nodes_that_offer_none() -> None:
    history = run_fake_metadata(None, 1)
    start, end = history.phases[PhaseName.FINAL]
    final = [o for o in history.operations if o.f == "describe" and start <= o.invoked_ns < end]
    kinds = {str(o.key).partition("/")[0] for o in final if o.node == "b1" and "/" in str(o.key)}
    assert kinds == {"broker", "quota", "scram", "partitions", "topic", "acl"}
    refused = Counter((o.node, str(o.key).partition("/")[0]) for o in final if o.error == "unsupported-api")
    rounds = max(Counter(o.node for o in final if o.key == "k0").values())
    assert refused and set(refused.values()) == {rounds}


def test_only_a_log_that_clients_can_fetch_has_listeners() -> None:
    asked = {"listeners": 2}
    with pytest.raises(UsageError, match="listeners"):
        workload_options(WORKLOAD, SYSTEM, asked)
    options = workload_options(WORKLOAD, registry.system("kraft"), asked)
    apart = Member("n1", ("controller",)), Member("b1", ("broker",), votes=False)
    assert WORKLOAD.refuse(options, apart) is None
    assert WORKLOAD.refuse(options, (Member("n1", ("controller", "broker")),)) is not None


def test_a_listener_asks_one_node_at_a_time_and_stays_with_the_one_that_answers() -> None:
    history = run_fake_metadata(None, 2)
    for name in ("listener0", "listener1"):
        own = [o for o in history.operations if o.key == name]
        assert own
        for before, after in pairwise(own):
            assert before.completed_ns is not None and before.completed_ns <= after.invoked_ns
            assert (before.node == after.node) is (before.type is Outcome.OK)
        assert {o.node for o in own if o.type is Outcome.OK} == {"n1", "n2", "n3"}
        assert sum(o.node == "b1" for o in own) <= 1


def test_a_new_name_has_as_many_partitions_as_asked_for() -> None:
    class Names(FakeMetadata):
        made: list[tuple[str, int]] = []  # noqa: RUF012  # one for this test

        async def create_name(self, name: str, partitions: int = 1) -> Reply:
            self.made.append((name, partitions))
            return Reply()

    client = WORKLOAD.client(Names(FakeQuorum(1, None), "n1"), MetadataOptions(partitions=7), lambda: 0)
    asyncio.run(client.invoke(Offer("create", "t1", 1)))
    assert Names.made == [("t1", 7)]
