"""NATS JetStream as a system under test: how it starts, what it promises, how one server is asked.

Clients may connect to any server: a server passes requests on to the leader of the stream.
"""

import asyncio
from typing import Final

from fencepost.harness.base.errors import Refusal, UsageError
from fencepost.harness.contract.members import MemberChanges
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.releases import Versions
from fencepost.harness.contract.system import BaseSystem, Question, WatchKinds
from fencepost.harness.coordination import ReadMode, WatchMode
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Member, Node, Place
from fencepost.harness.verdict import Vocabulary
from fencepost.systems.nats import configuration, raftz
from fencepost.systems.nats.client import SESSIONS
from fencepost.systems.nats.configuration import CLIENT_PORT, LISTENERS, MONITOR_PORT
from fencepost.systems.nats.guarantees import GUARANTEES, leadership_bound, resume_bound
from fencepost.systems.nats.maintenance import REQUESTS
from fencepost.systems.nats.membership import NatsMembership
from fencepost.systems.nats.move_leadership import move_leader
from fencepost.systems.nats.options import NatsOptions
from fencepost.systems.nats.raftz import META_LEADER, STREAM_LEADER, NoAnswer, RaftGroup, RaftzQuestion
from fencepost.systems.nats.releases import RELEASES
from fencepost.systems.nats.replicas import NatsReplicas
from fencepost.systems.nats.settings import SETTINGS
from fencepost.systems.nats.stream import NatsSession
from fencepost.systems.nats.wire.connection import connect

#: One attempt to ask a server.
_ATTEMPT_S: Final = 1.0


async def _reported_version(node: Node, log_from: int) -> str:
    return str((await raftz.get(*node.place.dial(MONITOR_PORT), "/varz"))["version"])


class Nats(BaseSystem[NatsOptions]):
    """`harness.contract.system.System`."""

    profile = Profile(
        name="nats",
        options=NatsOptions,
        interfaces=frozenset(SESSIONS),
        reads={
            ReadMode.STRONG: "linearizable",
            ReadMode.LEADER: "fresh-from-leader",
            ReadMode.PLAIN: "fresh-from-any-node",
        },
        listeners=LISTENERS,
        subjects=(STREAM_LEADER, META_LEADER),
        other_leaders={META_LEADER: "the server that leads the group which places streams"},
        vocabulary=Vocabulary(epoch="term"),
        sizes=(1, 3, 5),
    )
    releases = RELEASES
    spec = staticmethod(configuration.spec)
    settings = SETTINGS
    maintenance = REQUESTS
    guarantees = GUARANTEES
    watches = WatchKinds(modes=(WatchMode.PERSISTENT,), resumes=True, keys_together=False)
    leadership = staticmethod(leadership_bound)
    resume_bound = staticmethod(resume_bound)
    replica_states = staticmethod(raftz.replica_states)
    # Every change is allowed: servers of 2.10 and later form one cluster, and read each other's files.
    versions = Versions(reported=_reported_version)
    member_changes = MemberChanges(
        of=lambda layout, _: NatsMembership(layout),
        wiped=Refusal("a server that was removed is not taken back under its name for five minutes", "leave out wipe="),
    )

    def members(self, nodes: int, options: NatsOptions) -> tuple[Member, ...]:
        """All alike, and asked on the monitoring port too."""
        if options.replicas > nodes:
            raise UsageError(
                f"a stream with {options.replicas} replicas does not fit on {nodes} node{'s' if nodes > 1 else ''}",
                hint=f"-O replicas={nodes}, or more --nodes",
            )
        return tuple(Member(f"n{number}", dialled=("client", "monitor")) for number in range(1, nodes + 1))

    async def ready(self, node: Node) -> bool:
        """Whether the server knows a leader of the group that places streams."""
        try:
            async with asyncio.timeout(_ATTEMPT_S):
                meta = await raftz.group(node.place, META_LEADER)
        except (NoAnswer, TimeoutError):
            return False
        return meta is not None and bool(meta.leader)

    async def healthy(self, layout: Layout) -> str | None:
        """Check that all servers agree on leader and term of both groups; the stream may not exist yet."""
        for subject in self.profile.subjects:
            answers = await asyncio.gather(*(_view(place, subject) for place in layout.values()))
            views = dict(zip(layout, answers, strict=True))
            absent = [node for node, view in views.items() if view is None and subject == META_LEADER]
            wrong = f"not in the meta group: {', '.join(absent)}" if absent else disagreement(subject, views)
            if wrong:
                return wrong
        return None

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: NatsOptions | None = None
    ) -> NatsSession:
        connection = await connect(*place.dial(CLIENT_PORT), connect_timeout_s)
        return SESSIONS[interface](connection, (options or NatsOptions()).replicas)

    async def move_leadership(self, leader: Place, to: Place, *, timeout_s: float) -> None:
        """Move the leadership of the stream, not of the meta group."""
        await move_leader(*leader.dial(CLIENT_PORT), to.name, timeout_s)

    def replica_count(self, options: NatsOptions) -> int:
        """`systems.nats.placing.PlacesReplicas`: of each stream."""
        return options.replicas

    def replicas(self, layout: Layout, artifacts: Artifacts) -> NatsReplicas:
        return NatsReplicas(layout)

    def question(self, place: Place, subject: str) -> Question:
        return RaftzQuestion(place, subject)


async def _view(place: Place, subject: str) -> RaftGroup | str | None:
    """The group as this server sees it; a text says why there is no answer."""
    try:
        async with asyncio.timeout(_ATTEMPT_S):
            return await raftz.group(place, subject)
    except TimeoutError:
        return f"not answered within {_ATTEMPT_S:g} s"
    except NoAnswer as error:
        return str(error)


def disagreement(subject: str, views: dict[str, RaftGroup | str | None]) -> str | None:
    """What is wrong with these views of one group, in words; None when nothing is wrong."""
    silent = [f"{node}: {view}" for node, view in views.items() if isinstance(view, str)]
    if silent:
        return "; ".join(silent)
    groups = {node: view for node, view in views.items() if isinstance(view, RaftGroup)}
    lost = [node for node, group in groups.items() if not group.leader]
    if lost:
        return f"{', '.join(lost)} know no leader of the {subject} group"
    if len({(group.leader, group.term, group.size) for group in groups.values()}) > 1:
        return f"the servers disagree on the {subject} group: " + ", ".join(
            f"{node} follows {group.leader} in term {group.term} of {group.size}" for node, group in groups.items()
        )
    return None


NATS: Final = Nats()
