"""The plan of a star, without an engine: every link has wires of its own, every address one listener."""

import ipaddress
import itertools

import pytest

from fencepost.harness.plugins import registry
from fencepost.harness.runtime.containers.toxiproxy.addresses import CONTROL_PORT, NODES_MAX, Star
from fencepost.harness.runtime.containers.toxiproxy.control import DOWNSTREAM, UPSTREAM, Wire
from fencepost.harness.runtime.network import CLIENT, Link
from fencepost.harness.runtime.node import members_alike

ETCD = {"client": 2379, "peer": 2380}
ZOOKEEPER = {"client": 2181, "quorum": 2888, "election": 3888}
BLOCK = ipaddress.IPv4Network("10.85.7.0/24")


def of_system(name: str, nodes: int, **options: object) -> Star:
    system = registry.system(name)
    return Star(
        block=BLOCK,
        members=system.members(nodes, system.profile.parse_options(options)),
        listeners=system.profile.listeners,
    )


STARS = {
    "1": Star(block=BLOCK, members=members_alike(1), listeners=ETCD),
    "3": Star(block=BLOCK, members=members_alike(3), listeners=ETCD),
    "5": Star(block=BLOCK, members=members_alike(5), listeners=ZOOKEEPER),
    "most": Star(block=BLOCK, members=members_alike(NODES_MAX), listeners=ZOOKEEPER),
    "kraft": of_system("kraft", NODES_MAX - 1),
    "combined": of_system("kraft", NODES_MAX, combined=True),
    "kafka-zk": of_system("kafka-zk", NODES_MAX - 3),
}


@pytest.fixture(params=list(STARS.values()), ids=list(STARS.keys()))
def star(request: pytest.FixtureRequest) -> Star:
    found: Star = request.param
    return found


def test_each_direction_of_each_proxy_belongs_to_exactly_one_link(star: Star) -> None:
    wires = [wire for link in star.wiring.links for wire in star.wiring.wires(link)]
    probes = [star.wiring.probe(link) for link in star.wiring.links]
    assert len(set(wires)) == len(wires)
    assert len(set(probes)) == len(probes) == len(star.wiring.links)
    real = {
        Wire(spec.name, way) for spec in star.proxies() for way in (UPSTREAM, DOWNSTREAM) if "probe" not in spec.name
    }
    assert set(wires) == real
    assert {wire.proxy for wire in probes} == {spec.name for spec in star.proxies() if "probe" in spec.name}


def test_no_two_listen_at_one_place_and_names_of_toxics_fit_an_address(star: Star) -> None:
    places = [spec.listen for spec in star.proxies()] + [f"{star.server(0)}:{CONTROL_PORT}"]
    assert len(set(places)) == len(places)
    assert all(spec.name.replace("-", "").isalnum() for spec in star.proxies())
    addresses = [star.server(i) for i in range(star.node_count + 1)]
    addresses += [star.node(k) for k in range(1, star.node_count + 1)]
    addresses += [star.witness(k) for k in range(1, star.node_count + 1)]
    assert len(set(addresses)) == len(addresses)
    assert not set(addresses) & {str(star.subnet(i)[1]) for i in range(star.node_count + 1)}, "the gateways'"


def test_a_peer_that_is_dialled_by_name_is_reached_through_the_pairs_own_proxy(star: Star) -> None:
    by_listen = {spec.listen: spec for spec in star.proxies()}
    for i, k in itertools.permutations(range(1, star.node_count + 1), 2):
        for name, port in star.listeners.items():
            if name != CLIENT:
                source, target = star.name(i), star.name(k)
                spec = by_listen[f"{star.hosts(i)[target]}:{port + k}"]
                assert (spec.name, spec.upstream) == (f"{source}-{target}-{name}", f"{star.node(k)}:{port + k}")
    for k in range(1, star.node_count + 1):
        assert star.hosts(k)[star.name(k)] == star.node(k), "a node's own name is itself"


def test_what_must_not_be_reached_is_all_that_lies_in_other_networks(star: Star) -> None:
    for k in range(1, star.node_count + 1):
        own = star.subnet(k)
        forbidden = star.forbidden(k)
        assert forbidden
        assert not any(ipaddress.IPv4Address(host) in own for host, _ in forbidden)
        allowed = star.allowed(k)
        assert (allowed is None) == (star.node_count == 1)
        assert allowed is None or ipaddress.IPv4Address(allowed[0]) in own


def test_what_a_node_sends_its_clients_is_the_way_back_of_what_they_dialled() -> None:
    wiring = Star(block=BLOCK, members=members_alike(3), listeners=ZOOKEEPER).wiring
    assert wiring.wires(Link(CLIENT, "n2")) == (Wire("client-n2-client", UPSTREAM),)
    assert wiring.wires(Link("n2", CLIENT)) == (Wire("client-n2-client", DOWNSTREAM),)
    assert wiring.wires(Link("n1", "n2")) == (
        Wire("n1-n2-quorum", UPSTREAM),
        Wire("n1-n2-election", UPSTREAM),
        Wire("n2-n1-quorum", DOWNSTREAM),
        Wire("n2-n1-election", DOWNSTREAM),
    )


@pytest.mark.parametrize(
    ("name", "node", "expected"),
    [
        ("kraft", "n1", {"client": 9092}),
        ("combined", "n1", {"client": 9092, "controller": 9094}),
        ("kafka-zk", "z1", {"zookeeper": 2182}),
        ("kafka-zk", "b1", {"client": 9092}),
    ],
)
def test_each_listener_that_the_harness_dials_has_a_proxy_of_its_own(
    name: str, node: str, expected: dict[str, int]
) -> None:
    """What nodes dial as well listens at a port of the node's own there, the client's at the same for all."""
    star = STARS[name]
    number = star.names.index(node) + 1
    upstreams = {spec.name: spec.upstream for spec in star.proxies()}
    found = {listener: upstreams[f"client-{node}-{listener}"] for listener in star.dialled(number)}
    assert found == {listener: f"{star.node(number)}:{port}" for listener, port in expected.items()}
    assert {wire.proxy for wire in star.wiring.wires(Link(CLIENT, node))} == {f"client-{node}-{name}" for name in found}
    assert {wire.proxy for wire in star.wiring.wires(Link(node, CLIENT))} == {f"client-{node}-{name}" for name in found}
