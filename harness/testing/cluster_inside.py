"""The process that holds a test's cluster: `python -m fencepost.harness.testing.cluster_inside FOLDER SOCKETS`.

It starts the servers of the plan in FOLDER and answers the requests on stdin until that ends; then it heals everything
and stops the servers. SOCKETS are descriptors that listen, one a node in the plan's order, and are relayed to the
nodes; "-" for none. The lab is entered as by a run's own process, before anything heavy is imported, so that the
servers die with it. `--plain` (containers) stays outside.
"""

import sys

from fencepost.harness.runtime.linux import supervisor


def main(arguments: list[str]) -> int:
    """Hold the cluster, inside the lab where that is asked for; returns the process's exit status."""
    from fencepost.harness.testing.cluster_holding import hold

    folder, sockets = arguments
    return hold(folder, [] if sockets == "-" else [int(number) for number in sockets.split(",")])


if __name__ == "__main__":
    raise SystemExit(supervisor.inside(sys.argv[1:], main))
