"""The fault `link` without a network: what its options mean, which links it acts on, and what counts as proof."""

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import cast

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.kind import FaultSpec, Resolved, Skip, View
from fencepost.harness.faults.link_proof import why_not_felt
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.lab import provider
from fencepost.harness.runtime.network import Effect, Handled, Link, PacketShape, PairedConnections, Passage
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Check, Placement
from fencepost.nemesis.network.link import LinkFault
from tests.fakes import acting
from tests.fakes.fakes_runtime import FakeRuntime, cluster_of

FAULTS = registry.faults()
VIEW = View(nodes=("n1", "n2", "n3"), leader="n2", epoch=4)
MS = 1_000_000


def _spec(text: str) -> FaultSpec:
    (spec,) = parse_faults(text, FAULTS, Placement())
    return spec


def _resolved(text: str, view: View = VIEW) -> Resolved:
    return acting.aimed(LinkFault(), _spec(text), view, random.Random(0))


def _shape(text: str) -> PacketShape:
    """Without its seed, which each link has for itself."""
    shapes = list(cast(dict[Link, PacketShape], _resolved(text).means).values())
    assert len({shape.seed for shape in shapes}) == len(shapes)
    (shape,) = {PacketShape(**{name: getattr(s, name) for name in PacketShape.__slots__} | {"seed": 0}) for s in shapes}
    return shape


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("link", PacketShape(delay_ns=50 * MS)),
        ("link:leader:latency=1.5s:jitter=20ms", PacketShape(delay_ns=1500 * MS, jitter_ns=20 * MS)),
        ("link:n1:loss=5%", PacketShape(loss=0.05)),
        ("link:n1:loss=0.05:duplicate=50%", PacketShape(loss=0.05, duplicate=0.5)),
        ("link:n1:reorder=10%", PacketShape(reorder=0.1, reorder_by_ns=10 * MS)),
        ("link:n1:rate=64KB/s", PacketShape(rate_bytes_s=64_000)),
        ("link:n1:rate=2MB/s:latency=10ms", PacketShape(rate_bytes_s=2_000_000, delay_ns=10 * MS)),
    ],
)
def test_options_become_a_shape(text: str, shape: PacketShape) -> None:
    assert _shape(text) == shape


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("link:n1:latency=100", "'100' is not a duration"),
        ("link:n1:latency=0ms", "does nothing"),
        ("link:n1:latency=0ms:jitter=0ms", "does nothing"),
        ("link:n1:latency=1s:jitter=1100ms", "give at most the latency"),
        ("link:n1:jitter=5ms", "give at most the latency"),
        ("link:n1:latency=1500ms:jitter=1s", "too long to be proven"),
        ("link:n1:loss=100%", "loss: 100% is too large; give at least 1%, at most 90%"),
        ("link:n1:loss=nan", "'nan' is not a share"),
        ("link:n1:duplicate=0", "0 is too small; give at least 1%"),
        ("link:n1:reorder=60%", "give at least 1%, at most 50%"),
        ("link:n1:rate=64", "'64' is not a rate; give a rate, such as 64KB/s"),
        ("link:n1:rate=1KB/s", "1KB/s is too small; give at least 16KB/s, at most 4MB/s"),
        ("link:n1:rate=100MB/s", "100MB/s is too large"),
        ("link:n1:reset=yes:loss=5%", "loss= makes no sense with it"),
        ("link:n1:kind=latency", "unknown link option 'kind'"),
        ("link:n9", "unknown target"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_run(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text, FAULTS, Placement())
    assert said in f"{caught.value.message}; {caught.value.hint}"


@pytest.mark.parametrize(
    ("found", "runtime", "said"),
    [
        (Check("slow and lossy links", True, "by nft_queue"), "lab", None),
        (
            Check("slow and lossy links", False, "refused", "no such", "sudo modprobe x"),
            "lab",
            "no such; sudo modprobe",
        ),
        (Check("nf_tables", False, "refused", "not there", "load it"), "lab", "nf_tables: refused, not there; load it"),
    ],
)
def test_a_machine_that_cannot_hold_packets_says_why(
    found: Check, runtime: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "_attempts", lambda: [found])
    why = LinkFault().unavailable(Placement(why_not=registry.runtime(runtime).why_not))
    assert why is None if said is None else said in str(why)


def test_links_that_cannot_be_slow_do_not_forbid_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Check("slow and lossy links", False, "refused", "no such", "sudo modprobe x")
    monkeypatch.setattr(provider, "_attempts", lambda: [refused])
    provider.refuse_if_impossible()


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("link:leader", "n2>n1 n2>n3 n1>n2 n3>n2"),
        ("link:leader:direction=out", "n2>n1 n2>n3"),
        ("link:leader:direction=in:links=client", "client>n2"),
        ("link:n3:links=all:direction=in", "n1>n3 n2>n3 client>n3"),
        ("link:all", "n1>n2 n1>n3 n2>n1 n2>n3 n3>n1 n3>n2"),
    ],
)
def test_it_acts_on_exactly_the_links_of_the_chosen_nodes(text: str, links: str) -> None:
    resolved = _resolved(text)
    assert {str(link) for link in cast(dict[Link, PacketShape], resolved.means)} == set(links.split())
    assert set(str(resolved.details["links"]).split()) == set(links.split())
    assert not resolved.links, "nothing is severed"
    reset = _resolved(f"{text}:reset=yes")
    assert {str(link) for link in reset.links} == set(links.split())
    assert {*reset.links.values()} == {Effect.RESET}


def test_without_a_leader_there_is_nothing_to_act_on() -> None:
    view = View(nodes=VIEW.nodes, leader=None, epoch=None)
    assert isinstance(LinkFault().choose(_spec("link:leader"), view, random.Random(0)), Skip)


def _passage(**changes: object) -> Passage:
    fields: dict[str, object] = {
        "sent": 100, "arrived": 100, "doubled": 0, "overtaken": 0,
        "least_ms": 0.05, "median_ms": 0.1, "most_ms": 0.4, "rate_bytes_s": 1e6,
    }  # fmt: skip
    return Passage(**{**fields, **changes})  # type: ignore[arg-type]


PLAIN = _passage()
FELT = [
    ("latency=50ms", {"least_ms": 50.1, "median_ms": 51.0, "most_ms": 70.0}),
    ("latency=50ms:jitter=20ms", {"least_ms": 30.2, "median_ms": 51.0, "most_ms": 69.0}),
    ("loss=10%", {"arrived": 88}),
    ("duplicate=10%", {"doubled": 7}),
    ("reorder=10%", {"overtaken": 15}),
    ("rate=64KB/s", {"rate_bytes_s": 63_000.0}),
]


@pytest.mark.parametrize(("text", "felt"), FELT, ids=[text for text, _ in FELT])
def test_each_kind_is_recognised_by_what_it_does_and_not_without_it(text: str, felt: dict[str, float]) -> None:
    shape = _shape(f"link:n1:{text}")
    assert why_not_felt(shape, PLAIN, _passage(**felt)) is None
    assert why_not_felt(shape, None, _passage(**felt)) is None
    assert why_not_felt(shape, PLAIN, PLAIN)
    assert why_not_felt(shape, None, PLAIN)
    assert why_not_felt(shape, PLAIN, None)
    assert why_not_felt(shape, PLAIN, _passage(arrived=0, least_ms=None, median_ms=None, most_ms=None))


@pytest.mark.parametrize(
    ("text", "before", "after", "said"),
    [
        ("latency=50ms", {"median_ms": 55.0}, {"least_ms": 51.0, "most_ms": 60.0}, "it was as slow before"),
        ("latency=50ms:jitter=20ms", {}, {"least_ms": 50.0, "most_ms": 50.9}, "differ too little"),
        ("rate=64KB/s", {"rate_bytes_s": 64_000.0}, {"rate_bytes_s": 63_000.0}, "as narrow before"),
        ("loss=10%", {}, {"arrived": 50}, "50 of 100 lost is not 10%"),
        ("loss=90%", {}, {"arrived": 60}, "40 of 100 lost is not 90%"),
    ],
)
def test_what_another_cause_explains_is_no_proof(
    text: str, before: dict[str, float], after: dict[str, float], said: str
) -> None:
    assert said in (why_not_felt(_shape(f"link:n1:{text}"), _passage(**before), _passage(**after)) or "")


class FakeWitness:
    def __init__(self, found: Mapping[frozenset[str], bool]) -> None:
        self.found = found

    async def ended(self, timeout_s: float) -> Mapping[frozenset[str], bool]:
        return self.found

    async def close(self) -> None: ...


class FakeShapes:
    """Links that experience what they are told to, and the plain passage else."""

    def __init__(self, felt: Mapping[str, object], stuck: Iterable[str] = (), lasting: bool = False) -> None:
        self.felt, self.stuck, self.lasting = felt, {Link(*text.split(">")) for text in stuck}, lasting
        self.in_force: Mapping[Link, PacketShape] = {}
        self.was: set[Link] = set()
        self.mute: set[str] = set()
        self.alive: dict[frozenset[str], bool] = {}
        #: What the first measurements find, before and after: the processes that measure were put off.
        self.busy: dict[bool, Passage] = {}

    async def prepare(self) -> None: ...

    async def apply(self, fault_id: int, links: Mapping[Link, PacketShape]) -> None:
        self.in_force = dict(links)
        self.was |= self.in_force.keys()

    async def withdraw(self, fault_id: int) -> None:
        self.in_force = {}

    async def heal_all(self) -> None: ...

    async def read_back(self) -> frozenset[Link]:
        return frozenset(self.in_force) | self.stuck

    async def handled(self) -> Mapping[Link, Handled]:
        return {link: Handled(seen=5, lost=1) for link in self.in_force}

    async def measure(self, links: Mapping[Link, PacketShape], count: int = 0) -> Mapping[Link, Passage]:
        slow = self.was if self.lasting else self.in_force
        stalled = self.busy.pop(bool(self.in_force), None)
        if stalled is not None:
            return dict.fromkeys(links, stalled)
        found = {link: _passage(**self.felt) if link in slow else PLAIN for link in links}
        return {link: NOTHING if self.mute & {*link} else passage for link, passage in found.items()}

    async def open_witness(self, links: Iterable[Link]) -> PairedConnections:
        return FakeWitness(dict.fromkeys((frozenset(link) for link in links), True) | self.alive)

    async def break_connections(self, links: Iterable[Link]) -> int:
        return 3


NOTHING = _passage(arrived=0, least_ms=None, median_ms=None, most_ms=None)
SLOW = {"least_ms": 50.1, "median_ms": 51.0, "most_ms": 70.0}


def _outcomes(shapes: FakeShapes, text: str = "link:n1:latency=50ms", cut: str = "", dead: str = "") -> list[object]:
    async def act() -> list[object]:
        runtime = FakeRuntime()
        for name in dead.split():
            runtime.nodes[name].state = NodeState.DEAD
        runtime.network.shapes = shapes
        if cut:
            await runtime.network.apply(9, {Link(*one.split(">")): Effect.DROP for one in cut.split()})
        fault, cluster, resolved = LinkFault(), cluster_of(runtime), _resolved(text)
        installed = await acting.inject(fault, 1, resolved, cluster)
        healed = await acting.heal(fault, 1, resolved, cluster)
        again = await acting.heal(fault, 1, resolved, cluster)
        assert again.outcome is healed.outcome, "idempotent"
        return [installed.outcome, healed.outcome, f"{installed.text}; {healed.text}"]

    return asyncio.run(act())


def test_what_is_felt_and_gone_is_proven() -> None:
    installed, healed, text = _outcomes(FakeShapes(SLOW))
    assert (installed, healed) == (FaultOutcome.INSTALLED, FaultOutcome.HEALED), text
    assert "felt on 4 of 4 links" in str(text)
    assert "4 of 4 links free again" in str(text)
    assert "20 packets went through the queue, 4 lost" in str(text)


@pytest.mark.parametrize("is_in_force", [False, True])
def test_a_busy_moment_is_measured_again(is_in_force: bool) -> None:
    """Before, all looks slow; afterwards, what is slow does not look so."""
    shapes = FakeShapes(SLOW)
    shapes.busy = {is_in_force: PLAIN if is_in_force else _passage(**SLOW)}
    installed, _, text = _outcomes(shapes)
    assert installed is FaultOutcome.INSTALLED, text


@pytest.mark.parametrize(
    ("shapes", "installed", "healed", "said"),
    [
        (FakeShapes({}), "indeterminate", "healed", "not felt on n1>n2, n1>n3, n2>n1, n3>n1"),
        (FakeShapes(SLOW, stuck=["n1>n2"]), "installed", "indeterminate", "still hands over the packets of n1>n2"),
        (FakeShapes(SLOW | {"arrived": 99}, lasting=True), "installed", "indeterminate", "not healed: "),
    ],
)
def test_planted_defects_are_indeterminate(shapes: FakeShapes, installed: str, healed: str, said: str) -> None:
    outcome, gone, text = _outcomes(shapes)
    assert (outcome, gone) == (installed, healed)
    assert said in str(text)


def test_a_cut_link_is_not_measured_and_a_wholly_cut_node_not_proven() -> None:
    installed, _, text = _outcomes(FakeShapes(SLOW), cut="n1>n2 n2>n1")
    assert installed is FaultOutcome.INSTALLED
    assert "felt on 2 of 4 links, the others cut or their nodes dead" in str(text)
    installed, _, text = _outcomes(FakeShapes(SLOW), cut="n1>n2 n2>n1 n1>n3 n3>n1")
    assert installed is FaultOutcome.INDETERMINATE
    assert "every link was cut" in str(text)


@pytest.mark.parametrize(
    ("mute", "dead", "installed", "said"),
    [
        ("n2", "n2", FaultOutcome.INSTALLED, "felt on 2 of 4 links, the others cut or their nodes dead"),
        ("", "n2", FaultOutcome.INSTALLED, "felt on 4 of 4 links"),
        ("n2", "", FaultOutcome.INDETERMINATE, "n1>n2 (no datagram arrived)"),
        ("n1", "n1", FaultOutcome.INDETERMINATE, "its node dead, so nothing could be measured"),
    ],
)
def test_silence_is_excused_by_death_alone(mute: str, dead: str, installed: FaultOutcome, said: str) -> None:
    shapes = FakeShapes(SLOW)
    shapes.mute = {*mute.split()}
    outcome, _, text = _outcomes(shapes, dead=dead)
    assert outcome is installed, text
    assert said in str(text)


@pytest.mark.parametrize(
    ("alive", "installed", "said"),
    [
        ("", FaultOutcome.INSTALLED, "2 of 2 idle connections of ours ended by an error at both ends"),
        ("n1 n2", FaultOutcome.INDETERMINATE, "alive: n1-n2"),
    ],
)
def test_a_reset_that_leaves_a_connection_alive_is_not_called_installed(
    alive: str, installed: FaultOutcome, said: str
) -> None:
    shapes = FakeShapes({})
    shapes.alive = {frozenset(alive.split()): False} if alive else {}
    outcome, healed, text = _outcomes(shapes, "link:n1:reset=yes")
    assert (outcome, healed) == (installed, FaultOutcome.HEALED), text
    assert said in str(text)
