"""The process that holds a test's cluster: `python -m fencepost.harness.testing.cluster_inside FOLDER SOCKETS`.

It starts the servers of the plan in FOLDER and answers the requests on stdin until that ends; then it heals everything
and stops the servers. SOCKETS are descriptors that listen, one a node in the plan's order, and are relayed to the
nodes; "-" for none. The lab is entered as by a run's own process, before anything heavy is imported, so that the
servers die with it. `--plain` (containers) stays outside.
"""

import json
import sys

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.runtime.linux import supervisor


def main() -> int:
    """Enter the lab where that is asked for, then hold the cluster; returns the process's exit status."""
    try:
        if "--plain" in sys.argv[3:]:
            supervisor.accompany()
        else:
            supervisor.enter()
    except FencepostError as error:
        fields = {"message": error.message, "hint": error.hint, "exit_code": int(error.exit_code)}
        sys.stdout.write(json.dumps({"type": "Refused", **fields}) + "\n")
        return int(error.exit_code)
    # Only now: what follows is heavy, and threads must not exist while namespaces are entered.
    from fencepost.harness.testing.cluster_holding import hold

    sockets = [] if sys.argv[2] == "-" else [int(number) for number in sys.argv[2].split(",")]
    return hold(sys.argv[1], sockets)


if __name__ == "__main__":
    raise SystemExit(main())
