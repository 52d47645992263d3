"""A metastore in memory that keeps ZooKeeper's semantics; one planted bug by name for each rule."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencepost.campaigns.kip.metastore import MetastoreWorkload
from fencepost.harness.coordination import Indefinite
from fencepost.harness.coordination.kip_273 import (
    AnswerListener,
    Create,
    Delete,
    GetData,
    MetastoreChange,
    MetastoreRefusal,
    MetastoreResponse,
    PathChangeHandler,
    Request,
    StateChangeHandler,
)
from fencepost.harness.history import History
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("n1", "n2", "n3")
GUARANTEES: Final = (
    "session-requests-in-order",
    "batches-go-on",
    "versions-count-writes",
    "ephemerals-belong-to-sessions",
    "no-orphan-children",
    "ended-session-is-refused",
    "events-before-answers",
)
#: What each bug does, and the anomaly by which it must be found.
BUGS: Final = {
    "any-order": ("requests of one batch take effect in any order", "session-order"),
    "early-read": ("a read takes effect before the writes before it", "read-before-own-write"),
    "any-answer": ("answers of one batch come in any order", "answers-out-of-order"),
    "stops": ("after a refusal the rest of a batch is refused", "batch-broken"),
    "versions-from-one": ("versions begin at 1", "version-skew"),
    "children-of-all": ("an ephemeral may have children", "child-of-ephemeral"),
    "ephemerals-stay": ("one ephemeral in two stays for ever", "orphan-ephemeral"),
    "flat": ("a parent with children can be deleted", "orphan-child"),
    "served-late": ("a session that is over is served", "silent-new-session"),
    "late-events": ("events come a while after the change", "watch-before-answer"),
}
FACTS: Final = facts_of("metastore", NODES, GUARANTEES, read_guarantee="session-requests-in-order")


class _ZNode:
    def __init__(self, data: bytes, position: int, session: "FakeMetastore | None") -> None:
        self.data, self.position, self.version, self.session = data, position, 0, session


class FakeStore(PlantedStore):
    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("metastore", seed, bug)
        self.position = 10
        self.znodes: dict[str, _ZNode] = {}
        self.watchers: dict[str, list[FakeMetastore]] = {}

    def apply(self, request: Request, session: "FakeMetastore") -> MetastoreResponse:
        znode = self.znodes.get(request.path)
        parent = self.znodes.get(request.path.rpartition("/")[0])
        if isinstance(request, GetData):
            if znode is None:
                return MetastoreResponse(refusal=MetastoreRefusal.NO_NODE)
            if request.path in session.handlers:
                self.watchers.setdefault(request.path, []).append(session)
            version = znode.version + (self.bug == "versions-from-one")
            return MetastoreResponse(data=znode.data, version=version, position=znode.position)
        if isinstance(request, Create):
            if znode is not None:
                return MetastoreResponse(refusal=MetastoreRefusal.NODE_EXISTS)
            if parent is not None and parent.session is not None and self.bug != "children-of-all":
                return MetastoreResponse(refusal=MetastoreRefusal.NO_CHILDREN_FOR_EPHEMERALS)
            self.position += 1
            self.znodes[request.path] = _ZNode(request.data, self.position, session if request.ephemeral else None)
        elif znode is None:
            return MetastoreResponse(refusal=MetastoreRefusal.NO_NODE)
        elif isinstance(request, Delete):
            if any(path.startswith(f"{request.path}/") for path in self.znodes) and self.bug != "flat":
                return MetastoreResponse(refusal=MetastoreRefusal.NOT_EMPTY)
            self.position += 1
            del self.znodes[request.path]
        else:
            self.position += 1
            znode.data, znode.position, znode.version = request.data, self.position, znode.version + 1
        for watcher in self.watchers.pop(request.path, []):
            watcher.tell(MetastoreChange(request.path, self.position))
        return MetastoreResponse(position=self.position)

    def end(self, session: "FakeMetastore") -> None:
        for path in [path for path, znode in self.znodes.items() if znode.session is session]:
            if not self.hits("ephemerals-stay", 2):
                del self.znodes[path]


class FakeMetastore:
    """Implements `harness.coordination.kip_273.Metastore`."""

    session_id = "1"

    def __init__(self, store: FakeStore, ttl_s: float | None) -> None:
        self._store = store
        self.over = False
        self.handlers: dict[str, PathChangeHandler] = {}
        if ttl_s is not None:
            asyncio.get_running_loop().call_later(ttl_s, self._end)

    def _end(self) -> None:
        self.over = True
        self._store.end(self)

    async def wait_until_connected(self) -> None:
        return

    def register_path_change_handler(self, path: str, handler: PathChangeHandler) -> None:
        self.handlers[path] = handler

    def unregister_path_change_handler(self, path: str) -> None:
        self.handlers.pop(path, None)

    def register_state_change_handler(self, handler: StateChangeHandler) -> None:
        return

    def unregister_state_change_handler(self, handler: StateChangeHandler) -> None:
        return

    def tell(self, change: MetastoreChange) -> None:
        handler = self.handlers.get(change.path)
        if handler is None:
            return
        if self._store.bug == "late-events":
            asyncio.get_running_loop().call_later(0.05, handler, change)
        else:
            handler(change)

    async def handle_request(self, request: Request) -> MetastoreResponse:
        (response,) = await self.handle_requests((request,))
        return response

    async def handle_requests(
        self, requests: Sequence[Request], listener: AnswerListener | None = None
    ) -> tuple[MetastoreResponse, ...]:
        store = self._store
        await asyncio.sleep(store.random.expovariate(1 / 0.002))
        if self.over and store.bug != "served-late":
            raise Indefinite("connection-lost")
        order = list(range(len(requests)))
        if store.bug == "any-order":
            store.random.shuffle(order)
        elif store.bug == "early-read":
            order = [order[-1], *order[:-1]]
        done: dict[int, MetastoreResponse] = {}
        for place in order:
            refused = store.bug == "stops" and any(one.refusal for one in done.values())
            done[place] = (
                MetastoreResponse(refusal=MetastoreRefusal.OTHER) if refused else store.apply(requests[place], self)
            )
        answers = sorted(done)
        if store.bug == "any-answer":
            store.random.shuffle(answers)
        for place in answers if listener is not None else ():
            assert listener is not None
            listener(place, done[place])
        await asyncio.sleep(store.random.expovariate(1 / 0.002))
        return tuple(done[place] for place in sorted(done))

    async def close(self) -> None:
        return


class FakeMetastores(StoreSession[FakeStore]):
    """Implements `harness.coordination.kip_273.Metastores`."""

    async def metastore(self, ttl_ms: int | None) -> FakeMetastore:
        return FakeMetastore(self._store, None if ttl_ms is None else ttl_ms / 1000)


def run_fake_metastore(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: 8 s of load, and the final phase."""
    store = FakeStore(seed, bug)
    return play(
        MetastoreWorkload(),
        lambda node: FakeMetastores(store),
        nodes=NODES,
        seed=seed,
        load_s=8.0,
        system="etcd",
        options={"ttl": "0.2s", **(options or {})},
    )
