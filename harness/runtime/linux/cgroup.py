"""What this machine's kernel says of a container's processes: which are its own, and whether they are frozen.

Both layouts are read: a freezer hierarchy of its own (version 1, also beside version 2), and the unified one.
Source: kernel documentation, cgroup-v1/freezer-subsystem and cgroup-v2 (cgroup.events).
"""

import contextlib
import os
from functools import cache
from pathlib import Path


def belongs(pid: int, container_id: str) -> bool:
    """Whether process `pid` is in this container: both engines name a container's cgroup by its id."""
    try:
        return container_id in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii")
    except OSError:
        return False


def is_frozen(pid: int) -> bool | None:
    """Whether no thread of the cgroup of `pid` can run; None when the kernel does not say so here."""
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
    """How many threads the process has; 0 when it is gone."""
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
    """By controller ("" for the unified hierarchy): the root and the place of each mount, from mountinfo."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = [*after.split(" ", 2), "", ""][:3]
        root, mounted = before.split()[3:5]
        if kind == "cgroup2":
            found.setdefault("", []).append((root, mounted))
        elif kind == "cgroup":
            for controller in options.split(","):
                found.setdefault(controller, []).append((root, mounted))
    return found
