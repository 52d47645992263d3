"""Moving a running cluster's metadata from one store to another, phase by phase, and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from fencepost.harness.contract.profile import S_contra
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec


class Phase(StrEnum):
    """What holds since the last step of a migration; each lasts until the next one begins."""

    PROVISIONED = "provisioned"
    COPY = "copy"
    HYBRID = "hybrid"
    DUAL_WRITE = "dual-write"
    FINAL = "final"
    ROLLED_BACK = "rolled-back"


#: For people.
MEANINGS: Final[Mapping[Phase, str]] = {
    Phase.PROVISIONED: "the new controllers run and wait for the brokers, which are restarted into migration mode",
    Phase.COPY: "a new controller has claimed the leadership in the old store, and copies it",
    Phase.HYBRID: "a new controller leads brokers in the old mode, and writes to both stores",
    Phase.DUAL_WRITE: "all brokers are in the new mode, and the controller still writes to both stores",
    Phase.FINAL: "the controllers no longer know the old store; there is no way back",
    Phase.ROLLED_BACK: "the old controller leads again, and the new controllers are gone",
}


@dataclass(frozen=True, slots=True)
class ServerTurn:
    """One server that is started as something else; `becomes` None: it is ended and stays so."""

    node: str
    becomes: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStage:
    """Steps of an operator: servers are turned, one by one or `together`, and then phases are waited for in order.

    `releases`: after the turns the leadership in the old store is given up by hand.
    """

    turns: tuple[ServerTurn, ...]
    together: bool = False
    releases: bool = False
    reaches: tuple[Phase, ...] = ()


class Migration(Protocol):
    """The way of one cluster."""

    def stages(self, until: Phase, *, early: bool) -> tuple[MigrationStage, ...]:
        """The steps from the beginning to this phase; `early`: the last phase begins one server too early."""
        ...

    def way_back(self, modes: Mapping[str, str | None]) -> tuple[MigrationStage, ...]:
        """The steps back from where the nodes became `modes`; empty where there is none."""
        ...

    async def spec(self, turn: ServerTurn, *, first: bool) -> NodeSpec:
        """How a turn's server starts from now on; `first`: on an empty disk. May ask the cluster.

        Raises anything without an answer.
        """
        ...

    async def release(self, *, leaves: bool, behind: bool) -> str:
        """Give up the leadership in the old store by hand; return what was done, in words.

        `leaves`: the state of the migration stays there. `behind`: so does its epoch, below that of the new store.
        """
        ...

    async def lacks(self, phase: Phase) -> str | None:
        """What is missing for this phase to hold; None once it holds. Raises anything without an answer."""
        ...

    async def evidence(self) -> str:
        """What the servers say of the migration now, in words."""
        ...


@runtime_checkable
class MigratesMetadata(Protocol[S_contra]):
    """Its metadata can be moved to another store while it runs."""

    def migration(self, layout: Layout, artifacts: Artifacts, options: S_contra, settings: Settings) -> Migration: ...
