"""What this machine can do for the lab, and for each thing that it cannot: why, and the remedy.

The lab's own steps are tried for real in a child process (`harness.runtime.lab.trials`); the rest is read off. All of
it takes a few hundredths of a second, so that `run` can afford it before every run.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError, Refusal
from fencepost.harness.base.source_tree import source_tree
from fencepost.harness.runtime.provider import Check

#: A tenth of a second is enough; a machine under load may need hundreds of times as long.
_ATTEMPT_TIMEOUT_S: Final = 60.0
#: What only some faults need.
_OPTIONAL: Final = frozenset({"held packets"})
_FREE_DISK_MIN: Final = 1 << 30
_FREE_MEMORY_MIN: Final = 1 << 30

#: What each attempted step is called for people, and the remedy that usually helps.
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
    """Everything that a run in the lab needs; `results` is where runs will be kept (default: the current folder)."""
    return [_platform(), _python(), *_attempts(), _cores(), _memory(), _disk(results or Path())]


def refuse_if_impossible() -> None:
    """Raise MachineError with the reason and the remedy of the first thing that the lab cannot do without."""
    spared = {_STEPS[step][0] for step in _OPTIONAL}
    for check in (_platform(), *_attempts()):
        if not check.ok and check.name not in spared:
            raise MachineError(f"this machine cannot run the lab: {check.name}: {check.why}", hint=check.remedy)


def why_no_shaped_links() -> Refusal | None:
    """Why links cannot be made slow or lossy here; None when they can."""
    wanted, _ = _STEPS["held packets"]
    for check in (_platform(), *_attempts()):
        if not check.ok:
            return Refusal(f"{check.name}: {check.found}, {check.why}", check.remedy)
        if check.name == wanted:
            return None
    return Refusal(f"{wanted}: nothing is known of them", "see fencepost doctor")


def _platform() -> Check:
    name, found = "Linux", f"{platform.system()} {platform.release()} on {platform.machine()}"
    if sys.platform != "linux":
        return Check(name, False, found, "the lab is made of Linux namespaces", "run it in a Linux virtual machine")
    return Check(name, True, found)


def _python() -> Check:
    # An older interpreter does not get this far; the line is for the record.
    return Check("Python", True, f"{platform.python_version()} at {sys.executable}")


def _attempts() -> list[Check]:
    """Try the lab's steps in a child; those after a failed one are not reported, for they depend on it."""
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
            why = f"this machine was too slow: what takes a tenth of a second took over {_ATTEMPT_TIMEOUT_S:g} s"
            return [
                Check("trial of the lab", False, "not done in time", why, "end what else keeps it busy, then again")
            ]
    checks = []
    for line in tried.stdout.splitlines():
        said = json.loads(line)
        name, remedy = _STEPS[said["step"]]
        if said["ok"]:
            checks.append(Check(name, True, said["found"]))
        else:
            checks.append(Check(name, False, "refused", said["found"], said["remedy"] or remedy))
    if tried.returncode != 0:
        last = (tried.stderr.splitlines() or ["no message"])[-1]
        why = f"the attempt ended with {tried.returncode}: {last}"
        checks.append(Check("trial of the lab", False, "failed", why, "report this, it is a defect of ours"))
    return checks


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2:
        why = "the servers and the harness share one core: stalls will turn time-bound verdicts into unknown"
        return Check("cores", False, str(cores), why, "give the machine two cores or more")
    return Check("cores", True, str(cores))


def _memory() -> Check:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return Check("memory", True, "unknown")
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    found = f"{free / (1 << 30):.1f} GiB available"
    if free < _FREE_MEMORY_MIN:
        return Check("memory", False, found, "three ZooKeeper nodes and Spark need about 1 GiB", "free some memory")
    return Check("memory", True, found)


def _disk(folder: Path) -> Check:
    existing = next(parent for parent in (folder.resolve(), *folder.resolve().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / (1 << 30):.1f} GiB free at {existing}"
    if free < _FREE_DISK_MIN:
        return Check("disk", False, found, "histories and logs need about 1 GiB", "free some space, or use --results")
    return Check("disk", True, found)
