"""Ordered consumers against a scripted server: changes, bookmarks, gaps, silence, starts that are gone."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from fencepost.harness.coordination import Bookmark, Change, Changes, Compacted, Definite, Indefinite
from fencepost.systems.nats.watches import NatsWatches
from fencepost.systems.nats.wire import errors
from tests.systems.nats.jetstream_script import INFO, Stream, connected, frame, refusal, serving, speaking
from tests.systems.nats.test_nats_client import run


def pushed(key: str, position: int, number: int, value: bytes = b"1", headers: str = "") -> bytes:
    """A message of a consumer: its place in the stream, and the consumer's own number of it."""
    head = f"NATS/1.0\r\n{headers}\r\n".encode() if headers else b""
    reply = f"$JS.ACK.W.c.1.{position}.{number}.0.0"
    if not head:
        return f"MSG watched.{key} SID {reply} {len(value)}\r\n".encode() + value + b"\r\n"
    return f"HMSG watched.{key} SID {reply} {len(head)} {len(head) + len(value)}\r\n".encode() + head + value + b"\r\n"


def heartbeat(position: int, number: int) -> bytes:
    head = (
        f"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {number}\r\nNats-Last-Stream: {position}\r\n\r\n".encode()
    )
    return f"HMSG inbox SID {len(head)} {len(head)}\r\n".encode() + head + b"\r\n"


async def with_watches(
    passed: int, pushes: list[bytes], scenario: Callable[[NatsWatches], Awaitable[None]], *, ends: bool = False
) -> None:
    """A consumer that begins behind `passed` and is pushed these frames; with `ends` the connection then breaks."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps(INFO).encode() + b"\r\n")
        sid = b""
        while line := (await reader.readline()).split():
            if line[0] == b"PING":
                writer.write(b"PONG\r\n")
            elif line[0] == b"SUB":
                sid = line[2]
            elif line[0] == b"PUB":
                await reader.readexactly(int(line[-1]) + 2)
                made = json.dumps({"delivered": {"stream_seq": passed}, "num_pending": 3}).encode()
                writer.write(frame(line[2], b"", made))
                for push in pushes:
                    writer.write(push.replace(b" SID ", b" %b " % sid, 1))
                if ends:
                    await writer.drain()
                    writer.close()
                    return

    now_ns = asyncio.get_running_loop().time
    async with speaking(converse) as port:
        watches = NatsWatches(await connected(port), lambda: round(now_ns() * 1e9))
        await scenario(watches)
        await watches.close()


async def heard(watches: NatsWatches) -> list[Changes | Bookmark]:
    """What was pushed, once something was."""
    while not (found := await watches.hear(0.05, None)):
        pass
    return [one for one in found if isinstance(one, Changes | Bookmark)]


async def until_it_ends(watches: NatsWatches) -> None:
    while True:
        await watches.hear(0.05, None)


def test_messages_are_changes_and_a_heartbeat_is_a_bookmark() -> None:
    async def scenario(watches: NatsWatches) -> None:
        begun = await watches.watch(None)
        assert (begun.after, begun.position) == (6, 9)
        told = await heard(watches)
        while len(told) < 3:
            told += await heard(watches)
        assert [one.changes for one in told if isinstance(one, Changes)] == [
            (Change(7, "put", "k0", b"1"),),
            (Change(9, "deleted", "k1"),),
        ]
        assert isinstance(told[2], Bookmark) and told[2].position == 9

    pushes = [pushed("k0", 7, 1), pushed("k1", 9, 2, b"", "KV-Operation: DEL\r\n"), heartbeat(9, 2)]
    run(with_watches(6, pushes, scenario))


@pytest.mark.parametrize("gap", [pushed("k0", 9, 3), heartbeat(9, 2)], ids=["message", "heartbeat"])
def test_a_gap_ends_the_watch_after_what_came_before_it(gap: bytes) -> None:
    async def scenario(watches: NatsWatches) -> None:
        await watches.watch(7)
        assert [type(one) for one in await heard(watches)] == [Changes]
        with pytest.raises(Definite, match=errors.WATCH_GAP):
            await until_it_ends(watches)

    run(with_watches(6, [pushed("k0", 7, 1), gap], scenario))


def test_silence_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.systems.nats.watches._SILENCE_NS", 100_000_000)

    async def scenario(watches: NatsWatches) -> None:
        await watches.watch(None)
        with pytest.raises(Definite, match=errors.WATCH_SILENT):
            await until_it_ends(watches)

    run(with_watches(6, [], scenario))


def test_a_lost_connection_ends_the_watch() -> None:
    async def scenario(watches: NatsWatches) -> None:
        await watches.watch(None)
        with pytest.raises(Indefinite, match=errors.CONNECTION_LOST):
            await until_it_ends(watches)

    run(with_watches(6, [pushed("k0", 7, 1)], scenario, ends=True))


def test_a_start_before_the_first_message_is_compacted() -> None:
    async def scenario(watches: NatsWatches) -> None:
        with pytest.raises(Compacted) as gone:
            await watches.watch(3)
        assert gone.value.position == 7

    run(with_watches(6, [], scenario))


def test_changes_are_made_on_condition_of_what_was_read() -> None:
    async def scenario() -> None:
        stream = Stream()
        async with serving(stream.answer) as port:
            watches = NatsWatches(await connected(port), lambda: 0)
            assert await ended(watches.delete("k0")) == "absent"
            await watches.put("k0", b"1")
            assert await ended(watches.cas("k0", b"2", b"3")) == "cas-mismatch"
            await watches.cas("k0", b"1", b"2")
            assert [(one.key, one.value) for one in await watches.entries()] == [("k0", b"2")]
            await watches.delete("k0")
            assert await ended(watches.delete("k0")) == "absent"
            assert await watches.entries() == ()
            assert await ended(watches.put_all((("p0", b"1"),))) == "unsupported"
            await watches.put("k0", b"1")
            stream.instead = lambda subject: refusal(400, 10071, "wrong: 9") if subject == "watched.k0" else None
            assert await ended(watches.cas("k0", b"1", b"2")) == "cas-mismatch"
            await watches.close()

    run(scenario())


async def ended(request: Awaitable[object]) -> str:
    try:
        await request
    except Definite as refused:
        return refused.code
    return "ok"
