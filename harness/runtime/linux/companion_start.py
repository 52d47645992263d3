"""Starts a companion process; apart from `companion`, since a side-car starts some and has no event loop."""

import os
import socket
import subprocess
import sys

from fencepost.harness.base.files import source_tree


def start(module: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a companion in the network namespace of the calling thread; return it and our end of its socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            # -S: it needs nothing of site-packages, and starts in half the time without.
            [sys.executable, "-S", "-m", module, str(theirs.fileno()), str(os.getpid())],
            env={"PATH": os.defpath, "PYTHONPATH": str(source_tree()), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    ours.setblocking(False)
    return process, ours
