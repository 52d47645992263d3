"""What this machine's kernel reports about a container's processes: which belong to it, and whether they are frozen.

The functions read both layouts: a separate freezer hierarchy (version 1, also beside version 2), and the unified one.
Source: kernel documentation, cgroup-v1/freezer-subsystem and cgroup-v2 (cgroup.events).
"""

import contextlib
import os
from functools import cache
from pathlib import Path


def belongs(pid: int, container_id: str) -> bool:
    """Say whether process `pid` is in this container: both engines name a container's cgroup by its id."""
    try:
        return container_id in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii")
    except OSError:
        return False


def is_frozen(pid: int) -> bool | None:
    """Say whether no thread of the cgroup of `pid` can run; None when this kernel does not report it."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    with contextlib.suppress(OSError):
        for controllers, path in paths.items():
            if "freezer" in controllers.split(","):
                folder = _folder("freezer", path)
                return None if folder is None else (folder / "freezer.state").read_text().strip() == "FROZEN"
        folder = _folder("", paths[""]) if "" in paths else None
        if folder is not None:
            return "frozen 1" in (folder / "cgroup.events").read_text().splitlines()
    return None


def threads(pid: int) -> int:
    """Count the threads of a process; 0 when it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _folder(controller: str, path: str) -> Path | None:
    for root, mounted in _mounts().get(controller, ()):
        if path == root or path.startswith(root.rstrip("/") + "/"):
            return Path(mounted) / path[len(root) :].lstrip("/")
    return None


@cache
def _mounts() -> dict[str, list[tuple[str, str]]]:
    """Return root and path of each cgroup mount by controller ("" for the unified hierarchy), from mountinfo."""
    mounts: dict[str, list[tuple[str, str]]] = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = [*after.split(" ", 2), "", ""][:3]
        root, mounted = before.split()[3:5]
        if kind == "cgroup2":
            mounts.setdefault("", []).append((root, mounted))
        elif kind == "cgroup":
            for controller in options.split(","):
                mounts.setdefault(controller, []).append((root, mounted))
    return mounts
