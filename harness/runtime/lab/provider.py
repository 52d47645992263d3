"""The lab as a `Provider`: what it needs from this machine, what this machine can do of it, and how it is opened.

For everything that the machine cannot do there is the reason and the remedy. A child process really tries each of the
lab's own steps (`harness.runtime.lab.trials`); the other facts come from the system. All checks take less than a tenth
of a second, so `run` makes them before every run.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import MachineError, Refusal
from fencepost.harness.base.files import source_tree
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.lab.trial import Trial
from fencepost.harness.runtime.provider import NO_NEEDS, NO_PROXY, Check, Need, Needs, Placement, Say, Served

if TYPE_CHECKING:
    from fencepost.harness.runtime.lab.lab import Lab


#: A tenth of a second is normal; a busy machine may need hundreds of times as long.
_ATTEMPT_TIMEOUT_S: Final = 60.0
#: The steps that only some faults need.
_OPTIONAL: Final = frozenset({"held packets"})
_FREE_DISK_MIN: Final = 1 << 30
_FREE_MEMORY_MIN: Final = 1 << 30

#: The readable name of each step, and its usual remedy.
_STEPS: Final = {
    "namespaces": ("user and network namespaces", "run as root"),
    "veth": ("veth devices", "load the kernel module: sudo modprobe veth"),
    "nf_tables": (
        "nf_tables in a fresh namespace",
        "load the kernel modules: sudo modprobe -a nf_tables nft_reject_inet; "
        "the kernel needs CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET and CONFIG_NFT_REJECT",
    ),
    "tmpfs": ("tmpfs for data directories", "the kernel needs CONFIG_TMPFS"),
    "proc": ("/proc of an own pid namespace", ""),
    "held packets": (
        "slow and lossy links",
        "load the kernel modules: sudo modprobe -a nfnetlink_queue nft_queue (or xt_NFQUEUE); "
        "the kernel needs CONFIG_NETFILTER_NETLINK_QUEUE, and CONFIG_NFT_QUEUE or CONFIG_NETFILTER_XT_TARGET_NFQUEUE "
        "(WSL 2 has them from its kernel 6.6 on: wsl --update)",
    ),
}


def lab_checks(results: Path | None = None) -> list[Check]:
    """Check everything that a run in the lab needs; `results` is the folder for runs (default: the current one)."""
    return [_platform(), _python(), *_attempts(), _cores(), _memory(), _disk(results or Path())]


def refuse_if_impossible() -> None:
    """Raise MachineError for the first thing that the lab needs and this machine cannot do."""
    optional = {_STEPS[step][0] for step in _OPTIONAL}
    for check in (_platform(), *_attempts()):
        if not check.ok and check.name not in optional:
            raise MachineError(f"this machine cannot run the lab: {check.name}: {check.why}", hint=check.remedy)


def why_no_shaped_links() -> Refusal | None:
    """Return why links cannot be made slow or lossy here; None when they can."""
    wanted, _ = _STEPS["held packets"]
    for check in (_platform(), *_attempts()):
        if not check.ok:
            return Refusal(f"{check.name}: {check.state}, {check.why}", check.remedy or "see fencepost doctor")
        if check.name == wanted:
            return None
    return Refusal(f"{wanted}: the trial ended before this step", "see fencepost doctor")


def _platform() -> Check:
    name, system = "Linux", f"{platform.system()} {platform.release()} on {platform.machine()}"
    if sys.platform != "linux":
        return Check(
            name,
            False,
            system,
            "the lab needs Linux namespaces",
            "use a Linux virtual machine, or --runtime containers",
        )
    return Check(name, True, system)


def _python() -> Check:
    # An older interpreter cannot even import this module; the line is only information.
    return Check("Python", True, f"{platform.python_version()} at {sys.executable}")


def _attempts() -> list[Check]:
    """Try the lab's steps. This process remembers a trial that passed, and tries again after one that failed."""
    checks = _trial()
    if not all(check.ok for check in checks):
        _trial.cache_clear()
    return checks


@cache
def _trial() -> list[Check]:
    """Try the lab's steps in a child process. Steps after a failed one depend on it and are not reported."""
    if sys.platform != "linux":
        return []
    with tempfile.TemporaryDirectory(prefix="fencepost-doctor-") as folder:
        try:
            tried = subprocess.run(
                # -S: the child needs nothing of site-packages, and starts in half the time without.
                [sys.executable, "-S", "-m", "fencepost.harness.runtime.lab.trials", folder],
                env={**os.environ, "PYTHONPATH": str(source_tree())},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_ATTEMPT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            why = f"this machine is too busy: the trial normally takes 0.1 s, and took over {_ATTEMPT_TIMEOUT_S:g} s"
            return [Check("trial of the lab", False, "too slow", why, "end other programs on it, then try again")]
    checks = []
    for line in tried.stdout.splitlines():
        trial = Trial.decode(line)
        name, remedy = _STEPS[trial.step]
        if trial.ok:
            checks.append(Check(name, True, trial.detail))
        else:
            checks.append(Check(name, False, "refused", trial.detail, trial.remedy or remedy))
    if tried.returncode != 0:
        last = (tried.stderr.splitlines() or ["no message"])[-1]
        why = f"the trial ended with status {tried.returncode}: {last}"
        checks.append(
            Check("trial of the lab", False, "failed", why, "please report this: it is a defect of fencepost")
        )
    return checks


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2:
        why = "servers and harness share one core, and stalls turn verdicts that depend on time into unknown"
        return Check("cores", False, str(cores), why, "use a machine with two cores or more")
    return Check("cores", True, str(cores))


def _memory() -> Check:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return Check("memory", True, "unknown")
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    amount = f"{free / (1 << 30):.1f} GiB available"
    if free < _FREE_MEMORY_MIN:
        return Check("memory", False, amount, "three Java servers and Spark need about 1 GiB", "free some memory")
    return Check("memory", True, amount)


def _disk(folder: Path) -> Check:
    existing = next(parent for parent in (folder.resolve(), *folder.resolve().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    amount = f"{free / (1 << 30):.1f} GiB free at {existing}"
    if free < _FREE_DISK_MIN:
        return Check(
            "disk",
            False,
            amount,
            "histories and logs need about 1 GiB",
            "free some space, or choose another folder with --results",
        )
    return Check("disk", True, amount)


class LabProvider:
    """The lab; see `harness.runtime.provider.Provider`."""

    name: Final = "lab"
    about: Final = "rootless network namespaces on this machine; no container engine, no root"
    in_namespaces: Final = True

    def refuse(self, placement: Placement) -> Refusal | None:
        if placement.image:
            return Refusal("it runs binaries, not images", "use --version, or --runtime containers with --image")
        if placement.limited_data:
            return Refusal(
                "--limited-data is an option of containers only",
                "leave out --limited-data, or use --runtime containers",
            )
        return None

    def why_not(self, need: Need) -> Refusal | None:
        if need is Need.STREAMS:
            return NO_PROXY
        return why_no_shaped_links() if need is Need.SHAPE else None

    def checks(self) -> list[Check]:
        return lab_checks()

    def refuse_if_impossible(self, placement: Placement, needs: Needs = NO_NEEDS) -> Placement:
        refuse_if_impossible()
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
