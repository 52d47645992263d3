"""Control of Toxiproxy against a stand-in server on the loopback address: no engine, every misfortune."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers.toxiproxy.server import HeldToxic, ToxiproxyServer
from fencepost.harness.runtime.containers.toxiproxy.streams import ToxiproxyStreams
from fencepost.harness.runtime.containers.toxiproxy.wiring import ProxySpec, Wiring
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import CLIENT, Link, Toxic
from fencepost.harness.runtime.node import Member

LATE = Toxic(kind="latency", attributes={"latency": 5})
WHERE = HeldToxic("a", "upstream", "x")
#: What the real server takes of the attributes.
KNOWN = {"latency": ("latency", "jitter"), "timeout": ("timeout",)}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that did not wait for a slow answer is what some tests are about."""


class StandIn:
    """Proxies and toxics as the real server keeps them; `spoil` may answer a request in its place."""

    def __init__(self) -> None:
        self.proxies: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.credentials: set[str | None] = set()
        #: Where answers send the client.
        self.location = ""
        self.spoil: Callable[[str, str], tuple[int, Any] | None] = lambda method, path: None
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body leave in two writes; the second must not wait for the first's acknowledgement.
            disable_nagle_algorithm = True

            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.credentials.add(self.headers.get("Authorization"))
                outer.requests.append(f"{self.command} {self.path}")
                status, answer = outer.spoil(self.command, self.path) or outer.answer(
                    self.command, self.path, json.loads(body or "null")
                )
                said = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                if outer.location:
                    self.send_header("Location", outer.location)
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_DELETE = do_any

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        with self._lock:
            match [method, *path.strip("/").split("/")]:
                case ["GET", "version"]:
                    return 200, {"version": "2.12.0"}
                case ["GET", "proxies"]:
                    return 200, self.proxies
                case ["POST", "populate"]:
                    self.proxies |= {fields["name"]: {**fields, "toxics": []} for fields in body}
                    return 201, {"proxies": list(self.proxies.values())}
                case ["POST", "proxies", name, "toxics"]:
                    # The real server takes what it knows of the attributes, and 0 for the rest.
                    body["attributes"] = {key: body["attributes"].get(key, 0) for key in KNOWN[body["type"]]}
                    self.proxies[name]["toxics"].append(body)
                    return 200, body
                case ["DELETE", "proxies", name, "toxics", toxic]:
                    kept = [held for held in self.proxies[name]["toxics"] if held["name"] != toxic]
                    found = len(kept) < len(self.proxies[name]["toxics"])
                    self.proxies[name]["toxics"] = kept
                    return (204, "") if found else (404, "toxic not found")
                case _:
                    return 404, "no such thing"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[StandIn]:
    standing_in = StandIn()
    yield standing_in
    standing_in.close()


@pytest.fixture
def control(server: StandIn) -> ToxiproxyServer:
    made = ToxiproxyServer("127.0.0.1", server.port, timeout_s=40.0)
    made.make([ProxySpec("a", "127.0.0.1:1", "127.0.0.1:2")])
    return made


def test_what_is_added_is_held_and_what_is_removed_is_gone(server: StandIn, control: ToxiproxyServer) -> None:
    control.hold({WHERE: LATE})
    assert control.held() == {WHERE: Toxic(kind="latency", attributes={"latency": 5, "jitter": 0})}
    control.hold({WHERE: LATE, HeldToxic("a", "downstream", "y"): LATE})
    control.hold({})
    assert control.held() == {}
    assert server.requests.count("POST /proxies/a/toxics") == 2, "what is held already stays"


@pytest.mark.parametrize("status", [302, 400, 403, 404, 409, 500, 503])
def test_every_refusal_is_an_error_with_the_servers_words(
    server: StandIn, control: ToxiproxyServer, status: int
) -> None:
    server.spoil = lambda method, path: (status, "listen: address already in use")
    for call in (control.held, lambda: control.make([]), lambda: control.hold({WHERE: LATE})):
        with pytest.raises(HarnessError, match=f"{status} listen: address already in use"):
            call()


def test_an_answer_that_is_no_json_is_told(server: StandIn, control: ToxiproxyServer) -> None:
    server.spoil = lambda method, path: (200, "<html>")
    with pytest.raises(HarnessError, match="not JSON: b'<html>'"):
        control.held()


def test_neither_a_proxy_nor_credentials_of_a_person_are_used(
    server: StandIn, control: ToxiproxyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert control.held() == {}
    assert server.credentials == {None}


def test_a_server_that_points_elsewhere_is_not_followed(server: StandIn, control: ToxiproxyServer) -> None:
    server.location = f"http://127.0.0.1:{server.port}/version"
    server.spoil = lambda method, path: (307, "elsewhere") if path == "/proxies" else None
    with pytest.raises(HarnessError, match="307 elsewhere"):
        control.held()


def test_a_slow_server_is_not_waited_for(server: StandIn) -> None:
    release = threading.Event()
    # It answers once the other has given up, or never.
    server.spoil = lambda method, path: (release.wait(), (200, {}))[1]
    try:
        with pytest.raises(HarnessError, match=r"did not answer GET .*/proxies within 0.1 s"):
            ToxiproxyServer("127.0.0.1", server.port, timeout_s=0.1).held()
    finally:
        release.set()


def test_a_dead_server_is_told_as_such() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        control = ToxiproxyServer("127.0.0.1", unused.getsockname()[1])
        for call in (control.held, lambda: control.await_ready(0.05)):
            with pytest.raises(HarnessError, match="Toxiproxy cannot be reached"):
                call()


def test_each_server_of_a_process_is_its_own(server: StandIn, control: ToxiproxyServer) -> None:
    other = StandIn()
    try:
        ToxiproxyServer("127.0.0.1", other.port).make([ProxySpec("b", "127.0.0.1:1", "127.0.0.1:2")])
        assert (list(server.proxies), list(other.proxies)) == (["a"], ["b"])
    finally:
        other.close()


def test_what_the_server_does_not_know_is_found_when_it_is_read_back(control: ToxiproxyServer) -> None:
    with pytest.raises(HarnessError, match=r"asked for a upstream latency \{'latencyy': 1\}, but holds .*'latency': 0"):
        control.hold({WHERE: Toxic(kind="latency", attributes={"latencyy": 1})})


def test_a_proxy_that_is_made_otherwise_or_not_at_all_is_an_error(server: StandIn, control: ToxiproxyServer) -> None:
    spec = ProxySpec("b", "127.0.0.1:3", "127.0.0.1:4")
    for made in ([], [{"name": "b", "listen": "127.0.0.1:9", "upstream": spec.upstream, "enabled": True}]):
        server.spoil = lambda method, path, made=made: (201, {"proxies": made})  # type: ignore[misc]  # bound now
        with pytest.raises(HarnessError, match="Toxiproxy was asked for the proxy"):
            control.make([spec])


NODES = ("n1", "n2", "n3")
WIRING = Wiring(
    [Member(name, dialled=(CLIENT, "election") if name == "n3" else (CLIENT,)) for name in NODES],
    {CLIENT: 2000, "peer": 3000, "election": 4000},
    {name: f"10.78.0.{10 + at}" for at, name in enumerate(NODES)},
)


def test_every_connection_is_led_to_the_proxy_that_dials_its_target() -> None:
    for name in NODES:
        proxies = {int(spec.listen.rpartition(":")[2]): spec for spec in WIRING.proxies(name)}
        assert len(proxies) == len(WIRING.proxies(name))
        rules = WIRING.redirects(name)
        for address, port, at in rules["outgoing"]:
            assert proxies[at].listen.startswith("127.0.0.1:")
            assert proxies[at].upstream == f"{address}:{port}"
        for port, at in rules["incoming"]:
            assert proxies[at].upstream.endswith(f":{port}")
        assert len(rules["outgoing"]) == 4
        assert sorted(port for port, _ in rules["incoming"]) == ([2000, 4000] if name == "n3" else [2000])
        assert len(rules["peers"]) == 2


def test_every_proxy_carries_two_links_or_is_there_to_measure_one() -> None:
    carried: dict[tuple[str, str], list[str]] = {}
    for link in all_links([*NODES]):
        wires = WIRING.wires(link)
        assert WIRING.probe(link) in wires
        for wire in wires:
            carried.setdefault((wire.server, wire.proxy), []).append(wire.stream)
    made = {(name, spec.name) for name in NODES for spec in WIRING.proxies(name)}
    assert carried.keys() == made
    for (_, proxy), streams in carried.items():
        assert sorted(streams) == (["downstream"] if proxy.startswith("measure-") else ["downstream", "upstream"])


class Cluster:
    """Streams whose nodes' servers are stand-ins."""

    def __init__(self) -> None:
        self.stand_ins = {name: StandIn() for name in NODES}
        servers = {name: ToxiproxyServer("127.0.0.1", one.port, timeout_s=40.0) for name, one in self.stand_ins.items()}
        for name, server in servers.items():
            server.make(WIRING.proxies(name))
        probes = dict.fromkeys(all_links([*NODES]), ("127.0.0.1", 1))
        self.streams = ToxiproxyStreams(WIRING, servers, probes)

    @property
    def toxics(self) -> int:
        return sum(len(proxy["toxics"]) for one in self.stand_ins.values() for proxy in one.proxies.values())


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    for one in made.stand_ins.values():
        one.close()


def test_two_faults_share_a_link_and_leave_one_by_one(cluster: Cluster) -> None:
    async def scenario() -> None:
        streams, link, back = cluster.streams, Link("n1", "n2"), Link(CLIENT, "n3")
        await streams.apply(1, {link: LATE})
        await streams.apply(2, {link: LATE, back: Toxic(kind="timeout", attributes={"timeout": 0})})
        held = await streams.read_back()
        assert {link: len(toxics) for link, toxics in held.items()} == {link: 2, back: 1}
        await streams.withdraw(1)
        await streams.withdraw(9)
        assert {link: len(toxics) for link, toxics in (await streams.read_back()).items()} == {link: 1, back: 1}
        # Somebody takes one toxic of many away: the link does not have it any more.
        proxy = next(proxy for proxy in cluster.stand_ins["n2"].proxies.values() if proxy["toxics"])
        proxy["toxics"].clear()
        assert list(await streams.read_back()) == [back]
        await streams.heal_all()
        assert cluster.toxics == 0
        with pytest.raises(HarnessError, match="there is no link n1>n9"):
            await streams.apply(3, {Link("n1", "n9"): LATE})

    asyncio.run(scenario())


def test_a_change_that_failed_halfway_is_mended_by_the_next_one(cluster: Cluster) -> None:
    async def scenario() -> None:
        cluster.stand_ins["n2"].spoil = lambda method, path: (500, "no") if method == "POST" else None
        with pytest.raises(HarnessError, match="500 no"):
            await cluster.streams.apply(1, {Link("n1", "n2"): LATE})
        cluster.stand_ins["n2"].spoil = lambda method, path: None
        await cluster.streams.withdraw(1)
        assert cluster.toxics == 0

    asyncio.run(scenario())


def test_a_cancelled_change_ends_before_the_healing_after_it(cluster: Cluster) -> None:
    async def scenario() -> None:
        begun, release = threading.Event(), threading.Event()

        def slow(method: str, path: str) -> None:
            if method == "POST":
                begun.set()
                release.wait(30)

        cluster.stand_ins["n1"].spoil = slow
        acting = asyncio.create_task(cluster.streams.apply(1, {Link("n1", "n2"): LATE}))
        await asyncio.to_thread(begun.wait, 30)
        acting.cancel()
        await asyncio.wait([acting])
        healing = asyncio.create_task(cluster.streams.heal_all())
        await asyncio.sleep(0.05)
        release.set()
        await healing
        assert cluster.toxics == 0

    asyncio.run(scenario())
