"""`storage`: KIP-30's `put`, `update` and `fetch`, as callers use them who know no more than the interface tells.

Operations, whose numbers no other operation of the run has:
  put     key, [number, earlier]   fails with "exists" where the key is present. `earlier` lists this caller's own
                                   numbers of puts of the key whose outcome is unknown
  update  key, [number, seen]      fails with "absent" where the key is absent. `seen` is the number that the caller
                                   fetched before and computed the new one from; null: none
  fetch   key                      the number; null for an absent key

Callers play three scenes. *Contended*: many put the same key. One whose put has no known outcome puts again, and where
it is told that the key exists it fetches, to learn whose value is there. *Absent*: a caller updates a key that nobody
else uses and that nobody has put, and then puts it. *Computed*: a caller fetches a shared key and updates it.
"""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Definite, Indefinite, Interface, KeyValue, NotSent, ReadMode, Reply
from fencepost.harness.coordination.storage import UpdatesKeys
from fencepost.harness.generators import Generator, Offer, at_rate, each_worker, once, phases, reserve
from fencepost.harness.generators.contract import Context, Draw, Invocation, Step
from fencepost.harness.history import Completion, OpEvent, Outcome, Value
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload, current_read

PUT: Final = "put"
UPDATE: Final = "update"
FETCH: Final = "fetch"
#: Keys that callers compute new values of.
_SHARED: Final = ("m0", "m1", "m2")
#: Operations of the run for each contended key.
_FOR_EACH_KEY: Final = 8
#: A caller gives a key up after so many puts without a known outcome.
_TRIES_MAX: Final = 8


class StorageOptions(Options, frozen=True, kw_only=True):
    rate: Annotated[float, about("operations per second, all callers together", above=0, most=1e6)] = 100.0
    workers_per_node: Annotated[int, about("callers per node", least=1, most=1000)] = 4
    timeout: Annotated[Duration, about("an operation is given up after this long", above=0)] = seconds(1)
    reads: Annotated[ReadMode, about("how a fetch reads")] = ReadMode.STRONG


class StorageWorkload(Workload[StorageOptions]):
    name = "storage"
    about = "KIP-30's put, update and fetch, and what their answers mean after a time-out"
    protocol = Interface.STORAGE
    options = StorageOptions
    effect_free = frozenset({FETCH})
    promise = "one-put-per-key"
    judges = ("storage",)

    def defaults(self, system: System) -> StorageOptions:
        return StorageOptions(reads=current_read(system))

    def workers(self, options: StorageOptions, node_count: int) -> int:
        return node_count * options.workers_per_node

    def timeout_s(self, options: StorageOptions, node_count: int, worker: int, patient_s: float) -> float:
        return options.timeout.seconds

    def generator(self, options: StorageOptions, node_count: int) -> Generator:
        return at_rate(options.rate, _Callers())

    def final_generator(self, options: StorageOptions, node_count: int) -> Generator:
        return reserve((node_count, each_worker(phases(*(once(Offer(FETCH, key)) for key in _SHARED)))))

    def client(self, store: KeyValue, options: StorageOptions, now_ns: Callable[[], int]) -> Client:
        return StorageClient(store, options.reads)


class _Step(msgspec.Struct, frozen=True):
    """What a caller does in the scene that it plays; `known` is `earlier` or `seen`."""

    f: str
    key: str
    known: Value = None
    number: int = 0


class _Callers(msgspec.Struct, frozen=True, kw_only=True):
    """By worker: what it does next, or else begins a scene; and what it did last."""

    next: dict[int, _Step] = {}
    last: dict[int, _Step] = {}

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        number = ctx.number(worker)
        step = self.next.get(worker) or _begin(ctx.draw(worker), number, sum(ctx.counts))
        offer = Offer(step.f, step.key, None if step.f == FETCH else [number, step.known])
        done = msgspec.structs.replace(step, number=number)
        left = {w: one for w, one in self.next.items() if w != worker}
        return Invocation(worker, offer, ctx.time_ns), _Callers(next=left, last={**self.last, worker: done})

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        worker = ctx.worker_of(event)
        last = self.last.get(worker)
        step = None if last is None else _after(last, event)
        if step is None:
            return self
        return msgspec.structs.replace(self, next={**self.next, worker: step})


def _begin(draw: Draw, number: int, begun: int) -> _Step:
    point = draw.random()
    if point < 0.5:
        return _Step(PUT, f"c{begun // _FOR_EACH_KEY}", [])
    if point < 0.65:
        return _Step(UPDATE, f"a{number}")
    return _Step(FETCH, draw.choice(_SHARED))


def _after(last: _Step, event: OpEvent) -> _Step | None:
    """What follows an operation in its scene; None where the scene is over."""
    key = last.key
    if last.f == PUT:
        earlier = last.known or []
        if event.type is Outcome.INFO:
            return _Step(PUT, key, [*earlier, last.number]) if len(earlier) < _TRIES_MAX else None
        if not earlier or event.type is Outcome.OK:
            return None
        return _Step(FETCH, key) if event.error == "exists" else _Step(PUT, key, earlier)
    if last.f == UPDATE:
        return _Step(PUT, key, []) if event.error == "absent" and key not in _SHARED else None
    if key not in _SHARED:
        return None
    # Some stores refuse to read what is not there.
    return _Step(UPDATE, key, event.value) if event.value is not None else _Step(PUT, key, [])


class StorageClient(SessionClient[KeyValue]):
    """One connection; numbers are decimal."""

    def __init__(self, store: KeyValue, reads: ReadMode) -> None:
        super().__init__(store)
        self._storage = KeyStorage(store, reads=reads)

    async def invoke(self, offer: Offer) -> Completion:
        storage, key = self._storage, offer.key or ""
        if offer.f == FETCH:
            data = await storage.fetch(key)
            value = int(data) if data else None
        elif offer.f == PUT:
            value = offer.value
            await storage.put(key, b"%d" % value[0])
        else:
            value = offer.value
            await storage.update(key, b"%d" % value[0])
        return self._ok(value, storage.answer, storage.answer.value_position)


class KeyStorage:
    """KIP-30's `Storage` on `KeyValue`.

    Where a session has no update of a present key, a read and a write on condition that the key has not changed since
    make one. Then an update also fails when somebody else changes the key in between.
    """

    def __init__(self, store: KeyValue, *, reads: ReadMode) -> None:
        self.answer = Reply()
        self._store = store
        self._reads = reads

    async def init(self) -> None:
        return

    async def fetch(self, key: str) -> bytes | None:
        self.answer = await self._store.read(key, self._reads)
        return self.answer.value

    async def put(self, key: str, data: bytes) -> None:
        """Raises `Definite("exists")` when the key is present."""
        self.answer = await self._store.create(key, data)

    async def update(self, key: str, data: bytes) -> None:
        """Raises `Definite("absent")` when the key is absent."""
        if isinstance(self._store, UpdatesKeys):
            self.answer = await self._store.update(key, data)
            return
        try:
            seen = await self._store.read(key, self._reads)
        except NotSent:
            raise
        except (Definite, Indefinite) as error:
            raise Definite(error.code, "at the read, before anything was written") from None
        if not seen.value:
            raise Definite("absent", "at the read")
        self.answer = await self._store.write_if(key, data, seen.value_position, seen.version)

    async def close(self) -> None:
        await self._store.close()
