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
    """Made once at the start of `main`; `fileno` becomes readable with every order, and at the end."""

    def __init__(self) -> None:
        number, parent = map(int, sys.argv[1:3])
        # Ctrl-C is the harness's affair: it still needs us to heal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        namespaces.die_with_parent()
        if os.getppid() != parent:
            raise SystemExit(0)
        # Waits end when they should, not up to 50 us later; and no pause for garbage, of which there is none in cycles.
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        gc.disable()
        self._socket = socket.socket(fileno=number)

    def fileno(self) -> int:
        return self._socket.fileno()

    def carry_out(self, do: Mapping[str, Callable[[Order, list[int]], Order]]) -> None:
        """Take one order and answer it. Ends the process when the harness is gone."""
        data, fds, _, _ = socket.recv_fds(self._socket, _ORDER_BYTES, _FDS_MAX)
        if not data:
            raise SystemExit(0)
        order = json.loads(data)
        try:
            answer = do[order["do"]](order, fds)
        except OSError as error:
            answer = {"error": str(error)}
        self._socket.send(json.dumps(answer, separators=(",", ":")).encode())
