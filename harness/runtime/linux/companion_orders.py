"""The companion's side of its socket: orders with their file descriptors, and answers."""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.harness.runtime.linux import namespaces

_ORDER_BYTES: Final = 1 << 20
_FDS_MAX: Final = 16
_PR_SET_TIMERSLACK: Final = 29

Order = dict[str, Any]


class Orders:
    """The orders from the harness, made at the start of `main`; `fileno` is readable at each order and at the end."""

    def __init__(self) -> None:
        number, parent = map(int, sys.argv[1:3])
        # The harness handles Ctrl-C: it still needs this process to heal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        namespaces.die_with_parent()
        if os.getppid() != parent:
            raise SystemExit(0)
        # Timers fire on time instead of up to 50 us late; and no pauses for garbage collection, as there are no cycles.
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        gc.disable()
        self._socket = socket.socket(fileno=number)

    def fileno(self) -> int:
        return self._socket.fileno()

    def carry_out(self, do: Mapping[str, Callable[[Order, list[int]], Order]]) -> None:
        """Receive one order, carry it out and answer. Ends the process when the harness is gone."""
        data, fds, _, _ = socket.recv_fds(self._socket, _ORDER_BYTES, _FDS_MAX)
        if not data:
            raise SystemExit(0)
        order = json.loads(data)
        try:
            answer = do[order["do"]](order, fds)
        except OSError as error:
            answer = {"error": str(error)}
        self._socket.send(json.dumps(answer, separators=(",", ":")).encode())
