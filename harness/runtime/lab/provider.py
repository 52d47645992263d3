"""The lab as a `Provider`: what it needs from this machine, and how it is opened."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.lab import doctor
from fencepost.harness.runtime.provider import NO_NEEDS, Check, Links, Needs, Placement, Say, Served

if TYPE_CHECKING:
    from fencepost.harness.runtime.lab.lab import Lab


class LabProvider:
    """The lab; see `harness.runtime.provider.Provider`."""

    name: Final = "lab"
    about: Final = "rootless network namespaces on this machine; no container engine, no root"
    in_namespaces: Final = True

    def refuse(self, placement: Placement) -> Refusal | None:
        if placement.image:
            return Refusal("it runs binaries, not images", "use --version, or --runtime containers with --image")
        if placement.links is not Links.AUTO:
            where = f"or choose another runtime: --runtime containers has --links {placement.links}"
            return Refusal("links are always enforced by packet rules", f"leave out --links, {where}")
        if placement.limited_data:
            return Refusal(
                "--limited-data is an option of containers only",
                "leave out --limited-data, or use --runtime containers",
            )
        return None

    def why_untraceable(self) -> Refusal | None:
        return None

    def why_unshaped(self) -> Refusal | None:
        return doctor.why_no_shaped_links()

    @property
    def closed_files(self) -> Refusal | None:
        return None

    def checks(self) -> list[Check]:
        return doctor.lab_checks()

    def refuse_if_impossible(self, placement: Placement, needs: Needs = NO_NEEDS) -> Placement:
        doctor.refuse_if_impossible()
        return placement

    def resolve(self, system: Served, version: str, placement: Placement, say: Say) -> Artifacts:
        return system.resolve(version)

    async def open(
        self, folder: Path, placement: Placement, listeners: Mapping[str, int], artifacts: Artifacts
    ) -> "Lab":
        from fencepost.harness.runtime.lab.lab import Lab

        return await Lab.open(folder, placement.cluster)

    def sweep(self, folder: Path | None) -> list[str]:
        """Do nothing: the kernel removes everything with the last process of the namespaces."""
        return []


LAB: Final = LabProvider()
