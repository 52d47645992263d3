"""Linux namespaces by libc calls: unshare, setns, mount, identity maps, the parent-death signal.

No binary (`ip`, `nsenter`, `newuidmap`) and no privilege is needed. ctypes is used because `os.unshare` and
`os.setns` came only with Python 3.12. The rules that matter here are those of namespaces(7), user_namespaces(7) and
prctl(2).
"""

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

NEWNS: Final = 0x0002_0000
NEWUTS: Final = 0x0400_0000
NEWIPC: Final = 0x0800_0000
NEWUSER: Final = 0x1000_0000
NEWPID: Final = 0x2000_0000
NEWNET: Final = 0x4000_0000

MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x4_0000
MNT_DETACH: Final = 2

_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move the calling thread (for NEWUSER and NEWPID: the single-threaded process) into fresh namespaces."""
    _check(_libc.unshare(ctypes.c_int(flags)), f"unshare({flags:#x})")


def setns(fd: int, kind: int = 0) -> None:
    """Move the calling thread into the namespace that `fd` refers to."""
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2); paths and options as text."""

    def text(value: str | None) -> bytes | None:
        return None if value is None else os.fsencode(value)

    result = _libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data))
    _check(result, f"mount {kind or source or ''} on {target}")


def unmount(target: str) -> None:
    """Detach the mount now, even when a process still has a file of it open."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def make_mounts_private() -> None:
    """Keep all later mounts and unmounts inside this mount namespace."""
    mount(None, "/", None, MS_REC | MS_PRIVATE)


def mount_proc() -> None:
    """Mount a /proc of this pid namespace. Fails with EPERM if the outer /proc is partly masked, as in containers."""
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def die_with_parent(signal_number: int = signal.SIGKILL) -> None:
    """Have the kernel send SIGKILL (or another signal) when the parent *thread* ends.

    A fork and every change of credentials clear the setting (so call this after `unshare(NEWUSER)`). The kernel does
    not notice a parent that died before the call: the caller must check that afterwards.
    """
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def _identity_map(path: str) -> str:
    """Return a map of every existing id onto itself, from the lines of the current map."""
    lines = [line.split() for line in Path(path).read_text().splitlines()]
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in lines)


def unshare_with_user(flags: int) -> None:
    """Enter a fresh user namespace and `flags`, as root inside; files keep their owners as far as the kernel allows.

    An ordinary user may map only one id: its own becomes 0. Root maps all ids onto themselves, so that it can still
    read and write a user's files; the kernel accepts that map only from outside, so a child forked earlier writes it.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0:
        unshare(NEWUSER | flags)
        # Without "deny" the kernel refuses an unprivileged gid map (user_namespaces(7)).
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        return
    target = os.getpid()
    maps = {name: _identity_map(f"/proc/self/{name}") for name in ("uid_map", "gid_map")}

    def write() -> None:
        for name, text in maps.items():
            Path(f"/proc/{target}/{name}").write_text(text)

    _unshare_then(NEWUSER | flags, write)


def _unshare_then(flags: int, action: Callable[[], None]) -> None:
    """Unshare here, then run `action` in a child that stayed outside; raise the error of either step."""
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 127
        try:
            os.close(go_write)
            # End of file without a byte: the unshare failed, so do nothing.
            if os.read(go_read, 1):
                action()
            code = 0
        except OSError as error:
            code = error.errno if error.errno is not None and error.errno < 127 else 127
        finally:
            os._exit(code)
    os.close(go_read)
    try:
        unshare(flags)
        os.write(go_write, b"g")
    finally:
        os.close(go_write)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, f"writing the id maps: {os.strerror(code)}")


#: Kernel settings that can forbid user or network namespaces, with the forbidding value.
_SETTINGS: Final = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "10000"),
    ("user.max_net_namespaces", "0", "10000"),
    ("user.max_pid_namespaces", "0", "10000"),
    ("user.max_mnt_namespaces", "0", "10000"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)


def guilty_settings() -> list[tuple[str, str, str]]:
    """Return the kernel settings of this machine that forbid namespaces: (name, value, value that allows them)."""
    guilty = []
    for name, bad, good in _SETTINGS:
        try:
            value = Path("/proc/sys", *name.split(".")).read_text().strip()
        except OSError:
            continue  # this kernel has no such setting
        # AppArmor's restriction does not bind root.
        if value == bad and not (name.startswith("kernel.apparmor") and os.geteuid() == 0):
            guilty.append((name, value, good))
    return guilty


def in_container() -> bool:
    """Say whether this is a container; its seccomp filter may refuse what the host would allow."""
    # systemd and podman write the variable in lower case.
    marked = "container" in os.environ
    return marked or Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()


def why_refused(error: OSError) -> tuple[str, str]:
    """Return the reason and the remedy for an error that entering namespaces raised."""
    settings = guilty_settings()
    if settings:
        reason = ", ".join(f"{name}={value}" for name, value, _ in settings)
        remedy = "; ".join(f"sudo sysctl -w {name}={good}" for name, _, good in settings)
        return f"{error.strerror}: the kernel setting {reason} forbids it", f"{remedy}; or run as root"
    if in_container():
        return (
            f"{error.strerror}: the container's seccomp filter or capabilities forbid it",
            "start the container with --security-opt seccomp=unconfined, or with --cap-add SYS_ADMIN",
        )
    return (
        f"{error.strerror or error}: the kernel refused it, and no known setting explains why",
        "run as root, or look for a seccomp, SELinux or AppArmor rule about user namespaces",
    )
