r"""What a system under test declares: how it starts, what it promises, how one node is asked, and its parts.

A system is one object that a leaf names in its table SYSTEMS, of a class below `BaseSystem[ItsOptions]`. Nothing here
starts a process; the runtime does.

What only some systems can do is a part: an attribute that is None where a system has not got it, else an object or a
function. Code that needs a part looks at it and does without where it is None; a fault names the parts that it needs
(`FaultKind.needs`). `PARTS` describes them, for `fencepost list abilities`.

    class Counter(BaseSystem[CounterOptions]):
        profile = Profile(name="counter", options=CounterOptions, interfaces=..., reads=..., listeners={"client": 7000})
        releases = CounterReleases()
        guarantees = Path(__file__).with_name("guarantees.toml")
        logs = LogTable(became_leader={r"leader of term (\d+)": epoch})

        spec = staticmethod(...)
        async def healthy(...)
        async def open_client(...)
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeAlias

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.guarantees import read_guarantees
from fencepost.harness.contract.logs import LogTable
from fencepost.harness.contract.members import MemberChanges
from fencepost.harness.contract.profile import Profile, S, SystemOptions
from fencepost.harness.contract.releases import Versions
from fencepost.harness.contract.server_settings import NO_SETTINGS, ServerSettings, Settings
from fencepost.harness.coordination import ClientSession, WatchMode
from fencepost.harness.history import Claim, Clock, NodeLog
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.node import Layout, Member, Node, NodeSpec, Place, members_alike
from fencepost.harness.runtime.provider import Served
from fencepost.harness.verdict import Guarantee, LeadershipBound, LeaseBound, ResumeBound, SessionBound, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One node's answer to the question whether it leads; the observer adds the times.

    `leader` is the name of the node that it takes for the leader. `position` is where its store stands.
    """

    claims: Claim
    source: str
    epoch: int | None = None
    epoch_exact: bool = True
    leader: str | None = None
    position: int | None = None
    detail: str | None = None


class Question(Protocol):
    """A reusable question to one node alone. `ask` may be called while earlier questions are unanswered."""

    async def ask(self) -> Answer:
        """Ask once. Raises anything without an answer (the observer records `silent`); cancelled at its deadline."""
        ...

    async def close(self) -> None: ...


class Releases(Served, Protocol):
    """The releases of a system, and where their binaries come from, in images and outside of them."""

    @property
    def default(self) -> str:
        """The release of a plan that names none."""
        ...

    def known(self) -> tuple[str, ...]:
        """The releases that `resolve` can get by their number, in order; `resolve` also accepts a path."""
        ...

    def at_hand(self, version: str) -> bool:
        """Whether `resolve` has nothing to fetch or to build for this release. Uses no network."""
        ...


@dataclass(frozen=True, slots=True)
class ReportedTime:
    """A server's clock showed at least `shown_ns` and less than `shown_ns + resolution_ns` during the request.

    A wall clock counts from 1970, a monotonic clock from an origin of the server's own. `source` says what was read.
    """

    shown_ns: int
    resolution_ns: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """What one node alone holds. `entries` have a text for each key, by which two nodes agree: value, version.

    `position` is how far it has applied its log, None where nobody can tell. States of one `subject` are copies.
    """

    entries: Mapping[str, str]
    position: int | None = None
    subject: str = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchKinds:
    """How sessions listen for changes of data (`harness.coordination.Watchable`)."""

    #: The first is the default.
    modes: tuple[WatchMode, ...]
    #: Whether a watch may begin at a past position, as long as history was not compacted there.
    resumes: bool
    #: Whether one transaction changes several watched keys at one position.
    keys_together: bool


class MoveLeadership(Protocol):
    async def __call__(self, leader: Place, to: Place, *, timeout_s: float) -> None:
        """Ask the leader to hand its leadership to another node.

        Raises:
            Definite: it refuses, and nothing changed.
            Indefinite: nobody knows whether leadership moved.
        """
        ...


#: What is asked of one node; says in words what the answer shows. Raises `Definite` or `Indefinite`; the caller sets a
#: limit.
AsksNode: TypeAlias = Callable[[Node], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """One request of an operator, which takes no promise away."""

    ask: AsksNode
    #: Takes back what the request changed, by way of any node, whether it was carried out or not; None: nothing stays.
    undo: AsksNode | None = None


class BaseSystem(ABC, Generic[S]):
    """A system whose promises stand in a file; `S` is the struct of its options, `profile.options`."""

    #: Its name, and the facts about it that other code needs.
    profile: Profile[S]
    releases: Releases
    #: What the system is held to (`harness.contract.guarantees`).
    guarantees: Path
    #: Describes one node as data, from the arguments of `specs`; a system that describes all at once overrides that.
    spec: Callable[[Place, Layout, Artifacts, S, Settings], NodeSpec]

    # The parts, which `PARTS` describes.
    #: By name.
    maintenance: Mapping[str, MaintenanceRequest] | None = None
    settings: ServerSettings[S] | None = None
    logs: LogTable | None = None
    versions: Versions | None = None
    member_changes: MemberChanges[S] | None = None
    watches: WatchKinds | None = None
    #: From the options and the release.
    leadership: Callable[[S, str], LeadershipBound] | None = None
    lease_bound: Callable[[S], LeaseBound] | None = None
    session_bound: Callable[[Sequence[Member], S], SessionBound] | None = None
    move_leadership: MoveLeadership | None = None
    #: By guarantee that does not hold with these settings (`--set`) and options (`-O`): the reason, in one sentence.
    unpromised: Callable[[Settings, S], Mapping[str, str]] | None = None
    #: Raises the features to those of a new cluster of this release by way of one of these nodes. Returns what was
    #: raised, from which level to which. Raises `Definite` or `Indefinite`; the caller sets a limit.
    raise_features: Callable[[Sequence[Place], str], Awaitable[str]] | None = None
    #: Asks this node alone what its clock shows; None where it does not report that clock. Raises OSError, ValueError.
    reported_time: Callable[[Place, Clock], Awaitable[ReportedTime | None]] | None = None
    #: Reads what this node alone holds, by its own answer. Raises anything without one; the caller sets a limit.
    replica_states: Callable[[Place], Awaitable[Sequence[ReplicaState]]] | None = None
    #: By when clients are served again after the last fault.
    resume_bound: Callable[[S], ResumeBound] | None = None
    #: Reads the log in a node's kept data; None when there is none. Raises OSError, EOFError, ValueError and
    #: tarfile.TarError for data that cannot be read.
    read_log: Callable[[Path, str], NodeLog | None] | None = None
    #: Returns once another process of this node can start, or nobody can tell; it sets a limit itself.
    before_start: Callable[[Node, Layout], Awaitable[None]] | None = None
    #: The path of the archive; None when there is none.
    startup_archive: Callable[[], Path | None] | None = None

    def promises(self, version: str = "") -> tuple[Guarantee, ...]:
        """The guarantees that this release ("": the default) is held to; every release has the same names."""
        return read_guarantees(self.guarantees, version or self.releases.default)

    def members(self, nodes: int, options: S) -> tuple[Member, ...]:
        """The members of a cluster for a plan with this number of `nodes`, in order; all alike unless it says more."""
        return members_alike(nodes)

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: S, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        """Describe every node of the cluster as data.

        Args:
            layout: where the nodes live, by name.
            artifacts: the binaries of the release.
            options: the plan's options of this system.
            settings: settings of the servers themselves (`--set`).
        """
        return [self.spec(place, layout, artifacts, options, settings) for place in layout.values()]

    async def ready(self, node: Node) -> bool:
        """Whether this node serves now, by one short request to it alone; here: it is healthy as a cluster of one."""
        return await self.healthy({node.name: node.place}) is None

    @abstractmethod
    async def healthy(self, layout: Layout) -> str | None:
        """What is still wrong, in words; None when every node serves and all agree on one leader."""

    @abstractmethod
    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: S | None = None
    ) -> ClientSession:
        """Open a connection to this node alone; raises `Definite` when it cannot be opened.

        Args:
            interface: one of `Profile.interfaces`; the session offers what belongs to it.
            options: as `specs` gets them, for the times of leases and sessions; None for the defaults.
        """

    def question(self, place: Place, subject: str) -> Question | None:
        """A question to this node about the subject (see `Profile.subjects`); None where the node cannot answer it."""
        return None


#: Any system, for whoever passes its options on without reading them.
System: TypeAlias = BaseSystem[Any]

#: The parts by name, as one sentence each; a part's attribute has the name with underscores. A leaf's table ABILITIES
#: adds to them.
PARTS: Final[Mapping[str, str]] = {
    "before-start": "A dead server is started again only once another process can take its place.",
    "leadership": "It states for how long a leader that is cut off may still claim to lead.",
    "lease-bound": "It grants leases, and states by when they end.",
    "logs": "Its servers log who leads, how they caught up, that they cannot serve, what was refused or changed.",
    "maintenance": "Operators maintain its servers while they serve: they compact, defragment, purge and the like.",
    "member-changes": "Its members can be removed and added while it runs; the members of other systems are fixed.",
    "move-leadership": "Its leader hands its leadership over on request; that of other systems must be ended.",
    "raise-features": "Its cluster keeps the features of the old release until an operator raises them.",
    "read-log": "Its replicated log can be read from the disks of its nodes after a run.",
    "replica-states": "What each of its nodes alone holds can be read, and is compared at the end of every run.",
    "reported-time": "Its servers report what their clocks show.",
    "resume-bound": "Its own time-outs say by when it serves again once no fault is left.",
    "session-bound": "It has nodes that keep a session, and states by when one that reports to nobody is fenced.",
    "settings": "Its servers take settings by their own names (`--set`).",
    "startup-archive": "Its packaged release starts faster from an archive, which set-up makes when it resolves that"
    " release.",
    "unpromised": "Some of its promises hold only with certain settings of its servers, or certain options.",
    "versions": "Its servers report their release, so that a change of release can be proven.",
    "watches": "Its sessions can listen for changes of data (`harness.coordination.Watchable`).",
}


def has_part(system: object, name: str) -> bool:
    """Whether the system has the part of this name, be it one of `PARTS` or of a leaf."""
    return getattr(system, name.replace("-", "_"), None) is not None


#: For a system that states no bound: claims are measured and not judged.
_NO_BOUND: Final = LeadershipBound(
    bound_ns=None, source="the system states no bound", standing=Standing.MEASURED, one_leader_per_epoch=False
)


def leadership_of(system: System, options: SystemOptions, version: str = "") -> LeadershipBound:
    """The bound for a cut-off leader of this release; `bound_ns` is None where the system states none."""
    return _NO_BOUND if system.leadership is None else system.leadership(options, version)


class BaseReleases(Releases, ABC):
    """The releases of a system that has one release, already on this machine, and no image."""

    @property
    @abstractmethod
    def default(self) -> str: ...

    @abstractmethod
    def resolve(self, version: str) -> Artifacts: ...

    def known(self) -> tuple[str, ...]:
        return (self.default,)

    def at_hand(self, version: str) -> bool:
        return version == self.default

    @property
    def image_recipe(self) -> ImageRecipe | None:
        return None

    def in_image(self, image: ImageFacts) -> Artifacts:
        raise UsageError(f"{image.reference}: this system does not run from an image", hint="use --runtime lab")
