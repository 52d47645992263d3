"""Consul as a system under test: how its servers start, what it promises, how one agent is asked."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.system import BaseSystem, Question
from fencepost.harness.coordination import Interface, ReadMode, WatchMode
from fencepost.harness.runtime.node import Layout, Node, Place
from fencepost.harness.verdict import LeadershipBound, LeaseBound, Vocabulary
from fencepost.systems.consul import agent, configuration, upgrades
from fencepost.systems.consul.agent import ConsulQuestion
from fencepost.systems.consul.catalog import CatalogClient
from fencepost.systems.consul.client import ConsulClient
from fencepost.systems.consul.configuration import CLIENT_PORT
from fencepost.systems.consul.guarantees import leadership_bound, lease_bound, unpromised
from fencepost.systems.consul.options import ConsulOptions, MembersBy
from fencepost.systems.consul.releases import RELEASES
from fencepost.systems.consul.settings import SETTINGS
from fencepost.systems.consul.wire.calls import connect

#: A line of raft's logger, from release 1.15 on: "agent.server.raft: election won: term=2 tally=2".
_ELECTION_WON: Final = re.compile(r"election won: term=(\d+)")


class Consul(BaseSystem[ConsulOptions]):
    """`harness.contract.system.System`."""

    profile: Final = Profile(
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
    releases: Final = RELEASES
    guarantees = Path(__file__).with_name("guarantees.toml")
    spec = staticmethod(configuration.spec)
    settings: Final = SETTINGS
    watch_modes: Final = (WatchMode.MERGED,)
    resumes_watches: Final = False
    changes_keys_together: Final = True

    def unpromised(self, settings: Settings, options: ConsulOptions) -> Mapping[str, str]:
        """`harness.contract.conditions.QualifiesPromises`."""
        return unpromised(options)

    def leadership(self, options: ConsulOptions, version: str = "") -> LeadershipBound:
        return leadership_bound(options)

    def lease_bound(self, options: ConsulOptions) -> LeaseBound:
        """`harness.contract.leadership.BoundsLeases`."""
        return lease_bound(options)

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

    async def move_leadership(self, leader: Place, to: Place, *, timeout_s: float) -> None:
        """`harness.contract.leadership.MovesLeadership`."""
        await agent.move_leadership(leader, to, timeout_s=timeout_s)

    def question(self, place: Place, subject: str) -> Question:
        return ConsulQuestion(place)

    async def reported_version(self, node: Node, *, log_from: int) -> str:
        return (await agent.itself(node.place)).config.version

    def refuse_change(
        self, start: str, to: str, *, back: bool, options: ConsulOptions, settings: Settings
    ) -> Refusal | None:
        return upgrades.refuse_change(start, to, back=back)

    def became_leader(self, line: str) -> int | None:
        match = _ELECTION_WON.search(line)
        return int(match.group(1)) if match else None


CONSUL: Final = Consul()
