"""Lines of progress for the outer process."""

import json
import sys


def tell(topic: str, **fields: object) -> None:
    """Write one line of progress to stdout; after a closed pipe, to stderr."""
    try:
        sys.stdout.write(json.dumps({"topic": topic, **fields}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = sys.stderr
