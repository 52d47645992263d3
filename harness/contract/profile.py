"""The facts about a system that other code needs, as plain data, so that no other code names the system."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from fencepost.harness.base.errors import unknown_choice
from fencepost.harness.base.options import parse
from fencepost.harness.contract.options import S, with_durations
from fencepost.harness.coordination import ReadMode
from fencepost.harness.verdict import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Generic[S]):
    """The facts about one system that hold for all its releases."""

    #: As `--system` and the registry name it.
    name: str
    #: The struct of [system_options]: names, types, defaults and explanations.
    options: type[S]
    #: The protocols that the sessions of `System.open_client` offer.
    interfaces: frozenset[str]
    #: The guarantee that reads of each mode are held to; the first mode is the default.
    reads: Mapping[ReadMode, str]
    #: Ports by listener. Nodes dial every listener but "client"; the harness dials those that each member names.
    listeners: Mapping[str, int]
    #: The roles that beliefs are about; the nemesis follows the first one. Empty where no node leads.
    subjects: tuple[str, ...] = ("leader",)
    #: A target that means the node that leads, beside `leader` and the subject, where roles tell nodes apart.
    leader_word: str = ""
    #: Of the other subjects, those whose leader a fault may be aimed at, with what that leader does.
    other_leaders: Mapping[str, str] = field(default_factory=dict)
    #: Values of its options that a workload needs to show anything, by the interface that the workload asks for.
    wants: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    #: Checkers of its own that judge registers beside those that every system's runs have.
    register_checkers: tuple[str, ...] = ()
    #: The words of its users, for reports.
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    #: The numbers of nodes that a plan may ask for.
    sizes: tuple[int, ...] = (3, 5)
    #: Whether its servers are Java programs: they take more memory, and start faster from an archive.
    java: bool = False

    def parse_options(self, given: Mapping[str, object]) -> S:
        """Parse [system_options] over the defaults; raises UsageError for an unknown name or a wrong type."""
        return parse(self.name, with_durations(self.options, given), self.options())

    @property
    def subject(self) -> str:
        """The role that the nemesis follows; "" where no node leads."""
        return self.subjects[0] if self.subjects else ""

    @property
    def leader_names(self) -> tuple[str, ...]:
        """The targets that mean the node that leads, beside `leader`."""
        return tuple(filter(None, (self.subject, self.leader_word)))

    @property
    def read_modes(self) -> tuple[ReadMode, ...]:
        """The modes of its reads, the default first."""
        return tuple(self.reads)

    def read_guarantee(self, mode: ReadMode) -> str:
        """The guarantee that reads of this mode are held to; raises UsageError for a mode that it does not have."""
        if mode not in self.reads:
            raise unknown_choice(f"read mode of {self.name}", mode.value, [known.value for known in self.reads])
        return self.reads[mode]
