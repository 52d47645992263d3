"""Consul as a system under test: how its servers start, what it promises, how one agent is asked."""

from pathlib import Path
from typing import Final

from fencepost.harness.contract.logs import LogMoment, LogTable, epoch
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.releases import Versions
from fencepost.harness.contract.system import BaseSystem, Question, WatchKinds
from fencepost.harness.coordination import Interface, ReadMode, WatchMode
from fencepost.harness.history import CatchUp
from fencepost.harness.runtime.node import Layout, Node, Place
from fencepost.harness.verdict import Vocabulary
from fencepost.systems.consul import agent, configuration, replicas, upgrades
from fencepost.systems.consul.agent import ConsulQuestion
from fencepost.systems.consul.catalog import CatalogClient
from fencepost.systems.consul.client import ConsulClient
from fencepost.systems.consul.configuration import CLIENT_PORT
from fencepost.systems.consul.guarantees import leadership_bound, lease_bound, resume_bound, unpromised
from fencepost.systems.consul.maintenance import REQUESTS
from fencepost.systems.consul.options import ConsulOptions, MembersBy
from fencepost.systems.consul.releases import RELEASES
from fencepost.systems.consul.settings import SETTINGS
from fencepost.systems.consul.wire.calls import connect

#: Lines of raft's logger, from release 1.15 on: "agent.server.raft: election won: term=2 tally=2".
_LOGS: Final = LogTable(
    became_leader={r"election won: term=(\d+)": epoch},
    caught_up={
        "raft: Installed remote snapshot": CatchUp.SNAPSHOT,
        r"raft: clearing log suffix: from=\d+": CatchUp.TRUNCATION,
        r"raft: starting restore from snapshot: id=": CatchUp.LOADED,
        r"raft: snapshot complete up to: index=": CatchUp.SAVED,
    },
    reached={
        "raft: entering candidate state": LogMoment.ELECTION,
        r"raft: compacting logs: from=\d+": LogMoment.COMPACTION,
    },
)


async def _reported_version(node: Node, log_from: int) -> str:
    return (await agent.itself(node.place)).config.version


class Consul(BaseSystem[ConsulOptions]):
    """`harness.contract.system.System`."""

    profile = Profile(
        name="consul",
        options=ConsulOptions,
        interfaces=frozenset(
            {
                Interface.STORAGE,
                Interface.LOCKS,
                Interface.ELECTION,
                Interface.LEASES,
                Interface.MEMBERSHIP,
                Interface.LISTENERS,
            }
        ),
        # In Consul's words: consistent, default and stale.
        reads={
            ReadMode.STRONG: "linearizable",
            ReadMode.LEADER: "fresh-from-leader",
            ReadMode.PLAIN: "fresh-from-any-node",
        },
        listeners=configuration.LISTENERS,
        vocabulary=Vocabulary(epoch="term"),
        sizes=(1, 3, 5),
    )
    releases = RELEASES
    guarantees = Path(__file__).with_name("guarantees.toml")
    spec = staticmethod(configuration.spec)
    settings = SETTINGS
    maintenance = REQUESTS
    logs = _LOGS
    watches = WatchKinds(modes=(WatchMode.MERGED,), resumes=False, keys_together=True)
    leadership = staticmethod(leadership_bound)
    resume_bound = staticmethod(resume_bound)
    replica_states = staticmethod(replicas.read)
    lease_bound = staticmethod(lease_bound)
    unpromised = staticmethod(unpromised)
    move_leadership = staticmethod(agent.move_leadership)
    versions = Versions(
        reported=_reported_version,
        refuse_change=lambda start, to, back, _: upgrades.refuse_change(start, to, back=back),
    )

    async def ready(self, node: Node) -> bool:
        """Whether the server knows a leader and answers a consistent read."""
        return await agent.serves(node.place)

    async def healthy(self, layout: Layout) -> str | None:
        return await agent.disagreement(layout)

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: ConsulOptions | None = None
    ) -> ConsulClient:
        calls = await connect(*place.dial(CLIENT_PORT), connect_timeout_s)
        options = options or ConsulOptions()
        made = CatalogClient if options.members is MembersBy.CATALOG_TTL else ConsulClient
        return made(calls, options)

    def question(self, place: Place, subject: str) -> Question:
        return ConsulQuestion(place)


CONSUL: Final = Consul()
