"""The folder that this fencepost is imported from: the checkout, or site-packages for an installed wheel."""

from pathlib import Path

import fencepost


def source_tree() -> Path:
    """Return the folder that holds the package `fencepost`: for a child's PYTHONPATH or working folder."""
    return Path(fencepost.__file__).resolve().parent.parent
