"""The merge of contributions, against a model that keeps every fault apart."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fencepost.harness.runtime.links.rules_in_force import Contributions, all_links
from fencepost.harness.runtime.network import CLIENT, Effect, Link

LINKS = list(all_links(["n1", "n2", "n3"]))
some_links = st.dictionaries(st.sampled_from(LINKS), st.sampled_from(list(Effect)))
faults = st.integers(0, 3)


class Merging(RuleBasedStateMachine):
    """Faults come and go in any order; a link is blocked exactly while one of them blocks it, dropped if any drops."""

    def __init__(self) -> None:
        super().__init__()
        self.value = Contributions()
        self.model: dict[int, dict[Link, Effect]] = {}

    @rule(fault=faults, links=some_links)
    def apply(self, fault: int, links: dict[Link, Effect]) -> None:
        before = self.value
        held = before.merged()
        self.value = before.with_fault(fault, links)
        self.model[fault] = dict(links)
        links.clear()  # a caller that goes on using its dict must not change ours
        assert before.merged() == held

    @rule(fault=faults)
    def withdraw(self, fault: int) -> None:
        self.value = self.value.without_fault(fault)
        self.model.pop(fault, None)

    @invariant()
    def merged_is_the_strongest_of_all(self) -> None:
        merged = self.value.merged()
        for link in LINKS:
            effects = {links[link] for links in self.model.values() if link in links}
            wanted = Effect.DROP if Effect.DROP in effects else Effect.RESET if effects else None
            assert merged.get(link) == wanted


TestMerging = Merging.TestCase


def test_all_links_are_directed_and_have_two_ends() -> None:
    links = list(all_links(["n1", "n2"]))
    assert len(links) == 6
    assert Link("n1", CLIENT) in links
    assert Link(CLIENT, "n2") in links
    assert all(link.source != link.target for link in links)
