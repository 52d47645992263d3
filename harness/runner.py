"""The runner: the process inside the lab that holds the cluster, the interpreter, the nemesis and the observers.

It is started by the outer process as `python -m harness.runner <run folder>`, enters fresh namespaces before anything
heavy is imported, carries out `plan.toml`, and hands over nothing but the folder and lines of progress on stdout (one
JSON object each). SIGTERM means: no new operations, heal, keep what there is. Whatever happens, its death takes every
server, rule, mount and namespace with it.
"""

import json
import sys

from harness.errors import FencepostError
from harness.runtime import supervisor


def main() -> int:
    """Enter the lab, then run; returns the process's exit status."""
    try:
        supervisor.enter()
    except FencepostError as error:
        refusal = {"topic": "error", "message": error.message, "hint": error.hint, "exit_code": int(error.exit_code)}
        sys.stdout.write(json.dumps(refusal) + "\n")
        return int(error.exit_code)
    # Only now: what follows is heavy, and threads must not exist while namespaces are entered.
    from harness.conduct import run_folder

    return run_folder(sys.argv[1])


if __name__ == "__main__":
    raise SystemExit(main())
