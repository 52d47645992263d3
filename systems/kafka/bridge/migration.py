"""The way of a Kafka from ZooKeeper to KRaft and back, as its documentation tells an operator.

What proves each phase is what the servers themselves say: the znodes /controller and /migration, which mode each broker
is in by the requests that it offers, and which controller accepts changes. A KRaft controller that leads its quorum
accepts none until the copy is complete.

Source: Kafka 3.9 documentation, Operations, "ZooKeeper to KRaft Migration"; KIP-866.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.harness.runtime.server_log import SERVER_LOG
from fencepost.systems.kafka.client.client import ListenerRole
from fencepost.systems.kafka.contract.migration import MigrationStage, Phase, ServerTurn
from fencepost.systems.kafka.server import health, znodes
from fencepost.systems.kafka.server.configuration import BRIDGE, BROKER, CONTROLLER, KEEPER, Mode
from fencepost.systems.kafka.server.options import BridgeOptions
from fencepost.systems.kafka.server.znodes import CONTROLLER as CONTROLLER_ZNODE
from fencepost.systems.kafka.server.znodes import CONTROLLER_EPOCH
from fencepost.systems.kafka.server.znodes import MIGRATION as MIGRATION_ZNODE

#: The line of the controller that takes the cluster out of the migration.
_ENDED: Final = re.compile(r"\bto POST_MIGRATION\b|POST_MIGRATION\b.*\bstate\b")
_COPIED: Final = re.compile(r"Completed migration of metadata from Zoo[kK]eeper to KRaft\..*")
_ORDER: Final = (Phase.PROVISIONED, Phase.HYBRID, Phase.DUAL_WRITE, Phase.FINAL)


class BridgeMigration:
    """`systems.kafka.contract.migration.Migration`."""

    def __init__(self, layout: Layout, artifacts: Artifacts, options: BridgeOptions, settings: Settings) -> None:
        self._layout, self._artifacts, self._options, self._settings = layout, artifacts, options, settings
        self._keepers = self._of(KEEPER)
        self._brokers, self._controllers = self._of(BROKER), self._of(CONTROLLER)

    def stages(self, until: Phase, *, early: bool) -> tuple[MigrationStage, ...]:
        to_kraft = MigrationStage(turns=_turns(self._brokers, Mode.KRAFT), reaches=(Phase.DUAL_WRITE,))
        if early:
            # KAFKA-20960: Kafka accepts it.
            to_kraft = MigrationStage(turns=_turns(self._brokers[:-1], Mode.KRAFT))
        way = (
            MigrationStage(
                turns=_turns(self._controllers, Mode.MIGRATION), together=True, reaches=(Phase.PROVISIONED,)
            ),
            MigrationStage(turns=_turns(self._brokers, Mode.MIGRATION), reaches=(Phase.COPY, Phase.HYBRID)),
            to_kraft,
            MigrationStage(turns=_turns(self._controllers, Mode.KRAFT), reaches=(Phase.FINAL,)),
        )
        return way[: _ORDER.index(until) + 1]

    def way_back(self, modes: Mapping[str, str | None]) -> tuple[MigrationStage, ...]:
        """Brokers leave KRaft mode, controllers end, /controller becomes free, brokers forget the controllers."""
        if any(modes.get(place.name) == Mode.KRAFT for place in self._controllers):
            return ()
        brokers = [place for place in self._brokers if place.name in modes]
        in_kraft_mode = [place for place in brokers if modes[place.name] == Mode.KRAFT]
        return (
            MigrationStage(turns=_turns(in_kraft_mode, Mode.MIGRATION)),
            MigrationStage(turns=_turns(self._controllers, None), together=True, releases=True),
            MigrationStage(turns=_turns(brokers, Mode.ZOOKEEPER), reaches=(Phase.ROLLED_BACK,)),
        )

    async def spec(self, turn: ServerTurn, *, first: bool) -> NodeSpec:
        place = self._layout[turn.node]
        assert turn.becomes is not None
        own_id = await znodes.cluster_id(self._keepers) if CONTROLLER in place.roles and first else ""
        return BRIDGE.spec(
            place,
            self._layout,
            self._artifacts,
            self._options,
            self._settings,
            mode=Mode(turn.becomes),
            cluster_id=own_id,
        )

    async def release(self, *, leaves: bool, behind: bool) -> str:
        """Raise /controller_epoch, delete /controller, so that a broker can become the controller, and /migration.

        KRaft controllers write the epoch of their own quorum into the states of partitions. A controller in ZooKeeper
        mode with a smaller epoch gives such a partition no other leader (KAFKA-20488); the documentation before May
        2026 did not mention it. While /migration stays, a later migration takes ZooKeeper for a copy, and overwrites
        it (KAFKA-17146); the documentation before 3.9 did not mention that.
        """
        held, state = await znodes.holder(self._keepers), await znodes.migration_state(self._keepers)
        above = 1 + max(-1 if held is None else held.kraft_epoch, -1 if state is None else state.epoch)
        raised = () if behind else await znodes.raise_epoch(self._keepers, above)
        claimed = (CONTROLLER_ZNODE,) if held is not None and held.persistent else ()
        gone = await znodes.delete(self._keepers, *claimed, *(() if leaves else (MIGRATION_ZNODE,)))
        done = [f"raised {CONTROLLER_EPOCH} from {raised[0]} to {raised[1]}"] if raised else []
        return "; ".join([*done, f"deleted {' and '.join(gone)}" if gone else "there was nothing to delete"])

    async def lacks(self, phase: Phase) -> str | None:
        match phase:
            case Phase.PROVISIONED:
                return await self._unprovisioned()
            case Phase.COPY:
                held = await znodes.holder(self._keepers)
                return None if held is not None and held.by_kraft else "no KRaft controller has claimed /controller"
            case Phase.HYBRID:
                return None if await self._accepting() else "no KRaft controller accepts changes"
            case Phase.DUAL_WRITE:
                roles = {place.name: await health.role_of(place) for place in self._brokers}
                left = [name for name, role in roles.items() if role is not ListenerRole.BROKER]
                return f"{', '.join(left)}: not in KRaft mode" if left else await self.lacks(Phase.HYBRID)
            case Phase.FINAL:
                if not await self._accepting():
                    return "no KRaft controller accepts changes"
                return None if self._line(_ENDED) else "no controller says that the migration is over"
            case Phase.ROLLED_BACK:
                held = await znodes.holder(self._keepers)
                return None if held is not None and not held.persistent else "no broker holds /controller"

    async def evidence(self) -> str:
        """ "/controller is c1's (KRaft epoch 2, controller epoch 3), c1 accepts changes, b1 is a broker"."""
        parts = [await self._held()]
        accepting = await self._accepting()
        if accepting:
            parts.append(f"{' and '.join(accepting)} accepts changes")
        for place in self._brokers:
            try:
                parts.append(f"{place.name} is a {await health.role_of(place)}")
            except (Definite, Indefinite, TimeoutError, OSError):
                parts.append(f"{place.name} does not answer")
        copied = self._line(_COPIED)
        return ", ".join([*parts, *([copied] if copied else [])])

    async def _held(self) -> str:
        held = await znodes.holder(self._keepers)
        if held is None:
            return "nobody holds /controller"
        kraft = f"KRaft epoch {held.kraft_epoch}, " if held.by_kraft else ""
        return f"/controller is {BRIDGE.node_name(held.number)}'s ({kraft}controller epoch {held.controller_epoch})"

    async def _unprovisioned(self) -> str | None:
        for place in self._controllers:
            await health.quorum_of(place)
        leader = await health.quorum_leader(self._controllers)
        if leader is None:
            return "the controllers have elected no leader"
        # The driver of the leader makes it once it may look for brokers.
        state = await znodes.migration_state(self._keepers)
        return None if state is not None else "the leader has not reached ZooKeeper"

    async def _accepting(self) -> list[str]:
        """The KRaft controllers that accept changes; one that does not answer accepts none."""
        return [place.name for place in self._controllers if await health.accepts_changes(place)]

    def _line(self, pattern: re.Pattern[str]) -> str | None:
        for place in self._controllers:
            log = place.kept / SERVER_LOG
            if log.is_file() and (match := pattern.search(log.read_text(encoding="utf-8", errors="replace"))):
                return match.group(0)[:200]
        return None

    def _of(self, role: str) -> tuple[Place, ...]:
        return tuple(place for place in self._layout.values() if role in place.roles)


def _turns(places: Sequence[Place], mode: Mode | None) -> tuple[ServerTurn, ...]:
    return tuple(ServerTurn(place.name, None if mode is None else mode.value) for place in places)
