"""The runner: the process that holds the cluster, the interpreter, the nemesis and the observers.

It is started by the outer process as `python -m fencepost.harness.runner <run folder> [--plain]`, carries out
what was prepared there, and hands over nothing but the folder and lines of progress on stdout (one JSON object each).
SIGTERM means: no new operations, heal, keep what there is.

For the lab it enters fresh namespaces before anything heavy is imported: its death then takes every server, rule, mount
and namespace with it. `--plain` (containers) stays outside: it gets SIGTERM when the outer process dies, and what a
runner that is killed leaves behind carries labels by which it is swept.
"""

import sys

from fencepost.harness.runtime.linux import supervisor


def main(arguments: list[str]) -> int:
    """Run, inside the lab where that is asked for; returns the process's exit status."""
    from fencepost.harness.runner.run_inside import run_folder

    return run_folder(arguments[0])


if __name__ == "__main__":
    raise SystemExit(supervisor.inside(sys.argv[1:], main))
