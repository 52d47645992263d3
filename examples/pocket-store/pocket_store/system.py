"""What fencepost must know about the store: how a node starts and how it is reached."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

from fencepost.harness.base.options import about
from fencepost.harness.contract.profile import Profile, SystemOptions
from fencepost.harness.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.contract.system import BaseReleases, BaseSystem
from fencepost.harness.coordination import Definite, Indefinite, Interface, KeyValue, ReadMode
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from pocket_store.client import connect

PORT = 7400
SERVER = Path(__file__).with_name("server.py")


class PocketOptions(SystemOptions, frozen=True, kw_only=True):
    sync: Annotated[Literal["always", "late"], about("late: answer before the write is in the file")] = "always"


class PocketReleases(BaseReleases):
    """One release: the one beside this file."""

    default = "1.0"

    def resolve(self, version: str) -> Artifacts:
        return Artifacts(version=self.default, paths={"python": sys.executable}, sha256={})


class Pocket(BaseSystem[PocketOptions]):
    profile = Profile(
        name="pocket",
        options=PocketOptions,
        interfaces=frozenset({Interface.STORAGE}),
        reads={ReadMode.STRONG: "linearizable"},
        listeners={"client": PORT},
        sizes=(1,),
    )
    releases = PocketReleases()
    guarantees = Path(__file__).with_name("guarantees.toml")

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: PocketOptions, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        return [
            NodeSpec(
                name=place.name,
                argv=(
                    artifacts.paths["python"],
                    str(SERVER),
                    *("--address", place.address, "--port", str(PORT)),
                    *("--data", str(place.data), "--sync", options.sync),
                ),
                listeners=self.profile.listeners,
            )
            for place in layout.values()
        ]

    async def healthy(self, layout: Layout) -> str | None:
        """What is still wrong; None when the node answers."""
        for place in layout.values():
            try:
                async with asyncio.timeout(1):
                    client = await connect(*place.dial(PORT), 1)
                    try:
                        await client.read("", ReadMode.STRONG)
                    finally:
                        await client.close()
            except (Definite, Indefinite, TimeoutError):
                return f"no answer from {place.name}"
        return None

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: PocketOptions | None = None
    ) -> KeyValue:
        return await connect(*place.dial(PORT), connect_timeout_s)


POCKET = Pocket()
