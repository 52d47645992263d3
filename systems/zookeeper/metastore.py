"""KIP-273 on ZooKeeper: its own requests on one session, in one send."""

from collections.abc import Sequence
from typing import Final

from fencepost.harness.coordination import Definite
from fencepost.harness.coordination.kip_273 import (
    AnswerListener,
    BaseMetastore,
    Create,
    Delete,
    GetData,
    MetastoreChange,
    MetastoreRefusal,
    MetastoreResponse,
    Request,
    SetData,
)
from fencepost.systems.zookeeper.storage import ROOT, ZooKeeperStorage
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.errors import (
    CONNECTION_LOST,
    NO_NODE,
    NODE_EXISTS,
    SESSION_EXPIRED,
    ZooKeeperError,
)
from fencepost.systems.zookeeper.wire.jute import HEADER_BYTES, Op
from fencepost.systems.zookeeper.wire.session import ANY_VERSION, EPHEMERAL, PERSISTENT, ZooKeeperSession, made

_REFUSALS: Final = {
    NO_NODE: MetastoreRefusal.NO_NODE,
    NODE_EXISTS: MetastoreRefusal.NODE_EXISTS,
    -108: MetastoreRefusal.NO_CHILDREN_FOR_EPHEMERALS,
    -111: MetastoreRefusal.NOT_EMPTY,
    SESSION_EXPIRED: MetastoreRefusal.SESSION_EXPIRED,
}


class ZooKeeperMetastores(ZooKeeperStorage):
    """`harness.coordination.kip_273.Metastores`."""

    async def metastore(self, ttl_ms: int | None) -> "ZooKeeperMetastore":
        if ttl_ms is None:
            return ZooKeeperMetastore(self.session, owns=False)
        return ZooKeeperMetastore(await self._leases.open(ttl_ms), owns=True)


class ZooKeeperMetastore(BaseMetastore):
    """`harness.coordination.kip_273.Metastore` on one session; `owns`: closing it closes the session."""

    def __init__(self, session: ZooKeeperSession, *, owns: bool) -> None:
        super().__init__()
        self._session = session
        self._owns = owns

    @property
    def session_id(self) -> str:
        return f"{self._session.connection.session_id or 0:x}"

    async def handle_requests(
        self, requests: Sequence[Request], listener: AnswerListener | None = None
    ) -> tuple[MetastoreResponse, ...]:
        """The listener and the handlers are called in the order in which answers and events arrive."""
        connection = self._session.connection
        if connection.ended is not None:
            self._end(connection.ended)
            raise CONNECTION_LOST.outcome(connection.ended)

        def note(place: int, response: MetastoreResponse) -> MetastoreResponse:
            self._drain()
            if listener is not None:
                listener(place, response)
            return response

        frames, answers = b"", []
        for place, request in enumerate(requests):
            op, record = self._record(request)

            def answered(body: bytes, zxid: int, at: int = place, about: Request = request) -> MetastoreResponse:
                return note(at, _response(about, body, zxid))

            def refused(code: int, zxid: int, at: int = place) -> MetastoreResponse | None:
                known = _REFUSALS.get(code)
                return None if known is None else note(at, MetastoreResponse(refusal=known, position=zxid))

            frame, answer = connection.queue(op, record, answered, refused)
            frames += frame
            answers.append(answer)
        connection.send(frames)
        responses = []
        for answer in answers:
            try:
                responses.append(await answer)
            except ZooKeeperError as error:
                outcome = error.outcome()
                if not isinstance(outcome, Definite):
                    raise outcome from None
                responses.append(MetastoreResponse(refusal=MetastoreRefusal.OTHER))
        self._drain()
        return tuple(responses)

    async def close(self) -> None:
        if self._owns:
            self._session.close()

    def _record(self, request: Request) -> tuple[Op, bytes]:
        path = wire.text(_path(request.path))
        match request:
            case Create():
                flags = EPHEMERAL if request.ephemeral else PERSISTENT
                return Op.CREATE_WITH_STAT, wire.create_record(path, request.data, flags)
            case SetData():
                return Op.SET_DATA, wire.set_record(path, request.data, ANY_VERSION)
            case Delete():
                return Op.DELETE, wire.version_record(path, ANY_VERSION)
            case GetData():
                return Op.GET_DATA, wire.path_and_watch(path, request.path in self._handlers)

    def _drain(self) -> None:
        """Call the handlers with the events that have arrived."""
        events = self._session.watch_events
        while not events.empty():
            event = events.get_nowait()
            path = event.path.removeprefix(ROOT)
            handler = self._handlers.get(path)
            if handler is not None:
                handler(MetastoreChange(path, event.zxid if event.zxid is not None and event.zxid > 0 else None))

    def _end(self, why: str) -> None:
        for handler in tuple(self._states):
            handler(why)


def _path(path: str) -> str:
    return f"{ROOT}{path}"


def _response(request: Request, body: bytes, zxid: int) -> MetastoreResponse:
    match request:
        case Create():
            _, stat = made(body, zxid)
            return MetastoreResponse(version=stat.version, position=zxid)
        case SetData():
            stat = wire.read_stat(body, HEADER_BYTES)
            return MetastoreResponse(version=stat.version, position=stat.mzxid)
        case Delete():
            return MetastoreResponse(position=zxid)
        case GetData():
            data, stat = wire.read_data(body, HEADER_BYTES)
            return MetastoreResponse(data=data, version=stat.version, position=stat.mzxid)
