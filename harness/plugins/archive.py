"""An archive from which a Java program starts faster, as a leaf offers it to `fencepost prepare`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """`made` tells where it is, None when it is absent; `make` makes it and returns the same. Nothing is downloaded."""

    made: Callable[[], Path | None]
    make: Callable[[], Path | None]
