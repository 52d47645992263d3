"""Errors that say why an image could not be built, with a remedy."""

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.runtime.containers.engine.engine import asking

if TYPE_CHECKING:
    import docker

#: The number of lines of the builder's output in an error.
_LAST_LINES: Final = 20
#: The kernel's name of an architecture, and the engines' name of it.
_ENGINE_NAMES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_FULL_DISK: Final = "no space left on device"


def failed_build(reference: str, output: Sequence[str], error: str) -> HarnessError | MachineError:
    """Make the error of a failed build, with the builder's last output."""
    if _FULL_DISK in error.lower():
        return _disk_full(f"{reference}: {error}")
    last = "\n".join(f"  {line}" for line in [line for line in output if line.strip()][-_LAST_LINES:])
    steps = [line for line in output if line.startswith("Step ")]
    if steps and " : FROM " in steps[-1]:
        return MachineError(
            f"{reference}: the base image cannot be pulled: {error}\n{last}".rstrip(),
            hint="leave out --base: the base is then made from parts of this machine",
        )
    return HarnessError(f"{reference}: the build failed: {error}\n{last}".rstrip(), hint="the lines above say where")


def _disk_full(text: str) -> MachineError:
    return MachineError(
        f"the container engine's disk is full: {text}",
        hint="`docker system df` shows what fills it; free some space, then build again",
    )


def refuse_other_architecture(client: "docker.DockerClient", reference: str) -> None:
    """Refuse an engine for another processor: the parts are made for this machine's processor."""
    with asking("asking the engine for its architecture", MachineError):
        theirs, ours = str(client.version().get("Arch", "")), platform.machine()
    if theirs and theirs not in (ours, _ENGINE_NAMES.get(ours)):
        raise MachineError(
            f"{reference}: the container engine is for {theirs}, but the parts on this machine are for {ours}",
            hint=f"use an engine on a machine of this architecture, or build on a {theirs} machine and `docker load`",
        )
