"""The process that plays the suite: `python -m fencepost.harness.conformance.inside FOLDER [--plain] [ROW...]`.

It starts the servers of the plan in FOLDER, plays these rows (or all), stops the servers, and prints one JSON object a
line: a row, or the error that ended it. The lab is entered before anything heavy is imported, so that the servers die
with it; `--plain` (containers) stays outside.
"""

import json
import sys

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.runtime.linux import supervisor


def main() -> int:
    """Enter the lab where that is asked for, then play the suite; returns the process's exit status."""
    try:
        if "--plain" in sys.argv[2:]:
            supervisor.accompany()
        else:
            supervisor.enter()
    except FencepostError as error:
        sys.stdout.write(json.dumps({"topic": "error", "message": error.message, "hint": error.hint}) + "\n")
        return int(error.exit_code)
    # Only now: what follows is heavy, and threads must not exist while namespaces are entered.
    from fencepost.harness.conformance.playing import play

    return play(sys.argv[1], [word for word in sys.argv[2:] if word != "--plain"])


if __name__ == "__main__":
    raise SystemExit(main())
