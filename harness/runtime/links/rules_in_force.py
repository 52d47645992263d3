"""The blocked links as a value: the contribution of each fault, and the sum of all contributions.

The sum is pure, so every runtime enforces the same and a test can compare the kernel with it. Two faults may block the
same link; it opens when the last of them withdraws. `Enforcer` is what the networks of all runtimes share.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Shapes

#: Stronger effects have larger numbers: a packet that is dropped cannot also be answered.
_STRENGTH: Mapping[Effect, int] = {Effect.RESET: 1, Effect.DROP: 2}


@dataclass(frozen=True, slots=True)
class Contributions:
    """What each fault, by its id, does to links; every change returns a new value."""

    by_fault: Mapping[int, Mapping[Link, Effect]] = field(default_factory=dict)

    def with_fault(self, fault_id: int, links: Mapping[Link, Effect]) -> "Contributions":
        """Set the contribution of one fault, and replace its earlier contribution."""
        return Contributions({**self.by_fault, fault_id: dict(links)})

    def without_fault(self, fault_id: int) -> "Contributions":
        return Contributions({fault: links for fault, links in self.by_fault.items() if fault != fault_id})

    def merged(self) -> dict[Link, Effect]:
        """Return the effect on every blocked link: drop beats reset; the order of the faults does not matter."""
        merged: dict[Link, Effect] = {}
        for links in self.by_fault.values():
            for link, effect in links.items():
                present = merged.get(link)
                if present is None or _STRENGTH[effect] > _STRENGTH[present]:
                    merged[link] = effect
        return merged


def all_links(nodes: Mapping[str, object] | list[str]) -> Iterator[Link]:
    """Yield every directed link between two nodes, and between each node and the clients."""
    ends = [*nodes, CLIENT]
    for source in ends:
        for target in ends:
            if source != target:
                yield Link(source, target)


class Enforcer(ABC):
    """The part of `harness.runtime.network.Network` that is the same in every runtime."""

    #: None where links can only be cut.
    shapes: Shapes | None = None

    def __init__(self, ends: Iterable[str]) -> None:
        self._ends = list(ends)
        self._contributions = Contributions()
        #: Two changes at once would leave half of each.
        self._changing = asyncio.Lock()

    @property
    def blocked(self) -> Mapping[Link, Effect]:
        return self._contributions.merged()

    async def apply(self, fault_id: int, links: Mapping[Link, Effect]) -> None:
        for link in links:
            if link.source == link.target or not {*link} <= {*self._ends}:
                raise HarnessError(f"there is no link {link}", hint=f"ends of links: {', '.join(self._ends)}")
        async with self._changing:
            await self._enforce(self._contributions.with_fault(fault_id, links))

    async def withdraw(self, fault_id: int) -> None:
        async with self._changing:
            if fault_id in self._contributions.by_fault:
                await self._enforce(self._contributions.without_fault(fault_id))

    async def heal_all(self) -> None:
        """Open every link, even those that seem open: healing must not depend on our memory."""
        async with self._changing:
            self._contributions = Contributions()
            try:
                await self._set({}, None)
            except HarnessError as error:
                raise HarnessError(f"the links could not be healed: {error.message}", hint=error.hint) from error
        if self.shapes is not None:
            await self.shapes.heal_all()

    async def _enforce(self, wanted: Contributions) -> None:
        # A caller cancelled meanwhile must find what may be in force by now, to withdraw it.
        before, self._contributions = self._contributions, wanted
        try:
            await self._set(wanted.merged(), before.merged())
        except HarnessError:
            self._contributions = before
            raise

    @abstractmethod
    async def _set(self, wanted: Mapping[Link, Effect], before: Mapping[Link, Effect] | None) -> None:
        """Make exactly these links blocked.

        Args:
            before: the state to leave in force when it fails; None: trust no memory of what is in force.

        Raises:
            HarnessError: the state before is in force, as far as the message does not say otherwise.
        """
        ...
