"""What is decided before any packet flows: the subnet, the shares of the nodes, whom to suspect of shut links."""

from ipaddress import IPv4Network
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.containers.engine import network as engine_network
from fencepost.harness.runtime.links.open_links import guess
from fencepost.harness.runtime.links.packet_rules import Addresses, share
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import CLIENT, Effect, Link


class Engine:
    """What `make_network` asks of the docker SDK: networks with their subnets, of which some refuse to be made."""

    def __init__(self, taken: list[str], refuses: dict[str, str] | None = None) -> None:
        self.networks = self
        self.asked: list[dict[str, Any]] = []
        self._taken = taken
        self._refuses = refuses or {}

    def list(self) -> list[Any]:
        listed = [{"IPAM": {"Config": [{"Subnet": subnet}]}} for subnet in self._taken]
        # Networks of other drivers have none, some engines say null.
        return [SimpleNamespace(attrs=attrs) for attrs in ({"IPAM": {"Config": None}}, {"IPAM": None}, *listed)]

    def create(self, name: str, **fields: Any) -> Any:
        self.asked.append(fields)
        subnet = fields["ipam"]["Config"][0]["Subnet"]
        refusal = self._refuses.get(subnet) or self._refuses.get("*")
        if refusal:
            raise APIError(refusal)
        return SimpleNamespace(id="made")


def make(engine: Engine, **fields: Any) -> engine_network.EngineNetwork:
    client: Any = engine
    return engine_network.make_network(client, "net", {"a": "b"}, **{"internal": True, **fields})


@pytest.fixture(autouse=True)
def no_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else has networks on this machine now."""
    monkeypatch.setattr(engine_network, "_routes", lambda: iter(()))


def test_the_first_free_subnet_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_network, "_routes", lambda: iter([IPv4Network("10.78.2.0/23")]))
    made = make(Engine(["10.78.0.0/25", "fd00::/64", "10.78.1.128/30", "172.17.0.0/16"]))
    assert (str(made.subnet), made.gateway, made.address(1)) == ("10.78.4.0/24", "10.78.4.1", "10.78.4.10")


@pytest.mark.parametrize(
    "words", ["Pool overlaps with other one on this address space", "subnet 10.78.0.0/24 is already used on the host"]
)
def test_a_subnet_that_the_engine_refuses_is_left_to_the_other(words: str) -> None:
    engine = Engine([], {"10.78.0.0/24": words})
    assert str(make(engine).subnet) == "10.78.1.0/24"
    assert len(engine.asked) == 2


def test_no_subnet_is_left() -> None:
    with pytest.raises(MachineError, match=r"no subnet of 10\.78.0.0/16 is free") as told:
        make(Engine(["10.0.0.0/8"]))
    assert "docker network" in (told.value.hint or "")
    with pytest.raises(MachineError, match=r"the engine refused 10.78.0.0/24, .*10.78.15.0/24"):
        make(Engine([], {"*": "Pool overlaps with other one on this address space"}))


def test_another_refusal_is_told_at_once() -> None:
    engine = Engine([], {"*": "network with name net already exists"})
    with pytest.raises(MachineError, match="network with name net already exists"):
        make(engine)
    assert len(engine.asked) == 1


def test_a_way_out_exists_for_published_ports_only_and_translates_nothing() -> None:
    engine = Engine([])
    make(engine)
    make(engine, internal=False)
    assert [asked["internal"] for asked in engine.asked] == [True, False]
    assert [asked["options"] for asked in engine.asked] == [
        {},
        {"com.docker.network.bridge.enable_ip_masquerade": "false"},
    ]


def test_ports_are_free_and_differ() -> None:
    ports = engine_network.free_ports(20)
    assert len(set(ports)) == 20


def test_every_link_stands_in_the_map_of_one_node() -> None:
    links = dict.fromkeys(all_links(["n1", "n2", "n3"]), Effect.DROP)
    shares = [share(links, name) for name in ("n1", "n2", "n3")]
    assert sum(map(len, shares)) == len(links)
    assert {link for part in shares for link in part} == links.keys()


def test_keys_lead_back_to_links_whatever_the_client_is_called() -> None:
    addresses = Addresses({"n1": "10.78.0.10", "n2": "10.78.0.11"}, "10.78.0.1")
    links = {Link(CLIENT, "n1"): Effect.DROP, Link("n1", CLIENT): Effect.RESET, Link("n2", "n1"): Effect.DROP}
    assert addresses.learn("n1", "192.168.65.1")
    assert addresses.learn("n1", "192.168.65.1")
    assert not addresses.learn("n1", "10.78.0.11")
    state = addresses.state(links, "n1")
    assert len(state) == 5  # the client has two addresses there
    assert addresses.links(state, "n1") == links
    assert addresses.state(links, "n2") == {}


NODES = ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("shut", "words"),
    [
        ([Link(name, CLIENT) for name in NODES], "INPUT"),
        ([link for link in all_links(NODES) if CLIENT not in link], "FORWARD"),
        ([link for link in all_links(NODES) if "n2" in link], "nothing reaches or leaves n2"),
        ([Link(CLIENT, name) for name in NODES], "firewall rules of this machine"),
    ],
)
def test_who_may_be_guilty(shut: list[Link], words: str) -> None:
    assert words in guess(shut, "10.78.0.0/24")
