"""Try each step of the lab, in a process that ends right after, and print the results as JSON lines.

Only a trial shows what works: kernels, distributions and containers forbid the same call in a dozen ways. `lab.doctor`
runs this as `python -m fencepost.harness.runtime.lab.trials FOLDER`; FOLDER is an empty directory to mount on.
"""

import os
import socket
import sys
from collections.abc import Callable

from fencepost.harness.runtime.lab.trial import Trial
from fencepost.harness.runtime.linux import namespaces, nftables
from fencepost.harness.runtime.linux.netlink import Routing

_FLAGS = namespaces.NEWNS | namespaces.NEWNET | namespaces.NEWPID | namespaces.NEWUTS | namespaces.NEWIPC


def _enter() -> str:
    try:
        namespaces.unshare_with_user(_FLAGS)
    except OSError:
        if os.geteuid() != 0:
            raise
        namespaces.unshare(_FLAGS)
        namespaces.make_mounts_private()
        return "as root, without a user namespace"
    # Ubuntu's AppArmor allows unshare() and then removes every capability, so use one.
    namespaces.make_mounts_private()
    return "as root of a user namespace"


def _tmpfs(folder: str) -> str:
    flags = namespaces.MS_NOSUID | namespaces.MS_NODEV
    namespaces.mount("tmpfs", folder, "tmpfs", flags, "size=1048576,mode=700")
    namespaces.unmount(folder)
    return "with a size limit"


def _veth() -> str:
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    with Routing() as routing:
        routing.set_up(socket.if_nametoindex("lo"))
        device = routing.add_veth("fp0", b"\x02wfpst", "fp1", b"\x02wfpsu", here)
        routing.add_address(device, "10.77.0.254")
        routing.forward_from(device)
    os.close(here)
    return "with forwarding by netlink"


def _nf_tables() -> str:
    from fencepost.harness.runtime.links.packet_rules import rule_set

    with nftables.Nftables() as kernel:
        kernel.commit(rule_set())
    return "with a verdict map and rejects"


def _proc() -> str:
    # In a child: only a process of the new pid namespace may mount its /proc.
    child = os.fork()
    if child == 0:
        try:
            namespaces.mount_proc()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 255)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "own" if code == 0 else f"refused ({os.strerror(code)}): the outer /proc is used, which works too"


def _held_packets() -> str:
    from fencepost.harness.runtime.links.packet_rules import Where
    from fencepost.harness.runtime.shaping.packet_queue import PacketQueue

    return f"by {PacketQueue(Where.ROUTER).rules.means}"


def main() -> None:
    steps: dict[str, Callable[[], str]] = {
        "namespaces": _enter,
        "veth": _veth,
        "nf_tables": _nf_tables,
        "tmpfs": lambda: _tmpfs(sys.argv[1]),
        "proc": _proc,
        "held packets": _held_packets,
    }
    for name, step in steps.items():
        try:
            detail = step()
        except OSError as error:
            reason, remedy = namespaces.why_refused(error) if name == "namespaces" else (str(error), "")
            print(Trial(step=name, ok=False, detail=reason, remedy=remedy).encode(), flush=True)
            return
        print(Trial(step=name, ok=True, detail=detail).encode(), flush=True)


if __name__ == "__main__":
    main()
