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
from fencepost.harness.runtime.containers.toxiproxy.control import (
    TOXICS,
    Control,
    Held,
    ProxySpec,
    Wire,
    complete,
    refuse,
)
from fencepost.harness.runtime.containers.toxiproxy.links import (
    ProxiedLinks,
    ToxiproxyNetwork,
    ToxiproxyStreams,
    Wiring,
)
from fencepost.harness.runtime.links.rules_in_force import Contributions
from fencepost.harness.runtime.network import Effect, Link, Reach, Toxic
from tests.runtime.links.exact_probe import HEARD_S

LATE = Toxic(kind="latency", attributes={"latency": 5})
WHERE = Held(Wire("a", "upstream"), "x")
CUT = Link("n1", "n2")


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
                case ["POST", "reset"]:
                    for proxy in self.proxies.values():
                        proxy["toxics"] = []
                    return 204, ""
                case ["POST", "proxies", name, "toxics"]:
                    # The real server takes what it knows of the attributes, and 0 for the rest.
                    body["attributes"] = {key: body["attributes"].get(key, 0) for key in TOXICS[body["type"]]}
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
def control(server: StandIn) -> Iterator[Control]:
    opened = Control("127.0.0.1", server.port, timeout_s=40.0)
    opened.populate([ProxySpec("a", "127.0.0.1:1", "127.0.0.1:2")])
    yield opened
    opened.close()


def test_what_is_added_is_held_and_what_is_removed_is_gone(control: Control) -> None:
    control.change([], {WHERE: LATE})
    assert control.held() == {WHERE: complete(LATE)}
    control.change([WHERE], {})
    assert control.held() == {}
    assert control.version() == "2.12.0"


@pytest.mark.parametrize("status", [302, 400, 403, 404, 409, 500, 503])
def test_every_refusal_is_an_error_with_the_servers_words(server: StandIn, control: Control, status: int) -> None:
    server.spoil = lambda method, path: (status, "listen: address already in use")
    for call in (control.version, control.held, control.reset, lambda: control.change([], {WHERE: LATE})):
        with pytest.raises(HarnessError, match=f"{status} listen: address already in use"):
            call()


def test_an_answer_that_is_no_json_is_told(server: StandIn, control: Control) -> None:
    server.spoil = lambda method, path: (200, "<html>")
    with pytest.raises(HarnessError, match="not JSON: b'<html>'"):
        control.held()


def test_a_proxy_of_the_environment_is_not_asked(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert control.version() == "2.12.0"


def test_credentials_of_a_person_are_not_sent(
    server: StandIn, control: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    control.version()
    assert server.credentials == {None}


def test_a_server_that_points_elsewhere_is_not_followed(server: StandIn, control: Control) -> None:
    server.location = f"http://127.0.0.1:{server.port}/version"
    server.spoil = lambda method, path: (307, "elsewhere") if path == "/proxies" else None
    with pytest.raises(HarnessError, match="307 elsewhere"):
        control.held()


def test_a_slow_server_is_not_waited_for(server: StandIn) -> None:
    release = threading.Event()
    # It answers once the other has given up, or never.
    server.spoil = lambda method, path: (release.wait(), (200, {}))[1]
    control = Control("127.0.0.1", server.port, timeout_s=0.1)
    try:
        with pytest.raises(HarnessError, match=r"did not answer GET .*/proxies within 0.1 s"):
            control.held()
    finally:
        release.set()
        control.close()


def test_a_dead_server_is_told_as_such() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        control = Control("127.0.0.1", unused.getsockname()[1])
        try:
            for call in (control.version, control.held, control.reset, lambda: control.await_ready(0.05)):
                with pytest.raises(HarnessError, match="Toxiproxy cannot be reached"):
                    call()
        finally:
            control.close()


def test_a_process_controls_one_server_at_a_time(server: StandIn, control: Control) -> None:
    with pytest.raises(HarnessError, match="knows only one"):
        Control("127.0.0.1", server.port)
    control.close()
    control.close()
    again = Control("127.0.0.1", server.port)
    assert again.version() == "2.12.0"
    again.close()


@pytest.mark.parametrize(
    ("toxic", "said"),
    [
        (Toxic(kind="latency", attributes={"latencyy": 1}), "no attribute 'latencyy'"),
        (Toxic(kind="nope"), "there is no toxic 'nope'"),
        (Toxic(kind="latency"), r"needs latency \(ms\)"),
        (Toxic(kind="bandwidth", attributes={"rate": 0}), "rate must be at least 1 KB/s, not 0"),
        (Toxic(kind="timeout", attributes={"timeout": -1}), "timeout must be at least 0 ms"),
        (Toxic(kind="slicer", attributes={"average_size": 2, "size_variation": 2}), "size_variation must be smaller"),
        (Toxic(kind="latency", attributes={"latency": 1}, toxicity=0.0), "toxicity must be above 0"),
    ],
)
def test_what_the_server_would_misunderstand_is_never_sent(
    server: StandIn, control: Control, toxic: Toxic, said: str
) -> None:
    sent = len(server.requests)
    with pytest.raises(HarnessError, match=said) as caught:
        control.change([], {WHERE: toxic})
    assert len(server.requests) == sent
    refusal = refuse(toxic)
    assert refusal is not None
    assert (caught.value.message, caught.value.hint) == (refusal.reason, refusal.remedy)


def test_a_wrong_attribute_of_a_toxic_lists_those_that_there_are() -> None:
    refusal = refuse(Toxic(kind="latency", attributes={"latencyy": 1}))
    assert refusal is not None
    assert refusal.remedy == "it has: latency, jitter"


def test_an_answer_that_differs_from_what_was_asked_is_an_error(server: StandIn, control: Control) -> None:
    told = {"name": "x", "type": "latency", "stream": "upstream", "toxicity": 1, "attributes": {"latency": 0}}
    server.spoil = lambda method, path: (200, told) if path.endswith("/toxics") else None
    with pytest.raises(HarnessError, match="but answered"):
        control.change([], {WHERE: LATE})


def test_a_proxy_that_is_made_otherwise_or_not_at_all_is_an_error(server: StandIn, control: Control) -> None:
    spec = ProxySpec("b", "127.0.0.1:3", "127.0.0.1:4")
    for made in ([], [{"name": "b", "listen": "127.0.0.1:9", "upstream": spec.upstream, "enabled": True}]):
        server.spoil = lambda method, path, made=made: (201, {"proxies": made})  # type: ignore[misc]  # bound now
        with pytest.raises(HarnessError, match="Toxiproxy was asked for the proxy"):
            control.populate([spec])


def _links(control: Control) -> ProxiedLinks:
    wiring = Wiring(["n1", "n2", "n3"], ["client", "peer", "election"])
    names = {wire.proxy for link in wiring.links for wire in (*wiring.wires(link), wiring.probe(link))}
    control.populate([ProxySpec(name, f"127.0.0.1:{number}", "127.0.0.1:2") for number, name in enumerate(names)])
    return ProxiedLinks(control, wiring, dict.fromkeys(wiring.links, control.address))


def test_two_faults_share_a_link_and_it_opens_with_the_last(server: StandIn, control: Control) -> None:
    async def scenario() -> None:
        links = _links(control)
        network, streams = ToxiproxyNetwork(links), ToxiproxyStreams(links)
        await network.apply(1, {CUT: Effect.RESET})
        await network.apply(2, {CUT: Effect.DROP, Link("client", "n3"): Effect.DROP})
        await streams.apply(3, {CUT: LATE})
        assert network.blocked == {CUT: Effect.DROP, Link("client", "n3"): Effect.DROP}
        assert await streams.read_back() == {CUT: (complete(LATE),)}
        # Two listeners, dialled from either side, and the probe: five toxics for each owner.
        held = await links.read_back()
        assert sorted(where.name for where in held if where.wire.proxy == "n1-n2-peer") == [
            "cut-upstream",
            "fault3-upstream",
        ]
        assert len(held) == 5 + 2 + 5
        await network.withdraw(2)
        assert network.blocked == {CUT: Effect.RESET}
        await network.withdraw(1)
        assert await streams.read_back() == {CUT: (complete(LATE),)}
        await streams.withdraw(3)
        await streams.withdraw(3)
        assert await links.read_back() == {}
        with pytest.raises(HarnessError, match="there is no link n1>n9"):
            await network.apply(4, {Link("n1", "n9"): Effect.DROP})

    asyncio.run(scenario())


def test_healing_does_not_depend_on_what_we_remember(server: StandIn, control: Control) -> None:
    async def scenario() -> None:
        links = _links(control)
        network = ToxiproxyNetwork(links)
        await links.control.run(control.change, [], {Held(Wire("n1-n2-peer", "upstream"), "strange"): LATE})
        await network.heal_all()
        assert await links.read_back() == {}
        server.spoil = lambda method, path: (204, "") if path == "/reset" else None
        await network.apply(1, {CUT: Effect.DROP})
        with pytest.raises(HarnessError, match="keeps toxics after a reset"):
            await network.heal_all()
        server.spoil = lambda method, path: None
        await network.heal_all()
        assert not network.blocked
        assert await links.read_back() == {}

    asyncio.run(scenario())


def test_a_change_that_failed_halfway_is_not_our_state_and_the_next_one_mends_it(
    server: StandIn, control: Control
) -> None:
    async def scenario() -> None:
        network = ToxiproxyNetwork(_links(control))
        server.spoil = lambda method, path: (500, "no") if "n2-n1-election" in path else None
        with pytest.raises(HarnessError, match="500 no"):
            await network.apply(1, {CUT: Effect.DROP})
        assert not network.blocked
        server.spoil = lambda method, path: None
        await network.apply(2, {Link("n2", "n3"): Effect.DROP})
        held = await control.run(control.held)
        assert {where.wire.proxy for where in held} == {
            *("n2-n3-peer", "n2-n3-election", "n3-n2-peer", "n3-n2-election", "probe-n2-n3")
        }

    asyncio.run(scenario())


def test_a_cancelled_change_ends_before_the_healing_after_it(server: StandIn, control: Control) -> None:
    async def scenario() -> None:
        links = _links(control)
        network = ToxiproxyNetwork(links)
        reached, going_on = threading.Event(), threading.Event()

        def slowly(method: str, path: str) -> None:
            if method == "POST" and path.endswith("/toxics"):
                reached.set()
                going_on.wait(40.0)

        server.spoil = slowly
        cutting = asyncio.create_task(network.apply(1, {CUT: Effect.DROP}))
        assert await asyncio.to_thread(reached.wait, 40.0)
        cutting.cancel()
        healing = asyncio.create_task(network.heal_all())
        going_on.set()
        await healing
        assert cutting.cancelled()
        assert await links.read_back() == {}
        assert not network.blocked

    asyncio.run(scenario())


def test_a_probe_believes_neither_witness_alone(server: StandIn, control: Control) -> None:
    async def scenario() -> None:
        links = _links(control)
        network = ToxiproxyNetwork(links)
        # Our connection goes through in any case: the stand-in's probe address is its own interface.
        assert await network.probe([CUT], HEARD_S) == {CUT: Reach.OPEN}
        await network.apply(1, {CUT: Effect.DROP})
        assert await network.probe([CUT], HEARD_S) == {CUT: Reach.OPEN}, (
            "the server says dropped, the connection does not"
        )
        await network.heal_all()
        # The server says that a real proxy is cut, though nobody wants that.
        where = {Held(wire, f"cut-{wire.stream}"): Toxic(kind="timeout", attributes={"timeout": 0}) for wire in _all()}
        await control.run(control.change, [], where)
        assert await network.probe([CUT], HEARD_S) == {CUT: Reach.DROPPED}

    def _all() -> list[Wire]:
        return list(Wiring(["n1", "n2", "n3"], ["client", "peer", "election"]).wires(CUT))

    asyncio.run(scenario())


def test_a_link_that_is_cut_in_part_is_neither_open_nor_shut(server: StandIn, control: Control) -> None:
    async def scenario() -> None:
        links = _links(control)
        network = ToxiproxyNetwork(links)
        part = {Held(Wire("n1-n2-peer", "upstream"), "cut-upstream"): Toxic(kind="timeout", attributes={"timeout": 0})}
        await control.run(control.change, [], part)
        assert await network.probe([CUT], HEARD_S) == {CUT: Reach.DROPPED}
        assert not Contributions().merged()

    asyncio.run(scenario())
