"""One HTTP/1.1 connection: what counts as an answer, and that nothing is sent twice."""

import asyncio

import pytest

from fencepost.harness.coordination import Indefinite, NotSent
from fencepost.harness.http.connection import answer_at, ask, open_connection
from tests.systems.http.scripted import Script, answer, play


@pytest.mark.parametrize("chunked", [False, True])
def test_answers_come_in_order_on_one_connection(chunked: bool) -> None:
    async def use(host: str, port: int, script: Script) -> None:
        connection = await open_connection(host, port)
        first = await connection.request("GET", "/a")
        second = await connection.request("PUT", "/b", b"body")
        assert (first.status, first.body, first.headers["x-consul-index"]) == (200, b"one", "7")
        assert (second.status, second.body) == (500, b"No cluster leader")
        connection.close()

    answers = [answer(200, "one", chunked=chunked), answer(500, "No cluster leader", chunked=chunked)]
    script = play(answers, use)
    assert script.connections == 1
    assert script.requests[0].startswith(b"GET /a HTTP/1.1\r\nHost: 127.0.0.1:")
    assert script.requests[1].endswith(b"Content-Length: 4\r\n\r\nbody")


def test_the_server_closes_after_an_answer() -> None:
    async def use(host: str, port: int, script: Script) -> None:
        connection = await open_connection(host, port)
        assert (await connection.request("GET", "/a")).body == b"last"
        with pytest.raises(NotSent, match="closes the connection"):
            await connection.request("GET", "/b")

    play([answer(200, "last", more="Connection: close\r\n")], use)


def test_one_request_at_a_time() -> None:
    async def use(host: str, port: int, script: Script) -> None:
        connection = await open_connection(host, port)
        first = asyncio.create_task(connection.request("GET", "/a"))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one request"):
            await connection.request("GET", "/b")
        assert (await first).body == b"one"

    play([answer(200, "one")], use)


@pytest.mark.parametrize(
    "sent", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nno length", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"]
)
def test_what_is_no_answer_loses_the_connection(sent: bytes) -> None:
    async def use(host: str, port: int, script: Script) -> None:
        connection = await open_connection(host, port)
        with pytest.raises(Indefinite):
            await connection.request("GET", "/a")

    play([sent], use)


def test_two_answers_to_one_request_end_the_connection() -> None:
    async def use(host: str, port: int, script: Script) -> None:
        connection = await open_connection(host, port)
        assert (await connection.request("GET", "/a")).body == b"one"
        await asyncio.sleep(0.1)
        with pytest.raises(NotSent):
            await connection.request("GET", "/b")

    play([answer(200, "one") + answer(200, "two")], use)


def test_ask_uses_a_connection_of_its_own() -> None:
    async def use(host: str, port: int, script: Script) -> None:
        assert [(await ask(host, port, "/a")).body for _ in range(2)] == [b"one", b"two"]

    assert play([answer(200, "one"), answer(200, "two", chunked=True)], use).connections == 2


def test_every_beginning_of_an_answer_is_incomplete() -> None:
    for whole in (answer(200, "some text"), answer(404, "", chunked=True), answer(200, "in chunks", chunked=True)):
        for end in range(len(whole)):
            assert answer_at(whole[:end], 0) is None, whole[:end]
        done = answer_at(b"before" + whole + b"more", 6)
        assert done is not None and done[1] == 6 + len(whole)


def test_a_time_limit_of_the_kernel_is_a_failed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(*_: object) -> None:
        raise TimeoutError(110, "Connection timed out")

    monkeypatch.setattr("fencepost.harness.coordination.connection.create_connection", late)
    with pytest.raises(ConnectionError, match="Connection timed out"):
        asyncio.run(ask("127.0.0.1", 1, "/"))
