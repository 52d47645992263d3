"""Take the native module out of the newest wheel of a folder: `take_core.py WHEELS_FOLDER TARGET`.

The wheel is the only build that maturin makes without touching the environment; the tree then uses its module in
place. It is renamed into place, so that a process that has the old one loaded keeps it.
"""

import os
import sys
import zipfile
from pathlib import Path


def take(wheels: Path, target: Path) -> None:
    """Write the newest wheel's `_core*.so` to `target`, whole or not at all."""
    wheels_by_age = sorted(wheels.glob("*.whl"), key=lambda path: path.stat().st_mtime_ns)
    if not wheels_by_age:
        raise SystemExit(f"{wheels}: no wheel here\nhint: maturin's own messages say why it built none")
    with zipfile.ZipFile(wheels_by_age[-1]) as wheel:
        modules = [
            name for name in wheel.namelist() if name.startswith("fencepost/checkers/_core") and name.endswith(".so")
        ]
        if len(modules) != 1:
            raise SystemExit(
                f"{wheels_by_age[-1]}: expected one fencepost/checkers/_core*.so, found {modules or 'none'}"
            )
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            beside.write_bytes(wheel.read(modules[0]))
            beside.chmod(0o755)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: take_core.py WHEELS_FOLDER TARGET")
    take(Path(sys.argv[1]), Path(sys.argv[2]))
