"""A simulated cluster whose deposed leaders linger: correct, it is never judged to have acted; with a zombie, always.

Epoch e begins at `begins[e]`; its leader goes on claiming for a while after the next epoch has begun. In the correct
cluster such a leader forwards (but for a maker who rules that out), refuses or is silent; the zombie answers reads from
its last state, and acknowledges writes. Positions are (epoch << 32) + counter, as ZooKeeper's.
"""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.checkers import leadership
from fencepost.checkers.derived.claims import claimed_spans
from fencepost.checkers.derived.reigns import reigns_of
from fencepost.checkers.leadership import freshness
from fencepost.checkers.storage import sessions
from fencepost.harness.history import BeliefEvent, Claim, History, Operation, Outcome
from fencepost.harness.verdict import Facts, Validity
from fencepost.harness.verdict.figures import values
from tests.checkers.build import MS, NODES, Tale, bound, facts, only
from tests.seeds import WHOLE_HISTORIES

_LENGTH_MS = 6000


class Cluster:
    """Who led when, and a tale of what was asked and answered."""

    def __init__(self, seed: int, *, zombie: bool, exact: bool, forwards: bool = True) -> None:
        self.draw = random.Random(seed)
        self.forwards = forwards
        #: What the zombie acknowledged: the values.
        self.acknowledged: list[int] = []
        self.zombie, self.exact = zombie, exact
        self.tale = Tale()
        self.begins = [0]
        while self.begins[-1] < _LENGTH_MS:
            self.begins.append(self.begins[-1] + self.draw.randrange(700, 2000))
        self.leaders = [NODES[i % 3] for i in range(len(self.begins))]
        # A leader lingers for less than the next reign, so that it never leads two epochs at once.
        self.ends = [end + self.draw.randrange(0, 650) for end in self.begins[1:]]
        self._ask()
        self._operate()

    def epoch(self, at_ms: float) -> int:
        return max(e for e, begin in enumerate(self.begins) if begin <= at_ms)

    def claimed(self, node: str, at_ms: float) -> int | None:
        """The epoch that `node` believes it leads."""
        mine = [e for e, end in enumerate(self.ends) if self.leaders[e] == node and self.begins[e] <= at_ms < end]
        return max(mine, default=None)

    def _ask(self) -> None:
        for node in NODES:
            for asked in range(0, _LENGTH_MS, 40):
                answered = asked + self.draw.uniform(0.1, 60)
                epoch = self.claimed(node, self.draw.uniform(asked, answered))
                if epoch is None:
                    self.tale.deny(node, asked, answered)
                else:
                    # As etcd's Status: the term is that of the last applied entry.
                    low = epoch if self.exact else max(0, epoch - self.draw.randrange(2))
                    self.tale.claim(node, low, asked, answered, epoch_exact=self.exact)
        if not self.exact:
            for epoch, begin in enumerate(self.begins[:-1]):
                self.tale.log(self.leaders[epoch], epoch, begin + self.draw.uniform(0, 900))

    def _operate(self) -> None:
        counts: Counter[int] = Counter()
        store: dict[str, tuple[int, int]] = {}
        old: dict[int, dict[str, tuple[int, int]]] = {}
        free = dict.fromkeys(range(12), 0.0)
        moments = sorted(self.draw.uniform(1, _LENGTH_MS) for _ in range(700))
        for number, at in enumerate(moments):
            for e, begin in enumerate(self.begins):
                if begin <= at:
                    old.setdefault(e - 1, dict(store))
            # A process asks one node only, one thing at a time.
            process = self.draw.randrange(12)
            start, end = at - self.draw.uniform(0.1, 20), at + self.draw.uniform(0.1, 20)
            if start <= free[process]:
                continue
            free[process] = end
            node, key, epoch = NODES[process % 3], self.draw.choice("ab"), self.epoch(at)
            led = self.claimed(node, at)
            lingers = led is not None and led < epoch
            told: dict[str, Any] = {"node": node, "at": (start, end), "process": process}
            if lingers and self.zombie and self.draw.random() < 0.7:
                value, position = old[led or 0].get(key, (None, None))
                stamp = (led or 0) << 32
                self.tale.read(key, value, **told, value_position=position, position=stamp, epoch=led)
            elif lingers and self.zombie and not self.forwards:
                self.acknowledged.append(number)
                self.tale.write(key, number, **told)
            elif lingers and not self.forwards:
                self.tale.op("write", key, number, **told, type=Outcome.FAIL, error="not-leader")
            elif lingers and self.draw.random() < 0.5:
                self.tale.op("read", key, **told, type=Outcome.FAIL, error="not-leader")
            elif self.draw.random() < 0.5:
                counts[epoch] += 1
                position = (epoch << 32) + counts[epoch]
                store[key] = (number, position)
                self.tale.write(key, number, **told, position=position, value_position=position, epoch=epoch)
            else:
                value, seen = store.get(key, (None, None))
                stamp = (epoch << 32) + counts[epoch]
                self.tale.read(key, value, **told, value_position=seen, position=stamp, epoch=epoch)


def provably_stale(history: History) -> list[Operation]:
    """Reads that lack a write of a higher epoch completed before they were invoked, by the definition."""
    writes = [o for o in history.operations if o.f == "write"]
    return [
        r
        for r in history.operations
        if r.f == "read"
        and r.type is Outcome.OK
        and any(
            w.key == r.key
            and (w.epoch or 0) > (r.epoch or 0)
            and (w.completed_ns or 0) < r.invoked_ns
            and (w.position or 0) > (r.value_position if r.value_position is not None else r.position or 0)
            for w in writes
        )
    ]


def certainly_own(history: History, reads: list[Operation]) -> list[Operation]:
    """Those that came before their node claimed the same epoch once more."""
    beliefs = [e for e in history.events if isinstance(e, BeliefEvent) and e.claims is Claim.YES]
    return [
        r
        for r in reads
        if any(b.node == r.node and b.epoch == r.epoch and b.asked_ns > (r.completed_ns or 0) for b in beliefs)
    ]


@pytest.mark.parametrize("exact", [True, False])
@WHOLE_HISTORIES
@given(seed=st.integers(0, 2**32))
def test_a_correct_cluster_is_never_judged_to_have_acted(seed: int, exact: bool) -> None:
    history = Cluster(seed, zombie=False, exact=exact).tale.history()
    verdicts = [
        *leadership.check(history, facts()),
        *freshness.check(history, facts()),
        *sessions.check(history, facts()),
    ]
    assert [(v.guarantee, v.counts) for v in verdicts if v.validity is Validity.INVALID] == []


def refusing() -> Facts:
    return facts(leadership=msgspec.structs.replace(bound(None), superseded_acknowledges_nothing=True))


@pytest.mark.parametrize("exact", [True, False])
@WHOLE_HISTORIES
@given(seed=st.integers(0, 2**32))
def test_leaders_that_refuse_when_superseded_are_never_judged_to_have_acted(seed: int, exact: bool) -> None:
    history = Cluster(seed, zombie=False, exact=exact, forwards=False).tale.history()
    assert only(leadership.check(history, refusing()), leadership.NO_ACT).counts == {}


@WHOLE_HISTORIES
@given(seed=st.integers(0, 2**32))
def test_every_acknowledgement_that_is_a_zombie_s_own_is_found(seed: int) -> None:
    cluster = Cluster(seed, zombie=True, exact=True, forwards=False)
    history = cluster.tale.history()
    writes = [o for o in history.operations if o.value in cluster.acknowledged and o.f == "write"]
    begun = {epoch: min(b.answered_ns for b in claims_of(history) if b.epoch == epoch) for epoch in epochs_of(history)}
    own = [
        w
        for w in writes
        if any(
            b.node == w.node
            and b.epoch is not None
            and b.asked_ns > (w.completed_ns or 0)
            and any(epoch > b.epoch and at_ns < w.invoked_ns for epoch, at_ns in begun.items())
            for b in claims_of(history)
            if b.epoch == cluster.claimed(w.node, w.invoked_ns / MS)
        )
    ]
    verdict = only(leadership.check(history, refusing()), leadership.NO_ACT)
    found = verdict.counts.get("acknowledged-while-superseded", 0)
    # Stamps of acknowledged reads and writes prove a beginning earlier than claims alone do.
    assert len(own) <= found <= len(writes)


def claims_of(history: History) -> list[BeliefEvent]:
    return [e for e in history.events if isinstance(e, BeliefEvent) and e.claims is Claim.YES]


def epochs_of(history: History) -> set[int]:
    return {e.epoch for e in claims_of(history) if e.epoch is not None}


@pytest.mark.parametrize("exact", [True, False])
@WHOLE_HISTORIES
@given(seed=st.integers(0, 2**32))
def test_every_certain_claim_is_true(seed: int, exact: bool) -> None:
    cluster = Cluster(seed, zombie=False, exact=exact)
    for span in claimed_spans(reigns_of(cluster.tale.history(), "leader")):
        epoch = span.reign.epoch
        assert cluster.leaders[epoch] == span.reign.node
        assert cluster.begins[epoch + 1] * MS <= span.from_ns
        assert span.to_ns <= cluster.ends[epoch] * MS


@WHOLE_HISTORIES
@given(seed=st.integers(0, 2**32))
def test_every_provable_answer_of_a_zombie_is_found(seed: int) -> None:
    history = Cluster(seed, zombie=True, exact=True).tale.history()
    stale = provably_stale(history)
    verdicts = leadership.check(history, facts())
    by_leader = [v.counts["stale-answer-by-superseded-leader"] for v in verdicts if v.guarantee == "linearizable"]
    assert sum(by_leader) == len(certainly_own(history, stale))
    (fresh,) = freshness.check(history, facts())
    assert fresh.counts.get("stale-read", 0) == len(stale)
    assert values(fresh.figures)["stale_reads_of_superseded_leader"] == len(stale)


def test_the_simulation_is_no_straw_man() -> None:
    zombies = [Cluster(seed, zombie=True, exact=True).tale.history() for seed in range(10)]
    assert sum(bool(certainly_own(h, provably_stale(h))) for h in zombies) >= 8
    lying = [Cluster(seed, zombie=True, exact=True, forwards=False).tale.history() for seed in range(10)]
    verdicts = [only(leadership.check(history, refusing()), leadership.NO_ACT) for history in lying]
    assert sum(bool(verdict.anomalies) for verdict in verdicts) >= 8
    refused = [Cluster(seed, zombie=False, exact=True, forwards=False).tale.history() for seed in range(10)]
    exposed = [only(leadership.check(history, refusing()), leadership.NO_ACT).tested for history in refused]
    assert sum(bool(exposure) for exposure in exposed) >= 8
    for exact in (True, False):
        tales = [Cluster(seed, zombie=False, exact=exact).tale.history() for seed in range(10)]
        assert sum(bool(claimed_spans(reigns_of(h, "leader"))) for h in tales) >= (8 if exact else 3)
