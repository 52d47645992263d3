"""The blocked links as a value: the contribution of each fault, and the sum of all contributions.

This code is pure, so every runtime enforces the same sum and a test can compare the kernel with it. Two faults may
block the same link; it opens when the last of them withdraws.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.harness.runtime.network import CLIENT, Effect, Link

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
