"""The process that plays the suite: `python -m fencepost.harness.conformance.inside FOLDER [--plain] [ROW...]`.

It starts the servers of the plan in FOLDER, plays these rows (or all), stops the servers, and prints one JSON object a
line: a row, or the error that ended it. The lab is entered before anything heavy is imported, so that the servers die
with it; `--plain` (containers) stays outside.
"""

import sys

from fencepost.harness.runtime.linux import supervisor


def main(arguments: list[str]) -> int:
    """Play the suite, inside the lab where that is asked for; returns the process's exit status."""
    from fencepost.harness.conformance.playing import play

    return play(arguments[0], arguments[1:])


if __name__ == "__main__":
    raise SystemExit(supervisor.inside(sys.argv[1:], main))
