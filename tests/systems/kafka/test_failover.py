"""The failover curve without a cluster: the fit, the log lines, the probes against fakes, the document and the page."""

import asyncio
import contextlib
import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from kafka.protocol.admin.topics import ElectLeadersRequest, ElectLeadersResponse

from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.cli import main
from fencepost.harness.contract.system import Answer
from fencepost.harness.coordination import Definite
from fencepost.harness.history import Claim
from fencepost.systems.kafka.failover import change_probe, probes
from fencepost.systems.kafka.failover.cell import (
    AMOUNTS,
    ENDS,
    PHASES,
    FailoverCell,
    FailoverEnding,
    FailoverSample,
    measured,
    topics,
)
from fencepost.systems.kafka.failover.change_probe import ChangeProbe, longest_gap_s
from fencepost.systems.kafka.failover.cluster import FailoverCluster
from fencepost.systems.kafka.failover.document import Curve, costs, document, read_document, seconds, table
from fencepost.systems.kafka.failover.growth import fit
from fencepost.systems.kafka.failover.load_time import load_time_s
from fencepost.systems.kafka.failover.measurable import failover_of, system_of
from fencepost.systems.kafka.failover.measure import connected
from fencepost.systems.kafka.failover.page import page
from fencepost.systems.kafka.failover.picture import drawn, standing_alone
from fencepost.systems.kafka.failover.probes import Partition, ProduceProbe, first_of
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.kafka.wire.codec import decode, encode
from fencepost.systems.kafka.wire.messages import ELECT_LEADERS
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK
from tests.fakes.virtual_time import run_virtual
from tests.systems.kafka.failover_curve import section


def test_a_line_is_found_exactly_and_its_error_is_that_of_least_squares() -> None:
    exact = fit([(10, 0.204), (1000, 0.6), (5000, 2.2)])
    assert exact is not None and exact.per_1000_s == pytest.approx(0.4, abs=1e-9)
    assert exact.at(0) == pytest.approx(0.2, abs=1e-9)
    assert exact.per_1000_error_s == pytest.approx(0, abs=1e-9)
    points = [(10.0, 0.21), (100.0, 0.3), (1000.0, 0.82), (5000.0, 2.1)]
    found = fit(points)
    assert found is not None and found.per_1000_error_s is not None
    xs, ys = np.array(points).T
    # As the covariance matrix of the general method has it.
    design = np.stack([np.ones_like(xs), xs / 1000], axis=1)
    solution, unexplained, _, _ = np.linalg.lstsq(design, ys, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * unexplained[0] / (len(xs) - 2)
    assert (found.at_zero_s, found.per_1000_s) == pytest.approx(tuple(solution))
    assert found.per_1000_error_s == pytest.approx(float(np.sqrt(covariance[1, 1])))


def test_too_few_points_are_no_line_and_two_have_no_error() -> None:
    assert fit([]) is None
    assert fit([(10, 1.0), (10, 2.0)]) is None
    two = fit([(0, 1.0), (1000, 2.0)])
    assert two is not None and two.per_1000_s == pytest.approx(1.0) and two.per_1000_error_s is None


KRAFT_LOG = """\
08:00:01.100 [controller] INFO QuorumController - Becoming the active controller at epoch 3, new next write offset 9
08:00:01.111 [controller] INFO QuorumController - Activated periodic tasks: electPreferred, expireTokens
08:01:59.999 [controller] INFO QuorumController - Becoming the active controller at epoch 5, new next write offset 90
08:02:00.004 [controller] INFO QuorumController - Activated periodic tasks: electPreferred, expireTokens
08:03:00.000 [controller] INFO QuorumController - Becoming the active controller at epoch 7, new next write offset 99
"""


def test_the_last_whole_loading_counts() -> None:
    assert load_time_s(KRAFT.failover.loading, KRAFT_LOG) == pytest.approx(0.005)
    assert load_time_s(KRAFT.failover.loading, KRAFT_LOG.splitlines()[0]) is None
    zookeeper = (
        "23:59:59.900 INFO KafkaController - [Controller id=4] 4 successfully elected as the controller. Epoch"
        " incremented to 2\n00:00:00.711 INFO KafkaController - [Controller id=4] Starting the controller scheduler\n"
    )
    assert load_time_s(KAFKA_ZK.failover.loading, zookeeper) == pytest.approx(0.811)
    assert load_time_s(KRAFT.failover.loading, zookeeper) is None


def test_topics_have_that_many_partitions_together() -> None:
    assert topics(10) == {"load-0": 10}
    assert sum(topics(1250).values()) == 1250
    assert max(topics(5000).values()) == 500 and len(topics(5000)) == 10


class _Broker:
    """Leads some partitions, after a while others too; fails the first request."""

    def __init__(self, leads: set[Partition], later: set[Partition], from_round: int) -> None:
        self.leads, self.later, self.from_round = leads, later, from_round
        self.rounds: list[list[Partition]] = []

    async def produce_all(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        self.rounds.append(list(partitions))
        if len(self.rounds) == 1:
            raise Definite("not-connected")
        led = self.leads | (self.later if len(self.rounds) >= self.from_round else set())
        return {partition: 0 if partition in led else 6 for partition in partitions}

    def close(self) -> None:
        pass


def test_the_produce_probe_asks_until_every_partition_has_acknowledged() -> None:
    all_of_them = {("load-0", number) for number in range(6)}
    first = _Broker({("load-0", 0), ("load-0", 1)}, {("load-0", 4), ("load-0", 5)}, 5)
    second = _Broker({("load-0", 2), ("load-0", 3)}, set(), 0)
    probe = ProduceProbe([first, second], all_of_them)

    async def run() -> None:
        async with asyncio.timeout(5):
            await probe.run()

    run_virtual(run())
    assert not probe.pending and probe.last_at is not None
    assert probe.refusals["produce: not-leader-or-follower"] > 0
    assert probe.refusals["produce: not-connected"] == 2
    # What has acknowledged is not asked again.
    assert set(first.rounds[-1]) == {("load-0", 4), ("load-0", 5)}


def test_few_partitions_are_asked_for_while_none_becomes_available() -> None:
    all_of_them = {("load-0", number) for number in range(350)}
    broker = _Broker(set(), all_of_them, 7)
    probe = ProduceProbe([broker], all_of_them)

    async def run() -> None:
        async with asyncio.timeout(5):
            await probe.run()

    run_virtual(run())
    # The first is lost, the second finds nothing; then the next hundred each time until one acknowledges.
    assert [len(asked) for asked in broker.rounds] == [350, 350, 100, 100, 100, 100, 100, 250]
    assert len({partition for asked in broker.rounds[2:6] for partition in asked}) == 350


def test_the_produce_probe_says_what_stayed_silent() -> None:
    probe = ProduceProbe([_Broker({("load-0", 0)}, set(), 0)], {("load-0", 0), ("load-0", 1)})

    async def run() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await probe.run()

    run_virtual(run())
    assert probe.pending == {("load-0", 1)}


def test_the_first_that_is_done_ends_the_others() -> None:
    ended: list[str] = []

    async def work(name: str, delay_s: float) -> None:
        try:
            await asyncio.sleep(delay_s)
        except asyncio.CancelledError:
            ended.append(name)
            raise

    async def run() -> None:
        await first_of([work("quick", 0.01), work("slow", 30)])

    run_virtual(run())
    assert ended == ["slow"]


def test_electing_leaders_travels_as_the_protocol_says() -> None:
    # Preferred (0), all partitions (null), a time-out, no tagged fields.
    assert (
        encode(ElectLeadersRequest(topic_partitions=None, timeout_ms=1000), 2, True) == b"\x00\x00\x00\x00\x03\xe8\x00"
    )
    assert ELECT_LEADERS.key == 43
    answer = b"\x00\x00\x00\x00\x00\x29\x01\x00"
    assert decode(ElectLeadersResponse, 2, True, answer, 0).error_code == 41


def _sample(
    system: str, partitions: int, ending: FailoverEnding, value: float | None, load_s: float | None
) -> FailoverSample:
    return FailoverSample(
        system=system,
        partitions=partitions,
        ending=ending,
        ended="n1",
        successor="n2",
        metadata_s=value,
        produce_s=None if value is None else value + 1,
        load_s=load_s,
        pushed_bytes=None if value is None else 2_000_000 + 1000 * partitions,
        fetched_bytes=None if value is None else 4_000,
    )


def _curve(times: int = 3) -> Curve:
    samples = [
        _sample(system, partitions, ending, 1 + slope * partitions + 0.01 * number, slope * partitions)
        for system, slope in (("kraft", 0.0), ("kafka-zk", 0.0004))
        for partitions in (10, 1000, 5000)
        for ending in ENDS
        for number in range(3)
    ]
    return Curve(
        systems=("kraft", "kafka-zk"),
        versions={"kraft": "4.3.1", "kafka-zk": "3.9.2"},
        partitions=(10, 1000, 5000),
        times=times,
        samples=tuple(samples),
    )


def test_the_document_has_medians_growth_and_every_sample() -> None:
    curve = _curve()
    made = json.loads(json.dumps(document(curve)))
    assert curve.incomplete == [] == made["incomplete"]
    assert len(made["figures"]) == 2 * 2 * 3 * len(measured(FailoverEnding.KILL)) and len(made["samples"]) == 36
    figure = next(
        f
        for f in made["figures"]
        if f["system"] == "kafka-zk" and f["measure"] == "metadata_s" and f["partitions"] == 1000
    )
    assert figure["median_s"] == pytest.approx(1.41) and figure["count"] == 3
    growth = {(g["system"], g["ending"], g["measure"]): g for g in made["growth"]}
    assert growth["kafka-zk", "kill", "load_s"]["per_1000_s"] == pytest.approx(0.4)
    assert growth["kraft", "stop", "metadata_s"]["per_1000_s"] == pytest.approx(0)


def test_what_is_missing_is_said_and_never_filled_in() -> None:
    whole = _curve(times=4)
    assert len(whole.incomplete) == 2 * 2 * 3 * len(measured(FailoverEnding.KILL))
    assert "kraft, 10 partitions, kill: first accepted metadata change: 3 of 4" in whole.incomplete
    holed = Curve(
        systems=("kraft",),
        versions={"kraft": "4.3.1"},
        partitions=(10, 100),
        times=1,
        samples=(_sample("kraft", 10, FailoverEnding.KILL, None, None),),
        failures=("kraft, 100 partitions: not begun before the deadline",),
    )
    assert holed.figure("kraft", FailoverEnding.KILL, "metadata_s", 10).median_s is None
    assert holed.growth("kraft", FailoverEnding.KILL, "metadata_s") is None
    assert {row[3] for row in table(holed)[1:]} == {"not measured"}
    shown = page(holed)
    assert "not begun before the deadline" in shown and "not measured" in shown
    assert "too few points" in shown


def test_the_picture_is_well_formed_and_has_a_mark_for_each_median() -> None:
    curve = _curve()
    svg = ET.fromstring(str(drawn(curve)))
    space = "{http://www.w3.org/2000/svg}"
    titles = [
        mark.findtext(f"{space}title") or "" for mark in svg.iter() if mark.tag in (f"{space}circle", f"{space}rect")
    ]
    assert sum("median" in said for said in titles) == 2 * 2 * 3 * len(measured(FailoverEnding.KILL))
    lines = [line for line in svg.iter(f"{space}line") if "fit" in (line.get("class") or "")]
    assert len(lines) == 2 * 2 * len(measured(FailoverEnding.KILL))
    for mark in svg.iter(f"{space}circle"):
        assert 0 <= float(mark.get("cx") or -1) <= 1200
    assert "kafka-zk, 5,000 partitions: median 2.00 s of 3" in titles
    assert "<script" not in page(curve)
    alone = ET.fromstring(standing_alone(curve))
    assert alone.findtext(f"{space}style") and len(list(alone.iter())) == len(list(svg.iter())) + 2


def test_the_documents_section_says_what_was_measured_and_what_was_not() -> None:
    curve = _curve(times=4)
    again = read_document(json.loads(json.dumps(document(curve))))
    assert again == curve
    said = section(again)
    assert len([line for line in said if line.startswith("| ")]) == 2 + 2 * 2 * len(
        (*measured(FailoverEnding.KILL), *AMOUNTS)
    )
    assert any(line.startswith("Missing: ") and "3 of 4" in line for line in said)
    assert not any(line.startswith("Missing") for line in section(_curve()))


def test_seconds_are_milliseconds_below_one() -> None:
    assert (seconds(0.0064), seconds(1.5), seconds(None)) == ("6 ms", "1.50 s", "not measured")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--systems", "etcd"), ["'etcd'", "kafka-zk, kraft"]),
        (("--systems", "kraft,kraft"), ["--systems: one is named twice"]),
        (("--partitions", "ten"), ["'ten' is not a number"]),
        (("--partitions", "0"), ["0 is not between 1 and"]),
        (("--partitions", ""), ["--partitions: nothing is named"]),
        (("--times", "0"), ["--times"]),
        (("--deadline", "20"), ["'20' is not a duration"]),
    ],
)
def test_a_mistake_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], said: list[str]
) -> None:
    assert main(["failover", *arguments, "--results", str(tmp_path)]) == 254
    err = capsys.readouterr().err
    for part in said:
        assert part in err
    assert list(tmp_path.iterdir()) == []


def test_who_is_active_is_asked_over_questions_that_are_kept() -> None:
    """One may read its node's log from the beginning, which after some endings takes longer than an answer may."""
    made: list[_Asked] = []
    places = {name: SimpleNamespace(roles=("broker",), dial=lambda port: ("127.0.0.1", port)) for name in ("n1", "n2")}
    cell = FailoverCell(system="kafka-zk", version="0", partitions=10, times=1, budget_s=1.0, artifacts={})
    cluster = FailoverCluster(cell, {}, cast(Any, places), cast(Any, None))
    cluster.system = cast(Any, SimpleNamespace(profile=KAFKA_ZK.profile, question=lambda place, subject: _made(made)))

    async def ask() -> list[str | None]:
        found = [await cluster.active() for _ in range(3)]
        await cluster.close()
        return found

    assert asyncio.run(ask()) == ["n1", "n1", "n1"]
    assert [(one.asked, one.closed) for one in made] == [(3, 1), (3, 1)]


def test_a_cluster_that_does_not_stay_as_it_settled_is_settled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is active at first, then one cannot be reached, then all is well; and never is told at last."""

    class Probe:
        left: ClassVar[list[Exception | None]] = []

        def __init__(self, controllers: Mapping[str, object], names: str) -> None:
            self.controllers, self.closed = set(controllers), False

        async def open(self) -> None:
            error = self.left.pop(0)
            if error is not None:
                raise error

        def close(self) -> None:
            self.closed = True

    class Settling:
        cell = SimpleNamespace(name="kraft-10")
        controllers: ClassVar[dict[str, object]] = dict.fromkeys(("n1", "n2", "n3"))

        def __init__(self, *active: str | None) -> None:
            self.actives, self.settled = list(active), 0

        async def active(self) -> str | None:
            return self.actives.pop(0)

        async def settle(self) -> None:
            self.settled += 1

    monkeypatch.setattr("fencepost.systems.kafka.failover.measure.MetadataProbe", Probe)
    Probe.left = [Definite("not-connected"), None]
    cluster = Settling(None, "n1", "n2")
    ended, probe = run_virtual(connected(cast(Any, cluster), "probe"))
    assert (ended, cast(Any, probe).controllers, cluster.settled) == ("n2", {"n1", "n3"}, 2)
    with pytest.raises(HarnessError, match="no single active controller"):
        run_virtual(connected(cast(Any, Settling(None, None, None)), "probe"))


class _Asked:
    def __init__(self, claims: Claim) -> None:
        self.claims, self.asked, self.closed = claims, 0, 0

    async def ask(self) -> Answer:
        self.asked += 1
        return Answer(claims=self.claims, source="fake")

    async def close(self) -> None:
        self.closed += 1


def _made(made: list[_Asked]) -> _Asked:
    made.append(_Asked(Claim.NO if made else Claim.YES))
    return made[-1]


def test_each_way_of_ending_has_a_sentence_on_its_cost() -> None:
    said = costs(_curve())
    assert len(said) == 4
    assert said[0].startswith("kraft, controller killed: a metadata change is accepted after 1.01 s with 10 partitions")
    assert "stopped in order" in said[1] and "2.0 MB sent and 4 kB received" in said[1]
    assert all(text in page(_curve()) for text in ("What each ending or phase costs", "7.0 MB sent"))


def _migrated() -> Curve:
    """A migration at three sizes beside one system without phases, which was not measured."""
    samples = [
        FailoverSample(
            system="kafka-bridge",
            partitions=partitions,
            ending=phase,
            ended="",
            gap_s=0.5 + partitions / 1000,
            phase_s=10.0,
            load_s=0.1 if phase is FailoverEnding.HYBRID else None,
        )
        for partitions in (10, 1000, 5000)
        for phase in PHASES
    ]
    return Curve(
        systems=("kraft", "kafka-bridge"),
        versions={"kraft": "4.3.1", "kafka-bridge": "3.9.2"},
        partitions=(10, 1000, 5000),
        times=1,
        samples=tuple(samples),
    )


def test_a_migration_has_its_phases_in_place_of_endings() -> None:
    curve = _migrated()
    assert all(text.startswith("kraft, ") for text in curve.incomplete)
    rows = [row[:4] for row in table(curve) if row[0] == "kafka-bridge"]
    assert len(rows) == sum(len(measured(phase)) for phase in PHASES) == 9
    assert ["kafka-bridge", "hybrid", "longest time without an accepted metadata change", "510 ms"] in rows
    assert ["kafka-bridge", "hybrid", "the new controller's own loading, or its copy (its log)", "100 ms"] in rows
    said = costs(curve)
    assert len(said) == 2 + len(PHASES)
    assert "kafka-bridge, up to hybrid: no metadata change is accepted for 510 ms with 10 partitions" in said[3]
    assert "+1000 ms per 1,000" in said[3]
    titles = [mark.text or "" for mark in ET.fromstring(str(drawn(curve))).iter() if mark.tag.endswith("title")]
    assert "kafka-bridge, 5,000 partitions: median 5.50 s of 1" in titles
    assert "up to dual-write" in page(curve)
    assert read_document(json.loads(json.dumps(document(curve)))) == curve


def test_a_gap_reaches_from_the_last_acceptance_before_the_steps_to_the_first_one_after_them() -> None:
    accepted = [1.0, 2.0, 2.1, 4.0, 4.5, 7.5]
    assert longest_gap_s(accepted, 2.05, 4.2) == pytest.approx(1.9)
    assert longest_gap_s(accepted, 1.5, 1.6) == pytest.approx(1.0)
    assert longest_gap_s(accepted, 2.05, 5.0) == pytest.approx(3.0)
    assert longest_gap_s(accepted, 0.5, 2.0) is None and longest_gap_s(accepted, 2.0, 8.0) is None


def test_one_node_is_asked_for_changes_until_it_refuses_and_then_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """n1 acts for 2 s, nobody for 1 s, then n2, while n3 never does and each answer takes a millisecond."""
    asked: Counter[str] = Counter()

    class Node:
        def __init__(self, name: str) -> None:
            self.name, self.connection = name, SimpleNamespace(ended=None)

        async def create_topic(self, topic: str, **_: object) -> None:
            await asyncio.sleep(0.001)
            asked[self.name] += 1
            now = asyncio.get_running_loop().time() - began
            if not ((self.name == "n1" and now < 2) or (self.name == "n2" and now > 3)):
                raise Definite("not-controller")

        def close(self) -> None:
            pass

    async def opened(name: str, port: int, **_: object) -> Node:
        return Node(name)

    monkeypatch.setattr(probes, "open_node", opened)
    monkeypatch.setattr(change_probe, "time", SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time()))
    began = 0.0
    probe = ChangeProbe(lambda: {name: (name, 1) for name in ("n1", "n2", "n3")}, "probe")

    async def run() -> float:
        nonlocal began
        began = asyncio.get_running_loop().time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await probe.run()
        return began

    run_virtual(run())
    gap = longest_gap_s(probe.accepted, probe.accepted[0], probe.accepted[-1])
    assert gap == pytest.approx(1.0, abs=0.15)
    assert len(probe.accepted) == pytest.approx(35, abs=6), "ten changes a second"
    assert asked["n3"] == pytest.approx(50, abs=15), "asked every 20 ms, only while nobody acts"
    assert len(probe.made) == len(probe.accepted)


def test_controllers_can_have_nodes_of_their_own() -> None:
    apart = failover_of("kraft+controllers")
    assert not apart.options.combined
    assert system_of("kraft+controllers") is system_of("kraft")
    with pytest.raises(UsageError, match="kafka-zk\\+controllers"):
        failover_of("kafka-zk+controllers")
