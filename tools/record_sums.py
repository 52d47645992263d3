"""Record what the known releases of a system consist of: `python -m tools.record_sums SYSTEM [RELEASE...]`.

Named releases are added to those that are recorded; without names, the recorded ones are asked for again. The system's
own module `sums` knows where they come from; what differs from the record is said, never replaced.
"""

import importlib
import sys

from fencepost.harness.plugins.registry import SYSTEMS


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in SYSTEMS:
        raise SystemExit(f"{__doc__}\nSYSTEM is one of: {', '.join(SYSTEMS)}")
    package = SYSTEMS[arguments[0]].partition(":")[0].removesuffix(".system")
    status: int = importlib.import_module(f"{package}.sums").record(arguments[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
