"""The runner: the process inside the lab that holds the cluster, the interpreter, the nemesis and the observers.

It is started by the outer process as `python -m harness.runner <run folder>`, enters fresh namespaces before anything
heavy is imported, carries out `plan.toml`, and hands over nothing but the folder and lines of progress on stdout (one
JSON object each). SIGTERM means: no new operations, heal, keep what there is. Whatever happens, its death takes every
server, rule, mount and namespace with it.
"""

import sys


def main() -> int:
    """Enter the lab, then run; returns the process's exit status."""
    from harness.runtime import supervisor

    supervisor.enter()
    from harness.conduct import run_folder

    return run_folder(sys.argv[1])


if __name__ == "__main__":
    raise SystemExit(main())
