"""The smallest system: what somebody who adds one has to write, beside its servers and its client."""

from pathlib import Path
from typing import Annotated, Final

from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.profile import Profile, SystemOptions
from fencepost.harness.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.contract.system import BaseReleases, BaseSystem
from fencepost.harness.coordination import ClientSession, Interface, ReadMode
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.harness.verdict import Vocabulary


class SmallOptions(SystemOptions, frozen=True, kw_only=True):
    pulse: Annotated[Duration, about("pause between two pulses", least=seconds(0.1))] = seconds(0.2)


class SmallReleases(BaseReleases):
    default: Final = "1.0"

    def resolve(self, version: str) -> Artifacts:
        return Artifacts(version=version, paths={"tiny": "/bin/tiny"}, sha256={})


class Small(BaseSystem[SmallOptions]):
    profile = Profile(
        name="tiny",
        options=SmallOptions,
        interfaces=frozenset({Interface.STORAGE}),
        reads={ReadMode.STRONG: "linearizable"},
        listeners={"client": 7000},
        sizes=(1, 3),
        vocabulary=Vocabulary(epoch="ballot"),
    )
    releases = SmallReleases()
    guarantees = Path(__file__).with_name("guarantees.toml")

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: SmallOptions, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        return [
            NodeSpec(name=name, argv=(artifacts.paths["tiny"], str(options.pulse.ms)), listeners=self.profile.listeners)
            for name in layout
        ]

    async def healthy(self, layout: Layout) -> str | None:
        return None

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: SmallOptions | None = None
    ) -> ClientSession:
        raise NotImplementedError


SMALL: Final = Small()
