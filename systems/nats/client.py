"""The NATS client: one connection to one server, key-value storage on a stream, outcomes by the table of `wire/errors`.

Nothing retries, reconnects or queues. A key is a subject of the stream, a value the last message of that subject, and
`position` the stream's sequence number. Messages of NATS carry no term, so `epoch` is None.

There are three ways to read a key:

    strong   a get from the leader, then a write of the same value that expects the sequence which the get showed. Only
             the leader of the present term can store it, so the value was current. The write changes the sequence of
             the value, so `value_position` is None.
    leader   a get that is answered by whoever believes that it leads the stream.
    plain    a direct get, which any replica may answer from its own copy.

A compare-and-set is a get from the leader and a write that expects the sequence which the get showed. If the get is
stale the write is refused, and known not to have happened where the refusal names a later message (`publish_if`).
"""

import base64
import json
from collections.abc import Mapping
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, Interface, Keys, Members, ReadMode, Reply
from fencepost.systems.nats.log import StreamLog
from fencepost.systems.nats.stream import BARRIERS, STREAM, NatsSession, publish, publish_if
from fencepost.systems.nats.watches import WatchableStream
from fencepost.systems.nats.wire import errors
from fencepost.systems.nats.wire.connection import answer_of

_GET: Final = f"$JS.API.STREAM.MSG.GET.{STREAM}"
_DIRECT_GET: Final = f"$JS.API.DIRECT.GET.{STREAM}"
_INFO: Final = f"$JS.API.STREAM.INFO.{STREAM}"


class NatsStorage(NatsSession):
    """`harness.coordination.KeyValue` on a stream that keeps the last message of each subject."""

    async def prepare(self, needs: Keys) -> None:
        """Create the stream; its keys need no preparation."""
        subjects = ["key.>", "set.>", "barrier.>"]
        await self.make_stream(STREAM, {"subjects": subjects, "max_msgs_per_subject": 1, "allow_direct": True})

    async def read(self, key: str, mode: ReadMode) -> Reply:
        match mode:
            case ReadMode.LEADER:
                return await self._get(key)
            case ReadMode.PLAIN:
                return await self._direct_get(key)
            case ReadMode.STRONG:
                return await self._confirmed_get(key)
            case _:
                raise ValueError(f"NATS has no reads of mode {mode.value!r}; it has strong, leader and plain ones")

    async def write(self, key: str, value: bytes) -> Reply:
        return await publish(self._connection, _subject(key), value)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        present = await self._get(key)
        if present.value != old:
            raise Definite(errors.CAS_MISMATCH, "a read showed another value")
        return await self._publish_if(_subject(key), new, present.version or 0, errors.CAS_MISMATCH)

    async def create(self, key: str, value: bytes) -> Reply:
        """Expect no message, or the empty one by which a strong read confirmed that the key was absent."""
        try:
            return await self._publish_if(_subject(key), value, 0, errors.EXISTS)
        except Definite as refused:
            if refused.code != errors.EXISTS:
                raise
        try:
            present = await self._get(key)
        except Indefinite as error:
            raise Definite(error.code, "at the read, before anything was written") from None
        if present.value is not None or present.version is None:
            raise Definite(errors.EXISTS)
        return await self._publish_if(_subject(key), value, present.version, errors.EXISTS)

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        """Compare the sequence, which is `Reply.version` here: a strong read changes it and leaves the value."""
        return await self._publish_if(_subject(key), value, version or 0, errors.CAS_MISMATCH)

    async def add(self, name: str, element: int) -> Reply:
        return await self._publish_if(_element(name, str(element)), b"1", 0, errors.EXISTS)

    async def members(self, name: str, mode: ReadMode) -> Members:
        """Read the names of all subjects below the set's from the stream's leader.

        A strong read first writes, and holds the answer to that write: an answer that lacks it comes from a leader that
        was superseded, and the read fails. Where nobody takes the write and the leader of the meta group then says that
        there is no such stream, the set is empty: whatever was acknowledged is gone.
        """
        least: int | None = 0
        refusal: Definite | None = None
        if mode is ReadMode.STRONG:
            try:
                least = (await publish(self._connection, BARRIERS[STREAM], b"")).position
            except Definite as refused:
                if refused.code != errors.NO_RESPONDERS:
                    raise
                refusal = refused
        request = json.dumps({"subjects_filter": _element(name, ">")}).encode()
        try:
            state = answer_of(await self._connection.request(_INFO, request))["state"]
        except Definite as refused:
            # A stream that has just taken a write is there, whatever the meta group's leader says.
            if refused.code == errors.NO_STREAM and (refusal is not None or mode is not ReadMode.STRONG):
                return Members(())
            raise
        if refusal is not None:
            raise refusal
        if state["last_seq"] < (least or 0):
            raise Definite(errors.BEHIND, f"the answer ends at {state['last_seq']}, expected {least} or more")
        prefix = _element(name, "")
        elements = sorted(int(subject.removeprefix(prefix)) for subject in state.get("subjects") or {})
        return Members(tuple(elements), position=state["last_seq"])

    # Requests.

    async def _publish_if(self, subject: str, value: bytes, sequence: int, otherwise: str) -> Reply:
        return await publish_if(self._connection, subject, value, sequence, otherwise)

    async def _get(self, key: str) -> Reply:
        request = json.dumps({"last_by_subj": _subject(key)}).encode()
        try:
            message = answer_of(await self._connection.request(_GET, request))["message"]
        except Definite as refused:
            if refused.code == errors.NO_MESSAGE:
                return Reply()
            raise
        return _reply_of(base64.b64decode(message.get("data", "")), message["seq"])

    async def _direct_get(self, key: str) -> Reply:
        message = await self._connection.request(f"{_DIRECT_GET}.{_subject(key)}")
        if message.status == 0 and "nats-sequence" in message.headers:
            return _reply_of(message.payload, int(message.headers["nats-sequence"]))
        refused = errors.of_status(message.status, message.headers.get("description", ""))
        if isinstance(refused, Definite) and refused.code == errors.NO_MESSAGE:
            return Reply()
        raise refused

    async def _confirmed_get(self, key: str) -> Reply:
        present = await self._get(key)
        confirmed = await self._publish_if(
            _subject(key), present.value or b"", present.version or 0, errors.CAS_MISMATCH
        )
        return Reply(value=present.value, position=confirmed.position, version=confirmed.position)


def _reply_of(value: bytes, sequence: int) -> Reply:
    """A key's value, and the sequence of its message. An empty message confirmed that the key was absent."""
    if not value:
        return Reply(version=sequence)
    return Reply(value=value, value_position=sequence, version=sequence)


def _subject(key: str) -> str:
    return f"key.{key}"


def _element(name: str, element: str) -> str:
    return f"set.{name}.{element}"


SESSIONS: Final[Mapping[str, type[NatsSession]]] = {
    Interface.STORAGE: NatsStorage,
    Interface.LISTENERS: WatchableStream,
    Interface.LOG: StreamLog,
}
