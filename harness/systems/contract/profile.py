"""What everyone else must know of a system, as plain data: nobody keeps a fact about a system under its name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fencepost.harness.base.errors import unknown_choice
from fencepost.harness.base.options import parse
from fencepost.harness.coordination import Interface, ReadMode
from fencepost.harness.systems.contract.options import SystemOptions, with_durations
from fencepost.harness.verdict import Vocabulary

S = TypeVar("S", bound=SystemOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Generic[S]):
    """The facts of one system that hold for all its releases."""

    #: As `--system` and the registry name it.
    name: str
    #: The struct of [system_options]: names, types, defaults and explanations.
    options: type[S]
    #: What the sessions of `System.open_client` can be used for.
    interfaces: frozenset[Interface]
    #: The guarantee that reads of each mode are held to; the first mode is the default.
    reads: Mapping[ReadMode, str]
    #: Ports by what they are for: nodes dial every one but "client", the harness those that each member names.
    listeners: Mapping[str, int]
    #: What beliefs are about; the nemesis follows the first one.
    subjects: tuple[str, ...] = ("leader",)
    #: How its users say it, for reports.
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    #: How many `nodes` a plan may ask for.
    sizes: tuple[int, ...] = (3, 5)

    def parse_options(self, given: Mapping[str, object]) -> S:
        """Parse [system_options] over the defaults; raises UsageError for an unknown name or a wrong type."""
        return parse(self.name, with_durations(self.options, given), self.options())

    @property
    def read_modes(self) -> tuple[ReadMode, ...]:
        """The modes of its reads, the default first."""
        return tuple(self.reads)

    def read_guarantee(self, mode: ReadMode) -> str:
        """The guarantee that reads of this mode are held to; raises UsageError for a mode that it does not have."""
        if mode not in self.reads:
            raise unknown_choice(f"read mode of {self.name}", mode.value, [known.value for known in self.reads])
        return self.reads[mode]
