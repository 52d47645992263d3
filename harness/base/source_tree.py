"""Where this very fencepost is imported from: the checkout, or the site-packages that its wheel was installed in."""

from pathlib import Path

import fencepost


def source_tree() -> Path:
    """Return the folder that holds the package `fencepost`: what a child's PYTHONPATH or working folder must be."""
    return Path(fencepost.__file__).resolve().parent.parent
