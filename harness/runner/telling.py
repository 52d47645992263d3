"""Lines of progress for the outer process."""

import json
import sys
import traceback

from fencepost.harness.base.errors import FencepostError, first_failure


def tell(topic: str, **fields: object) -> None:
    """Write one line of progress to stdout; after a closed pipe, to stderr."""
    try:
        sys.stdout.write(json.dumps({"topic": topic, **fields}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = sys.stderr


def tell_failure(error: Exception) -> int:
    """Tell what ended this process; the log gets the traceback of a defect. Return the exit status."""
    if not isinstance(error, FencepostError):
        traceback.print_exception(error)
    failure = first_failure(error)
    tell("error", message=failure.message, hint=failure.hint, exit_code=int(failure.exit_code))
    return int(failure.exit_code)
