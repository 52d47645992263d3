"""Which plan comes next: mostly a change of one that reached something that no run before it had reached.

A feature is a short text: something that a run can reach, such as a mechanism or two effects at once
(`campaigns.explore.features`). The corpus holds each run that was the first to reach some feature; the values of its
plan are changed a little for the next run. The first runs are drawn, since to a single one everything is new, and a
fixed share of the later ones, so that what the corpus leads away from is still reached. Runs that broke a guarantee
are counted and not changed: what they found is found.

Energy: a member is chosen in proportion to the rarity of what it reached first, the sum over these features of one by
the number of runs that reached each, divided by one more than how often it was chosen before. So what happened once
counts most, what every run does counts next to nothing, and no member is worn out. A guarantee's rules are features
too: plans near those that few runs could have broken come first.

Sources: AFL keeps an input that reached a new edge (Zalewski, technical_details.txt); FuzzFactory lets any feedback of
a domain decide that (Padhye et al., OOPSLA 2019); Entropic gives rare features more energy (Boehme, Manes & Cha, FSE
2020), AFLFast less to inputs that were chosen often (Boehme, Pham & Roychoudhury, CCS 2016); Mallory guides the faults
of Jepsen's tests by what timelines show (Meng et al., CCS 2023).
"""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeAlias

import msgspec

#: What replaces the plan's own, by dotted key.
Values: TypeAlias = dict[str, Any]
#: The first runs, and this share of the others, are drawn without the corpus.
FIRST_RUNS: Final = 5
FRESH_SHARE: Final = 0.3


class Space(Protocol):
    """The plans to choose from; every draw is of the given stream."""

    def fresh(self, draw: random.Random) -> Values: ...

    def changed(self, values: Values, draw: random.Random) -> Values: ...


class ExploredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with what it reached; `origin` is the run whose values it changed, 0 for none."""

    run: int
    values: Values
    origin: int = 0
    features: frozenset[str] = frozenset()
    broke: bool = False


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A run that reached features before every other."""

    run: ExploredRun
    first: frozenset[str]


class Corpus:
    """What some runs, in the order in which they began, reached together."""

    def __init__(self, runs: Iterable[ExploredRun]) -> None:
        self.met: Counter[str] = Counter()
        self.members: list[Member] = []
        self._chosen: Counter[int] = Counter()
        self._runs = 0
        for run in runs:
            self.add(run)

    def add(self, run: ExploredRun) -> None:
        """Take in the next run."""
        self._runs += 1
        first = frozenset(run.features - self.met.keys())
        self.met.update(run.features)
        self._chosen[run.origin] += 1
        if first:
            self.members.append(Member(run=run, first=first))

    def energy(self, member: Member) -> float:
        """How likely it is that this member is changed next, in proportion to the others."""
        if member.run.broke:
            return 0.0
        return sum(1 / self.met[feature] for feature in sorted(member.first)) / (1 + self._chosen[member.run.run])

    def next(self, space: Space, draw: random.Random, fresh_share: float = FRESH_SHARE) -> tuple[Values, int]:
        """Choose the values of the next run, and the run whose values they change; 0: of none."""
        energies = [self.energy(member) for member in self.members]
        if self._runs < FIRST_RUNS or draw.random() < fresh_share or not any(energies):
            return space.fresh(draw), 0
        (chosen,) = draw.choices(self.members, energies)
        return space.changed(chosen.run.values, draw), chosen.run.run
