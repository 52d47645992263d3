"""A run's process: it asks to die with the night, then becomes `fencepost run`.

`python -m fencepost.campaigns.night.child PARENT ARGUMENTS...`: so a night that is killed with -9 takes its
runs with it, and they their clusters. The setting outlives the exec. The parent must start this from a thread that
outlives the run.
"""

import os
import signal
import sys

from fencepost.harness.runtime.linux import namespaces


def main(arguments: list[str]) -> None:
    """Replace this process by the run, unless the parent is gone already."""
    namespaces.die_with_parent(signal.SIGKILL)
    if os.getppid() != int(arguments[0]):
        os._exit(128 + signal.SIGKILL)
    os.execv(sys.executable, [sys.executable, "-m", "fencepost.harness.cli", "run", *arguments[1:]])


if __name__ == "__main__":
    main(sys.argv[1:])
