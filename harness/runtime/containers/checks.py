"""What `fencepost doctor` says of the container engine: whether there is one, its abilities, leftovers of runs."""

from typing import TYPE_CHECKING

from fencepost.harness.base.errors import FencepostError, MachineError, Refusal
from fencepost.harness.runtime.containers.engine import engine, ownership
from fencepost.harness.runtime.containers.engine.engine import EngineFacts
from fencepost.harness.runtime.lab.provider import why_no_shaped_links
from fencepost.harness.runtime.provider import Check

if TYPE_CHECKING:
    from docker import DockerClient


def all_checks() -> list[Check]:
    """Check the engine; one line when there is none."""
    try:
        client = engine.connect(timeout_s=10.0)
    except MachineError as error:
        return [Check("engine", False, "none can be used", error.message, error.hint)]
    try:
        facts = engine.facts(client)
        return [*checks(facts), _leftovers(client)]
    except FencepostError as error:
        return [Check("engine", False, "it does not answer", error.message, error.hint)]
    finally:
        client.close()


def _facts() -> EngineFacts | Refusal:
    try:
        client = engine.connect()
    except MachineError as error:
        return Refusal(error.message, error.hint or "see fencepost doctor")
    try:
        return engine.facts(client)
    finally:
        client.close()


def why_unshaped() -> Refusal | None:
    """Return why links of containers cannot be slow; None when they can, or when only a side-car shows it."""
    facts = _facts()
    if isinstance(facts, Refusal):
        return facts
    return why_no_shaped_links() if facts.same_kernel else None


def why_untraceable() -> Refusal | None:
    """Return why servers in containers cannot be traced from here; None when they can."""
    facts = _facts()
    if isinstance(facts, Refusal):
        return facts
    if not facts.same_kernel:
        return Refusal("the engine's containers run on another kernel than this one", "use --runtime lab")
    if not facts.may_enter:
        return Refusal(
            "only root may trace the processes of containers", "run as root with a local engine, or use --runtime lab"
        )
    return None


def checks(facts: EngineFacts) -> list[Check]:
    where = "this kernel" if facts.same_kernel else "another kernel than this machine's"
    return [
        Check("engine", True, f"{facts}, API {facts.api}, {facts.architecture}, on {where}"),
        Check("rights", True, "rootless" if facts.rootless else "root's"),
        Check("addresses of containers", True, _addresses(facts)),
        _cgroup(facts),
    ]


def _addresses(facts: EngineFacts) -> str:
    return "reachable from here" if facts.reachable else "not reachable from here: ports are published on 127.0.0.1"


def _cgroup(facts: EngineFacts) -> Check:
    cgroup = f"cgroup version {facts.cgroup_version}, driver {facts.cgroup_driver}"
    if facts.can_pause:
        return Check("pause (freezer)", True, f"possible; {cgroup}")
    return Check(
        "pause (freezer)",
        False,
        f"not possible; {cgroup}",
        "a rootless engine can freeze containers only with cgroup version 2",
        "use cgroup version 2 (systemd.unified_cgroup_hierarchy=1) or an engine that runs as root; or leave out pause",
    )


def _leftovers(client: "DockerClient") -> Check:
    with engine.asking("looking for what earlier runs left", MachineError):
        leftovers = ownership.listed(client)
    dead = ownership.abandoned(leftovers)
    runs = sorted({one.run for one in leftovers})
    if dead:
        left = sorted({one.run for one in dead})
        return Check(
            "left by earlier runs",
            False,
            f"{len(dead)} of {', '.join(left)}",
            "the commands that made this were killed",
            ownership.SWEEP_COMMAND,
        )
    foreign = sorted({one.run for one in leftovers if ownership.is_dead(one.owner) is None})
    running = [run for run in runs if run not in foreign]
    if foreign:
        return Check(
            "left by earlier runs",
            True,
            f"nothing of this machine; now running: {', '.join(running) or 'none'}; of another machine or container, "
            f"running or left: {', '.join(foreign)}",
            remedy="; ".join(f"if {run} is over: {ownership.removal(run)}" for run in foreign),
        )
    return Check("left by earlier runs", True, f"nothing; now running: {', '.join(running) or 'none'}")
