"""Record what the known releases of a system consist of: `python -m tools.record_sums SYSTEM [RELEASE...]`.

Named releases are added to those that are recorded; without names, the recorded ones are asked for again. The system's
`releases` know where they come from; what differs from the record is said, never replaced.
"""

import sys

from fencepost.harness.contract.go_releases import GoReleases
from fencepost.harness.java.java_releases import JavaReleases
from fencepost.harness.plugins import registry


def main(arguments: list[str]) -> int:
    record = {
        name: system.releases.record
        for name, system in registry.systems().items()
        if isinstance(system.releases, GoReleases | JavaReleases)
    }
    if not arguments or arguments[0] not in record:
        raise SystemExit(f"{__doc__}\nSYSTEM is one of: {', '.join(record)}")
    return record[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
