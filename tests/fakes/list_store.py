"""Lists in memory with transactions over several of them; one planted bug at a time."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencepost.checkers.transactions.history import check_lists
from fencepost.harness.coordination import Definite, Indefinite, Lists
from fencepost.harness.history import History
from fencepost.harness.verdict import Verdict
from fencepost.workloads.list_append import ListAppend
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("n1", "n2", "n3")
_STRICT: Final = "strict-serializable"
FACTS: Final = facts_of("list-append", NODES, (_STRICT,), read_guarantee=_STRICT)
#: What each bug does, and the anomaly (checker:name) by which it must be found.
BUGS: Final = {
    "lost-update": ("a transaction now and then writes back a list that it had read", "list-append:lost-update"),
    "aborted-read": ("an aborted transaction takes effect now and then", "list-append:G1a"),
    "skew": ("all reads are made some time before the appends", "list-append:G2-item"),
    "stale": ("a transaction that only reads is answered from an older state", "list-append:G-single-realtime"),
    "doubles": ("now and then a number is appended twice", "list-append:duplicate-elements"),
    "reorders": ("a node shows the last two numbers of a list in the other order", "list-append:incompatible-order"),
    "another": ("a read now and then shows a number that nobody appended", "list-append:garbage-read"),
    "torn": ("the appends to different lists are made one after the other", "list-append:G0"),
    "early": ("a transaction appends, waits, and then reads", "list-append:G1c"),
    "half": ("of two appends to one list the second comes later", "list-append:G1b"),
}
_LATE: Final = (0.002, 0.03)


class FakeLists(PlantedStore):
    """The store; `before` are earlier states, for reads that are stale."""

    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("lists", seed, bug)
        self.lists: dict[str, tuple[int, ...]] = {}
        self.before: list[dict[str, tuple[int, ...]]] = []

    def append(self, appends: Sequence[tuple[str, int]]) -> None:
        self.before = [*self.before[-30:], dict(self.lists)]
        for key, number in appends:
            twice = (number, number) if self.hits("doubles", 20) else (number,)
            self.lists[key] = (*self.lists.get(key, ()), *twice)


class FakeListTransactions(StoreSession[FakeLists]):
    """Implements `harness.coordination.ListTransactions`."""

    async def transact(self, reads: Sequence[str], appends: Sequence[tuple[str, int]]) -> Lists:
        store = self._store
        await self._travel()
        fate = store.random.randrange(100)
        if fate == 0:
            raise Definite("aborted")
        if fate == 1:
            asyncio.get_running_loop().call_later(store.random.uniform(0.0, 0.2), store.append, appends)
            raise Indefinite("request-delayed")
        answer = await self._carried_out(reads, appends)
        if store.hits("aborted-read", 10):
            raise Definite("aborted")
        await self._travel()
        if fate == 2:
            raise Indefinite("reply-lost")
        return answer

    async def _carried_out(self, reads: Sequence[str], appends: Sequence[tuple[str, int]]) -> Lists:
        store = self._store
        if store.bug == "early":
            store.append(appends)
            await self._wait()
            return self._read(reads)
        answer = self._read(reads)
        if store.bug == "skew":
            await self._wait()
        if store.hits("lost-update", 4):
            read = {key: store.lists.get(key, ()) for key, _ in appends}
            await self._wait()
            store.lists.update(read)
        apart = {"torn": 1, "half": 1}.get(store.bug or "", len(appends))
        for first in range(0, len(appends), max(1, apart)):
            if first:
                await self._wait()
            store.append(appends[first : first + apart])
        return answer

    def _read(self, reads: Sequence[str]) -> Lists:
        store = self._store
        stale = store.before and store.hits("stale", 4)
        state = store.before[0] if stale else store.lists
        return Lists(tuple(self._shown(state.get(key, ())) for key in reads))

    def _shown(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        if self._store.bug == "reorders" and self._node == "n2" and len(numbers) > 1:
            return (*numbers[:-2], numbers[-1], numbers[-2])
        return (*numbers, -1) if self._store.hits("another", 50) else numbers

    async def _wait(self) -> None:
        await asyncio.sleep(self._store.random.uniform(*_LATE))


def run_fake_lists(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: 4 s of load, then the final phase."""
    store = FakeLists(seed, bug)
    again = {"appends": "again"} if bug == "half" else {}
    return play(
        ListAppend(),
        lambda node: FakeListTransactions(store, node),
        nodes=NODES,
        seed=seed,
        load_s=4.0,
        system="etcd",
        options={"rate": 200.0, **again, **(options or {})},
    )


def judge_lists(history: History) -> list[Verdict]:
    return check_lists(history, FACTS)
