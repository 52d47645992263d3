"""A library that ends the process by C's `exit` itself: its status 1 or 2 must not read as a verdict.

OpenBLAS does so inside `import numpy` when memory is short. Python's own `atexit` never hears of it.
"""

import atexit
import ctypes
import os
from typing import Final

_FAILED: Final = 255
_SAID: Final = (
    b"error: fencepost failed: a library ended the process\n"
    b"hint: its own words stand above; if it lacked memory, allow more (`ulimit -v`)\n"
)
#: Its address is the name under which the handler is registered, and removed again.
_NAME: Final = ctypes.c_int()


_is_armed = False


def _ended(_: int | None) -> None:
    if _is_armed:
        os.write(2, _SAID)
        os._exit(_FAILED)


#: C keeps its address, so it lives as long as the module.
_HANDLER: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_ended)


def guard() -> None:
    """Make every exit that is not Python's own one of status 255, until the interpreter ends."""
    global _is_armed
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):  # another libc could not take the handler off the list again
        _is_armed = libc.__cxa_atexit(_HANDLER, None, ctypes.byref(_NAME)) == 0
        # The first to be registered runs last: a forked child that ends by `sys.exit` disarms its copy, too.
        atexit.register(_disarm, libc)


def _disarm(libc: ctypes.CDLL) -> None:
    """Take the handler off C's list: after the interpreter's end nothing could carry it out."""
    global _is_armed
    _is_armed = False
    libc.__cxa_finalize(ctypes.byref(_NAME))
