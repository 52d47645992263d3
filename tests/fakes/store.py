"""What stores in memory share: draws, a planted bug, the sessions of clients, what is promised."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

from fencepost.harness.coordination import NotSent
from fencepost.harness.verdict import Facts, Guarantee, Standing


class PlantedStore:
    """A store that is correct unless it has a `bug`; `name` and seed choose all its draws."""

    def __init__(self, name: str, seed: int, bug: str | None) -> None:
        self.random: Final = random.Random(f"{name}-{seed}")
        self.bug: Final = bug

    def hits(self, bug: str, one_in: int = 1) -> bool:
        """Whether the planted bug is this one and strikes now."""
        return self.bug == bug and self.random.randrange(one_in) == 0

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()


S = TypeVar("S", bound=PlantedStore)


class StoreSession(Generic[S]):
    """One client's connection to a store through a node; requests take some milliseconds."""

    session_id: int | None = None

    def __init__(self, store: S, node: str = "") -> None:
        self._store, self._node, self._closed = store, node, False

    async def close(self) -> None:
        self._closed = True

    async def _travel(self) -> None:
        if self._closed:
            raise NotSent("not-sent")
        await asyncio.sleep(self._store.random.expovariate(1 / 0.002))


def promised(names: Iterable[str]) -> tuple[Guarantee, ...]:
    return tuple(Guarantee(name=name, standing=Standing.PROMISED, text=name, source="tests/fakes") for name in names)


def facts_of(workload: str, nodes: tuple[str, ...], guarantees: Iterable[str], **more: Any) -> Facts:
    """The facts of a run against a store that promises all of these."""
    return Facts(system="fake", workload=workload, nodes=nodes, guarantees=promised(guarantees), **more)
