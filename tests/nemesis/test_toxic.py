"""The fault `toxic` without a proxy: what its options mean, which links it acts on, and what counts as proof."""

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import cast

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.kind import FaultSpec, Resolved, Skip, View
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.network import ConnectionEnding, Experience, Link, Toxic
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.network.toxic import ToxicFault, is_felt
from tests.fakes import acting
from tests.fakes.fakes_runtime import FakeRuntime, cluster_of

FAULTS = registry.faults()
PROXIED = Placement(runtime="containers", why_not=lambda _: None)
VIEW = View(nodes=("n1", "n2", "n3"), leader="n2", epoch=4)
PLAIN = Experience(
    ending=ConnectionEnding.COMPLETE,
    round_trips_ms=(0.3, 0.2, 0.4),
    byte_count=50_000,
    pieces=10,
    rate_kb_s=20_000.0,
    closing_ms=0.2,
    ended_ms=5.0,
)
SILENT = Experience(ending=ConnectionEnding.SILENT, ended_ms=1500.0)


def _spec(text: str) -> FaultSpec:
    (spec,) = parse_faults(text, FAULTS, PROXIED)
    return spec


def _resolved(text: str, view: View = VIEW) -> Resolved:
    return acting.aimed(ToxicFault(), _spec(text), view, random.Random(0))


def _toxic(text: str) -> Toxic:
    (toxic,) = {repr(toxic): toxic for toxic in cast(dict[Link, Toxic], _resolved(text).means).values()}.values()
    return toxic


@pytest.mark.parametrize(
    ("text", "kind", "attributes"),
    [
        ("toxic", "latency", {"latency": 100, "jitter": 0}),
        ("toxic:leader:latency=1.5s:jitter=20ms", "latency", {"latency": 1500, "jitter": 20}),
        ("toxic:kind=bandwidth", "bandwidth", {"rate": 64}),
        ("toxic:n1:kind=bandwidth:rate=10KB/s", "bandwidth", {"rate": 10}),
        ("toxic:n1:kind=slow-close:delay=300ms", "slow_close", {"delay": 300}),
        ("toxic:n1:kind=timeout:timeout=2s", "timeout", {"timeout": 2000}),
        ("toxic:n1:kind=black-hole", "timeout", {"timeout": 0}),
        ("toxic:n1:kind=reset", "reset_peer", {"timeout": 0}),
        (
            "toxic:n1:kind=slicer:size=10:variation=2:delay=500us",
            "slicer",
            {"average_size": 10, "size_variation": 2, "delay": 500},
        ),
        ("toxic:n1:kind=limit-data:bytes=77", "limit_data", {"bytes": 77}),
    ],
)
def test_options_become_what_the_server_understands(text: str, kind: str, attributes: dict[str, int]) -> None:
    text = text.replace("toxic:kind", "toxic:one:kind")
    assert _toxic(text) == Toxic(kind=kind, attributes=attributes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("toxic:n1:latency=100", "'100' is not a duration"),
        ("toxic:n1:latency=0ms", "does nothing"),
        ("toxic:n1:latency=1500us", "counts in steps of 1ms"),
        ("toxic:n1:latency=3s:jitter=2s", "too long to be proven"),
        ("toxic:n1:rate=10", "kind=latency has no option rate; it has: latency, jitter"),
        ("toxic:n1:kind=black-hole:timeout=1s", "kind=black-hole has no option timeout; it has: none"),
        ("toxic:n1:kind=bandwidth:rate=0", "0 is too small; give at least 1KB/s"),
        ("toxic:n1:kind=bandwidth:rate=1MB/s", "give a whole number of KB/s, such as 64"),
        ("toxic:n1:kind=slicer:size=4:variation=4", "variation= must be smaller than size="),
        ("toxic:n1:kind=limit-data:bytes=many", "expected a whole number, got 'many'"),
        ("toxic:n1:toxicity=0", "0 is too small; give more than 0%, at most 100%"),
        ("toxic:n1:toxicity=nan", "'nan' is not a share"),
        ("toxic:n1:kind=loss", "is not a choice"),
        ("toxic:n9", "unknown target"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_run(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text, FAULTS, PROXIED)
    assert said in f"{caught.value.message}; {caught.value.hint}"


def test_where_no_proxy_can_be_the_plan_is_refused_with_the_remedy() -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults("toxic:leader", FAULTS, Placement(why_not=registry.runtime("lab").why_not))
    assert "--runtime containers" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("toxic:leader", "n2>n1 n2>n3 n1>n2 n3>n2"),
        ("toxic:leader:direction=out", "n2>n1 n2>n3"),
        ("toxic:leader:direction=in:links=client", "client>n2"),
        ("toxic:n3:links=all:direction=in", "n1>n3 n2>n3 client>n3"),
        ("toxic:all", "n1>n2 n1>n3 n2>n1 n2>n3 n3>n1 n3>n2"),
    ],
)
def test_it_acts_on_exactly_the_links_of_the_chosen_nodes(text: str, links: str) -> None:
    resolved = _resolved(text)
    assert {str(link) for link in cast(dict[Link, Toxic], resolved.means)} == set(links.split())
    assert not resolved.links, "nothing is severed"


def test_without_a_leader_there_is_nothing_to_act_on() -> None:
    view = View(nodes=VIEW.nodes, leader=None, epoch=None)
    assert isinstance(ToxicFault().choose(_spec("toxic:leader"), view, random.Random(0)), Skip)


def _after(**changes: object) -> Experience:
    fields = {name: getattr(PLAIN, name) for name in Experience.__slots__}
    return Experience(**{**fields, **changes})


FELT = [
    ("toxic:n1:latency=100ms", _after(round_trips_ms=(100.2, 101.0))),
    ("toxic:n1:latency=100ms:jitter=90ms", _after(round_trips_ms=(12.0, 60.0, 140.0))),
    ("toxic:n1:kind=bandwidth:rate=10", _after(rate_kb_s=10.2)),
    ("toxic:n1:kind=bandwidth:rate=1", Experience(ending=ConnectionEnding.SILENT, byte_count=1500, ended_ms=1500.0)),
    ("toxic:n1:kind=slow-close:delay=300ms", _after(closing_ms=301.0)),
    ("toxic:n1:kind=timeout:timeout=300ms", Experience(ending=ConnectionEnding.CLOSED, ended_ms=301.0)),
    ("toxic:n1:kind=black-hole", SILENT),
    ("toxic:n1:kind=reset", Experience(ending=ConnectionEnding.RESET, ended_ms=1.0)),
    ("toxic:n1:kind=reset:timeout=100ms", Experience(ending=ConnectionEnding.CLOSED, ended_ms=101.0)),
    ("toxic:n1:kind=slicer", _after(pieces=900)),
    ("toxic:n1:kind=limit-data", Experience(ending=ConnectionEnding.CLOSED, byte_count=1000, ended_ms=3.0)),
]


@pytest.mark.parametrize(("text", "after"), FELT, ids=[text for text, _ in FELT])
def test_each_kind_is_recognised_by_what_it_does_and_not_without_it(text: str, after: Experience) -> None:
    toxic = _toxic(text)
    assert is_felt(toxic, PLAIN, after)
    assert not is_felt(toxic, PLAIN, PLAIN)
    if "black-hole" not in text:
        assert not is_felt(toxic, PLAIN, SILENT), "silence is what a dead link looks like, too"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("toxic:n1:latency=100ms", _after(round_trips_ms=(40.0, 50.0))),
        ("toxic:n1:kind=bandwidth:rate=10", _after(rate_kb_s=40.0)),
        ("toxic:n1:kind=timeout:timeout=300ms", Experience(ending=ConnectionEnding.CLOSED, ended_ms=2.0)),
        ("toxic:n1:kind=limit-data", Experience(ending=ConnectionEnding.CLOSED, byte_count=1001, ended_ms=3.0)),
        ("toxic:n1:kind=limit-data:bytes=90000", PLAIN),
    ],
)
def test_an_effect_that_is_too_weak_proves_nothing(text: str, after: Experience) -> None:
    assert not is_felt(_toxic(text), PLAIN, after)


class FakeStreams:
    """Holds what it is given, and tells each connection's experience from a script; planted defects as flags."""

    def __init__(self, felt: list[Experience], *, forgets: bool = False, keeps: bool = False) -> None:
        self.held: dict[int, Mapping[Link, Toxic]] = {}
        self._felt = felt
        self._forgets = forgets
        self._keeps = keeps

    async def apply(self, fault_id: int, links: Mapping[Link, Toxic]) -> None:
        self.held[fault_id] = {} if self._forgets else links

    async def withdraw(self, fault_id: int) -> None:
        if not self._keeps:
            self.held.pop(fault_id, None)

    async def read_back(self) -> Mapping[Link, tuple[Toxic, ...]]:
        found: dict[Link, tuple[Toxic, ...]] = {}
        for links in self.held.values():
            for link, toxic in links.items():
                found[link] = (*found.get(link, ()), toxic)
        return found

    async def measure(self, links: Iterable[Link], timeout_s: float = 5.0) -> Mapping[Link, Experience]:
        if not self.held:
            return dict.fromkeys(links, PLAIN)
        felt = self._felt.pop(0) if len(self._felt) > 1 else self._felt[0]
        return dict.fromkeys(links, felt)


def _runtime(streams: FakeStreams) -> FakeRuntime:
    runtime = FakeRuntime()
    runtime.streams = streams
    return runtime


def _injected(text: str, streams: FakeStreams) -> tuple[FaultOutcome, str]:
    proof = asyncio.run(acting.inject(ToxicFault(), 1, _resolved(text), cluster_of(_runtime(streams))))
    return proof.outcome, proof.text


def test_the_proof_shows_the_figures_before_and_after() -> None:
    outcome, text = _injected("toxic:n1:latency=100ms:direction=in", FakeStreams([_after(round_trips_ms=(100.1,))]))
    assert outcome is FaultOutcome.INSTALLED
    assert "latency latency=100 jitter=0: felt on 2 of 2 links" in text
    assert "n2>n1: round trip 0.2 to 0.4 ms" in text
    assert "round trip 100.1 to 100.1 ms" in text


def test_a_toxic_that_is_held_but_not_felt_is_not_called_installed() -> None:
    outcome, text = _injected("toxic:n1:latency=100ms", FakeStreams([PLAIN]))
    assert outcome is FaultOutcome.INDETERMINATE
    assert "not felt on n1>n2" in text


def test_a_toxic_that_a_busy_moment_hid_is_measured_again() -> None:
    felt = FakeStreams([SILENT, _after(round_trips_ms=(100.1,))])
    assert _injected("toxic:n1:latency=100ms", felt)[0] is FaultOutcome.INSTALLED


def test_a_toxic_that_the_server_does_not_hold_is_not_called_installed() -> None:
    outcome, text = _injected("toxic:n1:kind=black-hole", FakeStreams([SILENT], forgets=True))
    assert outcome is FaultOutcome.INDETERMINATE
    assert "does not hold the toxic on n1>n2" in text


def test_what_befalls_some_connections_is_tried_on_several() -> None:
    late = _after(round_trips_ms=(100.1,))
    assert _injected("toxic:n1:toxicity=0.3", FakeStreams([PLAIN, PLAIN, PLAIN, late]))[0] is FaultOutcome.INSTALLED
    assert _injected("toxic:n1:toxicity=0.3", FakeStreams([PLAIN]))[0] is FaultOutcome.INDETERMINATE


def test_healing_is_proven_and_a_toxic_that_stays_is_said() -> None:
    async def healed(keeps: bool) -> tuple[FaultOutcome, str]:
        streams = FakeStreams([SILENT], keeps=keeps)
        runtime, resolved = _runtime(streams), _resolved("toxic:n1:kind=black-hole")
        await acting.inject(ToxicFault(), 1, resolved, cluster_of(runtime))
        proof = await acting.heal(ToxicFault(), 1, resolved, cluster_of(runtime))
        again = await acting.heal(ToxicFault(), 1, resolved, cluster_of(runtime))
        assert keeps or again.outcome is FaultOutcome.HEALED, "healing is idempotent"
        return proof.outcome, proof.text

    assert asyncio.run(healed(False)) == (FaultOutcome.HEALED, "4 of 4 links free again")
    outcome, text = asyncio.run(healed(True))
    assert outcome is FaultOutcome.INDETERMINATE
    assert "still holds the toxic on n1>n2" in text
