"""The watch workload: planted faults are found, a correct store passes; its listeners resume where they stopped."""

from typing import Any, cast

import pytest

from fencepost.harness.contract.system import System
from fencepost.harness.history import OpEvent, Outcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import Member
from fencepost.harness.verdict import Standing, Validity
from fencepost.systems.etcd.system import ETCD
from fencepost.workloads.watch import WatchWorkload
from fencepost.workloads.watch_traffic import WatchMemory
from tests.fakes.watch_runs import FakeSystem, judge_watch, options_of, run_watch
from tests.fakes.watch_store import BUGS
from tests.seeds import seeds

SEEDS = range(10)
KINDS: list[tuple[str, dict[str, str]]] = [
    ("history", {}),
    ("history", {"compact_every": "400ms"}),
    ("history", {"bookmarks": "off", "resume": "off", "again_every": "never"}),
    ("history", {"begin": "any", "again_every": "500ms", "listeners_per_node": "8"}),
    ("session", {}),
    ("session", {"watches": "one-shot"}),
    ("merged", {"listeners_per_node": "8"}),
]


def _found(judgement: Any) -> set[str]:
    return {f"{verdict.guarantee}:{name}" for verdict in judgement.verdicts for name in verdict.anomalies}


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_fault_is_found_within_ten_seeds(bug: str) -> None:
    about, flavour, given, wanted = BUGS[bug]
    seen: list[set[str]] = []
    for seed in SEEDS:
        judgement = judge_watch(run_watch(bug, seed), flavour=flavour, **given)
        seen.append(_found(judgement))
        if seen[-1] & wanted:
            assert judgement.validity is Validity.INVALID
            assert all(v.witnesses for v in judgement.verdicts if v.anomalies), "whoever says invalid shows why"
            return
    pytest.fail(f"{bug} ({about}): wanted one of {sorted(wanted)}, ten seeds gave {seen}")


@pytest.mark.parametrize(("flavour", "given"), KINDS, ids=[f"{kind}-{'-'.join(given)}" for kind, given in KINDS])
@pytest.mark.parametrize("seed", seeds(8, quick=2))
def test_a_correct_store_passes(seed: int, flavour: str, given: dict[str, str]) -> None:
    history = run_watch(None, seed, flavour=flavour, **given)
    judgement = judge_watch(history, flavour=flavour, **given)
    assert _found(judgement) == set()
    assert judgement.validity is Validity.VALID, judgement.headline
    exposed = {v.guarantee: v.tested for v in judgement.verdicts}
    assert (exposed["watch-reliable"] or 0) > 300
    if "resume" not in given and flavour == "history":
        assert (exposed["watch-resumable"] or 0) > 50
    assert any(o.type is Outcome.INFO for o in history.operations), "losses were simulated too"


def test_every_listener_listens_to_the_end_and_those_that_do_not_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"listeners_per_node": "8"}
    workers = WatchWorkload().workers(options_of("history", given), 3)

    def played() -> tuple[list[int], str]:
        """The workers who were not told of the newest change, and what the verdict says of a loss."""
        history, memory = run_watch(None, 1, **given), WatchMemory()
        for event in history.of(OpEvent):
            if event.type is not Outcome.INVOKE:
                memory.learn(event.process % workers, event)
        (reliable,) = (v for v in judge_watch(history, **given).verdicts if v.guarantee == "watch-reliable")
        return [n for n in range(24) if memory.listener(n).reached < memory.latest], reliable.reason

    assert played()[0] == []
    whole = WatchWorkload.final_generator
    fewer = options_of("history", {"listeners_per_node": "6"})
    monkeypatch.setattr(WatchWorkload, "final_generator", lambda self, _, nodes: whole(self, fewer, nodes))
    behind, reason = played()
    assert behind == [21, 22, 23] and "did not listen to the end" in reason


@pytest.mark.parametrize(("begin", "figure"), [("past", "watches_in_the_past"), ("future", "watches_in_the_future")])
def test_listeners_begin_where_they_are_told_to_and_the_run_counts_them(begin: str, figure: str) -> None:
    given = {"begin": begin, "again_every": "500ms"}
    judgement = judge_watch(run_watch(None, 1, **given), **given)
    counts = [v.figures[figure].value for v in judgement.verdicts if figure in v.figures]
    assert judgement.validity is Validity.VALID and sum(counts) > 10, judgement.headline


def test_a_run_is_repeated_exactly() -> None:
    first, second = (run_watch(None, 3).events for _ in range(2))
    assert len(first) > 1000
    assert first == second


def test_a_listener_resumes_behind_the_last_change_that_it_heard_of() -> None:
    history = run_watch(None, 1)
    workers = WatchWorkload().workers(options_of("history", {}), 3)
    cursor: dict[int, int] = {}
    resumed = 0
    for op in history.operations:
        worker = op.process % workers
        if op.f == "watch" and worker < 3:
            if op.value is not None and worker in cursor:
                assert op.value <= cursor[worker] + 1
                resumed += op.value == cursor[worker] + 1
            if op.type is Outcome.OK:
                cursor[worker] = op.result
        elif op.f == "next" and worker < 3 and op.type is Outcome.OK:
            for row in op.result:
                if row[0] == "changes":
                    cursor[worker] = max(cursor[worker], *(change[0] for change in row[3]))
    assert resumed >= 12


def test_every_guarantee_that_is_judged_is_stated_and_the_workloads_own_is_among_them() -> None:
    for name in ("etcd", "zookeeper"):
        system, workload = registry.system(name), WatchWorkload()
        assert workload.protocol in system.profile.interfaces
        stated = {guarantee.name for guarantee in system.promises()}
        assert workload.guarantee(system, workload.defaults(system)) in stated


@pytest.mark.parametrize(
    ("version", "standing"),
    [
        ("3.4.23", Standing.RELIED_UPON),
        ("3.4.25", Standing.PROMISED),
        ("3.5.1", Standing.RELIED_UPON),
        ("3.5.7", Standing.RELIED_UPON),
        ("3.5.8", Standing.PROMISED),
        ("3.6.0", Standing.PROMISED),
        ("3.7.3", Standing.PROMISED),
        ("main", Standing.PROMISED),
    ],
)
def test_a_release_of_etcd_is_held_to_bookmarks_since_they_keep_their_place(version: str, standing: Standing) -> None:
    promises = [guarantee for guarantee in ETCD.promises(version) if guarantee.name.startswith("watch-")]
    stated = {guarantee.name: guarantee.standing for guarantee in promises}
    assert stated.pop("watch-bookmarkable") is standing
    assert set(stated.values()) == {Standing.PROMISED}
    assert [g.name for g in ETCD.promises(version)] == [g.name for g in ETCD.promises()]


def test_options_that_make_no_sense_are_refused() -> None:
    members = tuple(Member(name=f"n{i}") for i in range(1, 4))

    def refused(**given: Any) -> str:
        return str(WatchWorkload().refuse(options_of("history", given), members) or "")

    assert refused() == ""
    assert "listeners that begin again" in refused(begin="future", again_every="never")
    assert "again_every" in refused(resume="off")
    choices = WatchWorkload().choices(cast(System, FakeSystem("session")))
    assert choices["compact_every"] == ("never",)
    assert choices["watches"] == ("persistent", "one-shot")


def test_compactions_come_at_their_pace_and_mostly_at_deletions() -> None:
    history = run_watch(None, 2, compact_every="100ms")
    done = [op for op in history.operations if op.f == "compact" and op.type is Outcome.OK]
    deletions = {op.value_position for op in history.operations if op.f == "delete" and op.type is Outcome.OK}
    positions = [op.value for op in done]
    assert 20 < len(done) <= 50
    assert positions == sorted(set(positions))
    assert sum(at in deletions for at in positions) >= len(done) / 2
