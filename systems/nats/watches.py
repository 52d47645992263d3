"""NATS' listeners: an ordered consumer on a stream that keeps every change of its keys, and the writes that it reports.

A consumer lives in the memory of one server and pushes each message to this connection: the changes after the one that
the stream had last, or from a sequence on. It is ordered (ADR-17): nothing is acknowledged, every message counts up the
consumer's own sequence, so a gap shows, and while no message comes the server sends a heartbeat twice a second. A gap
or 3 s without anything end the watch, since the server that held the consumer may be gone; it never restarts here.

A heartbeat names the last sequence of the stream that the consumer has passed, so it is a bookmark. A deletion is a
message without a value, on condition that the key's last message is the one that was read. There is no transaction over
several keys that would have one position, so none is offered.

Source: docs.nats.io, Consumers; ADR-17 (ordered consumers); ADR-8 (KV-Operation: DEL).
"""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.harness.coordination import (
    Bookmark,
    Change,
    Changes,
    Compacted,
    Definite,
    Heard,
    Indefinite,
    Keys,
    Reply,
    WatchBegun,
    WatchedKey,
    WatchMode,
)
from fencepost.systems.nats.stream import BARRIERS, WATCHED, WATCHED_SUBJECTS, NatsSession, publish, publish_if
from fencepost.systems.nats.wire import errors
from fencepost.systems.nats.wire.connection import NatsConnection, answer_of
from fencepost.systems.nats.wire.frames import Message

_OPERATION: Final = "KV-Operation"
_DELETED: Final = "DEL"
_HEARTBEAT: Final = 100
_HEARTBEAT_NS: Final = 500_000_000
#: The server removes a consumer that nobody listens to.
_INACTIVE_NS: Final = 5_000_000_000
_SILENCE_NS: Final = 3_000_000_000


class WatchableStream(NatsSession):
    """`harness.coordination.Watchable` on a stream that keeps every change."""

    async def prepare(self, needs: Keys) -> None:
        """Create the stream; its keys need no preparation."""
        await self.make_stream(WATCHED, {"subjects": [WATCHED_SUBJECTS, "watch-barrier.>"]})

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> "NatsWatches":
        """There is one mode, and it covers all watched keys."""
        return NatsWatches(self._connection, now_ns)


class NatsWatches:
    """`harness.coordination.Watches` on one connection."""

    def __init__(self, connection: NatsConnection, now_ns: Callable[[], int]) -> None:
        self._connection = connection
        self._now_ns = now_ns
        self._watch: _Watch | None = None
        self._begun = 0

    @property
    def session_id(self) -> int | None:
        return None

    async def close(self) -> None:
        self._connection.close()

    async def put(self, key: str, value: bytes) -> Reply:
        return await publish(self._connection, _subject(key), value)

    async def delete(self, key: str) -> Reply:
        """Read, then write a message that marks the deletion, if the key's last message is still the one read."""
        sequence, value = await self._last(key)
        if value is None:
            raise Definite(errors.ABSENT, "a read showed no value")
        return await self._put_if(key, b"", sequence, {_OPERATION: _DELETED})

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        sequence, value = await self._last(key)
        if value != old:
            raise Definite(errors.CAS_MISMATCH, "a read showed another value")
        return await self._put_if(key, new, sequence)

    async def put_all(self, pairs: tuple[tuple[str, bytes], ...]) -> Reply:
        raise Definite(errors.UNSUPPORTED, "messages of several subjects have a position each")

    async def compact(self, position: int) -> None:
        """Purge every message before this one."""
        request = json.dumps({"seq": position}).encode()
        answer_of(await self._connection.request(f"$JS.API.STREAM.PURGE.{WATCHED}", request))

    async def entries(self) -> tuple[WatchedKey, ...]:
        """Read every key from the stream's leader, which has to show a message that was just stored."""
        least = (await publish(self._connection, BARRIERS[WATCHED], b"")).position or 0
        request = json.dumps({"subjects_filter": WATCHED_SUBJECTS}).encode()
        state = answer_of(await self._connection.request(f"$JS.API.STREAM.INFO.{WATCHED}", request))["state"]
        if state["last_seq"] < least:
            raise Definite(errors.BEHIND, f"the answer ends at {state['last_seq']}, expected {least} or more")
        present = []
        for key in sorted(subject.partition(".")[2] for subject in state.get("subjects") or {}):
            sequence, value = await self._last(key)
            if value is not None:
                present.append(WatchedKey(key, value, sequence))
        return tuple(present)

    async def watch(self, start: int | None) -> WatchBegun:
        if self._watch is not None:
            self._watch.close()
        self._begun += 1
        self._watch = watch = _Watch(self._connection, self._now_ns, self._begun)
        return await watch.begin(start)

    async def hear(self, wait_s: float, confirm: str | None) -> tuple[Heard, ...]:
        """Wait for what comes; bookmarks come while it is quiet, whether asked for or not."""
        if self._watch is None:
            raise Definite(errors.NOT_WATCHING)
        return await self._watch.hear(wait_s)

    async def _last(self, key: str) -> tuple[int, bytes | None]:
        """The sequence of the key's last message (0: none), and its value; None where that is a deletion."""
        request = json.dumps({"last_by_subj": _subject(key)}).encode()
        try:
            message = answer_of(await self._connection.request(f"$JS.API.STREAM.MSG.GET.{WATCHED}", request))["message"]
        except Definite as refused:
            if refused.code == errors.NO_MESSAGE:
                return 0, None
            raise
        value = base64.b64decode(message.get("data", ""))
        return message["seq"], value or None

    async def _put_if(self, key: str, value: bytes, sequence: int, headers: Mapping[str, str] | None = None) -> Reply:
        return await publish_if(self._connection, _subject(key), value, sequence, errors.CAS_MISMATCH, headers)


class _Watch:
    """One consumer from its creation to its end."""

    def __init__(self, connection: NatsConnection, now_ns: Callable[[], int], number: int) -> None:
        self._connection = connection
        self._now_ns = now_ns
        # The inbox is unique to the connection; names of consumers must not have its dots.
        self._inbox = connection.own_subject(f"watch{number}")
        self._name = self._inbox.removeprefix("_INBOX.").replace(".", "-")
        self._heard: list[Heard] = []
        self._sequence = 0
        self._last_ns = now_ns()
        self._broken: Definite | Indefinite | None = None
        self._sid = connection.subscribe(self._inbox, self._take)

    async def begin(self, start: int | None) -> WatchBegun:
        wanted: dict[str, Any] = {
            "name": self._name,
            "deliver_subject": self._inbox,
            "filter_subject": WATCHED_SUBJECTS,
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "idle_heartbeat": _HEARTBEAT_NS,
            "inactive_threshold": _INACTIVE_NS,
            "deliver_policy": "new" if start is None else "by_start_sequence",
            **({} if start is None else {"opt_start_seq": max(start, 1)}),
        }
        request = json.dumps({"stream_name": WATCHED, "config": wanted}).encode()
        subject = f"$JS.API.CONSUMER.CREATE.{WATCHED}.{self._name}"
        made = answer_of(await self._connection.request(subject, request))
        passed = int(made["delivered"]["stream_seq"])
        self._last_ns = self._now_ns()
        if start is not None and passed >= start:
            self.close()
            raise Compacted(passed + 1, f"the stream begins at {passed + 1}")
        # Messages of other subjects may stand between those that wait, so the stream ends there or later.
        return WatchBegun(passed, position=passed + int(made["num_pending"]))

    async def hear(self, wait_s: float) -> tuple[Heard, ...]:
        if self._broken is None:
            await asyncio.sleep(wait_s)
        if self._broken is None and self._now_ns() - self._last_ns > _SILENCE_NS:
            self._end(Definite(errors.WATCH_SILENT, f"nothing came for {_SILENCE_NS // 1_000_000_000} s"))
        if self._heard:
            heard, self._heard = tuple(self._heard), []
            return heard
        if self._broken is not None:
            raise self._broken
        return ()

    def close(self) -> None:
        self._connection.unsubscribe(self._sid)

    def _take(self, message: Message | None) -> None:
        if self._broken is not None:
            return
        if message is None:
            self._end(Indefinite(errors.CONNECTION_LOST, self._connection.ended or ""))
            return
        self._last_ns = at_ns = self._now_ns()
        if message.status == _HEARTBEAT:
            if int(message.headers.get("nats-last-consumer", self._sequence)) != self._sequence:
                self._end(Definite(errors.WATCH_GAP, "a heartbeat names a message that never came"))
            elif "nats-last-stream" in message.headers:
                self._heard.append(Bookmark(at_ns, int(message.headers["nats-last-stream"])))
            return
        # $JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<time>.<pending>
        parts = message.reply.split(".")
        if len(parts) < 5 or int(parts[-3]) != self._sequence + 1:
            self._end(Definite(errors.WATCH_GAP, f"{message.reply!r} came after message {self._sequence}"))
            return
        self._sequence += 1
        position, key = int(parts[-4]), message.subject.partition(".")[2]
        kind = "deleted" if message.headers.get(_OPERATION.lower()) == _DELETED else "put"
        change = Change(position, kind, key, None if kind == "deleted" else message.payload)
        self._heard.append(Changes(at_ns, position, (change,)))

    def _end(self, why: Definite | Indefinite) -> None:
        self._broken = why
        self.close()


def _subject(key: str) -> str:
    return WATCHED_SUBJECTS.removesuffix(">") + key
