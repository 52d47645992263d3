"""The runner: the process that holds the cluster, the interpreter, the nemesis and the observers.

It is started by the outer process as `python -m fencepost.harness.runner <run folder> [--plain]`, carries out
what was prepared there, and hands over nothing but the folder and lines of progress on stdout (one JSON object each).
SIGTERM means: no new operations, heal, keep what there is.

For the lab it enters fresh namespaces before anything heavy is imported: its death then takes every server, rule, mount
and namespace with it. `--plain` (containers) stays outside: it gets SIGTERM when the outer process dies, and what a
runner that is killed leaves behind carries labels by which it is swept.
"""

import json
import sys

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.runtime.linux import supervisor


def main() -> int:
    """Enter the lab where that is asked for, then run; returns the process's exit status."""
    try:
        if "--plain" in sys.argv[2:]:
            supervisor.accompany()
        else:
            supervisor.enter()
    except FencepostError as error:
        refusal = {"topic": "error", "message": error.message, "hint": error.hint, "exit_code": int(error.exit_code)}
        sys.stdout.write(json.dumps(refusal) + "\n")
        return int(error.exit_code)
    # Only now: what follows is heavy, and threads must not exist while namespaces are entered.
    from fencepost.harness.runner.run_inside import run_folder

    return run_folder(sys.argv[1])


if __name__ == "__main__":
    raise SystemExit(main())
