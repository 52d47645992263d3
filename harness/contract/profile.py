"""The facts about a system that other code needs, as plain data, so that no other code names the system.

Among them are its options: what [system_options] of a plan and `-O` set, one frozen struct for each system.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from fencepost.harness.base.errors import Refusal, unknown_choice
from fencepost.harness.base.options import Duration, Options, out_of_bounds, parse
from fencepost.harness.coordination import ReadMode
from fencepost.harness.verdict import Vocabulary

_MS_NS: Final = 1_000_000


class SystemOptions(Options, frozen=True, kw_only=True):
    """The base of every system's options; a system without options uses it directly."""

    def refuse(self) -> Refusal | None:
        """Why a server cannot run with these values; None when it can. Called before the start.

        Each value is checked alone here; a system adds what its options mean together.
        """
        wrong = out_of_bounds(self)
        if wrong is not None:
            name, limits = wrong
            return Refusal(f"{name}={getattr(self, name)} is out of range", f"give {limits}")
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, Duration) and value % _MS_NS:
                return Refusal(f"{name}={value} is not a whole number of milliseconds", "servers count in milliseconds")
        return None

    def refuse_for(self, interface: str) -> Refusal | None:
        """Why no workload written against this interface can run with these values; None when each can."""
        return None


#: A system's own options, where a class takes them and gives them, and where a protocol only takes them.
S = TypeVar("S", bound=SystemOptions)
S_contra = TypeVar("S_contra", bound=SystemOptions, contravariant=True)


def with_durations(options: type[SystemOptions], given: Mapping[str, object]) -> dict[str, Any]:
    """Read `election_ms = 1000` of a plan from before options had units as `election = "1000ms"`."""
    fields = options.__struct_fields__
    renamed: dict[str, Any] = {}
    for name, value in given.items():
        stem, _, unit = name.rpartition("_")
        is_old = name not in fields and stem in fields and unit in ("ms", "s") and type(value) is int
        renamed[stem if is_old else name] = f"{value}{unit}" if is_old else value
    return renamed


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
