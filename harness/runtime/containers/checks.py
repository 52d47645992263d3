"""What `fencepost doctor` says of the container engine: is there one, what it can do, what earlier runs left."""

from typing import TYPE_CHECKING

from fencepost.harness.base.errors import FencepostError, MachineError, Refusal
from fencepost.harness.runtime.containers.engine import engine, ownership
from fencepost.harness.runtime.containers.engine.engine import EngineFacts
from fencepost.harness.runtime.provider import Check, Links

if TYPE_CHECKING:
    from docker import DockerClient


def all_checks() -> list[Check]:
    """Connect and look; one line when there is nothing to connect to."""
    try:
        client = engine.connect(timeout_s=10.0)
    except MachineError as error:
        return [Check("engine", False, "none that can be used", error.message, error.hint)]
    try:
        found = engine.facts(client)
        return [*checks(found), _leftovers(client)]
    except FencepostError as error:
        return [Check("engine", False, "it does not answer", error.message, error.hint)]
    finally:
        client.close()


def why_untraceable() -> Refusal | None:
    """Ask the engine why servers in containers cannot be traced from here; None when they can."""
    try:
        client = engine.connect()
    except MachineError as error:
        return Refusal(error.message, error.hint)
    try:
        facts = engine.facts(client)
    finally:
        client.close()
    if not facts.same_kernel:
        return Refusal("the engine's containers run on another kernel than this one", "use --runtime lab")
    if not facts.may_enter:
        return Refusal(
            "containers' processes may be traced by root only", "run as root with a local engine, or use --runtime lab"
        )
    return None


def checks(facts: EngineFacts) -> list[Check]:
    where = "this kernel" if facts.same_kernel else "another kernel than this machine's"
    return [
        Check("engine", True, f"{facts}, API {facts.api}, {facts.architecture}, on {where}"),
        Check("rights", True, "rootless" if facts.rootless else "root's"),
        Check("addresses of containers", True, _addresses(facts)),
        _cgroup(facts),
        *_links(facts),
    ]


def _addresses(facts: EngineFacts) -> str:
    return "reached from here" if facts.reachable else "not reached from here: ports are published on 127.0.0.1"


def _cgroup(facts: EngineFacts) -> Check:
    found = f"cgroup version {facts.cgroup_version}, driver {facts.cgroup_driver}"
    if facts.can_pause:
        return Check("pause (freezer)", True, f"possible; {found}")
    return Check(
        "pause (freezer)",
        False,
        f"not possible; {found}",
        "a rootless engine may freeze containers with cgroup version 2 only",
        "use cgroup version 2 (systemd.unified_cgroup_hierarchy=1), an engine of root's, or leave out the fault pause",
    )


def _links(facts: EngineFacts) -> list[Check]:
    """Which ways of enforcing links there are: a missing one is no defect as long as there is another."""
    from fencepost.harness.runtime.containers.provider import chosen_links, links_refusal

    chosen = chosen_links(Links.AUTO, facts)
    about = {
        Links.RULES: "partition, by packet rules set from here",
        Links.SIDECAR: "partition, by packet rules that a side-car sets",
        Links.TOXIPROXY: "partition and toxic, by a proxy in every connection",
    }
    lines = []
    for links, what in about.items():
        reason = links_refusal(links, facts)
        found = f"not here: {reason}" if reason else what
        lines.append(Check(f"--links {links}", True, f"{found} (the default here)" if links is chosen else found))
    return lines


def _leftovers(client: "DockerClient") -> Check:
    with engine.asking("looking for what earlier runs left", MachineError):
        found = ownership.listed(client)
    dead = ownership.abandoned(found)
    runs = sorted({one.run for one in found})
    if dead:
        left = sorted({one.run for one in dead})
        return Check(
            "left by earlier runs",
            False,
            f"{len(dead)} of {', '.join(left)}",
            "the commands that made them were killed",
            ownership.SWEEP_COMMAND,
        )
    foreign = sorted({one.run for one in found if ownership.is_dead(one.owner) is None})
    running = [run for run in runs if run not in foreign]
    if foreign:
        return Check(
            "left by earlier runs",
            True,
            f"nothing that is known; now running: {', '.join(running) or 'none'}; of another machine or container, "
            f"running or left: {', '.join(foreign)}",
            remedy="; ".join(f"where {run} is over: {ownership.removal(run)}" for run in foreign),
        )
    return Check("left by earlier runs", True, f"nothing; now running: {', '.join(running) or 'none'}")
