"""The election workload: simulated, against a store in memory with planted bugs, and in short real runs."""

import asyncio
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.coordination import Definite, Held, Indefinite, NotSent, Reply
from fencepost.harness.generators import Draw, Offer, time_limit, validate
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import workload_options
from fencepost.harness.testing.simulation import simulate
from fencepost.harness.verdict import Cause, Validity, Verdict
from fencepost.harness.verdict.figures import values
from fencepost.workloads.election import BACKLOG, ELECTION, Election, ElectionClient
from tests.checkers.build import only
from tests.fakes.election_store import BUGS, facts, run_fake_election
from tests.fakes.playing import assert_found_within_ten_seeds
from tests.lab_scenario import require_lab
from tests.run_command import run_undisturbed, without_rows

SEEDS = range(10)
#: With this seed only one leader stalls, and its successor is elected just before it wakes.
ONE_STALL = frozenset({3})
WORKLOAD = Election()
SYSTEM = registry.system("etcd")
OPTIONS = WORKLOAD.defaults(SYSTEM)
S = 1_000_000_000
#: Observers make current reads, and candidates give a campaign up while a node sleeps.
STRONG = {"observe": "strong", "give_up": "1500ms"}


# Against a store in memory


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_within_ten_seeds(bug: str) -> None:
    options = STRONG if bug in ("unknown-leader", "late-campaign") else None

    def judged(seed: int) -> list[Verdict]:
        verdicts = registry.checker("election")(run_fake_election(bug, seed, options), facts(options))
        return [v for v in verdicts if facts().decides(v.guarantee)]

    assert_found_within_ten_seeds(BUGS[bug], judged)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_correct_store_passes_and_was_put_to_the_test(seed: int) -> None:
    verdicts = registry.checker("election")(run_fake_election(None, seed), facts())
    believed = only(verdicts, "one-believed-leader")
    # No campaign of this store goes without an answer, and it has no faults.
    untested = [only(verdicts, name) for name in ("unknown-campaign-is-settled", "somebody-leads-again")]
    assert {verdict.cause for verdict in untested} == {Cause.NO_EXPOSURE}
    for verdict in verdicts:
        if verdict not in (believed, *untested):
            assert verdict.validity is Validity.VALID, (verdict.guarantee, verdict.reason, verdict.witnesses[:1])
    # A stalled leader goes on believing; nothing but the check in its acts keeps it from harm.
    assert believed.counts["two-believers"] >= 1
    if seed not in ONE_STALL:
        assert values(believed.figures)["two_believers_ns"] > S
    acting = only(verdicts, "one-acting-leader")
    assert values(acting.figures)["superseded_fenced"] >= BACKLOG


@pytest.mark.parametrize("seed", range(2, 5))
def test_campaigns_without_an_answer_are_settled_by_a_correct_store(seed: int) -> None:
    verdicts = registry.checker("election")(run_fake_election(None, seed, STRONG), facts(STRONG))
    assert [v.guarantee for v in verdicts if v.validity is Validity.INVALID] == ["one-believed-leader"]
    assert only(verdicts, "unknown-campaign-is-settled").validity is Validity.VALID


@pytest.mark.parametrize("seed", range(3))
def test_without_fencing_the_same_store_is_found_to_mix_terms(seed: int) -> None:
    history = run_fake_election(None, seed, {"fencing": "off"})
    verdicts = registry.checker("election")(history, facts(fenced=False))
    acting = [v for v in verdicts if "old-term-acted" in v.anomalies]
    assert [(v.guarantee, v.validity) for v in acting] == [("one-believed-leader", Validity.INVALID)]
    assert values(acting[0].figures)["superseded_acknowledged"] >= BACKLOG
    assert not [v for v in verdicts if v.guarantee == "one-acting-leader"]


def test_strong_observations_of_a_correct_store_are_current_and_plain_ones_lag() -> None:
    strong = run_fake_election(None, 1, {"observe": "strong"})
    verdict = only(registry.checker("election")(strong, facts({"observe": "strong"})), "linearizable")
    assert (verdict.validity, values(verdict.figures)["observed_behind"]) == (Validity.VALID, 0)
    plain = run_fake_election(None, 1)
    lagging = only(registry.checker("election")(plain, facts()), "session-order")
    assert lagging.validity is Validity.VALID
    assert values(lagging.figures)["observed_behind"] > 0
    broken = only(registry.checker("election")(plain, facts({"observe": "strong"})), "linearizable")
    assert "observed-term-went-back" in broken.anomalies


def test_a_run_is_repeated_exactly() -> None:
    first, second = (run_fake_election(None, 4).events for _ in range(2))
    assert len(first) > 1000
    assert first == second


# The generator, simulated


class World:
    """Grants every campaign while nobody leads, and answers as told."""

    def __init__(self, **fates: tuple[Outcome, str | None]) -> None:
        self.fates = fates
        self.holder: int | None = None
        self.token = 0

    def respond(self, event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        waited_ns = 1 + round(draw.exponential(1_000_000))
        if event.f in self.fates:
            outcome, error = self.fates[event.f]
            return waited_ns, Completion(outcome, error=error)
        if event.f == "campaign":
            if self.holder is not None:
                return waited_ns, Completion(Outcome.FAIL, error="held")
            self.token += 1
            self.holder = event.process % 6
            return waited_ns, Completion(Outcome.OK, [self.token, "h"])
        if event.f == "resign":
            self.holder = None
        return waited_ns, Completion(Outcome.OK, event.value)


def load(seconds: float, world: World, *, seed: int = 1, **options: Any) -> list[OpEvent]:
    merged = workload_options(WORKLOAD, SYSTEM, options)
    generator = validate(time_limit(round(seconds * S), WORKLOAD.generator(merged, 3)))
    workers = WORKLOAD.workers(merged, 3)
    return simulate(generator, workers=workers, nodes=3, seed=seed, respond=world.respond, operations_max=10**6)


def invoked(events: list[OpEvent], f: str) -> list[OpEvent]:
    return [e for e in events if e.type is Outcome.INVOKE and e.f == f]


def by_term(events: list[OpEvent], f: str) -> dict[int, list[OpEvent]]:
    found: dict[int, list[OpEvent]] = defaultdict(list)
    for event in invoked(events, f):
        found[event.value[0]].append(event)
    return dict(found)


def test_a_leader_acts_at_its_rate_renews_and_resigns_and_others_lead_too() -> None:
    events = load(30, World(), stall_one_in=0)
    acts, resigned = by_term(events, "act"), by_term(events, "resign")
    assert len(acts) > 20
    assert all(len(of_term) == 1 for of_term in resigned.values())
    assert 15 < sum(map(len, acts.values())) / len(acts) < 25
    assert len({act.process for of_term in acts.values() for act in of_term}) == 3
    for of_term in acts.values():
        gaps = [later.time_ns - earlier.time_ns for earlier, later in pairwise(of_term)]
        assert all(gap >= S // 60 // 2 for gap in gaps), gaps
    assert invoked(events, "renew")
    values = [act.value[2] for act in invoked(events, "act")]
    assert len(set(values)) == len(values)


def test_every_so_many_terms_one_stalls_and_acts_on_afterwards() -> None:
    events = load(60, World(), stall_one_in=4, stall="3s")
    stalled = []
    for token, of_term in by_term(events, "act").items():
        gaps = [later.time_ns - earlier.time_ns for earlier, later in pairwise(of_term)]
        if gaps and max(gaps) > 2 * S:
            stalled.append(token)
            assert 3 * S <= max(gaps) < 3.1 * S
            assert len(gaps) - gaps.index(max(gaps)) == BACKLOG
            stalled_ns = of_term[-BACKLOG - 1].time_ns
            assert not [r for r in by_term(events, "renew").get(token, []) if r.time_ns > stalled_ns]
    assert stalled[:3] == [3, 7, 11]


def test_a_leader_that_is_refused_acts_on_for_a_while_resigns_late_and_then_campaigns() -> None:
    events = load(5, World(act=(Outcome.FAIL, "fenced"), resign=(Outcome.FAIL, "not-held")))
    assert len(invoked(events, "act")) == BACKLOG
    assert len(invoked(events, "resign")) == 1
    assert invoked(events, "campaign")[-1].time_ns > 4 * S


def test_a_leader_whose_lease_is_over_renews_no_more_and_ends_its_term_soon() -> None:
    events = load(3, World(renew=(Outcome.FAIL, "lease-expired")), acts_per_term=200, stall_one_in=1)
    for token, renewals in by_term(events, "renew").items():
        assert len(renewals) == 1
        later = [act for act in by_term(events, "act")[token] if act.time_ns > renewals[0].time_ns]
        assert len(later) <= BACKLOG


def test_a_leader_that_cannot_act_gives_up_after_a_while() -> None:
    events = load(20, World(act=(Outcome.FAIL, "not-connected")))
    acts = by_term(events, "act")[1]
    assert 1 < len(acts) <= 20
    assert acts[-1].time_ns - acts[0].time_ns < 5 * S


def test_a_leader_goes_on_under_its_term_when_an_act_is_of_unknown_outcome() -> None:
    events = load(5, World(act=(Outcome.INFO, "timeout")))
    for of_term in by_term(events, "act").values():
        assert len({act.process for act in of_term}) == len(of_term)


@pytest.mark.parametrize(("system", "waits_s"), [("etcd", 12.0), ("kafka-zk", 1.5), ("kraft", 1.5)])
def test_a_coordinator_that_sleeps_is_not_waited_for(system: str, waits_s: float) -> None:
    options = WORKLOAD.defaults(registry.system(system))
    assert WORKLOAD.timeout_s(options, 3, 0, patient_s=12.0) == waits_s


def test_observers_keep_their_rate_whoever_leads() -> None:
    counts = Counter(e.f for e in load(20, World(), observe_rate=50.0) if e.type is Outcome.INVOKE)
    assert 0.9 * 20 * 50 < counts["observe"] < 1.1 * 20 * 50


# The client


class Scripted:
    """A store that answers from a list, and remembers what it was asked."""

    session_id = None

    def __init__(self, **answers: list[Any]) -> None:
        self.answers, self.asked = answers, list[str]()

    def _answer(self, name: str) -> Any:
        self.asked.append(name)
        answer = self.answers[name].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def renew(self) -> Any:
        return self._answer("renew")

    async def acquire(self, name: str) -> Any:
        return self._answer("acquire")

    async def act(self, *_: Any, **__: Any) -> Any:
        return self._answer("act")

    async def release(self, *_: Any) -> Any:
        return self._answer("release")


def client_of(store: Any) -> ElectionClient:
    client = WORKLOAD.client(store, OPTIONS, lambda: 0)
    assert isinstance(client, ElectionClient)
    return client


def invoke(client: ElectionClient, offer: Offer) -> Completion:
    return asyncio.run(client.invoke(offer))


def test_a_candidate_renews_its_lease_but_does_not_campaign_with_one_that_a_term_hangs_on() -> None:
    held = Held(token=5, handle="h")
    store = Scripted(
        renew=[Definite("lease-expired"), Reply(), Reply()],
        acquire=[Definite("held"), held, held],
        act=[Definite("fenced")],
    )
    client, campaign = client_of(store), Offer("campaign", ELECTION)
    with pytest.raises(Definite, match="held"):
        invoke(client, campaign)
    assert invoke(client, campaign).value == [5, "h"]
    with pytest.raises(NotSent, match="lease-in-use"):
        invoke(client, campaign)
    assert store.asked == ["renew", "acquire", "renew", "acquire"]
    with pytest.raises(Definite, match="fenced"):
        invoke(client, Offer("act", "trail", [5, "h", 1]))
    invoke(client, campaign)
    assert store.asked[-3:] == ["act", "renew", "acquire"]


def test_a_campaign_whose_renewal_was_lost_asked_for_nothing() -> None:
    store = Scripted(renew=[Indefinite("connection-lost")])
    with pytest.raises(NotSent, match="connection-lost"):
        invoke(client_of(store), Offer("campaign", ELECTION))
    assert store.asked == ["renew"]


def test_what_it_says_of_itself() -> None:
    system = registry.system("zookeeper")
    options = WORKLOAD.defaults(system)
    assert (options.observe, options.members) == ("plain", "barrier")
    assert WORKLOAD.guarantee(system, options) == "one-acting-leader"
    assert WORKLOAD.notice(options) is None
    off = workload_options(WORKLOAD, system, {"fencing": "off"})
    assert WORKLOAD.requires(off) == ("one-believed-leader",) == (WORKLOAD.guarantee(system, off),)
    assert WORKLOAD.notice(off)
    for name in ("etcd", "zookeeper"):
        stated = {guarantee.name for guarantee in registry.system(name).promises()}
        assert {"one-acting-leader", "terms-grow", "one-believed-leader"} <= stated


# Real clusters


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(400)
@pytest.mark.parametrize("system", ["etcd", pytest.param("zookeeper", marks=pytest.mark.long)])
def test_with_fencing_no_act_of_an_old_term_takes_effect(tmp_path: Path, system: str) -> None:
    require_lab()
    done, _ = run_undisturbed(
        tmp_path, "--system", system, "--workload", "election", "--nemesis", "none", "--time-limit", "12s",
        "--seed", "5", "-o", "acts_per_term=4", "-o", "renew_every=20ms", "-o", "campaign_every=60ms",
        "-o", "stall_one_in=10", "-o", "stall=2500ms", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    document = without_rows(json.loads(done.stdout))
    assert document["validity"] == "valid"
    (acting,) = [v for v in document["verdicts"] if v["guarantee"] == "one-acting-leader"]
    assert acting["figures"]["superseded_fenced"] >= BACKLOG
