"""A foreign file that stands before a module which fencepost needs, such as a `json.py` in a folder of PYTHONPATH."""

import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder


def shadowing_file(error: BaseException) -> tuple[str, str] | None:
    """Return the foreign file that raised `error`, or lacks what was wanted, and the file that it hides."""
    for cause in _causes(error):
        for name in filter(None, _suspects(cause)):
            copies = _copies(name)
            if len(copies) > 1:
                return copies[0], copies[1]
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        yield cause
        cause = cause.__cause__ or cause.__context__


def _suspects(cause: BaseException) -> Iterator[str]:
    """Names of the modules that may be to blame: the one that was imported or asked, and the one that raised."""
    if isinstance(cause, ImportError) and cause.name:
        yield cause.name.partition(".")[0]
    if isinstance(cause, AttributeError):
        # "module 'json' has no attribute 'dumps'"; code in C leaves `cause.obj` empty.
        yield str(cause).partition("module '")[2].partition("'")[0].partition(".")[0]
    if isinstance(cause, SyntaxError) and cause.filename:
        yield os.path.basename(cause.filename).partition(".")[0]
    frame = cause.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is not None:
        yield str(frame.tb_frame.f_globals.get("__name__")).partition(".")[0]


def _copies(name: str) -> list[str]:
    """Every file on the path that a module of this name could be imported from, the first one first."""
    folders = dict.fromkeys(os.path.realpath(entry) for entry in sys.path)
    specs = (PathFinder.find_spec(name, [folder]) for folder in folders)
    return [spec.origin for spec in specs if spec is not None and spec.origin]
