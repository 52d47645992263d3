"""Key-value storage on a stream: what each kind of read relies on, and what a superseded leader's answer does to it."""

import asyncio
import base64
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from fencepost.harness.coordination import Definite, ReadMode
from fencepost.systems.nats.client import NatsStorage
from fencepost.systems.nats.log import StreamLog
from fencepost.systems.nats.wire import errors
from tests.systems.nats.jetstream_script import Stream, connected, refusal, serving


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 100))


@pytest.mark.parametrize("mode", [ReadMode.STRONG, ReadMode.LEADER, ReadMode.PLAIN])
def test_a_read_shows_the_last_write(mode: ReadMode) -> None:
    async def scenario() -> None:
        async with serving(Stream().answer) as port:
            client = NatsStorage(await connected(port), 3)
            assert (await client.read("a", mode)).value is None
            written = await client.write("a", b"1")
            reply = await client.read("a", mode)
            assert reply.value == b"1"
            # A strong read writes the value again, so the sequence of the value is no longer the one of its write.
            assert reply.value_position == (None if mode is ReadMode.STRONG else written.position)
            await client.close()

    run(scenario())


def test_a_strong_read_of_a_superseded_leaders_answer_fails() -> None:
    async def scenario() -> None:
        stream = Stream()
        async with serving(stream.answer) as port:
            client = NatsStorage(await connected(port), 3)
            await client.write("a", b"1")
            await client.write("a", b"2")
            old = json.dumps({"message": {"seq": 1, "data": base64.b64encode(b"1").decode()}}).encode()
            stream.instead = lambda subject: (b"", old) if "MSG.GET" in subject else None
            assert (await client.read("a", ReadMode.LEADER)).value == b"1"
            with pytest.raises(Definite, match=errors.CAS_MISMATCH):
                await client.read("a", ReadMode.STRONG)
            with pytest.raises(Definite, match=errors.CAS_MISMATCH):
                await client.cas("a", b"1", b"3")
            stream.instead = lambda subject: None
            assert (await client.read("a", ReadMode.STRONG)).value == b"2"
            await client.close()

    run(scenario())


def test_compare_and_set_create_and_write_if_change_nothing_when_they_fail() -> None:
    async def scenario() -> None:
        stream = Stream()
        async with serving(stream.answer) as port:
            client = NatsStorage(await connected(port), 3)
            await client.create("a", b"1")
            with pytest.raises(Definite, match=errors.EXISTS):
                await client.create("a", b"2")
            with pytest.raises(Definite, match=errors.CAS_MISMATCH):
                await client.cas("a", b"9", b"2")
            seen = await client.read("a", ReadMode.STRONG)
            await client.write_if("a", b"2", seen.value_position, seen.version)
            with pytest.raises(Definite, match=errors.CAS_MISMATCH):
                await client.write_if("a", b"3", seen.value_position, seen.version)
            await client.cas("a", b"2", b"4")
            assert stream.last["key.a"][1] == b"4"
            await client.close()

    run(scenario())


def test_members_of_a_set_and_an_answer_that_is_behind() -> None:
    async def scenario() -> None:
        stream = Stream()
        async with serving(stream.answer) as port:
            client = NatsStorage(await connected(port), 3)
            for element in (12, 3):
                await client.add("s", element)
            with pytest.raises(Definite, match=errors.EXISTS):
                await client.add("s", 3)
            assert (await client.members("s", ReadMode.STRONG)).elements == (3, 12)
            old = json.dumps({"state": {"last_seq": 1, "subjects": {"set.s.12": 1}}}).encode()
            stream.instead = lambda subject: (b"", old) if "STREAM.INFO" in subject else None
            assert (await client.members("s", ReadMode.LEADER)).elements == (12,)
            with pytest.raises(Definite, match=errors.BEHIND):
                await client.members("s", ReadMode.STRONG)
            await client.close()

    run(scenario())


def test_a_stream_that_is_gone_holds_nothing_and_one_without_a_leader_is_not_read() -> None:
    async def scenario() -> None:
        stream = Stream()
        async with serving(stream.answer) as port:
            client = NatsStorage(await connected(port), 3)
            await client.add("s", 3)
            nobody = (b"NATS/1.0 503\r\n\r\n", b"")
            stream.instead = lambda subject: nobody if subject.startswith("barrier.") else None
            with pytest.raises(Definite, match=errors.NO_RESPONDERS):
                await client.members("s", ReadMode.STRONG)
            stream.instead = lambda subject: (
                nobody if subject.startswith("barrier.") else refusal(404, 10059, "stream not found")
            )
            assert (await client.members("s", ReadMode.STRONG)).elements == ()
            stream.instead = lambda subject: (
                refusal(404, 10059, "stream not found") if "STREAM.INFO" in subject else None
            )
            with pytest.raises(Definite, match=errors.NO_STREAM):
                await client.members("s", ReadMode.STRONG)
            await client.close()

    run(scenario())


def test_a_log_leaves_out_what_the_stream_has_no_more() -> None:
    async def scenario() -> None:
        log: list[bytes | None] = []

        def answer(subject: str, headers: dict[str, str], payload: bytes) -> tuple[bytes, bytes] | None:
            if subject.startswith("$JS.API.STREAM.INFO."):
                return b"", json.dumps({"state": {"last_seq": len(log), "first_seq": 1}}).encode()
            if subject.startswith("$JS.API.STREAM.MSG.GET."):
                sequence = json.loads(payload)["seq"]
                value = log[sequence - 1]
                if value is None:
                    return refusal(404, 10037, "no message found")
                data = base64.b64encode(value).decode()
                return b"", json.dumps({"message": {"seq": sequence, "data": data}}).encode()
            log.append(payload)
            return b"", json.dumps({"stream": "P0", "seq": len(log)}).encode()

        async with serving(answer) as port:
            client = StreamLog(await connected(port), 3)
            offsets = [(await client.append(0, b"%d" % value)).offset for value in range(120)]
            assert offsets == list(range(120))
            log[:105] = [None] * 105
            polled = await client.poll(0, 0)
            assert (polled.high_watermark, polled.records[0].offset, len(polled.records)) == (120, 105, 15)
            assert (await client.poll(0, 120)).records == ()
            with pytest.raises(ValueError, match="acks=1"):
                client.acknowledge("1", idempotent=False)
            await client.close()

    run(scenario())


def test_a_mode_that_nats_has_not_is_refused() -> None:
    async def scenario() -> None:
        async with serving(Stream().answer) as port:
            client = NatsStorage(await connected(port), 3)
            with pytest.raises(ValueError, match="strong, leader and plain"):
                await client.read("a", ReadMode.SYNC)
            await client.close()

    run(scenario())
